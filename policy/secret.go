package policy

import (
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// Secrets returns what Secrets of the tree hold at places, the longest text first. Where a field got
// one of these texts, from there, it is not shown.
type Secrets func(at []render.Origin) []string

// cover hides in a result's message what the fields at fault got from Secrets. Equal texts that
// came from elsewhere stay.
func (s Secrets) cover(r *Result) {
	if s != nil && r.Object.Kind != "" {
		r.Message = covered(r.Message, s(r.Origins))
	}
}

// explained hides in explanations what any field of the object got from a Secret.
func (s Secrets) explained(es []Explanation, req *Request, h *history) {
	if s == nil {
		return
	}
	var texts []string
	if req.Object != nil {
		for pointer := range render.Fields(req.Object.Object, "") {
			at, _ := h.at(req.Object, pointer)
			texts = append(texts, s(at)...)
		}
	}
	if req.OldObject != nil {
		for pointer := range render.Fields(req.OldObject.Object, "") {
			texts = append(texts, s(req.OldObject.At(pointer))...)
		}
	}
	for i := range es {
		for j := range es[i].Results { // mutations of another engine may have set the fields at fault
			texts = append(texts, s(es[i].Results[j].Origins)...)
		}
	}
	if len(texts) == 0 {
		return
	}
	for i := range es {
		es[i].eachText(func(text *string) { *text = covered(*text, texts) })
	}
}

// covered replaces the texts in another one, also where that quotes them.
func covered(text string, texts []string) string {
	for _, hidden := range texts {
		text = strings.ReplaceAll(text, hidden, "…")
		quoted := strconv.Quote(hidden)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], "…")
	}
	return text
}

// eachText calls f with each text of an explanation that may show a value of the object.
func (e *Explanation) eachText(f func(*string)) {
	for i := range e.Results {
		f(&e.Results[i].Message)
	}
	checks := func(list []Check) {
		for i := range list {
			f(&list[i].Why)
		}
	}
	checks(e.Match)
	for i := range e.Bindings {
		checks(e.Bindings[i].Match)
		f(&e.Bindings[i].Problem)
	}
	for i := range e.Trials {
		t := &e.Trials[i]
		f(&t.Problem)
		for _, list := range [][]Evaluation{t.Conditions, t.Variables, t.Validations, t.Annotations} {
			for j := range list {
				list[j].eachText(f)
			}
		}
	}
}

func (e *Evaluation) eachText(f func(*string)) {
	for _, text := range []*string{&e.Value, &e.Error, &e.Unknown, &e.Summary} {
		f(text)
	}
	for i := range e.Parts {
		f(&e.Parts[i].Loop)
		f(&e.Parts[i].Value)
	}
	for i := range e.Culprits {
		f(&e.Culprits[i].Value)
		f(&e.Culprits[i].Element)
	}
	if e.Message != nil {
		e.Message.eachText(f)
	}
}
