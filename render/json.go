package render

import (
	"bytes"
	"encoding/json"
	"regexp"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A jsonReader builds from JSON the node tree that the YAML library would
// build. The library itself can't read all of JSON: it fails on \/ and
// surrogates.
type jsonReader struct {
	data   []byte
	off    int
	marked int // the offset of line and column
	line   int
	column int
}

// parseJSON returns nil unless the whole text is one JSON object or array. It
// may still be YAML then.
func parseJSON(text []byte) *yaml.Node {
	r := jsonReader{data: text, line: 1, column: 1}
	if r.blanks(); r.peek() != '{' && r.peek() != '[' {
		return nil
	}
	n := r.value(1)
	if r.blanks(); r.off < len(r.data) {
		return nil
	}
	return n
}

func (r *jsonReader) peek() byte {
	if r.off < len(r.data) {
		return r.data[r.off]
	}
	return 0
}

func (r *jsonReader) blanks() {
	for r.off < len(r.data) && blank(r.data[r.off]) {
		r.off++
	}
}

// take skips the character c and the blanks after it, if c comes next.
func (r *jsonReader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.off++
	r.blanks()
	return true
}

// node returns a node that begins at the offset.
func (r *jsonReader) node(kind yaml.Kind, style yaml.Style) *yaml.Node {
	passed := r.data[r.marked:r.off]
	if n := bytes.Count(passed, []byte{'\n'}); n > 0 {
		r.line, r.column = r.line+n, 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	r.column += utf8.RuneCount(passed)
	r.marked = r.off
	return &yaml.Node{Kind: kind, Style: style, Line: r.line, Column: r.column}
}

// value reads a value and the blanks after it. It returns nil if there is no
// JSON value, and at the depth that the YAML library refuses.
func (r *jsonReader) value(depth int) *yaml.Node {
	if depth > maxDepth+1 {
		return nil
	}
	switch r.peek() {
	case '{':
		return r.object(depth)
	case '[':
		return r.array(depth)
	case '"':
		return r.text()
	}
	return r.word()
}

func (r *jsonReader) object(depth int) *yaml.Node {
	n := r.node(yaml.MappingNode, yaml.FlowStyle)
	n.Tag = "!!map"
	if r.take('{'); r.take('}') {
		return n
	}
	for {
		key := r.text()
		if key == nil || !r.take(':') {
			return nil
		}
		val := r.value(depth + 1)
		if val == nil {
			return nil
		}
		n.Content = append(n.Content, key, val)
		if r.take('}') {
			return n
		}
		if !r.take(',') {
			return nil
		}
	}
}

func (r *jsonReader) array(depth int) *yaml.Node {
	n := r.node(yaml.SequenceNode, yaml.FlowStyle)
	n.Tag = "!!seq"
	if r.take('['); r.take(']') {
		return n
	}
	for {
		val := r.value(depth + 1)
		if val == nil {
			return nil
		}
		n.Content = append(n.Content, val)
		if r.take(']') {
			return n
		}
		if !r.take(',') {
			return nil
		}
	}
}

func (r *jsonReader) text() *yaml.Node {
	if r.peek() != '"' {
		return nil
	}
	n := r.node(yaml.ScalarNode, yaml.DoubleQuotedStyle)
	n.Tag = "!!str"
	escaped := false
	for i := r.off + 1; i < len(r.data); i++ {
		switch c := r.data[i]; {
		case c == '"':
			token := r.data[r.off : i+1]
			r.off = i + 1
			r.blanks()
			if !escaped {
				n.Value = string(token[1 : len(token)-1])
				return n
			}
			if json.Unmarshal(token, &n.Value) != nil {
				return nil
			}
			return n
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			return nil
		}
	}
	return nil
}

var jsonWord = regexp.MustCompile(`^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)`)

func (r *jsonReader) word() *yaml.Node {
	word := jsonWord.Find(r.data[r.off:])
	if word == nil {
		return nil
	}
	n := r.node(yaml.ScalarNode, 0)
	n.Value = string(word)
	r.off += len(word)
	r.blanks()
	return n
}
