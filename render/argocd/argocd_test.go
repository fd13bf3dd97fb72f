package argocd

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestResolve follows the objects in argocd.yaml, and those that they deploy, and
// prints each unit with the places of its fields.
func TestResolve(t *testing.T) {
	t.Parallel()
	rendertest.Run(t, "testdata", func(t *testing.T, fsys fs.FS) string {
		data, err := fs.ReadFile(fsys, "argocd.yaml")
		if err != nil {
			t.Fatal(err)
		}
		objects, err := render.Parse("argocd.yaml", data)
		if err != nil {
			t.Fatal(err)
		}
		f := &fakeWorld{tree: fsys, objects: objects, repositories: map[string]string{
			"https://git.example.com/r": ".", "https://git.example.com/values": "values",
		}}
		var b strings.Builder
		for todo := objects; len(todo) > 0; todo = todo[1:] {
			if !New().Follows(todo[0]) {
				continue
			}
			u := New().Resolve(t.Context(), todo[0], f.world())
			writeUnit(&b, u)
			for _, o := range u.Objects {
				o.Unit = u
			}
			todo = append(todo, u.Objects...)
		}
		return b.String()
	})
}

func writeUnit(b *strings.Builder, u *render.Unit) {
	fmt.Fprintf(b, "unit %s: %s\n", u.ID, u.Status())
	for _, field := range [][2]string{
		{"cluster", u.Cluster},
		{"path", u.Path},
		{"renderer", u.Renderer},
		{"release", u.Release},
		{"namespace", u.Namespace},
		{"user", u.User},
		{"reason", u.Reason},
	} {
		if field[1] != "" {
			fmt.Fprintf(b, "  %s: %s\n", field[0], field[1])
		}
	}
	if u.Values != nil {
		fmt.Fprintf(b, "  values: %v\n", u.Values)
	}
	for _, e := range render.Errors(u.Err) {
		fmt.Fprintf(b, "  %s: %v\n", e.Rule, e)
	}
	for _, o := range u.Objects {
		fmt.Fprintf(b, "  %s %s/%s\n", o.GetKind(), o.GetNamespace(), o.GetName())
		writeFields(b, o, o.Object, "")
	}
}

func writeFields(b *strings.Builder, o *render.Object, value any, pointer string) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			writeFields(b, o, v[key], pointer+render.Pointer(key))
		}
	case []any:
		for i, e := range v {
			writeFields(b, o, e, pointer+render.Pointer(i))
		}
	default:
		if pointer == "/apiVersion" || pointer == "/kind" {
			return
		}
		var places []string
		for _, at := range o.At(pointer) {
			places = append(places, fmt.Sprintf("%s:%d %s", at.File, at.Line, at.Role))
		}
		fmt.Fprintf(b, "    %s = %v <- %s\n", pointer, value, strings.Join(places, ", "))
	}
}
