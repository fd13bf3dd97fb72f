package render_test

import (
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
)

func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                           false,
		"# a comment\n":              false,
		"kind: ConfigMap\n":          false,
		"- a\n":                      false,
		"ENC[AES256_GCM,data:abc]":   true,
		"\x00GITCRYPT\x00\xff\xfe\n": true,
		"one\n---\nkind: Pod\n":      false,
	} {
		if got := render.Unreadable(fstest.MapFS{"f": {Data: []byte(text)}}, "f"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if render.Unreadable(fstest.MapFS{}, "f") {
		t.Error("a file that is not there")
	}
}
