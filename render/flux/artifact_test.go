package flux_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/flux"
)

// TestArtifacts holds the artifacts of ArtifactGenerators against those of
// source-watcher.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	for _, dir := range cases(t, "flux-artifact") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			var want struct {
				Artifacts []struct {
					Name   string            `json:"name"`
					Status string            `json:"status"`
					Error  string            `json:"error"`
					Files  map[string]string `json:"files"`
				} `json:"artifacts"`
			}
			readWant(t, dir, &want)
			tree := os.DirFS(filepath.Join(dir, "in"))
			w := &world{tree: tree, objects: parse(t, tree, "ag.yaml"), sources: make(map[string]string)}
			sources, _ := render.Lookup(w.objects[0].Object, "/spec/sources")
			for _, s := range sources.([]any) {
				m := s.(map[string]any)
				w.sources[m["kind"].(string)+"/"+w.objects[0].GetNamespace()+"/"+m["name"].(string)] = "sources/" + m["alias"].(string)
			}
			for _, a := range want.Artifacts {
				files, err := flux.ArtifactFiles(w.objects[0], render.NewWorld(w.cluster, nil, w), w.objects[0].GetNamespace(), a.Name)
				if (a.Status == "ok") != (err == nil) {
					t.Fatalf("want %s %s, got %v", a.Status, a.Error, err)
				}
				if d := cmp.Diff(a.Files, files); d != "" && err == nil {
					t.Errorf("-want +got:\n%s", d)
				}
			}
		})
	}
}
