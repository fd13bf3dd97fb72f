package kustomize

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"

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

// kustomize applies a JSON patch to the JSON of an object and parses the
// result, so that all of the object's nodes lose their lines. Therefore the
// operations here change a copy of the nodes in the same way, and the result
// takes its lines from that.

// operations returns the nodes of a JSON patch's operations, with lines that no other
// node of this process has.
func (a *accumulation) operations(n *node, q *patch) []*yaml.Node {
	name, data, sources := q.file, a.o.w.snap.files[q.file], a.o.byFile[q.file]
	if q.text != "" {
		name, data, sources = q.virtual(n), []byte(q.text), a.o.inline[q]
	}
	p := piecesOf(name, data, sources)[0]
	if p.source == nil {
		return nil
	}
	list, err := yaml.Parse(string(p.write(nil)))
	if err != nil {
		return nil
	}
	if p.from, err = a.bases.lines(p.lines + 2); err != nil {
		return nil
	}
	moveDown(list.YNode(), p.from)
	p.text, p.source = nil, nil
	a.inputs.pieces = append(a.inputs.pieces, p)
	return list.YNode().Content
}

// patchNodes returns an object with operations applied, or nil if one fails. It does not
// change the nodes that it is given, but the result shares them.
func patchNodes(n *yaml.Node, ops []*yaml.Node) *yaml.Node {
	for _, op := range ops {
		kind, at := textOf(op, "op"), render.Path(textOf(op, "path"))
		from, value := render.Path(textOf(op, "from")), entryOf(op, "value")
		if kind == "copy" || kind == "move" {
			value = nodeAt(n, from)
		}
		if kind == "remove" || kind == "move" {
			gone := from
			if kind == "remove" {
				gone = at
			}
			n = changed(n, gone, remove)
		}
		switch kind {
		case "test", "remove":
		case "add", "replace", "copy", "move":
			n = changed(n, at, func(container *yaml.Node, key string) bool { return put(container, key, value, kind != "replace") })
		default:
			return nil
		}
		if n == nil || value == nil && kind != "test" && kind != "remove" {
			return nil
		}
	}
	return n
}

func textOf(n *yaml.Node, key string) string {
	if e := entryOf(n, key); e != nil {
		return e.Value
	}
	return ""
}

func nodeAt(n *yaml.Node, path []string) *yaml.Node {
	for _, key := range path {
		i := childAt(n, key)
		if i < 0 {
			return nil
		}
		n = n.Content[i]
	}
	return n
}

// copyLines gives the nodes of an object the lines of another version of it, as far as both
// have the same fields. from may be nil.
func copyLines(to, from *yaml.Node) {
	if from == nil {
		return
	}
	if from.Kind == yaml.AliasNode {
		copyLines(to, from.Alias)
	}
	to.Line, to.Column = from.Line, from.Column
	for i, c := range to.Content {
		switch {
		case to.Kind != from.Kind:
		case to.Kind != yaml.MappingNode:
			if len(to.Content) == len(from.Content) {
				copyLines(c, from.Content[i])
			}
		case i%2 == 1:
			copyLines(c, entryOf(from, to.Content[i-1].Value))
		}
	}
}

// changed applies change to the map or list that contains the value at path,
// and returns the changed tree. The nodes on the way are copied. It returns nil
// if the change fails.
func changed(n *yaml.Node, path []string, change func(container *yaml.Node, key string) bool) *yaml.Node {
	if n == nil || len(path) == 0 {
		return nil
	}
	c := *n
	c.Content = slices.Clone(n.Content)
	if len(path) == 1 {
		if !change(&c, path[0]) {
			return nil
		}
		return &c
	}
	i := childAt(&c, path[0])
	if i < 0 {
		return nil
	}
	if c.Content[i] = changed(c.Content[i], path[1:], change); c.Content[i] == nil {
		return nil
	}
	return &c
}

// childAt returns the index of the node of a key or an item, -1 if there is none.
func childAt(n *yaml.Node, key string) int {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return i + 1
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && isIndex(key) && i < len(n.Content) {
			return i
		}
	}
	return -1
}

// put sets a field or an item, or inserts an item. Both nodes are the caller's.
func put(n *yaml.Node, key string, value *yaml.Node, insert bool) bool {
	at := childAt(n, key)
	switch {
	case n.Kind == yaml.MappingNode && at < 0:
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString, Value: key}, value)
	case n.Kind == yaml.SequenceNode && insert && (key == "-" || key == strconv.Itoa(len(n.Content))):
		n.Content = append(n.Content, value)
	case at < 0:
		return false
	case n.Kind == yaml.SequenceNode && insert:
		n.Content = slices.Insert(n.Content, at, value)
	default:
		n.Content[at] = value
	}
	return true
}

// remove removes a field or an item.
func remove(n *yaml.Node, key string) bool {
	at := childAt(n, key)
	switch {
	case at < 0:
		return false
	case n.Kind == yaml.MappingNode:
		n.Content = slices.Delete(n.Content, at-1, at+1)
	default:
		n.Content = slices.Delete(n.Content, at, at+1)
	}
	return true
}

func isIndex(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// plain converts a value decoded by yaml.v3 to the form it would have in
// kustomize's output. It goes through JSON, where a whole float is an integer
// and a date a string.
func plain(value any) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		for key, e := range v {
			e, err := plain(e)
			if err != nil {
				return nil, err
			}
			v[key] = e
		}
		return v, nil
	case []any:
		for i, e := range v {
			e, err := plain(e)
			if err != nil {
				return nil, err
			}
			v[i] = e
		}
		return v, nil
	case float64:
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return nil, fmt.Errorf("%v is not representable in JSON", v)
		case v == math.Trunc(v) && math.Abs(v) < 1<<63:
			return int64(v), nil
		}
		return v, nil
	case int:
		return int64(v), nil
	case uint64:
		return float64(v), nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case nil, bool, string, int64:
		return v, nil
	}
	return nil, fmt.Errorf("a key is not a string")
}
