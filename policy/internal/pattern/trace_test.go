package pattern

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pattern, value, want string }{
		{
			"scalars, until one does not match", `{spec: {a: x, b: "!w", c: z}}`, `{spec: {a: x, b: w, c: z}}`,
			"/spec/a /spec/a x pass\n/spec/b /spec/b w fail\n",
		},
		{
			"anchors", `{spec: {containers: [{(image): "*:latest", =(pull): Always, X(env): null}]}}`,
			`{spec: {containers: [{image: a:1}, {image: "b:latest", env: []}]}}`,
			"/spec/containers/0/(image) /spec/containers/0/image a:1 skip\n" +
				"/spec/containers/0/=(pull) /spec/containers/0/pull missing pass\n" +
				"/spec/containers/0/X(env) /spec/containers/0/env missing pass\n" +
				"/spec/containers/0/(image) /spec/containers/1/image b:latest pass\n" +
				"/spec/containers/0/=(pull) /spec/containers/1/pull missing pass\n" +
				"/spec/containers/0/X(env) /spec/containers/1/env [] fail\n",
		},
		{
			"what is no map", `{spec: {a: {b: c}}}`, `{spec: {a: 1}}`,
			"/spec/a /spec/a 1 fail\n",
		},
		{
			"existence", `{spec: {^(list): [{name: x}]}}`, `{spec: {list: [{name: v}, {name: x}]}}`,
			"/spec/^(list) /spec/list [map[name:v] map[name:x]] pass\n" +
				" /spec/^(list)/0/name /spec/list/0/name v fail\n" +
				" /spec/^(list)/0/name /spec/list/1/name x pass\n",
		},
		{
			"a global anchor", `{metadata: {<(name): "kube-*"}, spec: {a: 1}}`, `{metadata: {name: x}, spec: {a: 2}}`,
			"/metadata/<(name) /metadata/name x skip\n",
		},
		{
			"list of scalars", `{a: [">0"]}`, `{a: [1, 0]}`,
			"/a /a [1 0] fail\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, value := compiled(t, c.pattern), decoded(t, c.value)
			v, steps := p.Trace(value, 100)
			if d := cmp.Diff(p.Match(value), v); d != "" {
				t.Error("other than Match:", d)
			}
			rendertest.Equal(t, c.want, written(steps))
		})
	}
}

// TestTraceIsBounded holds that of many steps those that hold are left out.
func TestTraceIsBounded(t *testing.T) {
	t.Parallel()
	list := make([]any, 10_000)
	for i := range list {
		list[i] = map[string]any{"name": "x"}
	}
	list[9_999] = map[string]any{"name": "y"}
	v, steps := compiled(t, `{a: [{name: x, =(b): {c: d}}]}`).Trace(map[string]any{"a": list}, 10)
	last := steps[len(steps)-1]
	if v.Status != Fail || len(steps) > 11 || last.Pointer != "/a/9999/name" || last.Status != Fail {
		t.Errorf("%v: %d steps, the last %+v", v.Status, len(steps), last)
	}
}

func compiled(t *testing.T, text string) *Pattern {
	t.Helper()
	p, err := Compile(decoded(t, text))
	rendertest.OK(t, err)
	return p
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	rendertest.OK(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

func written(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		value := "missing"
		if s.Found {
			value = fmt.Sprint(s.Value)
		}
		fmt.Fprintf(&b, "%s%s %s %s %s\n", strings.Repeat(" ", s.Depth), s.Place, s.Pointer, value, s.Status)
	}
	return b.String()
}

// TestSteps lists what a pattern may ask: its scalars, and its anchors.
func TestSteps(t *testing.T) {
	p, err := Compile(map[string]any{
		"kind": "Pod",
		"spec": map[string]any{
			"=(hostNetwork)": "false",
			"containers":     []any{map[string]any{"(image)": "*:latest", "pull": "Always"}},
			"X(volumes)":     "null",
			"^(ports)":       []any{map[string]any{"port": int64(80)}},
		},
	})
	rendertest.OK(t, err)
	var got []string
	for _, s := range p.Steps() {
		got = append(got, fmt.Sprintf("%s %t", s.Place, s.Scalar))
	}
	want := []string{
		"/kind true", "/spec/=(hostNetwork) true", "/spec/X(volumes) true", "/spec/^(ports) false", "/spec/^(ports)/0/port true",
		"/spec/containers/0/(image) true", "/spec/containers/0/pull true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
