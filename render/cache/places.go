package cache

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// places is the Provenance of an object. It records its answers.
type places struct {
	of    placed
	index int

	mu   sync.Mutex
	told map[question]answer
	kept string // text of what was told in an earlier run; "" once somebody asks
}

// placed is implemented by objects and provenances that return places.
type placed interface {
	provenance(index int) render.Provenance
	wasAsked()  // something for the first time
	overflows() // more than is kept
}

// A question asks an object's provenance for the place of a field, a line, a
// part or a character.
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

// maxAnswers is the most answers that are kept for an object. `render
// --origins` asks about each field.
const maxAnswers = 4096

// At implements render.Provenance.
func (p *places) At(pointer string) []render.Origin {
	a := p.ask(question{Kind: "at", Pointer: pointer}, func(inner render.Provenance) answer {
		return answer{Origins: inner.At(pointer)}
	})
	return slices.Clone(a.Origins)
}

// Line does what [render.Object.Line] does.
func (p *places) Line(pointer string, n int) []render.Origin {
	a := p.ask(question{Kind: "line", Pointer: pointer, N: n}, func(inner render.Provenance) answer {
		return answer{Origins: (&render.Object{Provenance: inner}).Line(pointer, n)}
	})
	return slices.Clone(a.Origins)
}

// Part does what [render.Object.Part] does.
func (p *places) Part(pointer, part string) []render.Origin {
	a := p.ask(question{Kind: "part", Pointer: pointer, Text: part}, func(inner render.Provenance) answer {
		return answer{Origins: (&render.Object{Provenance: inner}).Part(pointer, part)}
	})
	return slices.Clone(a.Origins)
}

// Inside does what [render.Object.Inside] does.
func (p *places) Inside(pointer, text string, n int) (render.Span, bool) {
	a := p.ask(question{Kind: "inside", Pointer: pointer, Text: text, N: n}, func(inner render.Provenance) answer {
		span, ok := (&render.Object{Provenance: inner}).Inside(pointer, text, n)
		return answer{Span: span, OK: ok}
	})
	return a.Span, a.OK
}

func (p *places) ask(q question, of func(render.Provenance) answer) answer {
	p.mu.Lock()
	p.recall()
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
	full := len(p.told) >= maxAnswers
	if !full {
		p.told[q] = a
	}
	p.mu.Unlock()
	if full {
		p.of.overflows()
	}
	return a
}

// text is what was told, in order.
func (p *places) text() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept != "" {
		return p.kept, nil
	}
	questions := make([]question, 0, len(p.told))
	for q := range p.told {
		questions = append(questions, q)
	}
	slices.SortFunc(questions, compareQuestions)
	var e Encoder
	e.Uint(uint64(len(questions)))
	for _, q := range questions {
		e.Plain(q)
		e.Plain(p.told[q])
	}
	data, err := e.Data()
	return string(data), err
}

func compareQuestions(a, b question) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Text, b.Text), cmp.Compare(a.N, b.N))
}

// recall decodes what is kept. Bytes that no Encoder wrote tell nothing.
func (p *places) recall() {
	if p.told == nil {
		p.told, _ = toldIn(p.kept)
		p.kept = ""
	}
}

// toldIn is the inverse of text.
func toldIn(text string) (map[question]answer, error) {
	told := make(map[question]answer)
	d := &Decoder{data: text}
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		var q question
		var a answer
		d.Plain(&q)
		d.Plain(&a)
		told[q] = a
	}
	if err := d.End(); err != nil {
		return make(map[question]answer), err
	}
	return told, nil
}

// Told returns the places that were asked about an object so far, with the
// answers, in encoded form. ok is false if nothing records them.
func Told(o *render.Object) (string, bool) {
	if o.Provenance == nil {
		return "", true
	}
	p, ok := o.Provenance.(*places)
	if !ok {
		return "", false
	}
	told, err := p.text()
	return told, err == nil
}

// Tells reports whether an object gives the same answers as another object
// did. Its answers are recorded.
func Tells(o *render.Object, told string) bool {
	if told == "" {
		return o.Provenance == nil
	}
	_, ok := o.Provenance.(*places)
	return ok && confirms(o, told)
}

// confirms reports whether an object with any provenance gives the same answers
// as another object did.
func confirms(o *render.Object, told string) bool {
	d := &Decoder{data: told}
	for n := d.Uint(); n > 0; n-- {
		var q question
		var want answer
		d.Plain(&q)
		d.Plain(&want)
		if d.Err() != nil || !reflect.DeepEqual(q.ask(o), want) {
			return false
		}
	}
	return d.End() == nil
}

// ask returns an object's answer.
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
