package image

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0", 64)
	for image, want := range map[string]Reference{
		"nginx":                       {Registry: "docker.io", Path: "nginx", Name: "nginx", Tag: "latest"},
		"bitnami/nginx:1.2":           {Registry: "docker.io", Path: "bitnami/nginx", Name: "nginx", Tag: "1.2"},
		"Host/x":                      {Registry: "Host", Path: "x", Name: "x", Tag: "latest"},
		"[::1]:80/x":                  {Registry: "[::1]:80", Path: "x", Name: "x", Tag: "latest"},
		"ghcr.io/a/b:1@" + digest:     {Registry: "ghcr.io", Path: "a/b", Name: "b", Tag: "1", Digest: digest},
		"registry.k8s.io/x@" + digest: {Registry: "registry.k8s.io", Path: "x", Name: "x", Digest: digest},
	} {
		got, err := Parse(image)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", image, err, diff)
		}
	}
	for image, want := range map[string]string{
		"a//b": "invalid reference format", "a:": "invalid reference format", "a b": "invalid reference format",
		"a@sha256:12":                         "invalid reference format",
		"a@sha256:" + strings.Repeat("0", 63): "invalid checksum digest length",
		"a@md5:" + strings.Repeat("0", 32):    "unsupported digest algorithm",
		"a@sha256:" + strings.Repeat("A", 64): "invalid checksum digest format",
		strings.Repeat("a", 256):              "repository name must not be more than 255 characters",
		strings.Repeat("a/", 4096):            "invalid reference format",
	} {
		_, err := Parse(image)
		if err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%s: %v", image, err)
		}
	}
}
