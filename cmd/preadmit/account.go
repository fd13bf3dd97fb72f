package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// documents says, once, what becomes of the documents of the tree.
func (in *input) documents() []render.TreeDocument {
	if in.accounted == nil {
		in.accounted = in.walked.Documents(in.head)
	}
	return in.accounted
}

// account puts into a report what becomes of the documents of the tree.
func account(r *report.Report, in *input) {
	for _, d := range in.documents() {
		units := make([]string, len(d.Units))
		for i, u := range d.Units {
			units[i] = in.tree.display(u)
		}
		r.Documents = append(r.Documents, report.Document{
			File: in.tree.display(d.File), Line: d.Line, Kind: d.Kind, State: d.State, Units: units, Reason: d.Reason, Usual: d.Usual,
		})
	}
	r.CountDocuments()
}

// lookups returns an Unknown result for each template that writes nothing because
// lookup finds nothing offline. On a cluster the template may write objects.
func (in *input) lookups() []policy.Result {
	asks := func(i render.Input) bool { return i.State == render.DocLookup }
	if !slices.ContainsFunc(in.head, func(u *render.Unit) bool { return slices.ContainsFunc(u.Inputs, asks) }) {
		return nil
	}
	var errs []error
	for _, d := range in.documents() {
		if d.Reason == render.LookupReason {
			errs = append(errs, &render.Error{
				Span: render.Span{File: d.File, Line: in.lineOf(d.File, "lookup"), Column: 1}, Rule: "lookup",
				Err: fmt.Errorf("%s is not decided: the template writes nothing, as lookup finds nothing offline", d.Kind),
			})
		}
	}
	results := policy.Errors(policy.EngineRender, nil, errors.Join(errs...))
	for i := range results {
		results[i].Policy, results[i].Outcome = "helm", policy.Unknown
	}
	return results
}

// lineOf is the first line of a file that holds a word.
func (in *input) lineOf(file, word string) int {
	data, err := render.ReadFile(in.tree, file)
	if at := bytes.Index(data, []byte(word)); err == nil && at >= 0 {
		return 1 + bytes.Count(data[:at], []byte("\n"))
	}
	return 1
}
