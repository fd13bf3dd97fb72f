package kustomize

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// TestBasesAreKept renders overlays of one base, of which the second and third must
// find the base where the first left it, as long as nothing in it changed.
func TestBasesAreKept(t *testing.T) {
	tree := fstest.MapFS{
		"part/kustomization.yaml": {Data: []byte("kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\nnamePrefix: a-\n")},
		"base/kustomization.yaml": {Data: []byte("resources: [map.yaml]\ncomponents: [../part]\nconfigMapGenerator: [{name: made, files: [data.txt]}]\n")},
		"base/map.yaml":           {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\n")},
		"base/data.txt":           {Data: []byte("one")},
		"a/kustomization.yaml":    {Data: []byte("resources: [../base]\nnamespace: a\n")},
		"b/kustomization.yaml":    {Data: []byte("resources: [../base]\nnamespace: b\n")},
	}
	r := New(Options{})
	built := func(overlay string) *base {
		objects, err := r.Render(t.Context(), render.Source{FS: tree, Path: overlay, Kind: "kustomize"})
		if err != nil || len(objects) != 2 || objects[0].GetNamespace() != overlay {
			t.Fatalf("overlay %s: %v, %v", overlay, objects, err)
		}
		return r.bases.get(baseKey{dir: "base", hides: true})
	}
	first := built("a")
	if first == nil {
		t.Fatal("the base is not kept")
	}
	if built("b") != first || built("a") != first {
		t.Error("the base was built again")
	}
	for file, text := range map[string]string{"base/data.txt": "two", "part/kustomization.yaml": strings.Replace(string(tree["part/kustomization.yaml"].Data), "a-", "b-", 1)} {
		last := built("a")
		tree[file] = &fstest.MapFile{Data: []byte(text)}
		if built("b") == last {
			t.Errorf("the base was not built again, though %s changed", file)
		}
	}
}

// TestOldBasesAreForgotten fills the room for bases.
func TestOldBasesAreForgotten(t *testing.T) {
	b := newBases()
	for _, dir := range []string{"old", "used", "new"} {
		if dir == "new" {
			b.get(baseKey{dir: "used"})
		}
		b.put(baseKey{dir: dir}, &base{nodes: maxNodes / 2})
	}
	if b.get(baseKey{dir: "old"}) != nil || b.get(baseKey{dir: "used"}) == nil || b.get(baseKey{dir: "new"}) == nil {
		t.Error("did not forget the base that was not used for longest")
	}
	b.put(baseKey{dir: "huge"}, &base{nodes: maxNodes + 1})
	if len(b.all) != 0 || b.nodes != 0 {
		t.Errorf("keeps %d bases with %d nodes though the last is too large", len(b.all), b.nodes)
	}
}

// TestKustomizationFields fails when a newer kustomize has fields that accumulate does
// not know: they belong into transform, or into shareable.
func TestKustomizationFields(t *testing.T) {
	known := strings.Fields(`TypeMeta MetaData NamePrefix NameSuffix Namespace CommonLabels Labels CommonAnnotations PatchesStrategicMerge
		PatchesJson6902 Patches Images ImageTags Replacements Replicas Vars SortOptions Resources Components Crds Bases
		ConfigMapGenerator SecretGenerator HelmGlobals HelmCharts HelmChartInflationGenerator GeneratorOptions Configurations
		Generators Transformers Validators BuildMetadata OpenAPI`)
	for f := range reflect.TypeFor[types.Kustomization]().Fields() {
		if !slices.Contains(known, f.Name) {
			t.Errorf("field %s is not known", f.Name)
		}
	}
}
