package main

import (
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
