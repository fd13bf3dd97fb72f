package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// Rules of results about a document, or a unit, that is still in the tree and that
// the change stops deploying.
const (
	NoLongerJudged   = "no-longer-judged"
	NoLongerDeployed = "no-longer-deployed"
)

// Undeployed finds the objects that a change deletes from the cluster although
// they are still in its files, where no policy evaluates them any more.
type Undeployed struct {
	Base, Head []render.TreeDocument
	// Objects returns the objects of a document of the head, or nil if it can't
	// be decoded.
	Objects func(render.TreeDocument) []*render.Object
	// Names returns the kinds and names of these objects.
	Names func(render.TreeDocument) []Named
	// Elsewhere are the objects that the head deploys to other clusters.
	Elsewhere []*render.Object
	// Added reports whether the change adds a file.
	Added func(file string) bool
	// Unreadable returns why the objects of a file of the head can't be known, "" if
	// it does not exist or can be read.
	Unreadable func(file string) string
}

// A Named is the kind of an object and its name, "" if that is generated.
type Named struct {
	GroupKind schema.GroupKind
	Name      string
}

// Results returns an Unknown result for each DELETE request whose object is still in
// a document of the head that is not deployed.
func (u Undeployed) Results(reqs []Request) []Result {
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
	deployed := make(map[[2]string]bool) // files and kinds of the objects that the base deploys
	for _, d := range u.Base {
		if d.State == render.DocRendered {
			deployed[[2]string{d.File, d.Kind}] = true
		}
	}
	reported := make(map[*Request]bool)
	var results []Result
	applied := slices.Clone(u.Elsewhere)
	for i := range reqs {
		if o := reqs[i].Object; o != nil {
			applied = append(applied, o)
		}
	}
	still, idle := sources(applied, deletes)
	for _, d := range u.Head {
		at := [2]string{d.File, d.Kind}
		before := deployed[at]
		if d.State == render.DocRendered {
			switch {
			case still[at]:
				continue
			case idle[at]:
				d.Reason = "deployed by nothing that is found in the tree"
			case before:
				d.Reason = "read by " + strings.Join(d.Units, ", ") + ", which no longer deploys it"
			default:
				continue
			}
		}
		if d.Usual && (d.State == render.DocInChart || !before) {
			continue
		}
		for _, r := range u.held(d, before && (d.State != render.DocRendered || idle[at]), deletes) {
			if !reported[r] {
				reported[r] = true
				results = append(results, u.result(r, d))
			}
		}
	}
	for i := range reqs {
		if r := &reqs[i]; r.Operation == Delete && !reported[r] {
			results = append(results, u.unreadable(r, deployed)...)
		}
	}
	return results
}

// unreadable returns the result about a deleted object whose file can't be read
// any more: it may still hold the object.
func (u Undeployed) unreadable(r *Request, deployed map[[2]string]bool) []Result {
	for _, o := range r.OldObject.At("") {
		if !deployed[[2]string{o.File, r.OldObject.GetKind()}] {
			continue
		}
		if why := u.Unreadable(o.File); why != "" {
			return []Result{u.result(r, render.TreeDocument{File: o.File, Line: 1, Reason: why})}
		}
	}
	return nil
}

// HeldNoMore returns an Unknown result for each DELETE request about an object that
// was nested in another one and is still in it or its document: it is no longer
// deployed from there, and nothing says that it is deleted.
func (u Undeployed) HeldNoMore(reqs []Request) []Result {
	holders := make(map[*render.Object]*render.Object) // of the head by those of the base
	for i := range reqs {
		if r := &reqs[i]; r.OldObject != nil && r.Object != nil {
			holders[r.OldObject] = r.Object
		}
	}
	var results []Result
	for i := range reqs {
		r := &reqs[i]
		if r.Operation != Delete || r.OldObject.Unit == nil || r.OldObject.Unit.Owner == nil {
			continue
		}
		holder := holders[r.OldObject.Unit.Owner]
		if holder == nil || !render.Holds(holder.GroupVersionKind().GroupKind()) {
			continue
		}
		among := []*render.Object{holder}
		for _, d := range u.Head {
			if d.Kind == holder.GetKind() && r.from(d.File) {
				among = append(among, u.Objects(d)...)
			}
		}
		for _, o := range among {
			pointer, ok := find(o.Object, r.OldObject)
			if !ok {
				continue
			}
			results = append(results, Result{
				Engine: EngineRender, Policy: "documents", Rule: NoLongerJudged, Operation: Delete, Object: r.OldObject.Key(),
				Outcome: Unknown, Action: Deny, Baseline: New,
				Message: fmt.Sprintf("no longer checked: %s %s, which %s %s holds and no longer deploys", r.OldObject.GetKind(), r.OldObject.Key().Name, holder.GetKind(), holder.Key().Name),
				Origins: o.At(pointer),
				Hint:    "delete the object if nothing should deploy it; otherwise undo the change that hides it",
			}.Fingerprinted())
			break
		}
	}
	return results
}

