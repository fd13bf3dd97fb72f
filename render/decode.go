package render

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// What aliases may add to a document. Libraries count nodes alone, and let
// 16,000 aliases of a 50 kB scalar through.
const (
	maxAliasNodes = 200_000
	maxAliasBytes = 3 << 20 // what the API server takes in one request
	maxReports    = 100     // of oddities in one document
)

// A decoder turns the node tree of one document into a value and the places
// of its fields.
type decoder struct {
	src     *source
	line    int // of the chunk in the file, from 0
	dialect Dialect
	tree    tree
	stack   []entry               // entries of the maps and lists not yet done
	done    map[*yaml.Node]result // nodes with an anchor
	open    map[*yaml.Node]bool   // nodes with an anchor not yet done
	nodes   int                   // by aliases
	size    int                   // in bytes, by aliases
	bang    bool                  // the tag "!" may be there
	last    place                 // where lastOff is
	lastOff int
	errs    []error // of a document that is read all the same
	texts   map[string]any
}

// scratch is memory that the decoders of a file's documents use one after the
// other, and the short texts that the documents share.
type scratch struct {
	tree  tree
	stack []entry
	texts map[string]any
}

// What documents share are texts of at most so many bytes, and at most so many.
const (
	maxSharedText  = 64
	maxSharedTexts = 4096
)

// shared returns the text as a value, which is the same one for equal texts.
func (d *decoder) shared(text string) any {
	v, ok := d.texts[text]
	if !ok {
		if v = text; len(text) <= maxSharedText && len(d.texts) < maxSharedTexts {
			d.texts[text] = v
		}
	}
	return v
}

// finish returns the document's tree, in as much memory as it needs, and leaves
// the decoder's own to the next one.
func (d *decoder) finish() *tree {
	t := &tree{nodes: slices.Concat(d.tree.nodes), entries: slices.Concat(d.tree.entries)}
	clear(d.tree.entries)
	d.src.scratch = scratch{tree: tree{d.tree.nodes[:0], d.tree.entries[:0]}, stack: d.stack[:0], texts: d.texts}
	return t
}

// A result is a node's value, its index in the tree, and what a library that
// expands aliases and merge keys as it meets them would have to do for it.
type result struct {
	value  any
	node   int32
	nodes  int
	size   int // bytes of keys and strings
	height int // levels of maps and lists
}

func (r *result) add(part result) {
	r.nodes += part.nodes
	r.size += part.size
	r.height = max(r.height, part.height+1)
}

func newDecoder(s *source, c *chunk, d Dialect) *decoder {
	free := s.scratch
	s.scratch = scratch{}
	if free.texts == nil {
		free.texts = make(map[string]any)
	}
	return &decoder{
		src: s, line: c.line, dialect: d,
		bang: bytes.IndexByte(c.text, '!') >= 0,
		tree: free.tree, stack: free.stack, texts: free.texts,
	}
}

func (d *decoder) at(n *yaml.Node) place {
	return place{line: uint32(n.Line - 1 + d.line), column: uint32(n.Column)}
}

// errorf makes an error at a node.
func (d *decoder) errorf(n *yaml.Node, rule, format string, args ...any) *Error {
	from, to := d.src.token(newNode(d.at(n), n))
	return &Error{Span: d.src.oneLine(from, to), Rule: rule, Err: fmt.Errorf(format, args...)}
}

