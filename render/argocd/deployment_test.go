package argocd

import (
	stdcmp "cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// newObject makes an object of a value tree.
func newObject(t *testing.T, tree map[string]any) *render.Object {
	t.Helper()
	plain, err := encode(tree)
	rendertest.OK(t, err)
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: plain}}
}

// texts are the objects as the recorded outcomes have them, sorted, without the
// mark of the Application.
func texts(t *testing.T, objects []*render.Object) []string {
	t.Helper()
	all := []string{}
	for _, o := range objects {
		u := o.DeepCopy()
		if _, ok := o.Provenance.(*tracked); !ok {
			all = append(all, canonical(t, u.Object))
			continue
		}
		annotations := u.GetAnnotations()
		delete(annotations, trackingID)
		if u.SetAnnotations(annotations); len(annotations) == 0 {
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
		}
		all = append(all, canonical(t, u.Object))
	}
	slices.Sort(all)
	return all
}

func sortedText(t *testing.T, values []any) []string {
	t.Helper()
	all := []string{}
	for _, v := range values {
		all = append(all, canonical(t, v))
	}
	slices.Sort(all)
	return all
}

func TestKustomizeAsArgoCD(t *testing.T) {
	t.Parallel()
	rows(t, "kustomize-build", func(t *testing.T, row struct {
		Tree      string
		Kustomize map[string]any
		Env       []struct{ Name, Value string }
		Objects   []any
		Error     *string
	},
	) {
		if row.Tree == "" {
			t.Skip("the record has no files")
		}
		source := map[string]any{"repoURL": "https://git.example.com/r", "path": "."}
		if row.Kustomize != nil {
			source["kustomize"] = row.Kustomize
		}
		name := "app"
		for _, v := range row.Env {
			if v.Name == "ARGOCD_APP_NAME" && v.Value != "" {
				name = v.Value
			}
		}
		dir := filepath.Join(corpus, "argo-upstream-tests/kustomize-build/in", row.Tree)
		if found, _ := filepath.Glob(filepath.Join(dir, ".argocd-source*")); len(found) > 0 {
			t.Skip("its options are recorded after those of files were added")
		}
		if data, _ := os.ReadFile(filepath.Join(dir, "kustomization.yaml")); strings.Contains(string(data), "../../..") {
			t.Skip("the record has a part of its files only")
		}
		compareApplication(t, dir, name, source, &fakeWorld{}, row.Objects, row.Error)
	})
}

// compareApplication holds what an Application with one source gives.
func compareApplication(t *testing.T, dir, name string, source map[string]any, world *fakeWorld, want []any, failure *string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	rendertest.OK(t, err)
	defer root.Close()
	world.tree = root.FS()
	o := newObject(t, map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": map[string]any{"name": name, "namespace": "argocd"},
		"spec":     map[string]any{"source": source, "destination": map[string]any{"server": inClusterServer, "namespace": "test-namespace"}, "project": "default"},
	})
	w := world.world()
	d := &deployment{lister: lister{ctx: t.Context()}, object: o, world: w, unit: unit(o, w, "argocd")}
	objects, err := d.run()
	if (len(render.Failures(err)) > 0) != (failure != nil) {
		t.Fatalf("error %v, want %v", err, failure)
	}
	if failure != nil {
		return
	}
	rendertest.Equal(t, sortedText(t, want), texts(t, objects))
}

func TestManifestsAsArgoCD(t *testing.T) {
	t.Parallel()
	rows(t, "generate-manifests", func(t *testing.T, row struct {
		Tree, AppTree, AppPath string
		Request                struct {
			ApplicationSource map[string]any
			AppName           string
			RefSources        map[string]any
			KustomizeOptions  struct{ BuildOptions string }
		}
		Response struct{ Manifests []string }
		Error    *string
	},
	) {
		if row.Error != nil && strings.Contains(*row.Error, "symlink") {
			t.Skip("the record lost its link")
		}
		text := strings.Join(row.Response.Manifests, "")
		if strings.Contains(text, "redis-password") {
			t.Skip("its chart makes a random password")
		}
		tree, source := row.Tree, row.Request.ApplicationSource
		if row.AppTree != "" {
			tree = row.AppTree
		}
		if tree == "" || source == nil || len(row.Request.RefSources) > 0 || source["chart"] != nil {
			t.Skip("the record lacks its source or its files")
		}
		source["path"], source["repoURL"] = ".", "https://git.example.com/r"
		if row.AppTree == "" {
			source["path"] = row.AppPath
		}
		world := &fakeWorld{}
		if options := row.Request.KustomizeOptions.BuildOptions; options != "" {
			world.objects = append(world.objects, newObject(t, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "argocd-cm", "namespace": "argocd"},
				"data": map[string]any{"kustomize.buildOptions": options},
			}))
		}
		var want []any
		for _, m := range row.Response.Manifests {
			var v any
			rendertest.OK(t, json.Unmarshal([]byte(m), &v))
			want = append(want, v)
		}
		dir := filepath.Join(corpus, "argo-upstream-tests/generate-manifests/in", tree)
		if _, err := os.Stat(dir); err != nil {
			t.Skip("the record has no files")
		}
		if data, _ := os.ReadFile(filepath.Join(dir, "Chart.yaml")); strings.Contains(string(data), "file://../") {
			t.Skip("the record lacks a chart beside it")
		}
		compareApplication(t, dir, stdcmp.Or(row.Request.AppName, "app"), source, world, want, row.Error)
	})
}