// find returns the pointer of the kind of an object within a value.
func find(v any, object *render.Object) (pointer string, ok bool) {
	for at, v := range render.Fields(v, "") {
		m, _ := v.(map[string]any)
		meta, _ := m["metadata"].(map[string]any)
		if m["kind"] == object.GetKind() && meta["name"] == object.GetName() {
			return at + "/kind", true
		}
	}
	return "", false
}

// sources returns the file and kind of each object whose kind the change also
// deletes objects of: still for deployed objects, idle for those that nothing
// deploys.
func sources(applied []*render.Object, deletes map[schema.GroupKind][]*Request) (still, idle map[[2]string]bool) {
	still, idle = make(map[[2]string]bool), make(map[[2]string]bool)
	for _, o := range applied {
		if deletes[o.GroupVersionKind().GroupKind()] == nil {
			continue
		}
		to := still
		if isUnreached(o) {
			to = idle
		}
		for _, at := range o.At("") {
			to[[2]string{at.File, o.GetKind()}] = true
		}
	}
	return still, idle
}

// UndeployedUnits returns an Unknown result for each unit that the base deployed and
// that nothing deploys any more, since the unit's own results do not count.
// deployed reports whether the base read a unit's files to deploy them.
func UndeployedUnits(reqs []Request, deployed func(*render.Unit) bool) []Result {
	first := make(map[*render.Unit]*Request)
	count := make(map[*render.Unit]int)
	var order []*render.Unit
	for i := range reqs {
		r := &reqs[i]
		if r.Object == nil || !isUnreached(r.Object) || r.OldObject != nil && isUnreached(r.OldObject) {
			continue
		}
		u := r.Object.Unit
		if r.Operation == Create && !deployed(u) {
			continue
		}
		if count[u]++; count[u] == 1 {
			order = append(order, u)
			first[u] = r
		}
	}
	var results []Result
	for _, u := range order {
		r := first[u]
		what := fmt.Sprintf("%s %s", r.Object.GetKind(), r.Object.Key().Name)
		if n := count[u]; n > 1 {
			what = fmt.Sprintf("%d objects, among them %s", n, what)
		}
		object, by := r.Object.Key(), "the base"
		object.Unit = "" // the unit's own results do not count, but this one does
		if r.OldObject != nil {
			object, by = r.OldObject.Key(), r.OldObject.Unit.Identity()
		}
		results = append(results, Result{
			Engine: EngineRender, Policy: "documents", Rule: NoLongerDeployed, Operation: Delete, Object: object,
			Outcome: Unknown, Action: Deny, Baseline: New,
			Message: fmt.Sprintf("no longer checked: %s, which %s deployed and nothing found in the tree deploys now", what, by),
			Origins: r.Object.At(""),
			Hint:    "delete the files if nothing is to deploy them",
		}.Fingerprinted())
	}
	return results
}

func isUnreached(o *render.Object) bool { return o.Unit != nil && o.Unit.State == render.Unreached }

