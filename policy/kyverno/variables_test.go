package kyverno

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// scopeOver is a scope of a Pod with some annotations.
func scopeOver(t testing.TB, annotations map[string]any) *scope {
	t.Helper()
	o := podWith(map[string]any{"annotations": annotations, "labels": map[string]any{"a": "b", "n": int64(3)}}, map[string]any{"list": []any{"x", "y"}})
	r := (&Engine{options: Options{CLI: true}}).newReview(context.Background(), requestFor(o, policy.Create), nil, call{as: requestFor(o, policy.Create).Version()})
	return r.scopeOf(&Rule{}, nil)
}

func TestVariables(t *testing.T) {
	t.Parallel()
	annotations := map[string]any{"var": "{{ request.object.metadata.name }}", "open": "{{", "key": "name"}
	m := func(s string) string { return "request.object.metadata." + s }
	for _, c := range []struct {
		name      string
		in, want  any
		wantError string
	}{
		{"no variable", "plain", "plain", ""},
		{"a whole text keeps its type", "{{ " + m("labels") + " }}", map[string]any{"a": "b", "n": float64(3)}, ""},
		{"so does a number", "{{" + m("labels.n") + "}}", float64(3), ""},
		{"in text it is JSON", "x{{ " + m("labels") + " }}", `x{"a":"b","n":3}`, ""},
		{"null is a word in text", "x{{ " + m("name.x") + " }}", "xnull", ""},
		{"a list in text", "{{ request.object.spec.list }}!", `["x","y"]!`, ""},
		{"two in one text", "{{ " + m("name") + " }}-{{ " + m("namespace") + " }}", "p-default", ""},
		{"side by side", "{{ " + m("name") + " }}{{ " + m("namespace") + " }}", "pdefault", ""},
		{"nested", "{{ " + m(`{{ request.object.metadata.annotations.key }}`) + " }}", "p", ""},
		{"a text of variables is looked into", "x {{ " + m("annotations.var") + " }}", "x p", ""},
		{"not that of a shallow one", "x {{- " + m("annotations.var") + " }}", "x {{ request.object.metadata.name }}", ""},
		{"a whole text is not", "{{ " + m("annotations.var") + " }}", "{{ request.object.metadata.name }}", ""},
		{"but a map is", "{{ " + m("annotations") + ".{v: var} }}", map[string]any{"v": "p"}, ""},
		{"escaped", `\{{ ` + m("name") + ` }}`, "{{ " + m("name") + " }}", ""},
		{"escaped beside one that is not", `\{{ x }} {{ ` + m("name") + ` }}`, "{{ x }} p", ""},
		{"braces that do not close", "{{ x", "{{ x", ""},
		{"multiselect", "{{ " + m("{n: name}") + " }}", map[string]any{"n": "p"}, ""},
		{"keys", map[string]any{"{{ " + m("name") + " }}-x": []any{"{{ " + m("name") + " }}"}}, map[string]any{"p-x": []any{"p"}}, ""},
		{"a key that is not a string", map[string]any{"{{ " + m("labels") + " }}": "x"}, nil, "expected string"},
		{"missing", []any{"a", "{{ " + m("nope") + " }}"}, nil, `failed to resolve request.object.metadata.nope at path /1: JMESPath query failed: Unknown key "nope" in path`},
		{"no JMESPath", "{{ a b }}", nil, "SyntaxError"},
		{"reference", map[string]any{"a": "x", "b": []any{map[string]any{"(c)": "$(./../../../a)y"}}}, map[string]any{"a": "x", "b": []any{map[string]any{"(c)": "xy"}}}, ""},
		{"absolute reference", map[string]any{"=(a)": map[string]any{"b": "x"}, "c": "<=$(/a/b)"}, map[string]any{"=(a)": map[string]any{"b": "x"}, "c": "<=x"}, ""},
		{"reference with an operator", map[string]any{"a": int64(5), "b": "$(<=./../a)"}, map[string]any{"a": int64(5), "b": "<=5"}, ""},
		{"reference to nothing", map[string]any{"b": "$(./../a)"}, nil, "failed to resolve $(./../a) at path /b"},
		{"escaped reference", `\$(a)`, "$(a)", ""},
		{"reference to a variable", map[string]any{"a": "{{ " + m("name") + " }}", "b": "$(./../a)"}, map[string]any{"a": "p", "b": "p"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := newTemplate(c.in).fill(scopeOver(t, annotations))
			if c.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantError) {
					t.Errorf("%v, %v, want the error %s", got, err, c.wantError)
				}
				return
			}
			rendertest.OK(t, err)
			rendertest.Equal(t, c.want, got)
		})
	}
}

// TestCurrentKey holds the value of {{ @ }}.
func TestCurrentKey(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"mutate/patchStrategicMerge/metadata/labels/a.b/c": `request.object."metadata"."labels"."a.b"."c"`,
		"mutate/foreach/0/patchStrategicMerge/spec/1":      `request.object."spec"[1]`,
		"metadata/name": "request.object",
	} {
		if got := scopeOver(t, nil).place(strings.Split(path, "/")); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]map[string]any{
		"nginx":                            {"registry": "docker.io", "path": "nginx", "name": "nginx", "tag": "latest", "reference": "docker.io/nginx:latest", "referenceWithTag": "docker.io/nginx:latest"},
		"ghcr.io/a/b:1":                    {"registry": "ghcr.io", "path": "a/b", "name": "b", "tag": "1", "reference": "ghcr.io/a/b:1", "referenceWithTag": "ghcr.io/a/b:1"},
		"localhost:5000/b:1":               {"registry": "localhost:5000", "path": "b", "name": "b", "tag": "1", "reference": "localhost:5000/b:1", "referenceWithTag": "localhost:5000/b:1"},
		"a/b:1@" + digest:                  {"registry": "docker.io", "path": "a/b", "name": "b", "tag": "1", "digest": digest, "reference": "docker.io/a/b@" + digest, "referenceWithTag": "docker.io/a/b:1"},
		"Registry/b":                       {"registry": "Registry", "path": "b", "name": "b", "tag": "latest", "reference": "Registry/b:latest", "referenceWithTag": "Registry/b:latest"},
		"ghcr.io/A/b":                      nil,
		"":                                 nil,
		"a:b:c":                            nil,
		"a@sha256:1":                       nil,
		"a@md5:" + strings.Repeat("0", 32): nil,
		"ghcr.io/a/b:" + "ta g":            nil,
		"ghcr.io//b":                       nil,
		"{{ request.object.x }}":           nil,
	} {
		got, err := parseImage(image)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%s: %v\n%s", image, err, diff)
		}
	}
}

// FuzzVariables holds that texts end, and that what has no braces is what it
// was.
func FuzzVariables(f *testing.F) {
	for _, s := range []string{"x", "{{ request.object.metadata.annotations.a }}", "x{{request.object.metadata.annotations.a}}", `\{{ a }}`, "{{{a: b}}}", "{{- @ }}", "$(./../a)", "{{ {{ x }} }}"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, annotation string) {
		got, err := newTemplate(text).fill(scopeOver(t, map[string]any{"a": annotation}))
		if !strings.Contains(text, "{{") && !strings.Contains(text, "$(") && (err != nil || got != text) {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	})
}
