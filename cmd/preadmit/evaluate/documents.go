package evaluate

import (
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// CountCovered counts how much of the tree a report covers: the files that
// are left out, and where what is deployed begins.
func CountCovered(s *report.Summary, in *load.Input) {
	excluded := make(map[string]bool)
	for _, d := range in.Documents() {
		if d.State == render.DocExcluded {
			excluded[d.File] = true
		}
	}
	s.Excluded = len(excluded)
	if in.Deployed == nil {
		return
	}
	s.Roots = len(in.Deployed.Roots)
	for _, u := range in.Head {
		if u.ID != "" && u.Owner == nil && !in.Deployed.Roots[u] {
			s.Roots++ // declared
		}
	}
}

// addDocuments puts into a report what happens to the documents of the tree.
func addDocuments(r *report.Report, in *load.Input) {
	CountCovered(&r.Summary, in)
	for _, d := range in.Documents() {
		units := make([]string, len(d.Units))
		for i, u := range d.Units {
			units[i] = in.Tree.Display(u)
		}
		r.Documents = append(r.Documents, report.Document{
			File: in.Tree.Display(d.File), Line: d.Line, Kind: d.Kind, State: d.State, Units: units, Reason: d.Reason, Usual: d.Usual,
		})
	}
	r.CountDocuments()
}

// InUnit is the end of a sentence that names a unit; "" for none.
func InUnit(unit string) string {
	if unit == "" {
		return ""
	}
	return " in unit " + unit
}
