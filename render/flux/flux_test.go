package flux_test

import (
	"fmt"
	"io/fs"
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
	rendertest.WriteUnit(b, u, [][2]string{{"cluster", u.Cluster}, {"path", u.Path}, {"release", u.Release}, {"namespace", u.Namespace}, {"reason", u.Reason}}...)
}
