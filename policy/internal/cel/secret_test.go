package cel

import (
	"testing"

	"github.com/google/cel-go/cel"
)

func TestQuotes(t *testing.T) {
	t.Parallel()
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("variables", cel.DynType), cel.Variable("request", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]bool{
		"'no object'": false,
		"'Secret ' + object.metadata.name + ' in ' + object.metadata.namespace": false,
		"object.metadata.labels['a'] + object.kind + request.operation":         false,
		"object.data.a":                             true,
		"string(object)":                            true,
		"object.metadata.annotations['a']":          true,
		"object['data']['a']":                       true,
		"oldObject.?data.a.orValue('')":             true,
		"variables.a":                               true,
		"[object].map(o, o.data.a)[0]":              true,
		"[object.metadata.name].map(o, o + 'x')[0]": false,
	} {
		ast, issues := env.Compile(source)
		if issues.Err() != nil {
			if env2, err := env.Extend(cel.OptionalTypes()); err == nil {
				ast, issues = env2.Compile(source)
			}
		}
		if issues.Err() != nil {
			t.Fatal(source, issues.Err())
		}
		if got := Quotes(ast); got != want {
			t.Errorf("%s: got %v, want %v", source, got, want)
		}
	}
}
