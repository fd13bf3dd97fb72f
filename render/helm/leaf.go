package helm

import (
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// values returns the places of the values from which a field of the object was made.
func (p *provenance) values(pointer string) []render.Origin {
	positions, ok := p.positions.(*render.Positions)
	if !ok {
		return nil
	}
	field, _ := render.Lookup(p.object, pointer)
	key, value, ok := positions.Field(pointer)
	if pointer == "" || !ok {
		return nil
	}
	s := p.part.x.valueIndex
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index()
	f := fieldText{part: p.part, valueIndex: s, value: field}
	switch field.(type) {
	case map[string]any, []any, nil:
		return f.block(key, value)
	}
	return f.scalar(value)
}

// A fieldText is a field as written in the output.
type fieldText struct {
	*part
	valueIndex *valueIndex
	value      any
}

// scalar returns the places of the values in a field that is neither a map nor
// a list.
func (f fieldText) scalar(value render.Span) []render.Origin {
	from, to := f.offset(value.Line, value.Column), f.offset(value.EndLine, value.EndColumn)
	if from >= to {
		return nil
	}
	token := f.text[from:to]
	block := token[0] == '|' || token[0] == '>'
	switch {
	case block:
		from, to = blockOf(f.text[:f.to], from)
	case len(token) > 2 && (token[0] == '"' || token[0] == '\''):
		from, to = from+1, to-1
	}
	text, ok := f.value.(string)
	if !ok {
		text = scalarText(f.value)
	}
	var found []render.Origin
	for _, h := range f.search(from, to, false) {
		if block && flat(h.text) != flat(text) || !h.proves(text, token) {
			continue
		}
		if at, ok := f.valueIndex.place(h, h.want()); ok && !slices.Contains(found, at) {
			found = append(found, at)
		}
	}
	return found
}

// Line returns the values and the places in templates that wrote line n, from
// 0, of a field that is a literal block scalar in the output.
func (p *provenance) Line(pointer string, n int) []render.Origin {
	positions, ok := p.positions.(*render.Positions)
	if !ok {
		return nil
	}
	found := positions.Line(pointer, n)
	if len(found) == 0 {
		return nil
	}
	span := found[0].Span
	from, to := p.part.offset(span.Line, span.Column), p.part.offset(span.EndLine, span.EndColumn)
	values, _ := p.lineValues(from, to)
	return append(values, p.part.origins(from, to)...)
}

// Part returns the values that supplied a part of a text, if the output has that part
// unchanged. If none can, as for a part that the template itself or a flag such as --set
// supplied, it returns the places in templates that wrote the field.
func (p *provenance) Part(pointer, part string) []render.Origin {
	positions, ok := p.positions.(*render.Positions)
	field, _ := render.Lookup(p.object, pointer)
	text, isText := field.(string)
	if !ok || !isText {
		return nil
	}
	_, value, _ := positions.Field(pointer)
	from, to := p.part.offset(value.Line, value.Column), p.part.offset(value.EndLine, value.EndColumn)
	first, at := strings.Index(p.part.text[from:max(from, to)], text), strings.Index(text, part)
	if first < 0 || at < 0 {
		return nil
	}
	from += first + at
	found, possible := p.lineValues(from, from+len(part))
	if !possible {
		return p.templates(pointer)
	}
	return found
}

// lineValues returns the values that visibly supplied the output between two offsets, and
// whether any value in a file can have supplied it.
func (p *provenance) lineValues(from, to int) (found []render.Origin, possible bool) {
	s := p.part.x.valueIndex
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index()
	line := p.part.text[from:to]
	f := fieldText{part: p.part, valueIndex: s, value: line}
	for _, h := range f.search(from, to, false) {
		at, ok := s.place(h, h.want())
		possible = possible || ok
		if ok && h.proves(line, line) && !slices.Contains(found, at) {
			found = append(found, at)
		}
	}
	return found, possible
}

// want returns the value that must be at the place of a hit.
func (h hit) want() any {
	if h.node == nil {
		return nil
	}
	return h.node.val
}

// search finds the values that supplied the output between two offsets.
func (f fieldText) search(from, to int, whole bool) []hit {
	s := search{valueIndex: f.valueIndex, whole: whole, left: maxSearch}
	s.trace(f.trace, f.written(from), f.written(to), 0)
	return s.hits
}

// block returns the place of the value that wrote a map, a list or null: the one that wrote its
// key, or else the one that wrote its beginning.
func (f fieldText) block(key, value render.Span) []render.Origin {
	if key.Line > 0 {
		from, to := f.offset(key.Line, key.Column), f.offset(key.EndLine, key.EndColumn)
		if at, ok := f.first(from, to, false); ok {
			return []render.Origin{at}
		}
	}
	from := f.offset(value.Line, value.Column)
	if at, ok := f.first(from, from+1, true); ok {
		return []render.Origin{at}
	}
	return nil
}

// first returns the place of the first hit between two offsets that contains
// the field.
func (f fieldText) first(from, to int, whole bool) (render.Origin, bool) {
	if from >= to || to > len(f.text) {
		return render.Origin{}, false
	}
	for _, h := range f.search(from, to, whole) {
		if h.node == nil { // a line of a file that has the field in it
			return f.valueIndex.place(h, nil)
		}
		if _, isText := h.node.val.(string); isText && !h.key {
			return f.valueIndex.place(h, h.node.val)
		}
		if n := h.node; whole && h.key && n.above != nil {
			h = hit{node: n.above} // the map that contains the first key
		}
		h.key = false
		if within(h.node.val, f.value) {
			return f.valueIndex.place(h, h.node.val)
		}
	}
	return render.Origin{}, false
}
