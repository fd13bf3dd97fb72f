package kustomize_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
)

// fakeHelm renders every chart to one ConfigMap that says what it was asked
// for, and to one object for each hook that charts have.
type fakeHelm struct{}

func (fakeHelm) Kind() string                              { return "helm" }
func (fakeHelm) Detect(fs.FS, string) (render.Claim, bool) { return render.Claim{}, false }

func (fakeHelm) Render(_ context.Context, src render.Source) ([]*render.Object, error) {
	h := src.Helm
	asked := map[string]any{
		"path": src.Path, "namespace": src.Namespace, "release": h.ReleaseName, "kubeVersion": h.KubeVersion,
		"skipCRDs": h.SkipCRDs, "values": h.Values, "valueFiles": list(h.ValueFiles), "apiVersions": list(h.APIVersions),
	}
	if h.Values == nil {
		delete(asked, "values")
	}
	return []*render.Object{
		fakeObject(h.ReleaseName+"-asked", "", src.Path+"/templates/cm.yaml", asked),
		fakeObject(h.ReleaseName+"-test", "test", src.Path+"/templates/test.yaml", nil),
		fakeObject(h.ReleaseName+"-hook", "pre-install", src.Path+"/templates/hook.yaml", nil),
	}, nil
}

func list(texts []string) []any {
	all := []any{}
	for _, t := range texts {
		all = append(all, t)
	}
	return all
}

func fakeObject(name, hook, file string, spec map[string]any) *render.Object {
	meta := map[string]any{"name": name}
	if hook != "" {
		meta["annotations"] = map[string]any{"helm.sh/hook": hook}
	}
	object := map[string]any{"apiVersion": "v1", "kind": "Chart", "metadata": meta}
	if spec != nil {
		object["spec"] = spec
	}
	return &render.Object{
		Unstructured: &unstructured.Unstructured{Object: object},
		Provenance:   render.File{Span: render.Span{File: file, Line: 3, Column: 1, EndLine: 3, EndColumn: 9}, Role: render.Template},
	}
}

// TestVariants renders a kustomization for a variant that its chart does not tell from
// the default, and for one that it does.
func TestVariants(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"app/kustomization.yaml":     {Data: []byte("helmCharts: [{name: web, releaseName: web}]\nnamePrefix: a-\n")},
		"app/charts/web/Chart.yaml":  {Data: []byte("{apiVersion: v2, name: web, version: 1.0.0}\n")},
		"app/charts/web/values.yaml": {Data: []byte("{}\n")},
	}
	r := kustomize.New(kustomize.Options{Helm: upgradeHelm{}})
	src := render.Source{FS: fsys, Path: "app", Kind: "kustomize"}
	objects := func(v render.Variant) []*render.Object {
		src.Variant, src.Inputs = v, new(render.Inputs)
		all, err := r.Render(t.Context(), src)
		if err != nil || len(all) != 3 {
			t.Fatalf("%d objects, %v", len(all), err)
		}
		return all
	}
	spec := func(v render.Variant) any { return objects(v)[0].Object["spec"].(map[string]any)["upgrade"] }
	for _, v := range []render.Variant{{}, {APIVersions: []string{"example.org/v1"}}} {
		if got := spec(v); got != nil {
			t.Errorf("%v: the chart is rendered as for an upgrade: %v", v, got)
		}
	}
	if got := spec(render.Variant{Upgrade: true}); got != true {
		t.Errorf("the chart is not rendered as for an upgrade: %v", got)
	}
}

// upgradeHelm is fakeHelm, which says in one object whether there is an upgrade.
type upgradeHelm struct{ fakeHelm }

func (u upgradeHelm) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	all, err := u.fakeHelm.Render(ctx, src)
	if src.Variant.Upgrade {
		all[0].Object["spec"].(map[string]any)["upgrade"] = true
	}
	return all, err
}
