package flux_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render/rendertest"
)

// valuesChart prints the values that it is rendered with.
const valuesChart = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values}\ndata:\n  values: {{ .Values | toJson | quote }}\n"

// releaseCase is a tree with a chart at charts/x, which has one template.
func releaseCase(t *testing.T, objects, template string) *world {
	t.Helper()
	tree := fstest.MapFS{
		"in.yaml":                     {Data: []byte(objects)},
		"charts/x/Chart.yaml":         {Data: []byte("apiVersion: v2\nname: x\nversion: 0.1.0\n")},
		"charts/x/templates/all.yaml": {Data: []byte(template)},
	}
	return &world{tree: tree, objects: parse(t, tree, "in.yaml"), sources: map[string]string{"GitRepository/ns/r": "."}}
}

// TestValues holds the values of HelmReleases against those of helm-controller.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, dir := range cases(t, "flux-values") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			var want struct {
				HelmReleases []struct {
					Error            string         `json:"error"`
					ReleaseName      string         `json:"releaseName"`
					ReleaseNamespace string         `json:"releaseNamespace"`
					Values           map[string]any `json:"values"`
				} `json:"helmReleases"`
			}
			readWant(t, dir, &want)
			in := rendertest.ReadFile(t, filepath.Join(dir, "in", "in.yaml"))
			u := releaseCase(t, string(in), valuesChart).resolve(t)[0]
			w := want.HelmReleases[0]
			if (w.Error == "") != (u.Status() == "rendered") {
				t.Fatalf("want error %q, got %s: %v", w.Error, u.Status(), u.Err)
			}
			if u.Release != w.ReleaseName || u.Namespace != w.ReleaseNamespace {
				t.Errorf("release %s in %s, want %s in %s", u.Release, u.Namespace, w.ReleaseName, w.ReleaseNamespace)
			}
			if w.Error != "" || strings.Contains(string(in), "kind: Secret") {
				return
			}
			rendertest.Equal(t, canonical(t, w.Values), canonical(t, u.Values))
		})
	}
}

// TestPostRenderers holds post-renderers against those of helm-controller.
func TestPostRenderers(t *testing.T) {
	t.Parallel()
	for _, dir := range cases(t, "flux-postrender") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			var want outcome
			readWant(t, dir, &want)
			in := rendertest.ReadFile(t, filepath.Join(dir, "in", "in.yaml"))
			release, template, _ := strings.Cut(string(in), "\n---\n")
			compare(t, want, releaseCase(t, release, template).resolve(t)[0])
		})
	}
}
