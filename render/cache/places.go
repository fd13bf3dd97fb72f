package cache

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// places is a Provenance that records its answers.
type places struct {
	of    placed
	index int

	mu      sync.Mutex
	answers map[question]answer
	kept    string // encoded answers of an earlier run, until they are needed
}

// placed is implemented by types that hold the provenances of objects.
type placed interface {
	provenance(index int) render.Provenance
	wasAsked()  // is called when a question is asked for the first time
	overflows() // is called if there are more answers than maxAnswers
}

// A question asks for the origin of a field, or of a line, part or character in it.
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

// maxAnswers limits the answers that are recorded for an object. `render --origins` asks about each
// field.
const maxAnswers = 4096

// At implements render.Provenance.
func (p *places) At(pointer string) []render.Origin {
	a := p.ask(question{Kind: "at", Pointer: pointer}, func(inner render.Provenance) answer {
		return answer{Origins: inner.At(pointer)}
	})
	return slices.Clone(a.Origins)
}

// Line is [render.Object.Line] with a record.
func (p *places) Line(pointer string, n int) []render.Origin {
	a := p.ask(question{Kind: "line", Pointer: pointer, N: n}, func(inner render.Provenance) answer {
		return answer{Origins: (&render.Object{Provenance: inner}).Line(pointer, n)}
	})
	return slices.Clone(a.Origins)
}

// Part is [render.Object.Part] with a record.
func (p *places) Part(pointer, part string) []render.Origin {
	a := p.ask(question{Kind: "part", Pointer: pointer, Text: part}, func(inner render.Provenance) answer {
		return answer{Origins: (&render.Object{Provenance: inner}).Part(pointer, part)}
	})
	return slices.Clone(a.Origins)
}

// Inside is [render.Object.Inside] with a record.
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
	a, ok := p.answers[q]
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
	full := len(p.answers) >= maxAnswers
	if !full {
		p.answers[q] = a
	}
	p.mu.Unlock()
	if full {
		p.of.overflows()
	}
	return a
}

// text returns the recorded answers in encoded form, sorted by question.
func (p *places) text() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept != "" {
		return p.kept, nil
	}
	questions := make([]question, 0, len(p.answers))
	for q := range p.answers {
		questions = append(questions, q)
	}
	slices.SortFunc(questions, compareQuestions)
	var e Encoder
	e.Uint(uint64(len(questions)))
	for _, q := range questions {
		e.Plain(q)
		e.Plain(p.answers[q])
	}
	data, err := e.Data()
	return string(data), err
}

func compareQuestions(a, b question) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Text, b.Text), cmp.Compare(a.N, b.N))
}

// recall decodes the answers of an earlier run. Malformed ones are ignored.
func (p *places) recall() {
	if p.answers == nil {
		p.answers, _ = decodeAnswers(p.kept)
		p.kept = ""
	}
}

// decodeAnswers is the inverse of text.
func decodeAnswers(text string) (map[question]answer, error) {
	answers := make(map[question]answer)
	d := &Decoder{data: text}
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		var q question
		var a answer
		d.Plain(&q)
		d.Plain(&a)
		answers[q] = a
	}
	if err := d.End(); err != nil {
		return make(map[question]answer), err
	}
	return answers, nil
}

// PlaceAnswers returns the questions asked about an object so far, with the answers, in encoded form. ok is
// false if they are not recorded.
func PlaceAnswers(o *render.Object) (string, bool) {
	if o.Provenance == nil {
		return "", true
	}
	p, ok := o.Provenance.(*places)
	if !ok {
		return "", false
	}
	answers, err := p.text()
	return answers, err == nil
}

// GivesAnswers reports whether an object gives the answers in answers, which PlaceAnswers returned for another
// object. It records its answers.
func GivesAnswers(o *render.Object, answers string) bool {
	if answers == "" {
		return o.Provenance == nil
	}
	_, ok := o.Provenance.(*places)
	return ok && confirms(o, answers)
}

// confirms is GivesAnswers for objects whose answers may not be recorded.
func confirms(o *render.Object, answers string) bool {
	d := &Decoder{data: answers}
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
