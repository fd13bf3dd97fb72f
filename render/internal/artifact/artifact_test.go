package artifact

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestFiles names the files of artifacts as their tools do, and never twice or
// out of the artifact.
func TestFiles(t *testing.T) {
	t.Parallel()
	layer := func(mediaType string, annotations ...string) Descriptor {
		d := Descriptor{MediaType: mediaType, Digest: Digest([]byte(mediaType)), Size: 1, Annotations: map[string]string{}}
		for i := 0; i < len(annotations); i += 2 {
			d.Annotations[annotations[i]] = annotations[i+1]
		}
		return d
	}
	const title, kind, name = "org.opencontainers.image.title", "io.kyverno.image.kind", "io.kyverno.image.name"
	const rego, kyverno = "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego", "application/vnd.cncf.kyverno.policy.layer.v1+yaml"
	for _, test := range []struct {
		layers []Descriptor
		want   []string
	}{
		{[]Descriptor{layer("application/vnd.oci.image.layer.v1.tar+gzip")}, nil},
		{[]Descriptor{layer("application/vnd.cncf.helm.chart.content.v1.tar+gzip"), layer(rego)}, nil},
		{[]Descriptor{layer(rego, title, "policy/main.rego"), layer(rego)}, []string{"policy/main.rego", "layer-2.rego"}},
		{[]Descriptor{layer(kyverno, kind, "ClusterPolicy", name, "a"), layer(kyverno, kind, "ClusterPolicy", name, "a")}, []string{"clusterpolicy-a.yaml", "1/clusterpolicy-a.yaml"}},
		{[]Descriptor{layer(rego, title, "../../x"), layer(rego, title, "/etc/x"), layer(kyverno, kind, "x", name, "../y")}, []string{"layer-1.rego", "layer-2.rego", "layer-3.yaml"}},
	} {
		manifest, err := json.Marshal(map[string]any{"layers": test.layers})
		rendertest.OK(t, err)
		files, err := Files(manifest)
		rendertest.OK(t, err)
		var got []string
		for _, f := range files {
			got = append(got, f.Name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v, want %v", got, test.want)
		}
	}
	large, err := json.Marshal(map[string]any{"layers": []Descriptor{{MediaType: rego, Digest: Digest(nil), Size: MaxBlob}, {MediaType: rego, Digest: Digest(nil), Size: 1}}})
	rendertest.OK(t, err)
	if _, err := Files(large); err == nil {
		t.Error("layers of more than 100 MiB are taken")
	}
}
