package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMissingIn(t *testing.T) {
	t.Parallel()
	for message, want := range map[string][]Missing{
		"labels of namespace apps are unknown: give the Namespace with --with":                                                     {{"Namespace", "apps"}},
		"binding b: labels of namespace apps are unknown: give the Namespace with --with":                                          {{"Namespace", "apps"}},
		"needs to know namespace apps: give the Namespace with --with; needs ConfigMap a/b: give it with --with":                   {{"Namespace", "apps"}, {"ConfigMap", "a/b"}},
		"needs to know namespace apps, whose labels decide whether Gatekeeper's webhook is called: give the Namespace with --with": {{"Namespace", "apps"}},
		"needs a parameter of kind Limit: give it, and a binding, with --with":                                                     {{"Limit", ""}},
		"needs to know whether the cluster serves x.io/v1, Kind=Limit: give its CustomResourceDefinition with --with":              {{"CustomResourceDefinition", "x.io/v1, Kind=Limit"}},
		"needs to know whether Limit.x.io is namespaced: give its CustomResourceDefinition with --with":                            {{"CustomResourceDefinition", "Limit.x.io"}},
		"needs to know the resource of kind Limit in x.io/v1: give its CustomResourceDefinition with --with":                       {{"CustomResourceDefinition", "Limit in x.io/v1"}},
		"needs to know the versions of kind Limit.x.io: give its CustomResourceDefinition with --with":                             {{"CustomResourceDefinition", "Limit.x.io"}},
		"needs to know configmaps a/b: give it with --with":                                                                        {{"configmaps", "a/b"}},
		"needs the list of limits.x.io: give them with --with":                                                                     {{"limits.x.io", ""}},
		"needs the answer to GET /api/v1/pods: give it with --with":                                                                {{MissingAnswer, "/api/v1/pods"}},
		"needs to know who makes the request: give the user with --as":                                                             {{MissingUser, ""}},
		"needs Secret a/b, which it clones: give it with --with":                                                                   {{"Secret", "a/b"}},
		"needs the registry's data about image a":                                                                                  nil,
		"needs ConfigMap a/b: give it with --with; needs the registry's data about image a":                                        nil,
		"": nil,
	} {
		if diff := cmp.Diff(want, missingIn(message)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", message, diff)
		}
	}
}

// Every sentence in which an engine asks for --with or --as is understood.
func TestQuestionsOfEngines(t *testing.T) {
	t.Parallel()
	asks := regexp.MustCompile(`: give .* with --(with|as)$`)
	verb := regexp.MustCompile(`%[svqd]`)
	found := 0
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !asks.MatchString(text) {
				return true
			}
			found++
			text = strings.TrimPrefix(verb.ReplaceAllString(text, "x"), ", ")
			if strings.HasPrefix(text, ": give ") || strings.HasPrefix(text, "whose labels ") {
				return true // the end of a sentence that is put together
			}
			if _, ok := missingOf("needs " + strings.TrimPrefix(text, "needs ")); !ok {
				t.Errorf("%s: %q is no form of a question that missing.go knows", name, text)
			}
			return true
		})
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d questions found, %v", found, err)
	}
}
