package yamledit

import (
	"errors"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// An inner is the YAML document in a literal block scalar of a document, such as an inline patch of a
// kustomization or the values of an Application.
type inner struct {
	doc    render.Document
	text   string
	line   int // of the text's first line in the file, from 1
	indent int // of its lines
}

// inside returns the YAML in the text at a pointer. ok is false unless that is a literal block scalar
// with one document, which is a mapping or a list.
func inside(d render.Document, pointer string) (in inner, ok bool) {
	text, _ := render.Lookup(d.Value, pointer)
	in.text, _ = text.(string)
	if !strings.ContainsAny(in.text, ":-") || len(d.Positions.At(pointer)) > 1 {
		return in, false
	}
	for n, l := range strings.Split(in.text, "\n") {
		if at := d.Positions.Line(pointer, n); len(at) > 0 && strings.TrimLeft(l, " \t") != "" {
			lead := len(l) - len(strings.TrimLeft(l, " \t"))
			in.line, in.indent = at[0].Line-n, at[0].Column-1-lead
			break
		}
	}
	docs, _ := render.Documents("", []byte(in.text), render.YAML11)
	if in.line == 0 || in.indent < 0 || len(docs) != 1 || render.IsScalar(docs[0].Value) {
		return in, false
	}
	in.doc = docs[0]
	return in, true
}

// edit makes an edit, and returns it as one of the document: an edit below a text in a block scalar
// is made in the YAML of that text.
func (t *text) edit(e render.Edit) (render.Edit, error) {
	path := render.Path(e.Pointer)
	for n := len(path) - 1; n > 0; n-- {
		pointer := render.PathPointer(path[:n])
		if v, _ := render.Lookup(t.doc.Value, pointer); v == nil || render.IsScalar(v) && !isText(v) {
			continue
		} else if !isText(v) {
			break
		}
		in, ok := inside(t.doc, pointer)
		if !ok {
			return e, errors.New("its text is not edited")
		}
		below := e
		below.Pointer = render.PathPointer(path[n:])
		changed, err := Apply("", []byte(in.text), in.doc.Index, below)
		if err != nil {
			return e, err
		}
		after := string(changed)
		if !strings.HasSuffix(in.text, "\n") { // the block scalar's header strips line ends
			after = strings.TrimRight(after, "\n")
		}
		if after != in.text {
			t.replaceLines(in, after)
		}
		return render.Edit{Pointer: pointer, Value: after}, nil
	}
	switch {
	case e.Delete:
		return e, t.remove(e.Pointer)
	case e.Key != "":
		return e, t.rename(e.Pointer, e.Key)
	}
	return e, t.set(e.Pointer, e.Value)
}

func isText(v any) bool { _, ok := v.(string); return ok }

// replaceLines writes the changed text of a block scalar. Lines that are the same at both ends stay.
func (t *text) replaceLines(in inner, changed string) {
	was, is := strings.SplitAfter(in.text, "\n"), strings.SplitAfter(changed, "\n")
	from := 0
	for from < min(len(was), len(is)) && was[from] == is[from] {
		from++
	}
	to := 0
	for to < min(len(was), len(is))-from && was[len(was)-1-to] == is[len(is)-1-to] {
		to++
	}
	var b strings.Builder
	for _, l := range is[from : len(is)-to] {
		content, ended := strings.CutSuffix(l, "\n")
		if content != "" {
			b.WriteString(strings.Repeat(" ", in.indent) + content)
		}
		if ended {
			b.WriteString(t.newline)
		}
	}
	end := t.endOf(in.line + len(was) - 1 - to)
	if to == 0 { // the text's last line has no line end, but that of the file has
		end -= len(t.text[:end]) - len(strings.TrimRight(t.text[:end], "\r\n"))
	}
	t.replace(t.endOf(in.line+from-1), end, b.String())
}
