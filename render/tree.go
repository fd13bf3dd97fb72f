package render

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A place is where something begins in a file: a line from 0 and a column from
// 1, in code points. Column 0 means no place.
type place struct{ line, column uint32 }

// A tree holds the places of a document's fields. Nodes refer to each other by
// index. An anchor's value is stored once, for all its aliases.
type tree struct {
	nodes   []node
	entries []entry
}

// A node is a value.
type node struct {
	at    place
	kind  nodeKind
	flow  bool
	first int32 // index of its first entry
	n     int32 // number of entries; of a plain scalar, its bytes other than blanks
}

type nodeKind uint8

const (
	plainScalar nodeKind = iota
	styledScalar
	mapNode
	listNode
)

// An entry is a field of a map or an item of a list. It has no pointers, since a large
// run holds millions of entries and the garbage collector follows each pointer.
type entry struct {
	key    keyNumber
	keyAt  place // for an item: where it begins
	site   place // the alias that brought the value, or the entry, here
	node   int32
	merged bool // set by a merge key
}

// A keyNumber is the index of a map's key in source.keys.
type keyNumber int32

func newNode(at place, n *yaml.Node) node {
	switch {
	case n.Kind == yaml.MappingNode:
		return node{at: at, kind: mapNode, flow: n.Style&yaml.FlowStyle != 0}
	case n.Kind == yaml.SequenceNode:
		return node{at: at, kind: listNode, flow: n.Style&yaml.FlowStyle != 0}
	case n.Kind == yaml.AliasNode, n.Style&^yaml.TaggedStyle != 0:
		return node{at: at, kind: styledScalar}
	}
	return node{at: at, kind: plainScalar, n: int32(nonblank(n.Value))}
}

func nonblank(s string) int {
	n := 0
	for i := range len(s) {
		if !blank(s[i]) {
			n++
		}
	}
	return n
}

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func (t *tree) add(n node) int32 {
	t.nodes = append(t.nodes, n)
	return int32(len(t.nodes) - 1)
}

func (t *tree) scalar(at place, n *yaml.Node) int32 { return t.add(newNode(at, n)) }

func (t *tree) collection(at place, n *yaml.Node, entries []entry) int32 {
	c := newNode(at, n)
	c.first, c.n = int32(len(t.entries)), int32(len(entries))
	t.entries = append(t.entries, entries...)
	return t.add(c)
}

// entriesOf returns the entries of a map or list, or nil for a scalar.
func (t *tree) entriesOf(i int32) []entry {
	n := t.nodes[i]
	if n.kind != mapNode && n.kind != listNode {
		return nil
	}
	return t.entries[n.first : n.first+n.n]
}

// token returns the offsets of a scalar, of an alias, or of the bracket that
// opens a collection in flow style, without tags and anchors before it.
func (s *source) token(n node) (from, to int) {
	from = s.offset(int(n.at.line), int(n.at.column))
	if n.kind == plainScalar {
		if n.n == 0 {
			return from, from
		}
		from = s.skipProperties(from)
		return from, s.plainEnd(from, int(n.n))
	}
	from = s.skipProperties(from)
	if from >= len(s.data) {
		return from, from
	}
	switch s.data[from] {
	case '"':
		return from, s.doubleQuotedEnd(from)
	case '\'':
		return from, s.singleQuotedEnd(from)
	case '[', '{':
		return from, from + 1
	}
	// This is an alias, or the header of a block scalar.
	to = from
	for to < len(s.data) && !blank(s.data[to]) && bytes.IndexByte([]byte(",]}"), s.data[to]) < 0 {
		to++
	}
	return from, to
}

// skipProperties skips tags and anchors, and the blanks and comments behind
// each.
func (s *source) skipProperties(off int) int {
	for off < len(s.data) && (s.data[off] == '!' || s.data[off] == '&') {
		anchor := s.data[off] == '&'
		for off++; off < len(s.data) && !blank(s.data[off]) && (!anchor || inWord(s.data[off])); {
			off++
		}
		off = s.skipBlanks(off)
	}
	return off
}

