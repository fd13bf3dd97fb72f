package render

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func seeds(f *testing.F) {
	for _, s := range scalars {
		f.Add([]byte("v: " + strings.ReplaceAll(s, "\n", "\n  ") + "\n"))
		f.Add([]byte(s))
	}
	for _, s := range []string{
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: List\nitems: [{kind: Pod}]\n", "0\n#00\n0\n", "a: &a\n  <<: *a", "--- a\n...\nb",
		"%YAML 1.2\n---\na: b", "{\"a\": [1, true, \"\\ud83d\\ude00\"]}", "a: |\n  x\n b: >-\n y", "\ufeffa: b\r\n", "- - - a\n  - b\n", "? a\n: b", "a:\n- b\n-\n- c: d\n  e: [f, {g: h}]\n",
	} {
		f.Add([]byte(s))
	}
}

// Each chunk that is accepted is one document, and sigs.k8s.io/yaml and, in
// the other dialect, yaml.v3 make the same of it. Nothing is lost in silence.
func FuzzDocuments(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		chunks := newSource("x.yaml", data).split()
		docs, err := Documents("x.yaml", data, YAML11)
		if len(docs) == 0 && err == nil && !emptyForAll(chunks) {
			t.Fatalf("%q: neither documents nor errors", data)
		}
		for _, doc := range docs {
			text := chunks[doc.Index].text
			oneDocument(t, text)
			compareChunk(t, text)
		}
		docs, _ = Documents("x.yaml", data, YAML12)
		for _, doc := range docs {
			text := bytes.TrimPrefix(chunks[doc.Index].text, bom)
			want, err := kustomizeDecode(text)
			if err == nil && !isJSON(text) && !cmp.Equal(want, doc.Value) {
				t.Fatalf("%q: -kustomize +ours:\n%s", text, cmp.Diff(want, doc.Value))
			}
		}
	})
}

func emptyForAll(chunks []chunk) bool {
	for i, c := range chunks {
		if c.empty() || i == 0 && c.directives() {
			continue
		}
		var v any
		if err := yaml.Unmarshal(bytes.TrimPrefix(c.text, bom), &v); err != nil || v != nil {
			return false
		}
	}
	return true
}

func oneDocument(t *testing.T, text []byte) {
	t.Helper()
	if isJSON(text) {
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	n := 0
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); err != nil {
			break
		}
		n++
	}
	if n != 1 {
		t.Fatalf("%q: %d documents in a chunk", text, n)
	}
}

// compareChunk holds a chunk that was accepted against sigs. Where keys
// collide, sigs goes by Go's random order of maps.
func compareChunk(t *testing.T, text []byte) {
	t.Helper()
	docs, err := Documents("x.yaml", text, YAML11)
	if len(docs) != 1 {
		t.Fatalf("%q: alone it gives %d documents, %v", text, len(docs), err)
	}
	for _, e := range Errors(err) {
		if e.Rule == "duplicate-key" {
			return
		}
	}
	want, err := sigsDecode(text)
	if err != nil && isJSON(text) {
		err = utiljson.Unmarshal(text, &want)
	}
	if err != nil && strings.Contains(err.Error(), "excessive aliasing") {
		return
	}
	if err != nil || !cmp.Equal(want, docs[0].Value) {
		t.Fatalf("%q: sigs says %v; -sigs +ours:\n%s", text, err, cmp.Diff(want, docs[0].Value))
	}
}

// The text at a field's place is the field, and each field has a place.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Add([]byte("{apiVersion: v1, kind: K, a:, b: [c:, {~:}], ? d:}")) // keys that kubectl reads with their colon
	f.Add([]byte("{!A]: b}"))                                           // a tag with a bracket
	f.Add([]byte("{i: -, 2\n:}"))
	f.Add([]byte("? a\n }}"))
	f.Add([]byte("{! :A }")) // a key that is empty but for its tag
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		docs, _ := Documents("x.yaml", data, YAML11)
		for _, doc := range docs {
			n := 0
			if walkValue(doc.Value, "", func(string, any) { n++ }); n > 5000 {
				continue // a few aliases stand for so many places that to check them takes seconds
			}
			checkPlaces(t, newPage(data), doc)
		}
		objects, err := Parse("x.yaml", data)
		for _, o := range objects {
			if o.GetAPIVersion() == "" || o.GetKind() == "" || len(o.At("")) == 0 {
				t.Fatalf("%q: object %v without version, kind or place", data, o.Object)
			}
		}
		for _, e := range Errors(err) {
			if e.Rule == "" || e.Rule == "internal" || e.Span.File != "x.yaml" || len(e.Error()) > 4096 {
				t.Fatalf("%q: error %v", data, e)
			}
		}
	})
}

// Pointers come apart into what they were made of, and lead to it.
func FuzzPointer(f *testing.F) {
	f.Add("a", "b/c", "~1", 0)
	f.Add("", "/", "~", 3)
	f.Add("0", "~01", "é", -1)
	f.Fuzz(func(t *testing.T, a, b, c string, i int) {
		i &= 7
		list := make([]any, i+1)
		list[i] = map[string]any{c: "x"}
		value := map[string]any{a: map[string]any{b: list}}
		pointer := Pointer(a, b, i, c)
		if got, ok := Lookup(value, pointer); !ok || got != "x" {
			t.Fatalf("%q leads to %v", pointer, got)
		}
		if path := Path(pointer); len(path) != 4 || path[0] != a || path[1] != b || path[3] != c {
			t.Fatalf("%q comes apart into %q", pointer, path)
		}
		if validUTF8(a) != a || validUTF8(b) != b || validUTF8(c) != c {
			return
		}
		j, err := json.Marshal(value)
		ok(t, err)
		docs, err := Documents("x.json", j, YAML11)
		if err != nil {
			return // control characters
		}
		if _, span, ok := docs[0].Positions.Field(pointer); !ok || newPage(j).text(span) != `"x"` {
			t.Fatalf("%q of %s is at %v", pointer, j, span)
		}
	})
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
