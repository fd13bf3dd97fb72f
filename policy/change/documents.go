package change

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Documents finds objects that would be checked without the change, and that the change keeps in the
// files but no longer deploys. It decides about each document of the head as the ledger does about each
// unit. Its methods must not be called concurrently.
type Documents struct {
	base, head *Side
	files      Files
	objects    func(render.TreeDocument) []*render.Object // of documents of the head
	named      map[place][]named
	ids        policy.Identities

	deployed  *render.Deployment          // of the base, without units that the head could not render
	known     map[fileKind]bool           // the base has such documents
	was       map[fileKind]bool           // it deploys one
	ending    map[fileKind]int            // how many more it deploys than the head
	failed    map[fileKind]bool           // it could not render one: true if each is a unit of its own
	loose     map[string][]*render.Unit   // the units that deploy files of a directory as they are
	applied   map[string][]*render.Object // objects of the head, by kind
	live      map[string]map[string]bool  // by kind, the files that hold those that something deploys
	unreached map[string]bool             // units of the head that nothing deploys

	idle     []*render.Unit // of the head that the base deployed, and nothing deploys any more
	idleIn   map[*render.Unit][]*policy.Request
	reported map[place]bool // documents of the head with a result, and their files as line 0
}

// Files are what Documents must know about files, by their names in the tree.
type Files struct {
	Same       func(file string) bool   // the content is the same on both sides
	Excluded   func(file string) bool   // the user leaves the file out
	Unreadable func(file string) string // why the head's objects there can't be known, or "" if there is no such file
}

type (
	fileKind struct{ file, kind string }
	place    struct {
		file string
		line int
	}
	named struct {
		schema.GroupKind
		name string // "" if it is generated
	}
)

// NewDocuments takes both sides, with the units of all clusters.
func NewDocuments(base, head *Side, files Files) *Documents {
	stopped := Stopped(base, head)
	d := &Documents{
		base: base, head: head, files: files, objects: head.Walked.Objects(), named: make(map[place][]named),
		ids:      policy.NewIdentities(render.Objects(base.Units), render.Objects(head.Units)),
		deployed: base.Deployed.Without(func(unit string) bool { return stopped[unit] }),
		known:    make(map[fileKind]bool), was: make(map[fileKind]bool), ending: make(map[fileKind]int), failed: make(map[fileKind]bool),
		loose: make(map[string][]*render.Unit), applied: make(map[string][]*render.Object), live: make(map[string]map[string]bool), unreached: head.unreached(),
		idleIn: make(map[*render.Unit][]*policy.Request), reported: make(map[place]bool),
	}
	before, byHand, units := base.unreached(), base.byHand(), render.ByIdentity(base.Units)
	for _, x := range base.Documents() {
		is, dir := fileKind{x.File, x.Kind}, path.Dir(x.File)
		d.known[is] = true
		if x.State == render.DocFailed {
			d.failed[is] = slices.Contains(x.Units, x.File)
		}
		if deploys(x, before) {
			d.was[is] = true
			d.ending[is]++
			for _, id := range x.Units {
				if u := units[id]; u != nil && !base.Walked.Claimed(dir) && !byHand[id] && !slices.Contains(d.loose[dir], u) {
					d.loose[dir] = append(d.loose[dir], u)
				}
			}
		}
	}
	for _, x := range head.Documents() {
		if deploys(x, d.unreached) {
			d.ending[fileKind{x.File, x.Kind}]--
		}
	}
	for _, o := range slices.Concat(render.Objects(head.Units), render.Objects(head.Others)) {
		d.applied[o.GetKind()] = append(d.applied[o.GetKind()], o)
	}
	return d
}

// deploys reports whether a unit deploys a document. Nothing deploys the unreached units.
func deploys(d render.TreeDocument, unreached map[string]bool) bool {
	return d.State == render.DocRendered && slices.ContainsFunc(d.Units, func(unit string) bool { return !unreached[unit] })
}

// unreached returns the units that nothing found in the tree deploys.
func (s *Side) unreached() map[string]bool {
	all := make(map[string]bool)
	for _, u := range s.Units {
		if u.State == render.Unreached {
			all[u.Identity()] = true
		}
	}
	return all
}

