package yamledit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestApply makes the edits of each archive's file `edits`, a line each, in its file `in.yaml`. Each
// edit is made in the file as it was at first.
func TestApply(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata", func(t *testing.T, a *txtar.Archive) string {
		in := strings.ReplaceAll(file(t, a, "in.yaml"), "<CR>", "\r")
		if strings.Contains(in, "\r") {
			in = strings.TrimRight(in, "\n")
		}
		var b strings.Builder
		for line := range strings.Lines(file(t, a, "edits")) {
			line = strings.TrimSpace(line)
			words := strings.SplitN(line, " ", 3)
			e := render.Edit{Pointer: words[1], Delete: words[0] == "delete"}
			if words[0] == "rename" {
				e.Key = words[2]
			} else if len(words) > 2 {
				if err := json.Unmarshal([]byte(words[2]), &e.Value); err != nil {
					t.Fatal(err)
				}
			}
			after, err := Apply("in.yaml", []byte(in), 0, e)
			fmt.Fprintf(&b, "== %s\n", line)
			if err != nil {
				fmt.Fprintf(&b, "error: %v\n", err)
				continue
			}
			b.WriteString(difference(in, string(after)))
		}
		return b.String()
	})
}

// TestRandomTexts edits random YAML in a block scalar, and compares with the same edit of a file. The
// lines of the scalar have these lines, and no others change.
func TestRandomTexts(t *testing.T) {
	t.Parallel()
	made := 0
	for seed := range uint64(2000) {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, 48)), width: 2}
		w.mapping(0, 0)
		header, data := "|", w.b.String()
		if seed%3 == 0 {
			header, data = "|-", strings.TrimRight(data, "\n")
		}
		pad := strings.Repeat(" ", 2+w.IntN(3))
		file := func(text string) string {
			var b strings.Builder
			fmt.Fprintf(&b, "# before\n\"a/b\":\n- x: %s # a text\n", header)
			for l := range strings.Lines(text) {
				b.WriteString(pad + "  " + l)
			}
			return strings.TrimSuffix(b.String(), "\n") + "\n  y: 1\n"
		}
		docs, _ := render.Documents("x", []byte(data), render.YAML11)
		if len(docs) != 1 {
			continue
		}
		var pointers []string
		for p := range render.Fields(docs[0].Value, "") {
			pointers = append(pointers, p)
		}
		e := render.Edit{Pointer: pointers[w.IntN(len(pointers))], Value: []any{true, "a b", map[string]any{"n": "v"}}[w.IntN(3)]}
		switch w.IntN(3) {
		case 0:
			e.Delete = true
		case 1:
			e.Pointer += "/new"
		}
		want, err := Apply("x", []byte(data), 0, e)
		if err != nil || e.Pointer == "" {
			continue
		}
		inText := e
		inText.Pointer = "/a~1b/0/x" + e.Pointer
		got, err := Apply("x", []byte(file(data)), 0, inText)
		if err != nil || string(got) != file(string(want)) {
			t.Fatalf("seed %d: %+v of\n%s\ngives %v\n%s\nwant\n%s", seed, e, file(data), err, got, file(string(want)))
		}
		made++
	}
	if made < 500 {
		t.Errorf("%d edits, want 500", made)
	}
}