// TestRepositoriesAsArgoCD follows the Applications of whole repositories. Those
// that the recorded program made of charts are compared by digest.
func TestRepositoriesAsArgoCD(t *testing.T) {
	t.Parallel()
	for _, root := range rendertest.GlobOrSkip(t, filepath.Join(corpus, "*/argo-manifests-*/roots.yaml")) {
		dir := filepath.Dir(root)
		name := filepath.Base(filepath.Dir(dir))
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if testing.Short() {
				t.Skip("takes a while")
			}
			followAll(t, dir, filepath.Join("../../../shared/repos", name))
		})
	}
}

func followAll(t *testing.T, dir, repo string) {
	t.Helper()
	rendertest.SkipWithout(t, repo)
	var want struct {
		Applications []struct {
			Name, Namespace string
			Sources         []struct {
				Status  string
				Error   string
				Objects []struct {
					APIVersion, Kind, Name, Namespace, SHA256 string
					Object                                    any
				}
			}
		}
	}
	data := rendertest.ReadFile(t, filepath.Join(dir, "want.json"))
	rendertest.OK(t, json.Unmarshal(data, &want))
	world := &fakeWorld{tree: os.DirFS(repo), clusters: []render.Cluster{{Name: "main", KubeVersion: "1.33"}}}
	if _, err := os.Stat(filepath.Join(dir, "clusters.yaml")); err == nil {
		world.objects = parseFile(t, filepath.Join(dir, "clusters.yaml"))
	}
	todo := rootsOf(t, world, filepath.Join(dir, "roots.yaml"))
	units := make(map[string]*render.Unit)
	for len(todo) > 0 {
		o := todo[0]
		todo = todo[1:]
		if !New().Follows(o) {
			continue
		}
		w := render.NewWorld(render.Cluster{Name: "main", KubeVersion: "1.33"}, world.clusters, world)
		u := New().Resolve(t.Context(), o, w)
		units[u.ID] = u
		for _, made := range u.Objects {
			made.Unit = u
		}
		todo = append(todo, u.Objects...)
	}
	right, all := 0, 0
	for _, a := range want.Applications {
		u := units["argocd/"+stdcmp.Or(a.Namespace, "argocd")+"/"+a.Name]
		if u == nil {
			t.Errorf("no unit for %s", a.Name)
			continue
		}
		got := texts(t, u.Objects)
		for _, s := range a.Sources {
			if s.Status != "ok" && s.Status != "ref-only" && u.Status() == "rendered" {
				t.Errorf("%s is rendered, want %s %s", a.Name, s.Status, s.Error)
			}
			for _, o := range s.Objects {
				all++
				if slices.ContainsFunc(got, func(text string) bool { return digest(text) == o.SHA256 }) {
					right++
				} else if o.Object != nil {
					t.Logf("%s: %s %s differs or is missing: %v", a.Name, o.Kind, o.Name, u.Err)
				}
			}
		}
	}
	t.Logf("%d of %d objects are the same", right, all)
	if right != all {
		t.Errorf("%d of %d objects are the same", right, all)
	}
}

// rootsOf returns the objects of a file, and those of the kustomizations that its
// comments name.
func rootsOf(t *testing.T, world *fakeWorld, file string) []*render.Object {
	t.Helper()
	objects := parseFile(t, file)
	data := rendertest.ReadFile(t, file)
	for line := range strings.Lines(string(data)) {
		k, ok := strings.CutPrefix(strings.TrimSpace(line), "# kustomization: ")
		if !ok {
			continue
		}
		made, err := world.Render(t.Context(), render.Source{FS: world.tree, Path: k, Kind: "kustomize"})
		if len(made) == 0 {
			t.Fatal(err)
		}
		objects = append(objects, made...)
	}
	return objects
}

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