// value decodes a node. The error is an *Error after which there is no
// document.
func (d *decoder) value(n *yaml.Node, depth int) (result, error) {
	if depth > maxDepth {
		return result{}, d.errorf(n, "too-deep", "more than %d levels", maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		return d.alias(n, depth)
	}
	if n.Anchor == "" {
		return d.plainValue(n, depth)
	}
	if d.open == nil {
		d.open, d.done = make(map[*yaml.Node]bool), make(map[*yaml.Node]result)
	}
	d.open[n] = true
	r, err := d.plainValue(n, depth)
	delete(d.open, n)
	d.done[n] = r
	return r, err
}

func (d *decoder) plainValue(n *yaml.Node, depth int) (result, error) {
	switch n.Kind {
	case yaml.MappingNode:
		return d.mapping(n, depth)
	case yaml.SequenceNode:
		return d.sequence(n, depth)
	case yaml.ScalarNode:
		return d.scalar(n)
	}
	return result{}, d.errorf(n, "yaml-syntax", "unknown kind of node")
}

// alias gives a copy of what the anchor stands for, so that no two fields of
// an object share a map. It counts before it copies.
func (d *decoder) alias(n *yaml.Node, depth int) (result, error) {
	if d.open[n.Alias] {
		return result{}, d.errorf(n, "alias-loop", "anchor contains itself")
	}
	r, ok := d.done[n.Alias]
	if !ok {
		return d.value(n.Alias, depth)
	}
	d.nodes += r.nodes
	d.size += r.size
	if d.nodes > maxAliasNodes || d.size > maxAliasBytes {
		return result{}, d.errorf(n, "alias-expansion", "aliases make the document larger than %d nodes or %d MiB", maxAliasNodes, maxAliasBytes>>20)
	}
	if depth+r.height > maxDepth {
		return result{}, d.errorf(n, "too-deep", "more than %d levels", maxDepth)
	}
	r.value = clone(r.value)
	return r, nil
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for key, e := range v {
			c[key] = clone(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = clone(e)
		}
		return c
	}
	return v
}

func (d *decoder) scalar(n *yaml.Node) (result, error) {
	r, err := d.resolve(n)
	var v any
	if err == nil {
		v, err = jsonValue(r.value)
	}
	if err != nil {
		return result{}, d.errorf(n, "invalid-value", "%w", err)
	}
	d.note(n, r, "value")
	if text, ok := v.(string); ok {
		v = d.shared(text)
	}
	return result{value: v, node: d.tree.scalar(d.at(n), n), nodes: 1, size: len(n.Value)}, nil
}

// resolve returns what a scalar stands for. With the tag "!" it is a string
// for yaml.v2, but yaml.v3 keeps no trace of that tag.
func (d *decoder) resolve(n *yaml.Node) (resolved, error) {
	if d.bang && n.Style == 0 && d.dialect == YAML11 {
		from := d.offset(d.at(n))
		if bytes.IndexByte(d.src.data[from:d.src.skipProperties(from)], '!') >= 0 {
			return resolved{value: n.Value}, nil
		}
	}
	return d.dialect.scalar(n)
}

// offset is source.offset from the last place on, which is near: a line may be
// as long as the file.
func (d *decoder) offset(at place) int {
	if at.line != d.last.line || at.column < d.last.column || d.last.column == 0 {
		d.last, d.lastOff = at, d.src.offset(int(at.line), int(at.column))
		return d.lastOff
	}
	for ; d.last.column < at.column; d.last.column++ {
		_, size := utf8.DecodeRune(d.src.data[d.lastOff:])
		d.lastOff += size
	}
	return d.lastOff
}

// note reports what is odd about a scalar that is read all the same.
func (d *decoder) note(n *yaml.Node, r resolved, what string) {
	switch r.odd {
	case ambiguous:
		if e := d.report(n, "ambiguous-scalar", "%s is a boolean for kubectl, Helm and Argo CD, and a string for kustomize and Flux", what); e != nil {
			e.Warning, e.Hint = true, "write true or false, or put it in quotes"
		}
	case imprecise:
		if e := d.report(n, "imprecise-number", "number is not representable in JSON without loss"); e != nil {
			e.Hint = "put it in quotes"
		}
	}
}

func (d *decoder) sequence(n *yaml.Node, depth int) (result, error) {
	list := make([]any, len(n.Content))
	sum := result{value: list, nodes: 1}
	base := len(d.stack)
	for i, child := range n.Content {
		r, err := d.value(child, depth+1)
		if err != nil {
			return result{}, err
		}
		list[i] = r.value
		sum.add(r)
		d.stack = append(d.stack, entry{keyAt: d.at(child), node: r.node, site: d.site(child)})
	}
	sum.node = d.close(base, n)
	return sum, nil
}

// site is where a value stands that is written elsewhere.
func (d *decoder) site(n *yaml.Node) place {
	if n.Kind == yaml.AliasNode {
		return d.at(n)
	}
	return place{}
}

// close makes a tree node of the entries on the stack from base on.
func (d *decoder) close(base int, n *yaml.Node) int32 {
	node := d.tree.collection(d.at(n), n, d.stack[base:])
	clear(d.stack[base:])
	d.stack = d.stack[:base]
	return node
}

// A mapping is a map while it is decoded. Its entries stand on the decoder's
// stack from base on.
type mapping struct {
	fields map[string]any
	base   int
	depth  int
	index  map[string]int // of entries on the stack; made when a key comes twice
	sum    result
}

func (d *decoder) mapping(n *yaml.Node, depth int) (result, error) {
	m := mapping{fields: make(map[string]any, len(n.Content)/2), base: len(d.stack), depth: depth, sum: result{nodes: 1}}
	var merge *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		var err error
		if isMerge(key) {
			if merge != nil {
				d.report(key, "duplicate-key", "second merge key `<<`, the first is on line %d", merge.Line+d.line)
			}
			merge = key
			err = d.merge(&m, val)
		} else {
			err = d.field(&m, key, val)
		}
		if err != nil {
			return result{}, err
		}
	}
	m.sum.value, m.sum.node = m.fields, d.close(m.base, n)
	return m.sum, nil
}

