package kustomize

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"sort"
	"strconv"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// kyaml's nodes keep the line at which they were read through merges and
// setters, but not the file. Therefore the nodes of every document are moved down to a
// range of lines that no other document has, so that the line of a node identifies its
// document too.

// patchDir holds the inline patches of a kustomization.
const patchDir = ".preadmit-patches"

// A tag is a range of lines that identifies a document or a step.
type tag struct {
	from, to int // exclusive
	shift    int // from a node's line to the line in the file
	source   *source
	step     *step
}

// A tagger collects tags.
type tagger struct {
	tags []tag // by line
}

// A piece is a part of a file: the text of a document, or a separator between
// two.
type piece struct {
	file   string
	text   []byte
	line   int     // in the file
	end    int     // the line after it
	lines  int     // of the text as it is built
	source *source // nil if it keeps its lines
	hidden []hidden
	from   int // the number of lines above it in the tagged build
}

// separator matches the document separators at which kio splits (splitDocuments
// in kyaml/kio).
var separator = regexp.MustCompile(`\n---.*\n`)

// piecesOf splits a file into pieces. Each text is followed by its separator,
// which is empty at the end. sources are the file's documents by the line on
// which their text begins. Text without a document is left unchanged.
func piecesOf(name string, data []byte, sources []*source) (all []piece) {
	text := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	line, from := 1, 0
	for _, at := range append(separator.FindAllIndex(text, -1), []int{len(text), len(text)}) {
		p := piece{file: name, text: text[from:at[0]], line: line}
		p.lines = bytes.Count(p.text, []byte("\n")) + 1
		p.end = p.line + p.lines
		if !bytes.HasPrefix(p.text, []byte("%")) && !bytes.HasPrefix(p.text, []byte("\xef\xbb\xbf")) {
			if p.source = p.sourceIn(sources); p.source != nil {
				p.hide()
			}
		}
		all = append(all, p, piece{file: name, text: text[at[0]:at[1]]})
		line += bytes.Count(text[from:at[1]], []byte("\n"))
		from = at[1]
	}
	return all
}

// sourceIn returns the piece's document among those of the file.
func (p *piece) sourceIn(sources []*source) *source {
	for _, s := range sources {
		if p.line <= s.line && s.line < p.end {
			return s
		}
	}
	return nil
}

// hide leaves out the schemas that the build need not read.
func (p *piece) hide() {
	s := p.source
	if n := len(s.hidden); n > 0 && s.chart == nil && s.hidden[n-1].to <= p.end {
		p.hidden = s.hidden
	}
	for _, h := range p.hidden {
		p.lines -= h.to - h.line - 1
	}
}

// tag records the line ranges of a piece. After a hidden schema a new range
// begins.
func (t *tagger) tag(p *piece) {
	from, line := p.from, p.line
	for _, h := range p.hidden {
		to := from + h.line - line + 2
		t.tags = append(t.tags, tag{from: from, to: to, shift: line - 1 - from, source: p.source})
		from, line = to-1, h.to
	}
	t.tags = append(t.tags, tag{from: from, to: p.from + p.lines + 1, shift: line - 1 - from, source: p.source})
}

// write appends the text of the piece as it is built.
func (p piece) write(out []byte) []byte {
	if p.source == nil {
		return append(out, p.text...)
	}
	text, line := p.text, p.line
	if bytes.HasPrefix(text, []byte("---")) {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		out, text = append(out, text[:end]...), text[end:]
		line++
	}
	for _, h := range p.hidden {
		before := linesOf(text, h.line-line)
		out = append(append(out, text[:before]...), h.stub...)
		text, line = text[before+linesOf(text[before:], h.to-h.line):], h.to
	}
	return append(out, text...)
}

// linesOf returns the length of the first n lines of a text.
func linesOf(text []byte, n int) (length int) {
	for ; n > 0; n-- {
		end := bytes.IndexByte(text[length:], '\n') + 1
		if end == 0 {
			return len(text)
		}
		length += end
	}
	return length
}

// find returns the tag of a node's line.
func find(tags []tag, line int) (tag, bool) {
	i := sort.Search(len(tags), func(i int) bool { return tags[i].to > line })
	if i == len(tags) || line < tags[i].from {
		return tag{}, false
	}
	return tags[i], true
}