// editedNode returns the value of a file after an edit of its tree, in which aliases are the nodes of
// their anchors.
func editedNode(t *testing.T, data string, e render.Edit) any {
	var doc, value yaml.Node
	rendertest.OK(t, yaml.Unmarshal([]byte(data), &doc))
	rendertest.OK(t, value.Encode(e.Value))
	path := render.Path(e.Pointer)
	n := doc.Content[0]
	for i, key := range path {
		at := slices.IndexFunc(n.Content, func(k *yaml.Node) bool { return k.Value == key })
		list := n.Kind == yaml.SequenceNode
		if list {
			var err error
			if at, err = strconv.Atoi(key); err != nil {
				at = len(n.Content)
			}
		}
		last := i == len(path)-1
		switch {
		case last && e.Delete && list:
			n.Content = slices.Delete(n.Content, at, at+1)
		case last && e.Delete:
			n.Content = slices.Delete(n.Content, at, at+2)
		case last && list && at == len(n.Content):
			n.Content = append(n.Content, &value)
		case last && list:
			value.Anchor, n.Content[at] = n.Content[at].Anchor, &value
		case last && n.Kind == yaml.ScalarNode: // null
			entry := map[string]any{key: e.Value}
			if rendertest.OK(t, n.Encode(entry)); key == "-" {
				rendertest.OK(t, n.Encode([]any{e.Value}))
			}
		case last && at < 0:
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &value)
		case last:
			*n.Content[at+1] = value
		case list:
			n = n.Content[at]
		default:
			n = n.Content[at+1]
		}
	}
	var v any
	rendertest.OK(t, doc.Decode(&v))
	data2, err := json.Marshal(v)
	rendertest.OK(t, err)
	docs, err := render.Documents("x", data2, render.YAML11)
	rendertest.OK(t, err)
	return docs[0].Value
}

func file(t *testing.T, a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	t.Fatalf("no file %s", name)
	return ""
}

// difference returns the lines of after that differ from before, with a line around them.
func difference(before, after string) string {
	was, is := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	from := 0
	for from < min(len(was), len(is)) && was[from] == is[from] {
		from++
	}
	to := 0
	for to < min(len(was), len(is))-from && was[len(was)-1-to] == is[len(is)-1-to] {
		to++
	}
	var b strings.Builder
	for _, l := range was[from : len(was)-to] {
		b.WriteString("-" + strings.ReplaceAll(strings.TrimSuffix(l, "\n"), "\r", "<CR>") + "\n")
	}
	for _, l := range is[from : len(is)-to] {
		b.WriteString("+" + strings.ReplaceAll(strings.TrimSuffix(l, "\n"), "\r", "<CR>") + "\n")
	}
	return b.String()
}

// A writer writes random YAML: comments, quotes, flow style, block scalars, anchors and aliases, with
// lists at either indentation.
type writer struct {
	*rand.Rand
	b       strings.Builder
	anchors int
	width   int
}

func (w *writer) comment() string {
	if w.IntN(5) == 0 {
		return fmt.Sprintf(" # note %d", w.IntN(100))
	}
	return ""
}

func (w *writer) scalar() string {
	return []string{"true", "5", "text", `"two words"`, "'it''s'", "1.5", `"\u00e9"`, "ключ", "null", "~"}[w.IntN(10)]
}

func (w *writer) flow(depth int) string {
	switch {
	case depth > 2 || w.IntN(3) == 0:
		return w.scalar()
	case w.IntN(2) == 0:
		return "[" + strings.Join(w.times(func(int) string { return w.flow(depth + 1) }), ", ") + "]"
	}
	return "{" + strings.Join(w.times(func(i int) string { return fmt.Sprintf("k%d: %s", i, w.flow(depth+1)) }), ", ") + "}"
}

func (w *writer) times(f func(int) string) (all []string) {
	for i := range w.IntN(4) {
		all = append(all, f(i))
	}
	return all
}

// value writes the value of a key or element. The cursor stands behind "key:" or "-".
func (w *writer) value(indent, depth int, element bool) {
	pad := strings.Repeat(" ", indent+w.width)
	switch kind := w.IntN(9); {
	case kind == 0 && !element:
		w.b.WriteString(w.comment() + "\n") // null
	case kind == 1:
		w.b.WriteString(" |\n" + pad + "line one\n" + pad + "# no comment\n")
	case kind == 2:
		w.b.WriteString(" " + w.flow(0) + w.comment() + "\n")
	case kind == 3 && w.anchors > 0:
		fmt.Fprintf(&w.b, " *a%d%s\n", w.IntN(w.anchors), w.comment())
	case kind <= 5 && depth < 4 && !element:
		anchor := ""
		if w.IntN(6) == 0 {
			anchor = fmt.Sprintf(" &a%d", w.anchors)
		}
		w.b.WriteString(anchor + w.comment() + "\n")
		if w.IntN(2) == 0 {
			w.mapping(indent+w.width, depth+1)
		} else {
			w.list(indent+w.width*w.IntN(2), depth+1)
		}
		if anchor != "" {
			w.anchors++
		}
	default:
		w.b.WriteString(" " + w.scalar() + w.comment() + "\n")
	}
}

