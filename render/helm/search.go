package helm

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"path"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unsafe"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

// A hit is a value that supplied a part of the output.
type hit struct {
	node *node
	key  bool // the output has its key
	off  int  // the offset in its text
	text string
	file *chartText // in place of a node
	sure bool       // the text was written as it is, not computed
	// template is true for an action within a text given to tpl.
	template bool
}

// A search follows output back to values. Its steps are bounded, since hostile
// charts can make them fan out endlessly.
type search struct {
	*valueIndex
	whole bool // the wanted map or list begins at the offset
	// writers, if any, gets the places in templates on the way to the first hit.
	writers *writers
	hits    []hit
	left    int
}

const (
	maxSearch = 2000 // steps
	maxHits   = 8
	maxParsed = 16 << 20 // bytes of text that are parsed again, for one release
)

// more charges a step and the cost of searching a text to the budget. It reports whether the search
// may go on.
func (s *search) more(depth int, text string) bool {
	s.left -= 1 + len(text)>>12
	return depth < maxHops && s.left > 0 && len(s.hits) < maxHits
}

// seen returns a number that grows with each place found.
func (s *search) seen() int {
	if s.writers == nil {
		return len(s.hits)
	}
	return len(s.hits) + len(s.writers.found)
}

// writers returns the places in templates that wrote the output between two
// offsets, outermost first, also through text that was parsed and written
// again.
func (s *valueIndex) writers(t *trace, from, to int) []render.Origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index()
	w := &writers{x: s.x}
	in := search{valueIndex: s, writers: w, left: maxSearch}
	in.trace(t, from, max(to, from+1), 0)
	return w.found
}

// trace finds the values that supplied a trace's text between two offsets.
func (s *search) trace(t *trace, from, to, depth int) {
	first := max(0, sort.Search(len(t.events), func(i int) bool { return int(t.events[i].off) > from })-1)
	for i := first; i < len(t.events) && int(t.events[i].off) < to && s.more(depth, ""); i++ {
		if i > first && s.writers != nil {
			return
		}
		e := &t.events[i]
		begin, end := int(e.off), len(t.text)
		if i+1 < len(t.events) {
			end = int(t.events[i+1].off)
		}
		a, b := max(from, begin)-begin, min(to, end)-begin
		if a >= b {
			continue
		}
		if s.writers != nil {
			s.writers.event(e, a, b)
		}
		if e.text {
			if t.given != "" && e.src == t.src {
				s.text(t.given, int(e.pos)+a, int(e.pos)+b, depth+1)
			}
			continue
		}
		s.action(e, t.text[begin:end], a, b, depth)
		if t.given != "" && e.src == t.src && s.x.fileOf(e.src) == nil {
			spot, before := e.src.spots[e.pos], len(s.hits)
			s.text(t.given, int(spot.from), int(spot.to), depth+1)
			for i := before; i < len(s.hits); i++ {
				s.hits[i].template = true
			}
		}
	}
}

func (s *search) action(e *event, printed string, a, b, depth int) {
	before := s.seen()
	if text, ok := e.val.(string); ok {
		s.text(text, a, b, depth+1)
	} else if e.val != nil {
		s.value(e.val, depth+1)
	}
	for i := len(e.kids) - 1; i >= 0 && s.seen() == before; i-- {
		if from, to, ok := partOfText(printed, e.kids[i].text, a, b); ok {
			s.trace(e.kids[i], from, to, depth+1)
		}
	}
}

// text finds the values that supplied a string between two offsets.
func (s *search) text(text string, a, b, depth int) {
	if !s.more(depth, text) || a >= b || b > len(text) {
		return
	}
	r, off := s.region(text)
	if r == nil {
		s.config(text, a, b, depth)
		return
	}
	from, to := a+off, b+off
	switch {
	case r.node != nil:
		s.node(hit{node: r.node, key: r.key, off: from, text: r.text[from:to], sure: true}, depth)
	case r.file != nil:
		s.hits = append(s.hits, hit{file: r.file, off: from, text: r.text[from:to], sure: true})
	case r.trace != nil:
		s.trace(r.trace, from, to, depth+1)
	case r.record.yaml:
		s.marshaled(r.record, from, to, depth+1)
	default:
		before := s.seen()
		for _, arg := range r.record.args {
			if s.argument(r.text, arg, from, to, depth+1); s.writers != nil && s.seen() > before {
				return // the first argument with places suffices
			}
		}
	}
}

// config finds the file behind a text of .Files.AsConfig or AsSecrets: the one
// with that name and content.
func (s *search) config(text string, a, b, depth int) {
	if !strings.Contains(text, ": ") {
		return
	}
	doc := s.yaml(text)
	if doc == nil || doc.Kind != yamlv3.MappingNode {
		return
	}
	line, column := position([]byte(text), a)
	n, name, _ := childAt(doc, line, column)
	for i := range s.data {
		f := &s.data[i]
		if n == nil || path.Base(cmp.Or(f.at.entry, f.at.file)) != name {
			continue
		}
		content := unsafe.String(&f.data[0], len(f.data))
		switch n.Value {
		case content:
			s.scalar(text, n, content, a, b, depth+1)
		case base64.StdEncoding.EncodeToString(f.data):
			s.text(content, 0, len(content), depth+1)
		}
	}
}

