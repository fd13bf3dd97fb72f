package kyvernolib

import (
	"strings"
	"testing"
)

func TestReference(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for _, c := range []struct {
		text string
		want Reference // zero: no reference
	}{
		{"nginx", Reference{"index.docker.io", "library/nginx", "latest", ""}},
		{"nginx:1.25", Reference{"index.docker.io", "library/nginx", "1.25", ""}},
		{"docker.io/nginx", Reference{"index.docker.io", "library/nginx", "latest", ""}},
		{"me/app:v1", Reference{"index.docker.io", "me/app", "v1", ""}},
		{"ghcr.io/a/b/c", Reference{"ghcr.io", "a/b/c", "latest", ""}},
		{"localhost/app", Reference{"localhost", "app", "latest", ""}},
		{"localhost:5000/app:1", Reference{"localhost:5000", "app", "1", ""}},
		{"reg:5000/app", Reference{"reg:5000", "app", "latest", ""}},
		{"app@" + digest, Reference{"index.docker.io", "library/app", "", digest}},
		{"a.b/app:1@" + digest, Reference{"a.b", "app", "1", digest}},
		{"", Reference{}},
		{"a", Reference{}},
		{"UPPER", Reference{}},
		{"a b", Reference{}},
		{"app:ta/g", Reference{"app:ta", "g", "latest", ""}},
		{"app:t@g", Reference{}},
		{"app@sha256:abc", Reference{}},
		{"app@md5:" + strings.Repeat("a", 32), Reference{}},
		{"app:" + strings.Repeat("a", 128), Reference{}},
		{strings.Repeat("a", 256), Reference{}},
	} {
		got, err := ParseReference(c.text)
		switch {
		case c.want == Reference{}:
			if err == nil {
				t.Errorf("%q: %+v", c.text, *got)
			}
		case strings.HasSuffix(c.text, "ta/g"): // a repository of one character
			if err == nil {
				t.Errorf("%q: %+v", c.text, *got)
			}
		case err != nil || *got != c.want:
			t.Errorf("%q: %+v %v, want %+v", c.text, got, err, c.want)
		}
	}
}

// FuzzReference holds that a reference written out in full is itself.
func FuzzReference(f *testing.F) {
	for _, s := range []string{"nginx", "a/b:c", "h:1/x@sha256:" + strings.Repeat("0", 64), "@", ":", "a:b:c", "a//b", "localhost/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseReference(s)
		if err != nil {
			return
		}
		again, err := ParseReference(r.Registry + "/" + r.Repository + r.IdentifierWithSeparator())
		if err != nil || *again != *r {
			t.Errorf("%q is %+v, and in full %+v %v", s, *r, again, err)
		}
	})
}
