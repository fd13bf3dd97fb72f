package kustomize_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// FuzzBuild holds that a kustomization which renders makes the objects that kustomize
// itself makes of it.
func FuzzBuild(f *testing.F) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {x: y}}\nspec: {containers: [{name: c, image: 'i:1'}]}\n"
	for _, s := range []string{
		"resources: [a.yaml]\n", "resources: [a.yaml]\nnamePrefix: p-\nnamespace: n\ncommonLabels: {l: m}\n", "resources: [a.yaml]\nimages: [{name: i, newTag: '2'}]\n",
		"resources: [a.yaml]\npatches: [{target: {kind: Pod}, patch: '[{op: add, path: /spec/hostNetwork, value: true}]'}]\n", "resources: [a.yaml]\nconfigMapGenerator: [{name: c, literals: [a=b]}]\n",
		"resources: [a.yaml]\nreplacements: [{source: {kind: Pod, fieldPath: metadata.name}, targets: [{select: {kind: Pod}, fieldPaths: ['metadata.labels.x']}]}]\n",
		"resources: [a.yaml]\nlabels: [{pairs: {a: b}, includeSelectors: true}]\n", "resources: [a.yaml]\npatches:\n- patch: |\n    $patch: delete\n    apiVersion: v1\n    kind: Pod\n    metadata: {name: a}\n",
	} {
		f.Add(s, pod)
	}
	options := &krusty.Options{LoadRestrictions: types.LoadRestrictionsRootOnly, PluginConfig: types.DisabledPluginConfig(), Reorder: krusty.ReorderOptionUnspecified}
	f.Fuzz(func(t *testing.T, kustomization, resource string) {
		if len(kustomization)+len(resource) > 2000 || strings.Contains(kustomization, "openapi") {
			return // a schema stays in kustomize for the rest of the process
		}
		objects, err := renderApp(fstest.MapFS{"app/kustomization.yaml": {Data: []byte(kustomization)}, "app/a.yaml": {Data: []byte(resource)}})
		if len(render.Errors(err)) > 0 || usesHelm(kustomization) {
			return // such as what kustomize would fetch
		}
		disk := filesys.MakeFsInMemory()
		for name, text := range map[string]string{"/app/kustomization.yaml": kustomization, "/app/a.yaml": resource} {
			rendertest.OK(t, disk.WriteFile(name, []byte(text)))
		}
		m, err := krusty.MakeKustomizer(options).Run(disk, "/app")
		if err != nil {
			t.Fatalf("kustomize does not build it: %v\n%s---\n%s", err, kustomization, resource)
		}
		var want []map[string]any
		for _, r := range m.Resources() {
			text, err := r.AsYAML()
			rendertest.OK(t, err)
			docs, err := render.Documents("out.yaml", text, render.YAML11)
			if err != nil || len(docs) != 1 {
				t.Skip(err)
			}
			value, _ := docs[0].Value.(map[string]any)
			want = append(want, value)
		}
		if diff := cmp.Diff(want, values(objects)); diff != "" {
			t.Errorf("objects differ from kustomize's (-want +got):\n%s\n%s---\n%s", diff, kustomization, resource)
		}
	})
}

func usesHelm(kustomization string) bool { return strings.Contains(kustomization, "helm") }