// held returns the requests that delete objects of a document. before reports
// that the base deploys an object of its kind from its file.
func (u Undeployed) held(d render.TreeDocument, before bool, deletes map[schema.GroupKind][]*Request) []*Request {
	var held []*Request
	objects := u.Names(d)
	for _, o := range objects {
		for _, r := range deletes[o.GroupKind] {
			name := r.OldObject.GetName()
			if name == o.Name || before && (strings.Contains(name, o.Name) || r.from(d.File)) {
				held = append(held, r)
			}
		}
	}
	if len(objects) > 0 || !before {
		return held
	}
	for gk, rs := range deletes { // a document that can't be decoded is matched by its file and kind
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
	return slices.ContainsFunc(r.OldObject.At(""), func(o render.Origin) bool { return o.File == file })
}

func (u Undeployed) result(r *Request, d render.TreeDocument) Result {
	x := Result{
		Engine: EngineRender, Policy: "documents", Rule: NoLongerJudged, Operation: Delete, Object: r.OldObject.Key(),
		Outcome: Unknown, Action: Deny, Baseline: New,
		Message: fmt.Sprintf("no longer checked: %s:%d is %s", d.File, d.Line, d.Reason),
		Origins: []render.Origin{{Span: render.Span{File: d.File, Line: d.Line, Column: 1, EndLine: d.Line, EndColumn: 1}, Role: render.Manifest}},
		Hint:    "delete the document if nothing should deploy it; otherwise undo the change that hides it",
	}
	if d.Cause != "" {
		x.Origins = append(x.Origins, render.Origin{Span: render.Span{File: d.Cause, Line: 1, Column: 1, EndLine: 1, EndColumn: 1}, Role: render.Reference})
		if u.Added(d.Cause) {
			x.Message += "; this change adds " + d.Cause
		}
	}
	return x.Fingerprinted()
}

// Unchecked returns an Unknown result for each directory in which documents of the head, of
// files that the change adds or edits, are not evaluated although counted reports that the base
// would have counted them: what the head adds, such as a test suite that names a file, hides
// nothing.
func Unchecked(head []render.TreeDocument, counted func(render.TreeDocument) bool) []Result {
	type group struct {
		dir    string
		state  render.DocumentState
		reason string
	}
	var order []group
	hidden := make(map[group][]render.TreeDocument)
	for _, d := range head {
		if d.Usual || d.State == render.DocRendered || d.State == render.DocFailed || !counted(d) {
			continue
		}
		g := group{path.Dir(d.File), d.State, d.Reason}
		if hidden[g] == nil {
			order = append(order, g)
		}
		hidden[g] = append(hidden[g], d)
	}
	var results []Result
	for _, g := range order {
		results = append(results, unchecked(hidden[g]))
	}
	return results
}

func unchecked(hidden []render.TreeDocument) Result {
	d := hidden[0]
	what := fmt.Sprintf("%s %s:%d", d.Kind, d.File, d.Line)
	if n := len(hidden); n > 1 {
		what = fmt.Sprintf("%d Kubernetes objects, the first %s", n, what)
	}
	return Result{
		Engine: EngineRender, Policy: "documents", Rule: "added-not-judged", Operation: Create,
		Outcome: Unknown, Action: Deny, Baseline: New,
		Message: fmt.Sprintf("not checked because of this change: %s, %s; without the change it counts", what, d.Reason),
		Origins: []render.Origin{{Span: render.Span{File: d.File, Line: d.Line, Column: 1, EndLine: d.Line, EndColumn: 1}, Role: render.Manifest}},
		Hint:    "delete the document if nothing should deploy it; otherwise undo the change that hides it",
	}.Fingerprinted()
}

// NewlyExcluded returns a result about a glob that a change adds at a place of the
// configuration, if it excludes documents that are rendered.
func NewlyExcluded(glob string, at render.Span, head []render.TreeDocument) []Result {
	selection := render.Selection{Exclude: []string{glob}}
	first, n := "", 0
	for _, d := range head {
		if d.State == render.DocRendered && selection.Excludes(d.File) {
			if n++; n == 1 {
				first = fmt.Sprintf("%s:%d", d.File, d.Line)
			}
		}
	}
	if n == 0 {
		return nil
	}
	return []Result{Result{
		Engine: EngineRender, Policy: "documents", Rule: "newly-excluded", Operation: Update,
		Outcome: Unknown, Action: Deny, Baseline: New,
		Message: fmt.Sprintf("no longer checked once this change is merged: %d Kubernetes objects that the new glob %q excludes, the first at %s", n, glob, first),
		Origins: []render.Origin{{Span: at, Role: render.Value}},
	}.Fingerprinted()}
}