// build builds the unit. What accumulate does not know, kustomize itself builds; then the
// objects have the lines of those that accumulate makes, as far as they are alike. Errors are
// kustomize's.
func (o *origins) build() ([]*resource.Resource, error) {
	all, err := o.accumulate()
	if err == nil {
		o.tags = all.tags
		if !all.inexact {
			return inOrder(all.resources, all.order), nil
		}
	}
	m, berr := o.w.build(o.w.snap, o.root.dir, krusty.ReorderOptionUnspecified)
	if berr != nil {
		return nil, berr
	}
	if err == nil {
		alike := map[[4]string]*yaml.Node{}
		for _, r := range all.resources {
			alike[idOf(r)] = r.YNode()
		}
		for _, r := range m.Resources() {
			copyLines(r.YNode(), alike[idOf(r)])
		}
	}
	return m.Resources(), nil
}

func idOf(r *resource.Resource) [4]string {
	return [4]string{r.GetApiVersion(), r.GetKind(), r.GetNamespace(), r.GetName()}
}

func inOrder(resources []*resource.Resource, order []int) []*resource.Resource {
	sorted := make([]*resource.Resource, len(order))
	for i, j := range order {
		sorted[i] = resources[j]
	}
	return sorted
}

// virtual returns the name of the file that holds an embedded patch.
func (p *patch) virtual(n *node) string {
	key := fmt.Sprintf("%s-%d", p.field, p.entry)
	if p.field == "" {
		key = fmt.Sprintf("%s-%d-%d", p.span.File, p.span.Line, p.span.Column)
	}
	return path.Join(n.dir, patchDir, key)
}

// A mark is the place of a node in the tagged build. The marks of an object are
// in the order of its value, maps by sorted keys. They take a fraction of the
// memory of the nodes.
type mark struct {
	spot
	size int32 // number of marks, this one and those inside it
}

// marksOf returns the marks of a value that was decoded from a node.
func marksOf(value any, n *yaml.Node) []mark {
	var m marking
	m.add(value, n)
	return m
}

type marking []mark

func (m *marking) add(value any, n *yaml.Node) {
	i := len(*m)
	*m = append(*m, mark{})
	if n != nil {
		(*m)[i].spot = spotOf(n)
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
	}
	if n != nil && n.Kind == yaml.ScalarNode {
		value = nil // a hidden schema has one mark
	}
	switch v := value.(type) {
	case map[string]any:
		entry := entriesOf(n)
		for _, key := range sorted(v) {
			m.add(v[key], entry(key))
		}
	case []any:
		for j := range v {
			if n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == len(v) {
				m.add(v[j], n.Content[j])
			} else {
				m.add(v[j], nil)
			}
		}
	}
	(*m)[i].size = int32(len(*m) - i)
}

// entriesOf returns a function that finds the entries of a node by key.
func entriesOf(n *yaml.Node) func(key string) *yaml.Node {
	if n == nil {
		return func(string) *yaml.Node { return nil }
	}
	if len(n.Content) < 32 {
		return func(key string) *yaml.Node { return entryOf(n, key) }
	}
	byKey := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := len(n.Content) - 2; i >= 0 && n.Kind == yaml.MappingNode; i -= 2 {
		byKey[n.Content[i].Value] = n.Content[i+1]
	}
	return func(key string) *yaml.Node { return byKey[key] }
}

// markAt returns the spot of the mark at a path of a value, and how many elements of the
// path lead to the mark. ok is false if there is none.
func markAt(marks []mark, value any, path []string) (at spot, depth int, ok bool) {
	if len(marks) == 0 {
		return spot{}, 0, false
	}
	next := int32(0)
	for depth, key := range path {
		if marks[next].size == 1 {
			return marks[next].spot, depth, true
		}
		next++ // the first mark inside it
		switch v := value.(type) {
		case map[string]any:
			for _, k := range sorted(v) {
				if k == key {
					break
				}
				next += marks[next].size
			}
			value = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				return spot{}, 0, false
			}
			for range i {
				next += marks[next].size
			}
			value = v[i]
		default:
			return spot{}, 0, false
		}
	}
	return marks[next].spot, len(path), true
}
