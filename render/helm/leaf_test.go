package helm

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/preadmit/preadmit/render"
)

// TestShopLeaves holds the first place of fields of the shop's chart against
// the lines that its README names.
func TestShopLeaves(t *testing.T) {
	t.Parallel()
	fsys := os.DirFS("../../testdata/repos/shop")
	prod := []string{"charts/web/values-prod.yaml"}
	for _, c := range []struct {
		files                []string
		kind, pointer, place string
	}{
		{nil, "Deployment", "/spec/template/spec/containers/1/securityContext/privileged", "charts/web/values.yaml:42"},
		{nil, "Deployment", "/spec/template/spec/containers/1/resources/limits/memory", "charts/web/values.yaml:43"},
		{nil, "Deployment", "/spec/template/spec/containers/1/resources", "charts/web/values.yaml:43"},
		{nil, "Deployment", "/spec/template/spec/securityContext", "charts/web/values.yaml:15"},
		{nil, "Deployment", "/spec/template/spec/securityContext/fsGroup", "charts/web/values.yaml:15"},
		{nil, "Deployment", "/spec/replicas", "charts/web/values.yaml:4"},
		{prod, "HorizontalPodAutoscaler", "/spec/maxReplicas", "charts/web/values-prod.yaml:23"},
		{prod, "Ingress", "/spec/tls", "charts/web/templates/ingress.yaml:8"},
	} {
		src := render.Source{FS: fsys, Path: "charts/web", Helm: &render.Helm{ValueFiles: c.files}}
		objects, err := New().Render(context.Background(), src)
		if hard(err) != nil {
			t.Fatal(err)
		}
		got := ""
		for _, o := range objects {
			if o.GetKind() == c.kind {
				at := o.At(c.pointer)[0]
				got = fmt.Sprintf("%s:%d", at.File, at.Line)
			}
		}
		if got != c.place {
			t.Errorf("%s %s is at %s, want %s", c.kind, c.pointer, got, c.place)
		}
	}
}
