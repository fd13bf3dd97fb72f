package schema

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// Whether an image is pulled always is decided as the API server decides it,
// for texts made of the parts of image references.
func TestImagesAsTheOracle(t *testing.T) {
	t.Parallel()
	needOracle(t)
	g := rand.New(rand.NewPCG(1, 2))
	parts := []string{
		"nginx", "a", "Reg", "REG.io", "localhost", "docker.io", "index.docker.io", "1.2.3.4", "[::1]", "5000", "latest", "LATEST",
		"/", "/", ":", ":", "@", "sha256:", strings.Repeat("a1", 32), strings.Repeat("b", 200), ".", "_", "__", "-", " ", "é",
	}
	var containers []any
	for range 5000 {
		var image strings.Builder
		for range g.IntN(7) {
			image.WriteString(parts[g.IntN(len(parts))])
		}
		containers = append(containers, map[string]any{"name": "a", "image": image.String()})
	}
	o := object("v1", "Pod")
	o.Object["spec"] = map[string]any{"containers": containers}
	answer := askOracle(t, []oracleRequest{{Object: o.Object}})[0]
	held, err := newKinds(t, "1.36").Admit(o, "")
	rendertest.OK(t, err)
	for i := range containers {
		at := render.Pointer("spec", "containers", i)
		got, _ := render.Lookup(held, at+"/imagePullPolicy")
		want, _ := render.Lookup(answer.Object, at+"/imagePullPolicy")
		image, _ := render.Lookup(held, at+"/image")
		if got != want {
			t.Errorf("%v: %v, want %v", image, got, want)
		}
	}
}