// argument finds the values that supplied a function's argument, if it is in
// the function's result between two offsets.
func (s *search) argument(out string, arg any, a, b, depth int) {
	if !s.more(depth, out) {
		return
	}
	switch arg := arg.(type) {
	case nil:
	case string:
		if from, to, ok := partOfText(out, arg, a, b); ok {
			s.text(arg, from, to, depth)
		} else if out == strconv.Quote(arg) {
			s.text(arg, 0, len(arg), depth)
		} else if !strings.Contains(out, arg) && !strings.Contains(arg, "\n") {
			before := len(s.hits)
			s.text(arg, 0, len(arg), depth)
			for i := before; i < len(s.hits); i++ {
				s.hits[i].sure = false
			}
		}
	case []any:
		for _, item := range arg {
			s.argument(out, item, a, b, depth+1)
		}
	case []string:
		for _, item := range arg {
			s.argument(out, item, a, b, depth+1)
		}
	case map[string]any:
	default:
		if n := wholeNumber(arg); strings.Contains(out[a:b], fmt.Sprint(arg)) || n != "" && strings.Contains(out[a:b], n) {
			s.value(arg, depth)
		}
	}
}

// partOfText returns the offsets within inner of the part that out has between
// two offsets. If there are several candidates, it returns all of inner.
func partOfText(out, inner string, a, b int) (from, to int, ok bool) {
	i := strings.Index(out, inner)
	switch {
	case inner == "":
		return 0, 0, false
	case i < 0:
		return aligned(out, inner, a, b)
	case strings.Contains(out[i+1:], inner):
		return 0, len(inner), strings.Contains(out[a:b], inner)
	}
	return max(a-i, 0), min(b-i, len(inner)), a < i+len(inner) && b > i
}

// aligned is partOfText for an out that indents the lines of inner differently.
func aligned(out, inner string, a, b int) (from, to int, ok bool) {
	for a < b && strings.IndexByte(" \t\n", out[a]) >= 0 {
		a++
	}
	for a < b && strings.IndexByte(" \t\n", out[b-1]) >= 0 {
		b--
	}
	if from, to, ok = align(out, inner, a, b); !ok || from >= to {
		return 0, 0, false
	}
	if _, last, ok := align(out, inner, b-1, b); ok { // b may be lines below a
		to = max(to, last)
	}
	return from, to, true
}

// value finds the values that supplied a number, boolean, map or list.
func (s *search) value(v any, depth int) {
	if !s.more(depth, "") || v == nil {
		return
	}
	if text, ok := v.(string); ok {
		s.text(text, 0, len(text), depth)
		return
	}
	switch reflect.TypeOf(v).Kind() {
	case reflect.Map, reflect.Pointer, reflect.Slice, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
	default:
		return
	}
	if n := s.boxes[word(v)]; n != nil {
		s.node(hit{node: n, text: scalarText(v), sure: true}, depth)
	} else if rec := s.numbers[word(v)]; rec != nil {
		for _, arg := range rec.args {
			s.value(arg, depth+1)
		}
	} else if n := s.copied(v); n != nil {
		s.node(hit{node: n, sure: true}, depth)
	}
}

func scalarText(v any) string {
	switch v.(type) {
	case map[string]any, table, []any:
		return ""
	}
	return fmt.Sprint(v)
}

// copied returns the node of the map or list that v is a copy of: the one above
// all of v's parts.
func (s *search) copied(v any) (above *node) {
	same := func(part any) bool {
		n := s.nodeOf(part)
		if n == nil || above != nil && n.above != above {
			return false
		}
		above = n.above
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if v[key] != nil && !same(v[key]) {
				return nil
			}
		}
	case []any:
		for _, item := range v {
			if !same(item) {
				return nil
			}
		}
	}
	return above
}

func (s *search) nodeOf(v any) *node {
	if v == nil {
		return nil
	}
	if n := s.boxes[word(v)]; n != nil {
		return n
	}
	if text, ok := v.(string); ok {
		if r, off := s.region(text); r != nil && r.node != nil && !r.key && off == 0 && len(text) == len(r.text) {
			return r.node
		}
	}
	return nil
}

// node adds a value, or continues with the text that it was parsed from.
func (s *search) node(h hit, depth int) {
	text := h.node.tree.text
	if text == "" {
		s.hits = append(s.hits, h)
		return
	}
	key, value := s.nodeAt(text, h.node)
	if h.key {
		value = key
	}
	if value == nil {
		return
	}
	from := offset(text, value.Line, value.Column)
	to := from + 1
	if value.Kind == yamlv3.ScalarNode && value.Style&(yamlv3.LiteralStyle|yamlv3.FoldedStyle) != 0 {
		from, to = blockOf(text, from)
	} else if value.Kind == yamlv3.ScalarNode {
		if value.Style&(yamlv3.SingleQuotedStyle|yamlv3.DoubleQuotedStyle) != 0 {
			from++
		}
		to = min(from+len(value.Value), len(text))
	}
	s.text(text, from, max(from, to), depth+1)
}
