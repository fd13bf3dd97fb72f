// Package explanation writes explanations: how policies decided on one object, step by
// step. [Write] takes what policy.Chain.Explain returns, and writes it in one of the
// [Formats]. text.go is for people; the JSON is here.
package explanation

import (
	"io"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// Explanations is the JSON report of explain.
type Explanations struct {
	Schema       string               `json:"schema"`
	Tool         report.Tool          `json:"tool"`
	Explanations []policy.Explanation `json:"explanations"`
}

const schema = "preadmit.explain/v1"

// Formats lists the formats of explanations.
var Formats = report.FormatList[*Explanations]{
	{Name: "text", Doc: "for people: each step with its values", Write: writeText},
	{Name: "json", Doc: "for programs: everything", Write: writeJSON},
}

// Write writes explanations in the format with that name, one of Formats.
func Write(w io.Writer, name string, tool report.Tool, es []policy.Explanation, o report.Options) error {
	return Formats.Write(w, name, &Explanations{Schema: schema, Tool: tool, Explanations: es}, o)
}

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
