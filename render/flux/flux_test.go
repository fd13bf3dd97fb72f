package flux_test

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

// TestResolve renders what the objects in flux.yaml deploy, and prints each unit
// with the places of its fields.
func TestResolve(t *testing.T) {
	rendertest.Run(t, "testdata", func(t *testing.T, fsys fs.FS) string {
		w := &world{tree: fsys, objects: parse(t, fsys, "flux.yaml"), sources: map[string]string{
			"https://git.example/fleet": ".", "": ".", "OCIRepository/flux-system/apps": "apps",
		}}
		var b strings.Builder
		for _, u := range w.resolve(t) {
			writeUnit(&b, u)
		}
		return b.String()
	})
}

func writeUnit(b *strings.Builder, u *render.Unit) {
	fmt.Fprintf(b, "unit %s: %s, by %s\n", u.ID, u.Status(), u.User)
	for _, field := range [][2]string{{"cluster", u.Cluster}, {"path", u.Path}, {"release", u.Release}, {"namespace", u.Namespace}, {"reason", u.Reason}} {
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
		for _, note := range o.Assumed {
			fmt.Fprintf(b, "    assumed: %s\n", note)
		}
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