// byHand returns the units of Argo CD's and Flux's objects, and of their sources, that no object of the tree
// deploys, if such objects say what is deployed. They say nothing about the files beside them.
func (s *Side) byHand() map[string]bool {
	all := make(map[string]bool)
	if !s.Deployed.Opens() {
		return all
	}
	for _, units := range []map[*render.Unit]bool{s.Deployed.Roots, s.Deployed.Sources} {
		for u := range units {
			all[u.Identity()] = true
		}
	}
	return all
}

// NoLongerDeployed returns Unknown results for the objects of the requests of one cluster that are still
// in a file of the head and that the change stops deploying: nothing says that they are to be deleted.
// Objects of a unit that stop for the same reason have one result.
func (d *Documents) NoLongerDeployed(reqs []policy.Request) []policy.Result {
	deletes := make(map[schema.GroupKind][]*policy.Request)
	holders := make(map[*render.Object]*render.Object) // of the head by those of the base
	var deleted []*policy.Request
	for i := range reqs {
		switch r := &reqs[i]; {
		case r.Recreated:
		case r.Operation == policy.Delete:
			gk := r.OldObject.GroupVersionKind().GroupKind()
			deletes[gk], deleted = append(deletes[gk], r), append(deleted, r)
		case r.OldObject != nil && render.Holds(r.Object.GroupVersionKind().GroupKind()):
			holders[r.OldObject] = r.Object
			d.noteIdle(r)
		default:
			d.noteIdle(r)
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	var results []policy.Result
	type cause struct{ unit, reason, file string }
	reported, groups := make(map[*policy.Request]bool), make(map[cause]*undeployed)
	var all []*undeployed
	add := func(r *policy.Request, x render.TreeDocument) {
		if reported[r] {
			return
		}
		reported[r], d.reported[place{x.File, x.Line}], d.reported[place{x.File, 0}] = true, true, true
		c := cause{r.OldObject.Unit.Identity(), x.Reason, x.Cause}
		if groups[c] == nil {
			groups[c] = &undeployed{first: r.OldObject, TreeDocument: x}
			all = append(all, groups[c])
		}
		groups[c].places = append(groups[c].places, AtLine(x.File, x.Line, render.Manifest)...)
	}
	for _, x := range d.head.Documents() {
		if d.undeployed(&x) {
			for _, r := range d.held(x, deletes) {
				add(r, x)
			}
		}
	}
	for _, r := range deleted {
		if x, ok := d.unreadable(r); ok {
			add(r, x)
		}
		if holder := holders[r.OldObject.Unit.Owner]; holder != nil {
			results = append(results, d.heldNoMore(r, holder)...)
		}
	}
	for _, u := range all {
		results = append(results, d.result(u))
	}
	return results
}

// An undeployed is the first of the objects that a unit no longer deploys for one reason, its document in the
// head, and the places of all of them.
type undeployed struct {
	first *render.Object
	render.TreeDocument
	places []render.Origin
}

// undeployed reports whether nothing deploys a document of the head, and sets the reason. It leaves out
// patches and templates that write nothing, unless the base deployed them.
func (d *Documents) undeployed(x *render.TreeDocument) bool {
	is := fileKind{x.File, x.Kind}
	switch {
	case x.State != render.DocRendered:
	case d.isLive(is):
		return false
	case !deploys(*x, d.unreached):
		x.State, x.Reason = render.DocUnused, idleReason
	case d.was[is]:
		x.Reason = "read by " + strings.Join(x.Units, ", ") + ", which no longer deploys it"
	default:
		return false
	}
	return !x.Usual || d.was[is] && x.State != render.DocInChart
}

// isLive reports whether something deploys an object of a kind that was written in a file.
func (d *Documents) isLive(is fileKind) bool {
	files, known := d.live[is.kind]
	if !known {
		files = make(map[string]bool)
		for _, o := range d.applied[is.kind] {
			if !isUnreached(o) {
				for _, at := range o.At("") {
					files[at.File] = true
				}
			}
		}
		d.live[is.kind] = files
	}
	return files[is.file]
}

// held returns the requests that delete objects of a document that nothing deploys.
func (d *Documents) held(x render.TreeDocument, deletes map[schema.GroupKind][]*policy.Request) []*policy.Request {
	before := d.was[fileKind{x.File, x.Kind}] && x.State != render.DocRendered
	var held []*policy.Request
	objects := d.names(x)
	for _, o := range objects {
		for _, r := range deletes[o.GroupKind] {
			name := r.OldObject.GetName()
			if name == o.name || before && (strings.Contains(name, o.name) || isFrom(r.OldObject, x.File)) {
				held = append(held, r)
			}
		}
	}
	if len(objects) > 0 || !before {
		return held
	}
	for gk, rs := range deletes { // a document that can't be decoded is matched by its file and kind
		for _, r := range rs {
			if gk.Kind == x.Kind && isFrom(r.OldObject, x.File) {
				held = append(held, r)
			}
		}
	}
	return held
}

// names returns the kinds and names of a document's objects.
func (d *Documents) names(x render.TreeDocument) []named {
	at := place{x.File, x.Line}
	all, ok := d.named[at]
	if !ok {
		for _, o := range d.objects(x) {
			all = append(all, named{o.GroupVersionKind().GroupKind(), o.GetName()})
		}
		d.named[at] = all
	}
	return all
}

// isFrom reports whether an object was written in a file.
func isFrom(o *render.Object, file string) bool {
	return slices.ContainsFunc(o.At(""), func(at render.Origin) bool { return at.File == file })
}

// unreadable returns a document for the file of a deleted object that can't be read any more: it may
// still hold the object.
func (d *Documents) unreadable(r *policy.Request) (x render.TreeDocument, ok bool) {
	for _, o := range r.OldObject.At("") {
		if !d.was[fileKind{o.File, r.OldObject.GetKind()}] {
			continue
		}
		if why := d.files.Unreadable(o.File); why != "" {
			return render.TreeDocument{File: o.File, Line: 1, Reason: why}, true
		}
	}
	return x, false
}

// heldNoMore returns an Unknown result if a deleted object was nested in another one and is still in it
// or its document: it is no longer deployed from there.
func (d *Documents) heldNoMore(r *policy.Request, holder *render.Object) []policy.Result {
	among := []*render.Object{holder}
	for _, x := range d.head.Documents() {
		if x.Kind == holder.GetKind() && isFrom(r.OldObject, x.File) {
			among = append(among, d.objects(x)...)
		}
	}
	for _, o := range among {
		for at, v := range render.Fields(o.Object, "") {
			m, _ := v.(map[string]any)
			meta, _ := m["metadata"].(map[string]any)
			if m["kind"] != r.OldObject.GetKind() || meta["name"] != r.OldObject.GetName() {
				continue
			}
			x := Undecided("no-longer-judged", policy.Delete, o.At(at+"/kind"), "no longer checked: %s %s, which %s %s holds and no longer deploys",
				r.OldObject.GetKind(), r.OldObject.Key().Name, holder.GetKind(), holder.Key().Name)
			x.Object, x.Hint = d.ids.Key(r.OldObject), "delete the object if nothing should deploy it; otherwise undo the change that hides it"
			return []policy.Result{x.Fingerprinted()}
		}
	}
	return nil
}

// result returns the result about objects that documents of the head still hold.
func (d *Documents) result(u *undeployed) policy.Result {
	what := fmt.Sprintf("%s:%d", u.File, u.Line)
	if n := len(u.places); n > 1 {
		what = fmt.Sprintf("%d objects of %s; the first, at %s,", n, u.first.Unit.Identity(), what)
	}
	result := Undecided("no-longer-judged", policy.Delete, u.places, "no longer checked: %s is %s", what, u.Reason)
	result.Object, result.Hint = d.ids.Key(u.first), hiddenHint
	if u.Cause != "" {
		result.Origins = append(result.Origins, AtLine(u.Cause, 1, render.Reference)...)
		if _, err := fs.Stat(d.base.Tree, u.Cause); err != nil {
			result.Message += "; this change adds " + u.Cause
		}
	}
	return result.Fingerprinted()
}

const (
	hiddenHint = "delete the document if nothing should deploy it; otherwise undo the change that hides it"
	idleReason = "deployed by nothing that is found in the tree"
)

// Undecided returns an Unknown result about something that is no longer checked because of the change.
// The caller sets further fields and then calls Fingerprinted.
func Undecided(rule string, op policy.Operation, origins []render.Origin, format string, args ...any) policy.Result {
	return policy.Result{
		Engine: policy.EngineRender, Policy: "documents", Rule: rule, Operation: op,
		Outcome: policy.Unknown, Action: policy.Deny, Baseline: policy.New, Message: fmt.Sprintf(format, args...), Origins: origins,
	}
}

// AtLine returns a line of a file as an origin.
func AtLine(file string, line int, role render.Role) []render.Origin {
	return []render.Origin{{Span: render.Span{File: file, Line: line, Column: 1, EndLine: line, EndColumn: 1}, Role: role}}
}

// noteIdle records an object whose unit the base deployed, and that nothing deploys any more.
func (d *Documents) noteIdle(r *policy.Request) {
	if !isUnreached(r.Object) || r.OldObject != nil && isUnreached(r.OldObject) {
		return
	}
	u := r.Object.Unit
	if r.OldObject == nil && !d.deployed.Reaches(&u.Source) {
		return
	}
	if d.idleIn[u] == nil {
		d.idle = append(d.idle, u)
	}
	d.idleIn[u] = append(d.idleIn[u], r)
}

// Rest returns Unknown results: one for all objects that a unit of the base deployed and nothing deploys any more, and one for
// each document that the change adds or edits and that is not checked only because of the change. Call it after
// NoLongerDeployed for all clusters: it leaves out files and documents that have a result already.
func (d *Documents) Rest() []policy.Result {
	readers := make(map[string]string) // of files at the base
	for _, x := range d.base.Documents() {
		if len(x.Units) > 0 {
			readers[x.File] = x.Units[0]
		}
	}
	var order []string
	idle := make(map[string][]*policy.Request) // by what deployed them
	stays := d.deployedElsewhere()
	for _, u := range d.idle {
		d.idleIn[u] = slices.DeleteFunc(d.idleIn[u], func(r *policy.Request) bool { return r.OldObject == nil && stays(r.Object) })
		if len(d.idleIn[u]) == 0 {
			continue
		}
		r := d.idleIn[u][0]
		written := slices.Concat(r.Object.At("/kind"), r.Object.At(""))
		if slices.ContainsFunc(written, func(at render.Origin) bool { return d.reported[place{at.File, 0}] }) {
			continue
		}
		by := "the base"
		if r.OldObject != nil {
			by = r.OldObject.Unit.Identity()
		} else if len(written) > 0 {
			by = cmp.Or(readers[written[0].File], by)
		}
		if idle[by] == nil {
			order = append(order, by)
		}
		idle[by] = append(idle[by], d.idleIn[u]...)
	}
	var results []policy.Result
	for _, by := range order {
		r := idle[by][0]
		what := fmt.Sprintf("%s %s", r.Object.GetKind(), r.Object.Key().Name)
		if n := len(idle[by]); n > 1 {
			what = fmt.Sprintf("%d objects, among them %s", n, what)
		}
		object := d.ids.Key(r.Object)
		object.Unit = "" // the unit's own results do not count, but this one does
		if r.OldObject != nil {
			object = d.ids.Key(r.OldObject)
		}
		var origins []render.Origin
		for _, r := range idle[by] {
			origins = append(origins, r.Object.At("")...)
		}
		x := Undecided("no-longer-deployed", policy.Delete, origins, "no longer checked: %s, which %s deployed and nothing found in the tree deploys now", what, by)
		x.Object, x.Hint = object, "delete the files if nothing is to deploy them"
		results = append(results, x.Fingerprinted())
	}
	return append(results, d.unchecked()...)
}

// deployedElsewhere returns a function for documents that nothing deploys any more. It reports whether the object that the base
// made of the document is still deployed, from another file.
func (d *Documents) deployedElsewhere() func(*render.Object) bool {
	type written struct {
		fileKind
		name string
	}
	from, deployed := make(map[written]bool), make(map[policy.Identity]bool)
	if len(d.idle) > 0 {
		for _, o := range slices.Concat(render.Objects(d.head.Units), render.Objects(d.head.Others)) {
			deployed[d.ids.Of(o).Anywhere()] = true
		}
		for _, o := range slices.Concat(render.Objects(d.base.Units), render.Objects(d.base.Others)) {
			if !isUnreached(o) && deployed[d.ids.Of(o).Anywhere()] {
				for _, at := range o.At("/kind") {
					from[written{fileKind{at.File, o.GetKind()}, o.GetName()}] = true
				}
			}
		}
	}
	return func(o *render.Object) bool {
		return slices.ContainsFunc(o.At("/kind"), func(at render.Origin) bool { return from[written{fileKind{at.File, o.GetKind()}, o.GetName()}] })
	}
}

// unchecked returns an Unknown result for each directory with documents that the change adds or edits,
// and that only the change keeps from being checked, such as by a test suite that names their file.
func (d *Documents) unchecked() []policy.Result {
	type group struct {
		dir    string
		state  render.DocumentState
		reason string
	}
	var order []group
	hidden := make(map[group][]render.TreeDocument)
	same := make(map[string]bool)
	for _, x := range d.head.Documents() {
		if x.State == render.DocRendered && !deploys(x, d.unreached) {
			x.State, x.Reason = render.DocUnused, idleReason
		}
		if x.Usual || x.State == render.DocRendered || x.State == render.DocFailed || x.State == render.DocLeft || d.reported[place{x.File, x.Line}] || x.State == render.DocExcluded && d.files.Excluded(x.File) {
			continue
		}
		if _, known := same[x.File]; !known {
			same[x.File] = d.files.Same(x.File)
		}
		if e := (Entry{Base: d.without(x, same[x.File])}); e.Verdict() == Ignored || d.known[fileKind{x.File, x.Kind}] && d.isDeployed(x) {
			continue
		}
		g := group{path.Dir(x.File), x.State, x.Reason}
		if hidden[g] == nil {
			order = append(order, g)
		}
		hidden[g] = append(hidden[g], x)
	}
	var results []policy.Result
	for _, g := range order {
		x := hidden[g][0]
		what := fmt.Sprintf("%s %s:%d", x.Kind, x.File, x.Line)
		if n := len(hidden[g]); n > 1 {
			what = fmt.Sprintf("%d Kubernetes objects, the first %s", n, what)
		}
		r := Undecided("added-not-judged", policy.Create, AtLine(x.File, x.Line, render.Manifest), "not checked because of this change: %s, %s; without the change it counts", what, x.Reason)
		r.Hint = hiddenHint
		results = append(results, r.Fingerprinted())
	}
	return results
}

// without returns the state that a document of the head, which the head does not deploy, would have without
// the change. A file that is the same on both sides hides only what the base could not render.
func (d *Documents) without(x render.TreeDocument, same bool) State {
	is := fileKind{x.File, x.Kind}
	alone, failed := d.failed[is]
	switch {
	case failed && (alone || x.State != render.DocUnused): // else a kustomization left it out to be fixed
		d.ending[is]--
		return PerhapsDeployed
	case same:
		return NotDeployed
	case !d.known[is] && slices.ContainsFunc(d.loose[path.Dir(x.File)], func(u *render.Unit) bool { return applies(u, x.File) }):
		return Deployed
	}
	if d.ending[is]--; d.ending[is] >= 0 {
		return Deployed
	}
	return NotDeployed
}

// isDeployed reports whether the head has an object with the kind and the name of one of a document, to which
// kustomize may add a prefix or suffix.
func (d *Documents) isDeployed(x render.TreeDocument) bool {
	return slices.ContainsFunc(d.names(x), func(o named) bool {
		return slices.ContainsFunc(d.applied[o.Kind], func(x *render.Object) bool {
			return x.GroupVersionKind().Group == o.Group && strings.Contains(x.GetName(), o.name)
		})
	})
}

// NewlyExcluded returns a result about a glob that a change adds at a place of the
// configuration, if it excludes documents that are rendered.
func NewlyExcluded(glob string, span render.Span, head []render.TreeDocument) []policy.Result {
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
	return []policy.Result{Undecided("newly-excluded", policy.Update, []render.Origin{{Span: span, Role: render.Value}},
		"no longer checked once this change is merged: %d Kubernetes objects that the new glob %q excludes, the first at %s", n, glob, first).Fingerprinted()}
}
