package report

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// The vectors in testdata were made by another program, which rolls a window
// over the file as GitHub's does.
func TestLineHashes(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"testdata/linehash.json", "../../shared/specs/sarif/linehash-vectors.json"} {
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) && strings.HasPrefix(file, "../") {
			t.Logf("%s is not here: left out", file)
			continue
		}
		rendertest.OK(t, err)
		var vectors []struct {
			Name, Content string
			Lines         []string
		}
		if err := json.Unmarshal(data, &vectors); err != nil || len(vectors) == 0 {
			t.Fatalf("%s: %d vectors, %v", file, len(vectors), err)
		}
		for _, v := range vectors {
			if diff := cmp.Diff(v.Lines, lineHashes([]byte(v.Content))); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", file, v.Name, diff)
			}
			if got, want := len(splitLines(v.Content)), len(v.Lines); got != want {
				t.Errorf("%s: %s has %d lines, and hashes of %d", file, v.Name, got, want)
			}
		}
	}
}

// What is no UTF-8 is decoded as JavaScript does it (the values are node's).
func TestLineHashBrokenUTF8(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\xffb":               "a\uFFFDb",
		"\xe2\x82":             "\uFFFD",
		"\xe2\x82A":            "\uFFFDA",
		"\xf0\x9f\x98A":        "\uFFFDA",
		"\xc0\xaf":             "\uFFFD\uFFFD",
		"\xed\xa0\x80":         "\uFFFD\uFFFD\uFFFD",
		"\xf0\x80\x80\x80":     "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xf4\x90\x80\x80z":    "\uFFFD\uFFFD\uFFFD\uFFFDz",
		"\xe2\x82\xe2\x82\xac": "\uFFFD€",
	} {
		if got, want := lineHashes([]byte(in)), lineHashes([]byte(want)); got[0] != want[0] {
			t.Errorf("%q hashes as %q, not as %q", in, got[0], want[0])
		}
	}
}

// The end of a long line is no part of any line's hash.
func TestLineHashLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x\U0001F600", hashBlock)
	for _, eol := range []string{"\n", "\r", "\r\n"} {
		with, without := []string{"a", long + strings.Repeat(" y", 200), "b", long + "z"}, []string{"a", long, "b", long}
		rendertest.Equal(t, lineHashes([]byte(strings.Join(without, eol))), lineHashes([]byte(strings.Join(with, eol))))
	}
}
