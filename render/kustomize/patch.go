package kustomize

import (
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// A patch is an entry of one of a kustomization's three patch fields, or one
// that a transformer has or names.
type patch struct {
	field  string // "patches", "patchesStrategicMerge", "patchesJson6902", or "" for a transformer's
	entry  int
	at     []any           // path of the patch's text, or of its file name, in the kustomization
	span   render.Span     // the same
	target *types.Selector // nil when it finds its targets by kind and name
	docs   []render.Document
	text   string // text of an inline patch
	within []byte // the file that holds it
	name   string // of the patch's file, as it is referred to
	file   string // the same without symbolic links

	selection *selection // of the target
}

// json reports whether it is a JSON patch.
func (p *patch) json() bool {
	return slices.ContainsFunc(p.docs, func(d render.Document) bool {
		_, ok := d.Value.([]any)
		return ok
	})
}

// patchFile checks a patch in a file.
func (w *walk) patchFile(n *node, r ref, name, real string, data []byte) {
	p := &patch{at: r.at, span: n.place(r), docs: w.yaml(real, data, render.YAML12), name: name, file: real}
	if field, ok := r.at[0].(string); ok && r.span == (render.Span{}) {
		p.field, p.entry = field, r.at[1].(int)
	}
	w.patch(n, p)
}

// patchText checks a patch written within another file. Its documents have the
// lines of the text.
func (w *walk) patchText(n *node, p *patch) {
	docs, err := render.Documents(n.name, []byte(p.text), render.YAML12)
	w.fail(relocate(err, p.span))
	p.docs = docs
	w.patch(n, p)
}

func (w *walk) patch(n *node, p *patch) {
	p.within = w.snap.files[p.span.File]
	for _, doc := range p.docs {
		w.copies += copiesIn(doc.Value)
	}
	switch {
	case p.field == "patches":
		p.target = n.spec.Patches[p.entry].Target
	case p.field == "patchesJson6902":
		p.target = n.spec.PatchesJson6902[p.entry].Target
	}
	if p.target != nil {
		p.selection = w.bases.selections.of(*p.target)
	}
	n.patches = append(n.patches, p)
}

// copiesIn counts the operations of a JSON patch that copy data inside an
// object.
func copiesIn(value any) int {
	ops, _ := value.([]any)
	n := 0
	for _, op := range ops {
		if strings.EqualFold(text(op, "op"), "copy") {
			n++
		}
	}
	return n
}

// inlinePatches checks the patches that are written inside the kustomization.
func (w *walk) inlinePatches(n *node) {
	for i, p := range n.spec.Patches {
		w.inlinePatch(n, "patches", i, p.Patch)
	}
	for i, p := range n.spec.PatchesJson6902 {
		w.inlinePatch(n, "patchesJson6902", i, p.Patch)
	}
}

func (w *walk) inlinePatch(n *node, field string, i int, text string) {
	if text != "" {
		at := []any{field, i, "patch"}
		w.patchText(n, &patch{field: field, entry: i, at: at, span: n.at(at...), text: text})
	}
}

// patch returns the patch of an entry.
func (n *node) patch(field string, i int) *patch {
	for _, p := range n.patches {
		if p.field == field && p.entry == i {
			return p
		}
	}
	return nil
}

// embedded converts a span in a text that is written at a place of a file to a span in the
// file. If the lines of the text are not those of the file, because of quotes with
// escapes or folding, it returns the place of the whole text.
func embedded(file []byte, at render.Span, text string, s render.Span) render.Span {
	meant := lineOf(text, s.Line)
	for _, by := range []int{at.Line, at.Line - 1} { // a block scalar, or one that begins beside its key
		written := lineOf(string(file), s.Line+by)
		from := strings.LastIndex(written, meant)
		if strings.TrimSpace(meant) == "" || from < 0 || by == at.Line && strings.TrimSpace(written[:from]) != "" || by < at.Line && s.Line > 1 {
			continue
		}
		columns := utf8.RuneCountInString(written[:from])
		return render.Span{
			File: at.File, Line: s.Line + by, Column: s.Column + columns,
			EndLine: s.EndLine + by, EndColumn: s.EndColumn + columns,
		}
	}
	return at
}

// lineOf returns a line of a text, from 1, without its end.
func lineOf(text string, line int) string {
	for ; line > 1; line-- {
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return ""
		}
		text = rest
	}
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimRight(text, " \t\r")
}
