package helm

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
	"unsafe"

	yamlv3 "go.yaml.in/yaml/v3"
)

// The functions below convert between offsets of YAML that a template wrote or
// parsed and the parts of the value that it encodes.

// yaml returns the parsed text, or nil if it is not YAML.
func (s *search) yaml(text string) *yamlv3.Node {
	key := unsafe.Pointer(unsafe.StringData(text))
	doc, ok := s.parsed[key]
	if !ok {
		var parsed yamlv3.Node
		s.read += len(text)
		if s.read < maxParsed && yamlv3.Unmarshal([]byte(text), &parsed) == nil && len(parsed.Content) > 0 {
			doc = parsed.Content[0]
		}
		s.parsed[key] = doc
	}
	return doc
}

// nodeAt returns the YAML nodes of a part of the value that was parsed from a
// text.
func (s *search) nodeAt(text string, n *node) (key, value *yamlv3.Node) {
	if n.above == nil {
		return nil, s.yaml(text)
	}
	_, above := s.nodeAt(text, n.above)
	if above == nil {
		return nil, nil
	}
	return entryOf(above, n.key)
}

func entryOf(n *yamlv3.Node, step string) (key, value *yamlv3.Node) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yamlv3.SequenceNode:
		for i, item := range n.Content {
			if fmt.Sprint(i) == step {
				return nil, item
			}
		}
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	}
	return nil, nil
}

// marshaled finds the values that supplied YAML between two offsets: the part
// of the value that is written there.
func (s *search) marshaled(rec *record, from, to, depth int) {
	text := rec.out.(string)
	doc := s.yaml(text)
	if doc == nil {
		return
	}
	if from == 0 && to >= len(strings.TrimSpace(text)) && doc.Kind != yamlv3.ScalarNode && s.writers == nil {
		if node := cmp.Or(s.nodeOf(rec.args[0]), s.copied(rec.args[0])); node != nil && node.tree.text == "" {
			s.hits = append(s.hits, hit{node: node, text: text, sure: true})
			return
		}
	}
	line, column := position([]byte(text), from)
	v, key, n := rec.args[0], false, doc
	var above any
	step := ""
	for !(s.whole && n.Kind != yamlv3.ScalarNode && n.Line == line && n.Column == column) {
		next, name, onKey := childAt(n, line, column)
		if next == nil {
			break
		}
		above, step = v, name
		if v = partOf(v, name); v == nil && !onKey {
			return
		}
		if n, key = next, onKey; key {
			break
		}
	}
	switch {
	case key:
		s.keyOf(above, step, v, depth)
	case n.Kind == yamlv3.ScalarNode:
		s.scalar(text, n, v, from, to, depth)
	case s.whole:
		s.value(v, depth)
	}
}

// scalar finds the values that supplied the part of a scalar between two
// offsets.
func (s *search) scalar(text string, n *yamlv3.Node, v any, from, to, depth int) {
	str, ok := v.(string)
	if !ok {
		s.value(v, depth)
		return
	}
	if n.Style&yamlv3.LiteralStyle != 0 {
		begin, end := blockOf(text, offset(text, n.Line, n.Column))
		if a, b, ok := partOfText(text[begin:end], str, max(from, begin)-begin, min(to, end)-begin); ok {
			s.text(str, a, b, depth)
			return
		}
	}
	s.text(str, 0, len(str), depth)
}

// keyOf adds the key of a map's field.
func (s *search) keyOf(m any, key string, v any, depth int) {
	fields, _ := fieldsOf(m)
	for k := range fields {
		if k != key {
			continue
		}
		if n := s.nodeOf(v); n != nil && n.key == key {
			s.node(hit{node: n, key: true, text: key, sure: true}, depth)
		} else {
			s.text(k, 0, len(k), depth)
		}
	}
}

func partOf(v any, step string) any {
	if m, ok := fieldsOf(v); ok {
		return m[step]
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Slice:
		for i := range rv.Len() {
			if fmt.Sprint(i) == step {
				return rv.Index(i).Interface()
			}
		}
	case reflect.Map:
		if rv.Type().Key().Kind() == reflect.String {
			if e := rv.MapIndex(reflect.ValueOf(step).Convert(rv.Type().Key())); e.IsValid() {
				return e.Interface()
			}
		}
	}
	return nil
}

// childAt returns the entry of a node that is written at a position or ends
// there.
func childAt(n *yamlv3.Node, line, column int) (child *yamlv3.Node, step string, onKey bool) {
	reached := func(n *yamlv3.Node) bool { return n.Line < line || n.Line == line && n.Column <= column }
	switch n.Kind {
	case yamlv3.SequenceNode:
		for i, item := range n.Content {
			if reached(item) {
				child, step = item, fmt.Sprint(i)
			}
		}
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if reached(n.Content[i]) {
				child, step, onKey = n.Content[i+1], n.Content[i].Value, !reached(n.Content[i+1])
			}
		}
	}
	return child, step, onKey
}

// offset converts a line and column to an offset.
func offset(text string, line, column int) int {
	off := 0
	for ; line > 1; line-- {
		n := strings.IndexByte(text[off:], '\n')
		if n < 0 {
			return len(text)
		}
		off += n + 1
	}
	for ; column > 1 && off < len(text) && text[off] != '\n'; column-- {
		_, size := utf8.DecodeRuneInString(text[off:])
		off += size
	}
	return off
}

// blockOf returns the offsets of the lines of a block scalar whose header is at
// an offset: those that are indented at least as far as the first of them.
func blockOf(text string, header int) (from, to int) {
	n := strings.IndexByte(text[header:], '\n')
	if n < 0 {
		return len(text), len(text)
	}
	from = header + n + 1
	to = from
	indent := -1
	for at := from; at < len(text); {
		line := text[at:]
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		if strings.TrimSpace(line) != "" {
			if indent < 0 {
				indent = indentation(line)
			}
			if indentation(line) < indent || indent == 0 && header > 0 {
				break
			}
			to = at + len(strings.TrimRight(line, "\r\n"))
		}
		at += len(line)
	}
	return from, to
}
