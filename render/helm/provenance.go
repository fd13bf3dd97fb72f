package helm

import (
	"bytes"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
)

// A part is one document of an output.
type part struct {
	*output
	from, to int // offsets in the output
}

// A provenance traces a field of an object through the text of its document to the template text or
// action that wrote it, and to the templates that the action called. It computes nothing until it
// is asked.
type provenance struct {
	part      *part
	positions render.Provenance // in the document
	object    map[string]any
}

// At returns the values from which a field was made, then the places in
// templates that wrote it, the innermost first. If a condition left out the field, the
// condition's value comes first.
func (p *provenance) At(pointer string) []render.Origin {
	if field, is := render.FieldOfKey(pointer); is {
		return p.key(field)
	}
	held, key := p.nearest(pointer)
	if key != "" {
		if o, ok := p.omitted(held, key); ok {
			return append([]render.Origin{o}, p.templates(pointer)...)
		}
	}
	return append(p.values(held), p.templates(pointer)...)
}

// key returns the origins of a field: first where its key is written, in values or by the text of a template.
func (p *provenance) key(field string) []render.Origin {
	all := p.At(field)
	positions, _ := p.positions.(*render.Positions)
	if positions == nil {
		return all
	}
	key, _, _ := positions.Field(field)
	if key.Line == 0 {
		return all
	}
	from, to := p.part.offset(key.Line, key.Column), p.part.offset(key.EndLine, key.EndColumn)
	first, _ := p.lineValues(from, to)
	for _, o := range p.part.origins(from, to) {
		if o.Role == render.Template && o.Line == o.EndLine && o.EndColumn-o.Column == key.EndColumn-key.Column {
			first = append(first, o)
		}
	}
	return append(first, slices.DeleteFunc(all, func(o render.Origin) bool { return slices.Contains(first, o) })...)
}

// nearest returns pointer and "" if the object has that field. Otherwise it returns the pointer of
// the nearest ancestor that the object has, and the key that the ancestor lacks.
func (p *provenance) nearest(pointer string) (held, key string) {
	for _, ok := render.Lookup(p.object, pointer); !ok; _, ok = render.Lookup(p.object, pointer) {
		path := render.Path(pointer)
		key = path[len(path)-1]
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
	}
	return pointer, key
}

func (p *provenance) templates(pointer string) []render.Origin {
	found := p.positions.At(pointer)
	if len(found) == 0 {
		return []render.Origin{p.part.whole()}
	}
	span := found[len(found)-1].Span // the ones before it are aliases
	from := p.part.offset(span.Line, span.Column)
	to := p.part.offset(span.EndLine, span.EndColumn)
	if quoted := p.part.text[from:max(to, from)]; len(quoted) > 2 && (quoted[0] == '"' || quoted[0] == '\'') {
		from++ // the text within the quotes has the more precise origin
	}
	return p.part.origins(from, max(to, from))
}

// whole returns the template file, for output without a known line.
func (p *part) whole() render.Origin {
	return render.Origin{Span: p.file.at.span(0, 0), Role: render.Template}
}

// span returns the place for an error about a document: in the outermost
// template, whose author sees what it calls.
func (p *part) span(s render.Span) render.Span {
	if s.Line == 0 {
		return p.file.at.span(0, 0)
	}
	from := p.offset(s.Line, s.Column)
	origins := p.origins(from, max(from, p.offset(s.EndLine, s.EndColumn)))
	return origins[len(origins)-1].Span
}

// offset converts a position in the document to an offset in the output.
func (p *part) offset(line, column int) int {
	return p.from + offset(p.text[p.from:p.to], line, column)
}

// origins returns the places that wrote the output between two offsets,
// innermost first.
func (p *part) origins(from, to int) []render.Origin {
	w := &writers{x: p.x}
	w.follow(p.trace, p.written(from), p.written(to), 0)
	if more := p.x.valueIndex.writers(p.trace, p.written(from), p.written(to)); len(more) > len(w.found) {
		w.found = more
	}
	if len(w.found) == 0 {
		return []render.Origin{p.whole()}
	}
	for i, j := 0, len(w.found)-1; i < j; i, j = i+1, j-1 {
		w.found[i], w.found[j] = w.found[j], w.found[i]
	}
	return w.found
}

// written converts an offset in the output to one in the written text, from
// which "<no value>" was removed.
func (o *output) written(off int) int {
	return off + len(noValue)*sort.Search(len(o.cut), func(i int) bool { return o.cut[i]-i*len(noValue) > off })
}

// writers collects places that wrote something, outermost first.
type writers struct {
	x     *execution
	found []render.Origin
}

const maxHops = 32

