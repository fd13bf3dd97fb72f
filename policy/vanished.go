package policy

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// Vanished finds the objects that a change deletes from the cluster although
// they still stand in its files: nobody judges them any more.
type Vanished struct {
	Base, Head []render.TreeDocument
	// Objects returns what a document of the head holds, nothing where it can't
	// be decoded.
	Objects func(render.TreeDocument) []*render.Object
	// Added reports whether the change adds a file.
	Added func(file string) bool
}

// Results returns an Unknown result for each DELETE request whose object still
// stands in a document of the head that is not deployed.
func (v Vanished) Results(reqs []Request) []Result {
	deletes := make(map[schema.GroupKind][]*Request)
	for i := range reqs {
		if r := &reqs[i]; r.Operation == Delete {
			gk := r.OldObject.GroupVersionKind().GroupKind()
			deletes[gk] = append(deletes[gk], r)
		}
	}
	if len(deletes) == 0 {
		return nil
	}
	deployed := make(map[[2]string]bool) // files and kinds that base deploys
	for _, d := range v.Base {
		if d.State == render.DocRendered {
			deployed[[2]string{d.File, d.Kind}] = true
		}
	}
	told := make(map[*Request]bool)
	var results []Result
	for _, d := range v.Head {
		before := deployed[[2]string{d.File, d.Kind}]
		if d.State == render.DocRendered || d.Usual && (d.State == render.DocInChart || !before) {
			continue
		}
		for _, r := range v.held(d, before, deletes) {
			if !told[r] {
				told[r] = true
				results = append(results, v.result(r, d))
			}
		}
	}
	return results
}

// held are the requests that delete what a document holds. before says that
// base deploys an object of its kind from its file.
func (v Vanished) held(d render.TreeDocument, before bool, deletes map[schema.GroupKind][]*Request) []*Request {
	var held []*Request
	objects := v.Objects(d)
	for _, o := range objects {
		for _, r := range deletes[o.GroupVersionKind().GroupKind()] {
			name := r.OldObject.GetName()
			if name == o.GetName() || before && strings.Contains(name, o.GetName()) {
				held = append(held, r)
			}
		}
	}
	if len(objects) > 0 || !before {
		return held
	}
	for gk, rs := range deletes { // what can't be decoded is known by its file and kind
		for _, r := range rs {
			if gk.Kind == d.Kind && r.from(d.File) {
				held = append(held, r)
			}
		}
	}
	return held
}

// from reports whether the old object was written in a file.
func (r *Request) from(file string) bool {
	for _, o := range r.OldObject.At("") {
		if o.File == file {
			return true
		}
	}
	return false
}

func (v Vanished) result(r *Request, d render.TreeDocument) Result {
	x := Result{
		Engine: EngineRender, Policy: "documents", Rule: "no-longer-judged", Operation: Delete, Object: r.OldObject.Key(),
		Outcome: Unknown, Action: Deny, Baseline: New,
		Message: fmt.Sprintf("no longer judged: %s:%d is %s", d.File, d.Line, d.Reason),
		Origins: []render.Origin{{Span: render.Span{File: d.File, Line: d.Line, Column: 1, EndLine: d.Line, EndColumn: 1}, Role: render.Manifest}},
		Hint:    "delete the document if nothing is to deploy it, else undo what hides it",
	}
	if d.Cause != "" {
		x.Origins = append(x.Origins, render.Origin{Span: render.Span{File: d.Cause, Line: 1, Column: 1, EndLine: 1, EndColumn: 1}, Role: render.Reference})
		if v.Added(d.Cause) {
			x.Message += "; this change adds " + d.Cause
		}
	}
	return x.Fingerprinted()
}
