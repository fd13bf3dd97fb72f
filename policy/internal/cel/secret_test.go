package cel

import (
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestQuotes(t *testing.T) {
	t.Parallel()
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("variables", cel.DynType), cel.Variable("request", cel.DynType))
	rendertest.OK(t, err)
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

func TestReveals(t *testing.T) {
	t.Parallel()
	secret := map[string]any{
		"kind": "Secret", "metadata": map[string]any{"name": "database-password", "annotations": map[string]any{"note": "hunter2-note"}},
		"data": map[string]any{"password": "aHVudGVyMi1zZWNyZXQ="}, "stringData": map[string]any{"pin": "4711", "on": "y"},
	}
	for text, want := range map[string]bool{
		"plain text: password, pin": false,
		"database-password is bad":  false,
		"got hunter2-secret":        true,
		"got HUNTER2":               true,
		"starts with hunter":        true,
		"got aHVudGVyMi1zZWNyZXQ=":  true,
		"the pin is 4711":           true,
		"annotated hunter2-note":    true,
		"y or not":                  false,
		"":                          false,
	} {
		if got := Reveals(text, nil, secret); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
