package cache

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// places are the provenance of an object whose answers are on record.
type places struct {
	of    placed
	index int

	mu   sync.Mutex
	told map[question]answer
}

// placed is what knows the places of objects.
type placed interface {
	provenance(index int) render.Provenance
	wasAsked()  // something for the first time
	overflows() // more than is kept
}

// A question is one to an object's provenance: where a field is, one of its
// lines, a part of it, or a character in it.
type question struct {
	Kind    string // "at", "line", "part", "inside"
	Pointer string
	Text    string
	N       int
}

type answer struct {
	Origins []render.Origin
	Span    render.Span
	OK      bool
}

// maxTold bounds what is kept of an object: `render --origins` asks about each
// field.
const maxTold = 4096

// At implements render.Provenance.
func (p *places) At(pointer string) []render.Origin {
	a := p.ask(question{Kind: "at", Pointer: pointer}, func(inner render.Provenance) answer {
		return answer{Origins: inner.At(pointer)}
	})
	return slices.Clone(a.Origins)
}

// Line is what render.Object.Line asks.
func (p *places) Line(pointer string, n int) []render.Origin {
	a := p.ask(question{Kind: "line", Pointer: pointer, N: n}, func(inner render.Provenance) answer {
		return answer{Origins: (&render.Object{Provenance: inner}).Line(pointer, n)}
	})
	return slices.Clone(a.Origins)
}

// Part is what render.Object.Part asks.
func (p *places) Part(pointer, part string) []render.Origin {
	a := p.ask(question{Kind: "part", Pointer: pointer, Text: part}, func(inner render.Provenance) answer {
		return answer{Origins: (&render.Object{Provenance: inner}).Part(pointer, part)}
	})
	return slices.Clone(a.Origins)
}

// Inside is what render.Object.Inside asks.
func (p *places) Inside(pointer, text string, n int) (render.Span, bool) {
	a := p.ask(question{Kind: "inside", Pointer: pointer, Text: text, N: n}, func(inner render.Provenance) answer {
		span, ok := (&render.Object{Provenance: inner}).Inside(pointer, text, n)
		return answer{Span: span, OK: ok}
	})
	return a.Span, a.OK
}

func (p *places) ask(q question, of func(render.Provenance) answer) answer {
	p.mu.Lock()
	a, ok := p.told[q]
	p.mu.Unlock()
	if ok {
		return a
	}
	if inner := p.of.provenance(p.index); inner != nil {
		a = of(inner)
		a.Origins = slices.Clone(a.Origins)
	}
	p.of.wasAsked()
	p.mu.Lock()
	full := len(p.told) >= maxTold
	if !full {
		p.told[q] = a
	}
	p.mu.Unlock()
	if full {
		p.of.overflows()
	}
	return a
}

func (p *places) encode(e *Encoder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	questions := make([]question, 0, len(p.told))
	for q := range p.told {
		questions = append(questions, q)
	}
	slices.SortFunc(questions, compareQuestions)
	e.Uint(uint64(len(questions)))
	for _, q := range questions {
		e.Plain(q)
		e.Plain(p.told[q])
	}
}

func compareQuestions(a, b question) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Text, b.Text), cmp.Compare(a.N, b.N))
}

func (p *places) decode(d *Decoder) {
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		var q question
		var a answer
		d.Plain(&q)
		d.Plain(&a)
		p.told[q] = a
	}
}

// Told is what was asked about an object's lines so far, and answered; false
// where nobody keeps record of it.
func Told(o *render.Object) (string, bool) {
	if o.Provenance == nil {
		return "", true
	}
	p, ok := o.Provenance.(*places)
	if !ok {
		return "", false
	}
	var e Encoder
	p.encode(&e)
	data, err := e.Data()
	return string(data), err == nil
}

// Tells reports whether an object answers all that was told of another alike. It
// keeps record of what it answers.
func Tells(o *render.Object, told string) bool {
	if told == "" {
		return o.Provenance == nil
	}
	_, ok := o.Provenance.(*places)
	return ok && tells(o, told)
}

// tells reports whether an object, of whatever provenance, answers all that was told
// of another alike.
func tells(o *render.Object, told string) bool {
	other := &places{told: make(map[question]answer)}
	d := NewDecoder([]byte(told))
	other.decode(d)
	if d.End() != nil {
		return false
	}
	for q, want := range other.told {
		if !reflect.DeepEqual(q.ask(o), want) {
			return false
		}
	}
	return true
}

// ask asks an object.
func (q question) ask(o *render.Object) answer {
	switch q.Kind {
	case "at":
		return answer{Origins: slices.Clone(o.At(q.Pointer))}
	case "line":
		return answer{Origins: slices.Clone(o.Line(q.Pointer, q.N))}
	case "part":
		return answer{Origins: slices.Clone(o.Part(q.Pointer, q.Text))}
	}
	span, ok := o.Inside(q.Pointer, q.Text, q.N)
	return answer{Span: span, OK: ok}
}
