package render

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// What the YAML library and a blockReader make of nodes: comments aside, each must be
// the same.
func outline(n *yaml.Node) string {
	var b strings.Builder
	var write func(n *yaml.Node, depth int)
	write = func(n *yaml.Node, depth int) {
		fmt.Fprintf(&b, "%*d:%d kind %d %s style %d %q %s\n", 2*depth, n.Line, n.Column, n.Kind, n.ShortTag(), n.Style, n.Value, n.Anchor)
		for _, c := range n.Content {
			write(c, depth+1)
		}
	}
	write(n, 0)
	return b.String()
}

// likeLibrary holds a blockReader against the library. It reports whether the reader
// read the text.
func likeLibrary(t *testing.T, text []byte) bool {
	t.Helper()
	got := ParseNode(text)
	if got == nil {
		return false
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		t.Errorf("%q: the library says %v, ours\n%s", text, err, outline(got))
	} else if want := outline(doc.Content[0]); want != outline(got) {
		t.Errorf("%q: -library +ours:\n%s", text, cmp.Diff(want, outline(got)))
	} else if err := dec.Decode(&more); err != io.EOF {
		t.Errorf("%q: another document follows: %v", text, err)
	}
	return true
}

var blocks = []string{
	"a: b\n", "a:\n  b: c\n  d:\n  - e\n  - f: g\n    h: i\n-", "a:\n- b\n-\n- c:\n", "a:\n\n# comment\nb: # another\n  c: d # third\n",
	"a: |\n  x\n   y\n\n  z\n\n\nb: |-\n  x\n\nc: |+\n  x\n\nd: e", "a: |\n  x", "a: |+\n  x\n\n", "- |\n x\n \t y\n- - a\n  - b\n-   c: d\n    e: f\n",
	"a: b\n  c\n\n\n  d\ne: 'f\n  g''h\n\n  i '\nj: \"k\n  l\n  \"\n", "a: \"x \\\" \\n \\\\ \\/ \\t\"\nb: 'it''s'\n\"c d\": e\n'f': g\n", "a: [b, 'c', \"d\", {e: f, g: [1, 2]}, []]\nb: {}\n",
	"a: nginx:1.2\nb: http://x/y#z\nc: -1\nd: a - b\ne: a: b\n", "ä: ö\nb: [ü, x]\n\"é\": è  # ç\n", "a: b\n    # deep comment\nc: d\n", "  a: b\n  c:\n  - d\n",
	"a:\n    - b\n    - c:\n      - d\ne: f\n", "a: |\n\n   \n  x\n", "a: |\n     \n  x\n", "a: &b c\n", "a: *b\n", "a: !!str b\n", "<<: a\n", "? a\n: b\n", "a: >\n  b\n", "a:\tb\n", "a: b\tc\n", "a: b\n...\n", "%a: b\n",
	"a: 'b\nc'\n", "a: \"b\n\n \n   c\"\n", "a:\n  'b'\n", "a:\n - b\n  - c\n", "a:\n  b: c\n d: e\n", "a: b\n c: d\n", "a: [b\n  c]\n", "a: [b:c, d]\n", "a: {b:c}\n", "a: {\"b\":c}\n", "a: [b c, d]", "a: {b: c, d}\n", "a: [-b, -1]\n",
	"a: [s, --port=80, -1.5, -v, ---]\nb: {-c: -d, --e: {f: -1}}\n", "[---]\n", "[--- a, -a- , -a:b]\n", "a: [-]\n", "a: [- b]\n", "a: [--]\n", "a: [-, b]\n", "a: {--: b}\n", "a: [-- # b\n]\n", "a: [--:]\n", "a: [-:]\n", "[--\n]\n",
	"a: - b\n", "- a\n- b: c\n  d: e\n- - f\n -g\n", "a:b: c\n", "a : b\n", "a b: c d\n", "a: b #c\n  d\n", "a: b#c\n", "a: #c\n  b: d\n", "a: |\n  x\n y: z\n", "a: b\r\n", "a: \u2028b\n", "a: <<\n", "null: ~\n1: 2\n", `{"a": {"b": [1, 1.5, true, null, "c\"\\\n\u00e9"], "": {}}}`, `["\/"]`, "[\"a\u2028\"]", "{\"a\"\n: 1}", `["\ud83d\ude00"]`, "a: |\n  x\n# c\n  y\n", "a: ''\nb: \"\"\n", "a: 'b' c\n", "- 'a': b\n- \"c\" : d\n",
	"a: {" + strings.Repeat("b", 1100) + ": c}\n", "a: {'" + strings.Repeat("b", 1100) + "': c}\n", "a: [" + strings.Repeat("b", 1100) + "]\n",
	"\t[]", `{"a":	1}`, `{"` + strings.Repeat("b", 1100) + `": 1}`, `{"` + strings.Repeat(`\u0001`, 200) + `": 1}`,
}

// A text is read as the library reads it, or left to the library.
func TestBlocks(t *testing.T) {
	read := 0
	for _, text := range blocks {
		if likeLibrary(t, []byte(text)) {
			read++
		}
	}
	if read < 28 {
		t.Errorf("only %d of %d texts were read", read, len(blocks))
	}
}

// Most documents of real repositories are read, and all of these as the library reads
// them.
func TestBlocksOfRepositories(t *testing.T) {
	if _, err := os.Stat("../../shared"); err != nil {
		t.Skip("nothing beside the project")
	}
	read, documents, all := 0, 0, 0
	_ = filepath.WalkDir("../../shared", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !hasManifestName(name) {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil || len(data) > 1<<20 {
			return nil
		}
		if all++; testing.Short() || all%8 != 0 && os.Getenv("PREADMIT_CORPUS") != "all" {
			return nil
		}
		for _, c := range newSource(name, data).split() {
			if documents++; likeLibrary(t, c.text) {
				read++
			}
		}
		return nil
	})
	t.Logf("%d of %d documents were read", read, documents)
	if read < documents/2 {
		t.Error("too few")
	}
}

func FuzzBlocks(f *testing.F) {
	seeds(f)
	for _, text := range blocks {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < 1<<14 {
			likeLibrary(t, text)
		}
	})
}
