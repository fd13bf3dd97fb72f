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

func (j *jsonReader) peek() byte {
	if j.off < len(j.data) {
		return j.data[j.off]
	}
	return 0
}

func (j *jsonReader) blanks() {
	for j.off < len(j.data) && blank(j.data[j.off]) {
		j.off++
	}
}

// take skips the character c and the blanks after it, if c comes next.
func (j *jsonReader) take(c byte) bool {
	if j.peek() != c {
		return false
	}
	j.off++
	j.blanks()
	return true
}

// node returns a node that begins at the offset.
func (j *jsonReader) node(kind yaml.Kind, style yaml.Style) *yaml.Node {
	passed := j.data[j.marked:j.off]
	if n := bytes.Count(passed, []byte{'\n'}); n > 0 {
		j.line, j.column = j.line+n, 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	j.column += utf8.RuneCount(passed)
	j.marked = j.off
	return &yaml.Node{Kind: kind, Style: style, Line: j.line, Column: j.column}
}

// value reads a value and the blanks after it. It returns nil if there is no
// JSON value, and at the depth that the YAML library refuses.
func (j *jsonReader) value(depth int) *yaml.Node {
	if depth > maxDepth+1 {
		return nil
	}
	switch j.peek() {
	case '{':
		return j.object(depth)
	case '[':
		return j.array(depth)
	case '"':
		return j.text()
	}
	word := jsonWord.Find(j.data[j.off:])
	if word == nil {
		return nil
	}
	n := j.node(yaml.ScalarNode, 0)
	n.Value = string(word)
	j.off += len(word)
	j.blanks()
	return n
}

func (j *jsonReader) object(depth int) *yaml.Node {
	n := j.node(yaml.MappingNode, yaml.FlowStyle)
	n.Tag = "!!map"
	if j.take('{'); j.take('}') {
		return n
	}
	for {
		key := j.text()
		if key == nil || !j.take(':') {
			return nil
		}
		val := j.value(depth + 1)
		if val == nil {
			return nil
		}
		n.Content = append(n.Content, key, val)
		if j.take('}') {
			return n
		}
		if !j.take(',') {
			return nil
		}
	}
}

func (j *jsonReader) array(depth int) *yaml.Node {
	n := j.node(yaml.SequenceNode, yaml.FlowStyle)
	n.Tag = "!!seq"
	if j.take('['); j.take(']') {
		return n
	}
	for {
		val := j.value(depth + 1)
		if val == nil {
			return nil
		}
		n.Content = append(n.Content, val)
		if j.take(']') {
			return n
		}
		if !j.take(',') {
			return nil
		}
	}
}

func (j *jsonReader) text() *yaml.Node {
	if j.peek() != '"' {
		return nil
	}
	n := j.node(yaml.ScalarNode, yaml.DoubleQuotedStyle)
	n.Tag = "!!str"
	escaped := false
	for i := j.off + 1; i < len(j.data); i++ {
		switch c := j.data[i]; {
		case c == '"':
			token := j.data[j.off : i+1]
			j.off = i + 1
			j.blanks()
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