// follow finds the event that wrote a trace's text between two offsets, and
// continues into the templates that its action called as long as the origin is
// certain.
func (w *writers) follow(t *trace, from, to, depth int) {
	e, start, end := t.eventAt(from)
	if e == nil || depth > maxHops {
		return
	}
	w.event(e, from-start, min(max(to, from), end)-start)
	if e.text {
		return
	}
	for i := len(e.kids) - 1; i >= 0; i-- { // an earlier result may be an argument of a later call
		kid := e.kids[i]
		if a, b, ok := align(t.text[start:end], kid.text, from-start, min(to, end)-start); ok {
			w.follow(kid, a, b, depth+1)
			return
		}
	}
}

// eventAt returns the event that wrote an offset of a trace's text, and the offsets of
// what it wrote. It returns nil if there is none.
func (t *trace) eventAt(off int) (e *event, start, end int) {
	i := sort.Search(len(t.events), func(i int) bool { return int(t.events[i].off) > off }) - 1
	if i < 0 {
		return nil, 0, 0
	}
	end = len(t.text)
	if i+1 < len(t.events) {
		end = int(t.events[i+1].off)
	}
	return &t.events[i], int(t.events[i].off), end
}

// event adds the place of an event: its text between two offsets, or its
// action.
func (w *writers) event(e *event, a, b int) {
	w.calls(e.call)
	if e.text {
		w.add(e.src, int(e.pos)+a, int(e.pos)+b)
		return
	}
	s := e.src.spots[e.pos]
	w.add(e.src, int(s.from), int(s.to))
}

// calls adds the {{template}} actions around a text, outermost first.
func (w *writers) calls(c *call) {
	if c == nil || len(w.found) > maxHops {
		return
	}
	w.calls(c.above)
	s := c.src.spots[c.pos]
	w.add(c.src, int(s.from), int(s.to))
}

// add adds a place in a template. Texts given to tpl have no place of their
// own, and archives no lines.
func (w *writers) add(src *source, from, to int) {
	f := w.x.fileOf(src)
	if f == nil || f.at.entry != "" {
		return
	}
	if n := bytes.IndexByte(src.text[from:to], '\n'); n >= 0 {
		to = from + n
	}
	line, column := position(src.text, from)
	w.found = append(w.found, render.Origin{
		Span: render.Span{File: f.at.file, Line: line, Column: column, EndLine: line, EndColumn: column + utf8.RuneCount(src.text[from:to])},
		Role: render.Template,
	})
}

// position returns the line and column of an offset.
func position(text []byte, off int) (line, column int) {
	before := text[:min(off, len(text))]
	line = 1 + bytes.Count(before, []byte("\n"))
	return line, 1 + utf8.RuneCount(before[1+bytes.LastIndexByte(before, '\n'):])
}

// align converts offsets within an action's output to offsets within the output
// of the template that it called. ok is false unless the result is certain: the
// action must print the text unchanged, or at one place of something larger, or
// all its lines with other indentation, as by indent and trim.
func align(out, inner string, from, to int) (a, b int, ok bool) {
	core := strings.TrimSpace(inner)
	if core == "" {
		return 0, 0, false
	}
	lead := strings.Index(inner, core)
	if at := strings.Index(out, core); at >= 0 && !strings.Contains(out[at+1:], core) {
		if from < at || from > at+len(core) {
			return 0, 0, false
		}
		return from - at + lead, min(to-at, len(core)) + lead, true
	}
	if body := strings.TrimSpace(out); body != "" {
		if at := strings.Index(core, body); at >= 0 && !strings.Contains(core[at+1:], body) {
			shift := lead + at - strings.Index(out, body)
			return max(0, from+shift), min(to+shift, len(inner)), true
		}
	}
	return alignLines(out, core, lead, from, to)
}

func alignLines(out, core string, lead, from, to int) (a, b int, ok bool) {
	body := strings.TrimSpace(out)
	top := strings.Index(out, body)
	outer, lines := strings.Split(body, "\n"), strings.Split(core, "\n")
	if len(outer) != len(lines) {
		return 0, 0, false
	}
	outOff, inOff := top, lead
	for i, line := range lines {
		if strings.TrimSpace(line) != strings.TrimSpace(outer[i]) {
			return 0, 0, false
		}
		if from >= outOff && from <= outOff+len(outer[i]) {
			shift := indentation(line) - indentation(outer[i])
			a = inOff + max(0, from-outOff+shift)
			b = inOff + min(max(0, to-outOff+shift), len(line))
			ok = true
		}
		outOff += len(outer[i]) + 1
		inOff += len(line) + 1
	}
	return a, max(a, b), ok
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