// inWord reports whether c is a letter, a digit, _ or -, which the name of an anchor
// may contain. A value may follow that without a blank, as in &a:b.
func inWord(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// skipBlanks skips blanks, line breaks and comments.
func (s *source) skipBlanks(off int) int {
	for off < len(s.data) {
		switch c := s.data[off]; {
		case blank(c):
			off++
		case c == '#' && (off == 0 || blank(s.data[off-1])):
			n := bytes.IndexByte(s.data[off:], '\n')
			if n < 0 {
				return len(s.data)
			}
			off += n
		default:
			return off
		}
	}
	return off
}

// plainEnd returns the offset after n bytes other than blanks. The line folding
// of plain scalars changes only blanks.
func (s *source) plainEnd(off, n int) int {
	for ; off < len(s.data) && n > 0; off++ {
		if !blank(s.data[off]) {
			n--
		}
	}
	return off
}

func (s *source) doubleQuotedEnd(off int) int {
	for i := off + 1; i < len(s.data); i++ {
		switch s.data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s.data)
}

func (s *source) singleQuotedEnd(off int) int {
	for i := off + 1; i < len(s.data); i++ {
		if s.data[i] != '\'' {
			continue
		}
		if i+1 < len(s.data) && s.data[i+1] == '\'' {
			i++
			continue
		}
		return i + 1
	}
	return len(s.data)
}

// flowEnd returns the end of the collection in flow style that begins at off. A
// plain scalar may contain quotes and #, but no brackets.
func (s *source) flowEnd(off int) int {
	depth, plain := 0, false
	for i := off; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '[' || c == '{':
			depth++
			plain = false
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
			plain = false
		case c == ',', c == ':' && (!plain || s.endsKey(i, true)):
			plain = false
		case c == '#' && blank(s.data[i-1]):
			i = s.skipBlanks(i) - 1
		case plain || blank(c):
		case c == '"':
			i = s.doubleQuotedEnd(i) - 1
		case c == '\'':
			i = s.singleQuotedEnd(i) - 1
		case c == '!':
			i = s.tagEnd(i) - 1
		default:
			plain = true
		}
	}
	return len(s.data)
}

// tagEnd returns the end of the tag that begins at off. A comma or bracket is part of it,
// as yaml.v3 reads it.
func (s *source) tagEnd(off int) int {
	for off < len(s.data) && !blank(s.data[off]) {
		off++
	}
	return off
}

// keyToken returns the offsets of a map's key. kubectl reads {a:} as the key "a:"
// without a value, {a: } as the key "a".
func (s *source) keyToken(e entry, flow bool) (from, to int) {
	tag := s.offset(int(e.keyAt.line), int(e.keyAt.column))
	from = s.skipProperties(tag)
	if from >= len(s.data) {
		return from, from
	}
	switch s.data[from] {
	case '"':
		return from, s.doubleQuotedEnd(from)
	case '\'':
		return from, s.singleQuotedEnd(from)
	case ':':
		if s.keys[e.key] == "" { // {!!str : a}, the tag is all there is of the key
			return tag, s.trimRight(tag, from)
		}
	}
	for to = from; to < len(s.data) && !s.endsKey(to, flow); to++ {
	}
	if key := s.keys[e.key]; strings.HasSuffix(key, ":") && bytes.HasPrefix(s.data[from:], []byte(key)) {
		to = max(to, from+len(key))
	} else if to < len(s.data) && s.data[to] == '\n' { // the key goes on in the next line
		text := strings.Join(strings.Fields(key), "")
		end := s.plainEnd(from, len(text))
		if strings.Join(strings.Fields(string(s.data[from:end])), "") == text {
			to = end
		}
	}
	return from, s.trimRight(from, to)
}

func (s *source) endsKey(off int, flow bool) bool {
	switch c := s.data[off]; c {
	case '\n':
		return true
	case ':':
		return off+1 == len(s.data) || blank(s.data[off+1]) || flow && bytes.IndexByte([]byte(",[]{}"), s.data[off+1]) >= 0
	case '#':
		return off > 0 && blank(s.data[off-1])
	case ',', ']', '}', '[', '{':
		return flow
	}
	return false
}

// oneLine returns the Span of two offsets, cut at the end of its first line,
// since code viewers show regions of one line best.
func (s *source) oneLine(from, to int) Span {
	if n := bytes.IndexByte(s.data[from:to], '\n'); n >= 0 {
		to = s.trimRight(from, from+n)
	}
	return s.span(from, to)
}
