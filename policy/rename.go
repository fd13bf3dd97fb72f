package policy

import (
	"slices"

	"github.com/preadmit/preadmit/render"
)

// Names are the names of files and units in reports, which differ from those in the
// tree.
type Names interface {
	Display(name string) string
	DisplayIn(text string) string // with the names in a text
}

// Rename names files and units as reports do.
func (r *Result) Rename(n Names) {
	r.Object.Unit = n.Display(r.Object.Unit)
	r.PolicyOrigin.File = n.Display(r.PolicyOrigin.File)
	r.Message = render.WithoutAddresses(n.DisplayIn(r.Message))
	for i := range r.Origins {
		r.Origins[i].File = n.Display(r.Origins[i].File)
	}
}

// Rename names files and units as reports do.
func (e *Explanation) Rename(n Names) {
	renameSpan(n, &e.Origin)
	e.Object.Unit = n.Display(e.Object.Unit)
	renameOrigins(n, &e.Origins)
	for i := range e.Rules {
		renameSpan(n, &e.Rules[i].Origin)
	}
	renameChecks(n, e.Match)
	for i := range e.Bindings {
		b := &e.Bindings[i]
		renameSpan(n, &b.Origin)
		renameChecks(n, b.Match)
		for j := range b.Params {
			b.Params[j].Unit = n.Display(b.Params[j].Unit)
		}
	}
	for i := range e.Trials {
		t := &e.Trials[i]
		renameOrigins(n, &t.ParamOrigin)
		if t.Param != nil {
			t.Param.Unit = n.Display(t.Param.Unit)
		}
		for _, list := range [][]Evaluation{t.Conditions, t.Variables, t.Validations, t.Annotations} {
			for j := range list {
				list[j].rename(n)
			}
		}
	}
	for i := range e.Results {
		e.Results[i].Rename(n)
	}
}

func (e *Evaluation) rename(n Names) {
	renameSpan(n, &e.Origin)
	for i := range e.Parts {
		renameSpan(n, &e.Parts[i].Origin)
	}
	for i := range e.Culprits {
		renameOrigins(n, &e.Culprits[i].Origins)
	}
	if e.Message != nil {
		renameSpan(n, &e.Message.Origin)
	}
}

func renameSpan(n Names, s *render.Span) { s.File = n.Display(s.File) }

// renameOrigins leaves the list as it was, which several may share.
func renameOrigins(n Names, list *[]render.Origin) {
	*list = slices.Clone(*list)
	for i := range *list {
		renameSpan(n, &(*list)[i].Span)
	}
}

func renameChecks(n Names, list []Check) {
	for i := range list {
		renameSpan(n, &list[i].Origin)
	}
}
