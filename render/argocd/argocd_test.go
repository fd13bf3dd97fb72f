package argocd

import (
	"fmt"
	"io/fs"
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
		rendertest.OK(t, err)
		objects := rendertest.Parse(t, "argocd.yaml", data)
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
	rendertest.WriteUnit(b, u, [][2]string{
		{"cluster", u.Cluster},
		{"path", u.Path},
		{"renderer", u.Renderer},
		{"release", u.Release},
		{"namespace", u.Namespace},
		{"user", u.User},
		{"reason", u.Reason},
	}...)
}
