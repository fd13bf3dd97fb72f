package kustomize_test

import (
	"context"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
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
