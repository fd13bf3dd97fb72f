package explanation

import (
	"io"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

func writeJSON(w io.Writer, e *Explanations, _ report.Options) error {
	for i := range e.Explanations {
		fillExplanation(&e.Explanations[i])
	}
	return report.WriteValue(w, e)
}

// fillExplanation replaces nil lists by empty ones, so that no list is null in
// JSON.
func fillExplanation(e *policy.Explanation) {
	e.Rules, e.Origins, e.Request.Groups = nonNil(e.Rules), nonNil(e.Origins), nonNil(e.Request.Groups)
	e.Match, e.Bindings, e.Trials, e.Results = nonNil(e.Match), nonNil(e.Bindings), nonNil(e.Trials), nonNil(e.Results)
	for i := range e.Results {
		r := &e.Results[i]
		r.Fields, r.Origins, r.Assumed = nonNil(r.Fields), nonNil(r.Origins), nonNil(r.Assumed)
	}
	for i := range e.Bindings {
		b := &e.Bindings[i]
		b.Match, b.Actions, b.Params = nonNil(b.Match), nonNil(b.Actions), nonNil(b.Params)
	}
	for i := range e.Trials {
		t := &e.Trials[i]
		t.ParamOrigin = nonNil(t.ParamOrigin)
		for _, list := range []*[]policy.Evaluation{&t.Conditions, &t.Variables, &t.Validations, &t.Annotations} {
			*list = nonNil(*list)
			for j := range *list {
				fillEvaluation(&(*list)[j])
			}
		}
	}
}

func fillEvaluation(e *policy.Evaluation) {
	e.Parts, e.Culprits = nonNil(e.Parts), nonNil(e.Culprits)
	for i := range e.Culprits {
		e.Culprits[i].Origins = nonNil(e.Culprits[i].Origins)
	}
	if e.Message != nil {
		fillEvaluation(e.Message)
	}
}

// nonNil returns a list that is an empty one in JSON where it is nil.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
