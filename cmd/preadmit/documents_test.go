package main

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// Each document of a repository that is a Kubernetes object has one state. The
// objects are counted here by another walk, splitter and parser.
func TestDocumentsAddUp(t *testing.T) {
	t.Parallel()
	const shared = "../../../shared/repos"
	repos, err := os.ReadDir(shared)
	if err != nil {
		t.Skip("../shared is not here: no published repositories to count in")
	}
	for _, e := range repos {
		dir := filepath.Join(shared, e.Name())
		if !e.IsDir() {
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			if testing.Short() && strings.Contains(dir, "infra-deployments") {
				t.Skip("takes a minute")
			}
			tree := os.DirFS(dir)
			graph := render.Graph{Renderers: renderers()}
			found := graph.Discover(tree)
			units, err := graph.Render(context.Background(), found.Sources...)
			rendertest.OK(t, err)
			got := make(map[string]int)
			documents, _ := found.Documents(units)
			for _, d := range documents {
				if !slices.Contains(render.DocumentStates, d.State) {
					t.Errorf("%s:%d has the state %q", d.File, d.Line, d.State)
				}
				got[d.File]++
			}
			if diff := cmp.Diff(countObjects(t, tree), got); diff != "" {
				t.Errorf("objects by file, counted and accounted for:\n%s", diff)
			}
		})
	}
}

var (
	documentStart = regexp.MustCompile(`(?m)^---.*$`)
	marginVersion = regexp.MustCompile(`(?m)^apiVersion:\s*\S`)
	marginKind    = regexp.MustCompile(`(?m)^kind:\s*\S`)
	// toolFiles are groups of files that only tools read.
	toolFiles = regexp.MustCompile(`^(kustomize\.config\.k8s\.io|chainsaw\.kyverno\.io|cli\.kyverno\.io|test\.gatekeeper\.sh|kind\.x-k8s\.io|schema\.plugin\.fluxcd\.io|skaffold|backstage\.io|kubelet\.config\.k8s\.io)/`)
)

func countObjects(t *testing.T, tree fs.FS) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch ext := strings.ToLower(filepath.Ext(name)); {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case !e.Type().IsRegular() || ext != ".yaml" && ext != ".yml" && ext != ".json":
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		for _, text := range documentStart.Split(string(data), -1) {
			if isObjectText(text) {
				counts[name]++
			}
		}
		return err
	})
	rendertest.OK(t, err)
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
	return counts
}

func isObjectText(text string) bool {
	var v any
	if yaml.Unmarshal([]byte(text), &v) != nil {
		return marginVersion.MatchString(text) && marginKind.MatchString(text)
	}
	m, _ := v.(map[string]any)
	version, _ := m["apiVersion"].(string)
	kind, _ := m["kind"].(string)
	return version != "" && kind != "" && !toolFiles.MatchString(version) && !(version == "v1" && kind == "Config")
}
