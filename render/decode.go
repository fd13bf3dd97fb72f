package render

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of how much aliases may add to a document. The YAML libraries count
// nodes only, so 16,000 aliases of a 50 kB scalar pass them.
const (
	maxAliasNodes = 200_000
	maxAliasBytes = 3 << 20 // the API server's limit for a request
	maxReports    = 100     // warnings in one document
)

// A decoder turns the node tree of one document into a value and the places
// of its fields.
type decoder struct {
	src     *source
	line    int // line of the chunk in the file, from 0
	dialect Dialect
	tree    tree
	stack   []entry               // entries of the maps and lists that are not complete
	done    map[*yaml.Node]result // anchored nodes, once complete
	open    map[*yaml.Node]bool   // anchored nodes that are not complete
	nodes   int                   // nodes that aliases added
	size    int                   // bytes that aliases added
	bang    bool                  // the text may contain the tag "!"
	last    place                 // the place of lastOff
	lastOff int
	errs    []error // errors that do not end the document
	texts   map[string]any
	keys    map[string]keyNumber
}

// A scratch holds buffers and short strings that the decoders of a file's
// documents reuse, one after another.
type scratch struct {
	tree  tree
	stack []entry
	texts map[string]any
	keys  map[string]keyNumber
}

// prepare makes the maps if there are none.
func (s *scratch) prepare() {
	if s.texts == nil {
		s.texts, s.keys = make(map[string]any), make(map[string]keyNumber)
	}
}

// Limits of the strings that documents share: the bytes of each, and their
// number.
const (
	maxSharedText  = 64
	maxSharedTexts = 4096
)

// shared returns the string as a value; equal strings give the same value.
func (d *decoder) shared(text string) any {
	v, ok := d.texts[text]
	if !ok {
		if v = text; len(text) <= maxSharedText && len(d.texts) < maxSharedTexts {
			d.texts[text] = v
		}
	}
	return v
}

// number returns the number of a key, and adds the key to the source's.
func (d *decoder) number(key string) keyNumber {
	n, ok := d.keys[key]
	if !ok {
		n = keyNumber(len(d.src.keys))
		d.keys[key] = n
		d.src.keys = append(d.src.keys, key)
	}
	return n
}

// finish returns a copy of the document's tree, and leaves the buffers to the
// next decoder.
func (d *decoder) finish() *tree {
	t := &tree{nodes: slices.Concat(d.tree.nodes), entries: slices.Concat(d.tree.entries)}
	d.src.scratch = scratch{tree: tree{d.tree.nodes[:0], d.tree.entries[:0]}, stack: d.stack[:0], texts: d.texts, keys: d.keys}
	return t
}

// A result holds a node's value, its index in the tree, and how much the value
// grows where a library expands its aliases and merge keys.
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
	free.prepare()
	return &decoder{
		src: s, line: c.line, dialect: d,
		bang: bytes.IndexByte(c.text, '!') >= 0,
		tree: free.tree, stack: free.stack, texts: free.texts, keys: free.keys,
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

// value decodes a node. If it returns an *Error, the document can't be used.
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

// alias returns a copy of the anchor's value, so that no two fields of an
// object share a map. It checks the limits before it copies.
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
	r.value = Copy(r.value)
	return r, nil
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

// resolve returns the value of a scalar. For yaml.v2 the tag "!" makes it a
// string, but yaml.v3 drops that tag, so resolve looks at the text.
func (d *decoder) resolve(n *yaml.Node) (resolved, error) {
	if d.bang && n.Style == 0 && d.dialect == YAML11 {
		from := d.offset(d.at(n))
		if bytes.IndexByte(d.src.data[from:d.src.skipProperties(from)], '!') >= 0 {
			return resolved{value: n.Value}, nil
		}
	}
	return d.dialect.scalar(n)
}

// offset is source.offset, but it searches from the last offset it returned,
// since a line may be as long as the file.
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

// note reports an oddity of a scalar, such as a lost digit, that does not keep
// it from being read.
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

// site returns the place of the alias that brings a value, or the zero place.
func (d *decoder) site(n *yaml.Node) place {
	if n.Kind == yaml.AliasNode {
		return d.at(n)
	}
	return place{}
}

// close adds a tree node with the entries that are on the stack from base on.
func (d *decoder) close(base int, n *yaml.Node) int32 {
	node := d.tree.collection(d.at(n), n, d.stack[base:])
	d.stack = d.stack[:base]
	return node
}

// A mapping is a map that is being decoded. Its entries are on the decoder's
// stack from base on.
type mapping struct {
	fields map[string]any
	base   int
	depth  int
	index  map[keyNumber]int // index by key of entries on the stack; nil until a key comes twice
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
	e := entry{key: d.number(name), keyAt: d.at(key), node: r.node, site: d.site(val)}
	if _, twice := m.fields[name]; !twice {
		d.push(m, e)
	} else {
		old := d.find(m, e.key)
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
func (d *decoder) find(m *mapping, key keyNumber) *entry {
	if m.index == nil {
		m.index = make(map[keyNumber]int, len(m.fields))
		for i := m.base; i < len(d.stack); i++ {
			m.index[d.stack[i].key] = i
		}
	}
	return &d.stack[m.index[key]]
}

// report records an error that does not end the document. It returns nil once
// maxReports are recorded.
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

// merge sets the fields of the map, or of the list of maps, that is the value
// of a merge key.
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
		key := d.src.keys[e.key]
		if was, twice := m.fields[key]; !twice {
			d.push(m, e)
		} else if old := d.find(m, e.key); old.merged {
			*old = e
		} else {
			if !Equal(was, from[key]) {
				d.report(val, "ambiguous-merge",
					"a merged key is already set on line %d: kubectl, Helm and Argo CD take the merged value, kustomize and Flux the other", old.keyAt.line+1)
			}
			if d.dialect == YAML12 {
				continue
			}
			*old = e
		}
		m.fields[key] = from[key]
	}
	return nil
}