// isMerge follows yaml.v2: only the plain or tagged `<<` merges.
func isMerge(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "<<" && n.ShortTag() == "!!merge"
}

func (d *decoder) field(m *mapping, key, val *yaml.Node) error {
	name, err := d.key(key, m.depth)
	if err != nil {
		return err
	}
	r, err := d.value(val, m.depth+1)
	if err != nil {
		return err
	}
	m.sum.add(r)
	m.sum.add(result{nodes: 1, size: len(name)})
	e := entry{key: name, keyAt: d.at(key), node: r.node, site: d.site(val)}
	if _, twice := m.fields[name]; !twice {
		d.push(m, e)
	} else {
		old := d.find(m, name)
		if !old.merged {
			d.report(key, "duplicate-key", "key is already set on line %d: kubectl takes the last, kustomize refuses both", old.keyAt.line+1)
		}
		*old = e
	}
	m.fields[name] = r.value
	return nil
}

func (d *decoder) push(m *mapping, e entry) {
	if m.index != nil {
		m.index[e.key] = len(d.stack)
	}
	d.stack = append(d.stack, e)
}

// find returns the entry of a key that the map has.
func (d *decoder) find(m *mapping, name string) *entry {
	if m.index == nil {
		m.index = make(map[string]int, len(m.fields))
		for i := m.base; i < len(d.stack); i++ {
			m.index[d.stack[i].key] = i
		}
	}
	return &d.stack[m.index[name]]
}

// report keeps an error of a document that is read all the same. It returns
// nil when there are enough of them.
func (d *decoder) report(n *yaml.Node, rule, format string, args ...any) *Error {
	if len(d.errs) >= maxReports {
		return nil
	}
	e := d.errorf(n, rule, format, args...)
	d.errs = append(d.errs, e)
	return e
}

func (d *decoder) key(n *yaml.Node, depth int) (string, error) {
	scalar := n
	if n.Kind == yaml.AliasNode {
		scalar = n.Alias
	} else if n.Anchor != "" && n.Kind == yaml.ScalarNode {
		if _, err := d.value(n, depth+1); err != nil { // an alias may refer to it
			return "", err
		}
	}
	if scalar.Kind != yaml.ScalarNode {
		return "", d.errorf(n, "invalid-key", "key is a list or a map")
	}
	r, err := d.resolve(scalar)
	if err != nil {
		return "", d.errorf(n, "invalid-key", "%w", err)
	}
	name, err := d.dialect.keyText(scalar, r.value)
	if err != nil {
		return "", d.errorf(n, "invalid-key", "%w", err)
	}
	if r.odd == ambiguous {
		d.note(n, r, "key")
	}
	return d.shared(name).(string), nil
}

var errMerge = errors.New("merge key `<<` takes a map or a list of maps")

// merge sets the fields of the map or maps that a merge key names.
func (d *decoder) merge(m *mapping, val *yaml.Node) error {
	maps := []*yaml.Node{val}
	if val.Kind == yaml.SequenceNode {
		maps = val.Content
	}
	for i := len(maps) - 1; i >= 0; i-- { // earlier ones win
		target := maps[i]
		if target.Kind == yaml.AliasNode {
			target = target.Alias
		}
		if target.Kind != yaml.MappingNode {
			return d.errorf(val, "invalid-value", "%w", errMerge)
		}
		if err := d.mergeOne(m, maps[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) mergeOne(m *mapping, val *yaml.Node) error {
	r, err := d.value(val, m.depth+1)
	if err != nil {
		return err
	}
	m.sum.add(r)
	from := r.value.(map[string]any)
	for _, e := range d.tree.entriesOf(r.node) {
		e.merged = true
		if val.Kind == yaml.AliasNode {
			e.site = d.at(val)
		}
		if was, twice := m.fields[e.key]; !twice {
			d.push(m, e)
		} else if old := d.find(m, e.key); old.merged {
			*old = e
		} else {
			if !equal(was, from[e.key]) {
				d.report(val, "ambiguous-merge",
					"a merged key is already set on line %d: kubectl, Helm and Argo CD take the merged value, kustomize and Flux the other", old.keyAt.line+1)
			}
			if d.dialect == YAML12 {
				continue
			}
			*old = e
		}
		m.fields[e.key] = from[e.key]
	}
	return nil
}

// equal compares value trees.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return a == b
}