func (w *writer) mapping(indent, depth int) {
	for i := range 1 + w.IntN(4) {
		if w.IntN(6) == 0 {
			fmt.Fprintf(&w.b, "%s# above %d\n", strings.Repeat(" ", indent), w.IntN(100))
		}
		fmt.Fprintf(&w.b, "%sk%d:", strings.Repeat(" ", indent), i)
		w.value(indent, depth, false)
	}
}

func (w *writer) list(indent, depth int) {
	for range 1 + w.IntN(3) {
		w.b.WriteString(strings.Repeat(" ", indent) + "-")
		if w.IntN(2) == 0 {
			w.value(indent, depth, true)
			continue
		}
		w.b.WriteString(" k0: " + w.scalar() + "\n")
		if depth < 4 {
			fmt.Fprintf(&w.b, "%sk1:", strings.Repeat(" ", indent+2))
			w.value(indent+2, depth+1, false)
		}
	}
}

// TestRandomFiles edits random files at random fields. Apply itself holds that the new file has
// exactly the edited value, which this test repeats with the decoder alone; in addition, an edit
// that adds or changes a value may change or remove one line at most, and keeps every comment.
func TestRandomFiles(t *testing.T) {
	t.Parallel()
	made, refused := 0, map[string]int{}
	for seed := range uint64(4000) {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, 47)), width: 2}
		if seed%3 == 0 {
			w.width = 4
		}
		w.mapping(0, 0)
		data := w.b.String()
		if seed%5 == 0 {
			data = strings.ReplaceAll(data, "\n", "\r\n")
		}
		if seed%7 == 0 {
			data = strings.TrimRight(data, "\r\n")
		}
		docs, err := render.Documents("x", []byte(data), render.YAML11)
		if err != nil || len(docs) != 1 {
			continue
		}
		var pointers []string
		for p := range render.Fields(docs[0].Value, "") {
			pointers = append(pointers, p)
		}
		e := render.Edit{Pointer: pointers[w.IntN(len(pointers))], Value: []any{true, "a b", "x: y", int64(7), map[string]any{"n": "v"}, []any{"ALL"}}[w.IntN(6)]}
		switch w.IntN(4) {
		case 0:
			e.Delete = true
		case 1:
			e.Pointer += "/new"
		case 2:
			e.Pointer += "/-"
		}
		want, err := e.Apply(docs[0].Value)
		if err != nil || e.Pointer == "" {
			continue
		}
		after, err := Apply("x", []byte(data), 0, e)
		if err != nil {
			refused[err.Error()[strings.LastIndex(err.Error(), ": ")+2:]]++
			continue
		}
		made++
		got, err := render.Documents("x", after, render.YAML11)
		if strings.Contains(data, "&") { // uses of an anchor change, too
			want = editedNode(t, data, e)
		}
		if err != nil || !render.Equal(want, got[0].Value) {
			t.Fatalf("seed %d: %+v of\n%s\ngives\n%s\n%v", seed, e, data, after, err)
		}
		_, was := render.Lookup(docs[0].Value, e.Pointer)
		if changed := strings.Count("\n"+difference(data, string(after)), "\n-"); !was && changed > 1 {
			t.Fatalf("seed %d: %+v changes %d lines of\n%s\nto\n%s", seed, e, changed, data, after)
		}
		if !e.Delete && !was && strings.Count(string(after), "#") != strings.Count(data, "#") {
			t.Fatalf("seed %d: %+v loses comments of\n%s\nin\n%s", seed, e, data, after)
		}
	}
	n := 0
	for why, count := range refused {
		t.Logf("%d refused: %s", count, why)
		n += count
	}
	t.Logf("%d made, %d refused", made, n)
	if n*5 > made {
		t.Errorf("%d edits made and %d refused, want at most a fifth", made, n)
	}
}
