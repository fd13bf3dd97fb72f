package policy

import (
	"reflect"
	"slices"
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
	if r.Object.Kind != "" {
		r.Message = s.Cover(r.Message, r.Origins)
	}
}

// Cover hides the parts of a text about a field that come from Secrets.
func (s Secrets) Cover(text string, at []render.Origin) string {
	if s == nil {
		return text
	}
	return covered(text, s(at))
}

// explained hides in explanations what any field of the object got from a Secret.
func (s Secrets) explained(es []Explanation, req *Request, h *history) {
	texts := h.secretTexts(req.Admitted)
	if s != nil && req.Object != nil {
		for pointer := range render.Fields(req.Object.Object, "") {
			at, _ := h.at(req.Object, pointer)
			texts = append(texts, s(at)...)
		}
	}
	if s != nil && req.OldObject != nil {
		for pointer := range render.Fields(req.OldObject.Object, "") {
			texts = append(texts, s(req.OldObject.At(pointer))...)
		}
	}
	for i := range es {
		for j := range es[i].Results { // mutations of another engine may have set the fields at fault
			if s != nil {
				texts = append(texts, s(es[i].Results[j].Origins)...)
			}
		}
	}
	if len(texts) == 0 {
		return
	}
	for i := range es {
		eachPart("", reflect.ValueOf(&es[i]).Elem(), func(field string, part any) bool {
			switch x := part.(type) {
			case *Result:
				x.Message = covered(x.Message, texts)
			case *string:
				if slices.Contains(showValues, field) {
					*x = covered(*x, texts)
				}
			}
			return whole(part)
		})
	}
}

// showValues names the fields of explanations that may show a value of the object.
var showValues = []string{"Why", "Problem", "Value", "Error", "Unknown", "Summary", "Loop", "Element"}

// covered replaces the texts in another one, also where that quotes them.
func covered(text string, texts []string) string {
	for _, hidden := range texts {
		text = strings.ReplaceAll(text, hidden, "…")
		quoted := strconv.Quote(hidden)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], "…")
	}
	return text
}
