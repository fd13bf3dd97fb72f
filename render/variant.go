package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Variant is an installation to render charts for that differs from the
// default. The default is a first install on a cluster that serves what
// Kubernetes itself and Helm.APIVersions name, and in which lookup finds
// nothing. The zero value is the default.
type Variant struct {
	Upgrade     bool
	APIVersions []string // API versions served in addition, sorted
	Lookup      Lookups
	Cluster     string // the name of a cluster that Argo CD may know, instead of in-cluster
	Patch       string // another patch version of Kubernetes, maybe with a suffix that a distribution appends
	Later       bool   // with Upgrade: the upgrade after the first one
}

// Lookups selects what Helm's lookup returns.
type Lookups int

// The answers of lookup.
const (
	LookupNothing Lookups = iota
	LookupObject          // an object with a text in each field that a template reads
	LookupBare            // an object without such fields
)

// IsDefault reports whether v is the default.
func (v *Variant) IsDefault() bool {
	return !v.Upgrade && len(v.APIVersions) == 0 && v.Lookup == LookupNothing && v.Patch == "" && v.Cluster == ""
}

// IsInvented reports whether v assumes something that may be true of no cluster. Its failures are undecided.
func (v *Variant) IsInvented() bool {
	return v.Lookup != LookupNothing || v.Patch != "" || v.Cluster != ""
}

// String names the installations that have the variant, such as "only on
// upgrade".
func (v Variant) String() string {
	if v.IsDefault() {
		return ""
	}
	return "only " + v.when()
}

func (v *Variant) when() string {
	var when []string
	if v.Upgrade {
		when = append(when, "on upgrade")
	}
	if len(v.APIVersions) > 0 {
		when = append(when, "where the cluster serves "+strings.Join(v.APIVersions, " and "))
	}
	if v.Lookup != LookupNothing {
		when = append(when, "where lookup finds something")
	}
	if v.Cluster != "" {
		when = append(when, "where Argo CD knows a cluster "+v.Cluster)
	}
	if v.Patch != "" {
		when = append(when, "where the version of Kubernetes ends in "+v.Patch)
	}
	return strings.Join(when, ", ")
}

// The subjects of Questions.
const (
	AsksUpgrade = "upgrade" // whether the release is being upgraded
	AsksAPI     = "api"     // whether the cluster serves an API version
	AsksAPIs    = "apis"    // which API versions the cluster serves, all of them
	AsksCluster = "cluster" // for the Application of another cluster
	AsksLookup  = "lookup"  // for an object on the cluster
	AsksPatch   = "patch"   // for an end of the version of Kubernetes that is not given
)

// A Question is a question of a template that only a cluster can answer.
type Question struct {
	Subject string
	API     string // for AsksAPI; for AsksCluster the cluster's name; for AsksPatch the patch version and suffix that give another answer; for AsksLookup Kind/name of the object
	Span    Span   // place of the template's action
}

// Ask adds a question, unless it is there already.
func (i *Inputs) Ask(q Question) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !slices.ContainsFunc(i.asked, func(x Question) bool { return x.Subject == q.Subject && x.API == q.API && x.Span.File == q.Span.File }) {
		i.asked = append(i.asked, q)
	}
}

// Questions returns the questions in a fixed order.
func (i *Inputs) Questions() []Question {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	all := slices.Clone(i.asked)
	slices.SortFunc(all, func(a, b Question) int {
		return cmp.Or(strings.Compare(a.Subject, b.Subject), strings.Compare(a.API, b.API), strings.Compare(a.Span.File, b.Span.File), cmp.Compare(a.Span.Line, b.Span.Line))
	})
	return all
}

// A Branch is a side of a condition in a template that only a cluster, or the
// time, decides.
type Branch struct {
	Span  Span
	Else  bool // the side of else; both sides have the same Span
	Taken bool
	Why   string // what decides it, such as "what lookup finds"

	Assumed string // the rule of the assumption that decides it, if the user could have set another one
}

// Rules of warnings about templates that write more for another Kubernetes
// version, release name or namespace than the assumed ones.
const (
	AssumedVersion = "assumed-version" // the version of Kubernetes
	AssumedRelease = "assumed-release" // the release's name or namespace
)

// Branch adds a branch.
func (i *Inputs) Branch(b Branch) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.branches = append(i.branches, b)
}

// A GivenPatch is a patch of a unit that is written in its parent, which may give
// it to several units.
type GivenPatch struct {
	Span    Span // the place of its target
	Selects bool // it selects something in the unit, or may do so
}

// Noted holds the content of Inputs as plain data.
type Noted struct {
	Inputs    []Input
	Questions []Question
	Branches  []Branch
	Patches   []GivenPatch
}

// noted returns the content; in may be nil.
func (i *Inputs) noted() Noted {
	if i == nil {
		return Noted{}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return Noted{slices.Clone(i.all), slices.Clone(i.asked), slices.Clone(i.branches), slices.Clone(i.patches)}
}

// include adds the content of other inputs. rename returns the names that its
// files have here.
func (i *Inputs) include(other *Inputs, rename func(string) (string, bool)) {
	for _, x := range other.All() {
		if file, ok := rename(x.File); ok {
			x.File = file
			i.add(x)
		}
	}
	for _, q := range other.asked {
		q.Span.File, _ = rename(q.Span.File)
		i.Ask(q)
	}
	for _, b := range other.branches {
		b.Span.File, _ = rename(b.Span.File)
		i.Branch(b)
	}
}

// maxVariants is how often a unit is rendered again at most, for the given version of Kubernetes, for
// other ends of it and for other clusters each.
const maxVariants = 8

// maxSingle is the largest number of API versions that are tried one by one.
const maxSingle = 4

// maxCombined is the largest number of questions with two answers whose answers are
// tried in each combination. A template may write something in just one of them.
const maxCombined = 3

// A varying renders the variants of one unit.
type varying struct {
	unit  *Unit
	again func(Variant, *Inputs) ([]*Object, error)
	asked []Question
	done  []Variant

	branches []Branch
	errs     []error
	refused  []string          // variants that could not be rendered
	known    map[Key][]*Object // of the unit and of the variants so far
	found    map[Key]bool      // written where lookup finds something; nil if that is not rendered
	first    map[Key]bool      // written by the first upgrade, where lookup finds nothing
}

// vary renders a unit again under other answers to its templates' questions. It
// adds to the unit the objects, and forms of objects, that the default does not
// have, and to its Err what remains undecided. inputs are those of the default
// rendering.
func (u *Unit) vary(ctx context.Context, inputs *Inputs, again func(Variant, *Inputs) ([]*Object, error)) {
	asked := inputs.Questions()
	if len(asked)+len(inputs.branches) == 0 || len(Failures(u.Err)) > 0 {
		return
	}
	w := &varying{unit: u, again: again, asked: asked, branches: inputs.branches, known: make(map[Key][]*Object)}
	for _, o := range u.Objects {
		w.learn(o)
	}
	for ctx.Err() == nil {
		next, ok := w.next()
		if !ok {
			break
		}
		w.done = append(w.done, next)
		w.render(next)
	}
	w.lookedUp()
	w.unrendered()
	w.untaken()
	for _, e := range w.errs {
		u.Err = errors.Join(u.Err, e)
	}
}

// plan lists the variants that follow from the questions so far, the most
// important ones first.
func (w *varying) plan() []Variant {
	all := w.all()
	var plan, late []Variant
	if all.Upgrade {
		plan = append(plan, Variant{Upgrade: true})
	}
	for i, api := range all.APIVersions {
		single := Variant{APIVersions: []string{api}}
		if i < maxSingle {
			plan = append(plan, single)
		} else {
			late = append(late, single)
		}
	}
	if len(all.APIVersions) > 1 {
		plan = append(plan, Variant{APIVersions: all.APIVersions})
	}
	if all.Lookup != LookupNothing {
		plan = append(plan, Variant{Lookup: LookupObject})
	}
	if all.Upgrade && len(all.APIVersions) > 0 {
		plan = append(plan, Variant{Upgrade: true, APIVersions: all.APIVersions})
	}
	if all.Lookup != LookupNothing && (all.Upgrade || len(all.APIVersions) > 0) {
		plan = append(plan, all)
	}
	for _, q := range w.asked {
		switch q.Subject {
		case AsksCluster:
			plan = append(plan, Variant{Cluster: q.API})
		case AsksPatch:
			plan = append(plan, Variant{Patch: q.API})
			if end := all; !all.IsDefault() {
				end.Patch = q.API
				plan = append(plan, end)
			}
		}
	}
	return slices.Concat(plan, late, combinations(all))
}

// all returns the variant with the other answer to each question so far.
func (w *varying) all() (all Variant) {
	for _, q := range w.asked {
		switch q.Subject {
		case AsksUpgrade:
			all.Upgrade = true
		case AsksLookup:
			all.Lookup = LookupObject
		case AsksAPI:
			all.APIVersions = append(all.APIVersions, q.API)
		}
	}
	slices.Sort(all.APIVersions)
	all.APIVersions = slices.Compact(all.APIVersions)
	return all
}

// combined returns the number of questions with two answers.
func (v *Variant) combined() int {
	if v.Upgrade {
		return len(v.APIVersions) + 1
	}
	return len(v.APIVersions)
}

// combinations returns the variants with some of the answers of all, apart from those of
// lookup, or nothing if they are too many.
func combinations(all Variant) (variants []Variant) {
	if all.combined() > maxCombined {
		return nil
	}
	upgrades := []bool{false}
	if all.Upgrade {
		upgrades = []bool{false, true}
	}
	for _, upgrade := range upgrades {
		for set := range 1 << len(all.APIVersions) {
			v := Variant{Upgrade: upgrade}
			for i, api := range all.APIVersions {
				if set&(1<<i) != 0 {
					v.APIVersions = append(v.APIVersions, api)
				}
			}
			if !v.IsDefault() {
				variants = append(variants, v)
			}
		}
	}
	return variants
}

func (w *varying) next() (Variant, bool) {
	for _, v := range w.plan() {
		alike := func(x Variant) bool {
			return (x.Patch == "") == (v.Patch == "") && (x.Cluster == "") == (v.Cluster == "")
		}
		if done := slices.DeleteFunc(slices.Clone(w.done), func(x Variant) bool { return !alike(x) }); !w.isDone(v) && len(done) < maxVariants {
			return v, true
		}
	}
	return Variant{}, false
}

func (w *varying) isDone(v Variant) bool {
	return slices.ContainsFunc(w.done, func(x Variant) bool { return x.String() == v.String() })
}

func (w *varying) render(v Variant) {
	inputs := new(Inputs)
	objects, err := w.again(v, inputs)
	if len(Failures(err)) > 0 && v.Lookup == LookupObject && Errors(err)[0].Rule == "helm-template" { // the chart may expect another type of field
		v.Lookup, inputs = LookupBare, new(Inputs)
		objects, err = w.again(v, inputs)
	}
	for _, q := range inputs.Questions() {
		if (q.Subject != AsksUpgrade || w.unit.IsUpgraded()) && !slices.ContainsFunc(w.asked, func(x Question) bool { return x.Subject == q.Subject && x.API == q.API }) {
			w.asked = append(w.asked, q)
		}
	}
	if len(Failures(err)) > 0 {
		w.failed(v, err)
		return
	}
	w.branches = append(w.branches, inputs.branches...)
	for _, in := range inputs.All() {
		if in.State == DocRendered {
			w.unit.Inputs = append(w.unit.Inputs, in)
		}
	}
	for _, o := range objects {
		w.add(v, o)
	}
	switch {
	case !w.unit.IsUpgraded():
	case v.IsUpgrade():
		w.upgrade(objects)
	case v.Lookup != LookupNothing && v.Upgrade == w.all().Upgrade:
		if w.found == nil {
			w.found = make(map[Key]bool)
		}
		for _, o := range objects {
			w.found[unitless(o)] = true
		}
	}
}

// Assumptions of the objects of a release.
const (
	WrittenOnce     = "an upgrade of the release does not write this object again in this form"
	NamedByRevision = "each upgrade of the release writes this object under another name, with the revision in it"
)

// upgrade adds the objects that the upgrade after the first one writes, and marks those that it does not
// write. first are those of the first upgrade. Objects that differ only in the release's revision are one.
func (w *varying) upgrade(first []*Object) {
	w.first = make(map[Key]bool)
	for _, o := range first {
		w.first[unitless(o)] = true
	}
	next := Variant{Upgrade: true, Later: true}
	later, err := w.again(next, new(Inputs))
	if len(Failures(err)) > 0 {
		later = first
	}
	byRevision := make(map[string]*Object) // of the first upgrade
	for _, o := range w.unit.Variants {
		if o.Variant.IsUpgrade() {
			byRevision[revisionless(o)] = o
		}
	}
	written := make(map[*Object]bool)
	for _, o := range later {
		key := unitless(o)
		known := false
		for _, x := range w.known[key] {
			if !written[x] && (x.Variant.IsDefault() || x.Variant.IsUpgrade()) && Equal(x.Object, o.Object) {
				written[x], known = true, true
				break
			}
		}
		if known {
			continue
		}
		if same := byRevision[revisionless(o)]; same != nil {
			if written[same] = true; unitless(same) != key {
				same.assume(NamedByRevision)
			}
		} else if len(w.unit.Variants) < maxObjects {
			written[w.keep(next, o)] = true
		}
	}
	for _, o := range slices.Concat(w.unit.Objects, w.unit.Variants) {
		if !written[o] && (o.Variant.IsDefault() || o.Variant.IsUpgrade()) {
			o.assume(WrittenOnce)
		}
	}
}

// revisionless returns the text of an object of the second or third revision of a release, without the revision.
func revisionless(o *Object) string {
	data, _ := o.MarshalJSON() // it can't fail for what YAML can hold
	return strings.ReplaceAll(string(data), "3", "2")
}

func (o *Object) assume(what string) {
	if !slices.Contains(o.Assumed, what) {
		o.Assumed = append(slices.Clip(o.Assumed), what)
	}
}

// lookedUp warns of objects that the chart looks up and does not write if it finds them: an upgrade may delete them. An
// object that only an upgrade writes whose lookups find something counts as written by upgrades.
func (w *varying) lookedUp() {
	if w.found == nil {
		return
	}
	for _, o := range slices.Concat(w.unit.Objects, w.unit.Variants) {
		if key := unitless(o); w.found[key] && !w.first[key] {
			o.Assumed = slices.DeleteFunc(slices.Clone(o.Assumed), func(a string) bool { return a == WrittenOnce })
			continue
		}
		name := o.GetKind() + "/" + o.GetName()
		asked := slices.ContainsFunc(w.asked, func(q Question) bool { return q.Subject == AsksLookup && q.API == name })
		if asked && !w.found[unitless(o)] && !slices.Contains(o.Assumed, WrittenOnce) && o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			e := w.unit.errorAt(o, "", "lookup", "an upgrade of the release may delete %s %s: the template does not write it if lookup finds it", o.GetKind(), o.Key().Name)
			e.Warning = true
			w.errs = append(w.errs, e)
		}
	}
}

// Upgraded returns the objects that an upgrade of the unit's release writes, in the form of the second upgrade
// and those after it. If no upgrade of it can be rendered, known is false.
func (u *Unit) Upgraded() (objects []*Object, known bool) {
	known = !slices.ContainsFunc(Errors(u.Err), func(e *Error) bool { return e.Upgrade })
	once := func(o *Object) bool {
		return !o.Variant.IsDefault() && !o.Variant.IsUpgrade() || slices.Contains(o.Assumed, WrittenOnce)
	}
	if !slices.ContainsFunc(u.Objects, once) && len(u.Variants) == 0 {
		return u.Objects, known
	}
	return slices.DeleteFunc(slices.Concat(u.Objects, u.Variants), once), known
}

// IsUpgrade reports whether v is an upgrade in which nothing else differs from the default.
func (v *Variant) IsUpgrade() bool {
	return v.Upgrade && v.String() == (Variant{Upgrade: true}).String()
}

// IsUpgraded reports whether a change of the unit upgrades a release of Helm. Argo CD and kustomize
// render each version of a chart as a first install.
func (u *Unit) IsUpgraded() bool {
	return u.Owner == nil && u.Kind == "helm" || u.Owner != nil && u.Owner.GetKind() == "HelmRelease"
}

// failed records that a variant can't be rendered. That is no error by itself,
// since a chart may refuse some clusters; with an invented result of lookup, version
// or cluster it is undecided. A variant with another end of the version is
// not recorded if the variant without that end has failed, too.
func (w *varying) failed(v Variant, err error) {
	e, given := Errors(err)[0], v
	given.Patch = ""
	if slices.Contains(w.refused, given.String()) {
		return
	}
	w.refused = append(w.refused, v.String())
	note := &Error{
		Span: e.Span, Rule: "variant", Warning: true, Undecided: v.IsInvented() || e.Undecided || e.Rule == "set-apart",
		Err: fmt.Errorf("not rendered as it would be %s: %w", v.when(), e.Err),
	}
	if v.IsUpgrade() {
		note.Upgrade = true
	}
	if q, ok := w.question(AsksLookup); ok && note.Undecided {
		note.Span = q.Span
	}
	w.errs = append(w.errs, note)
}

func (w *varying) question(subject string) (Question, bool) {
	i := slices.IndexFunc(w.asked, func(q Question) bool { return q.Subject == subject })
	if i < 0 {
		return Question{}, false
	}
	return w.asked[i], true
}

// add keeps an object of a variant unless another rendering has the same
// object.
func (w *varying) add(v Variant, o *Object) {
	key := unitless(o)
	same := func(x *Object) bool { return Equal(x.Object, o.Object) }
	if slices.ContainsFunc(w.known[key], same) || len(w.unit.Variants) >= maxObjects {
		return
	}
	if v.Lookup != LookupNothing && len(w.known[key]) == 0 {
		e := w.unit.errorAt(o, "", "lookup", "%s %s is not decided: it is written %s", o.GetKind(), o.Key().Name, v)
		e.Warning, e.Undecided = true, true
		w.errs = append(w.errs, e)
	}
	w.keep(v, o)
}

// keep adds an object of a variant to the unit, and returns it there.
func (w *varying) keep(v Variant, o *Object) *Object {
	only := *o
	only.Variant, only.Unit = v, w.unit
	w.unit.Variants = append(w.unit.Variants, &only)
	w.learn(&only)
	return &only
}

func (w *varying) learn(o *Object) {
	key := unitless(o)
	w.known[key] = append(w.known[key], o)
}

func unitless(o *Object) Key {
	k := o.Key()
	k.Unit = ""
	return k
}

// untaken reports as undecided the sides of branches that no rendering took.
func (w *varying) untaken() {
	taken := make(map[Branch]bool)
	id := func(b Branch) Branch { b.Taken = false; return b }
	for _, b := range w.branches {
		taken[id(b)] = taken[id(b)] || b.Taken
	}
	for _, b := range slices.SortedFunc(maps.Keys(taken), compareBranches) {
		switch {
		case taken[b]:
		case b.Assumed != "":
			w.errs = append(w.errs, &Error{
				Span: b.Span, Rule: b.Assumed, Warning: true,
				Err: fmt.Errorf("the template may write more here: that depends on %s, which is not given", b.Why),
			})
		default:
			w.errs = append(w.errs, &Error{
				Span: b.Span, Rule: "condition", Warning: true, Undecided: true,
				Err: fmt.Errorf("not decided: whether the template writes more here depends on %s", b.Why),
			})
		}
	}
}

func compareBranches(a, b Branch) int {
	return cmp.Or(strings.Compare(a.Span.File, b.Span.File), cmp.Compare(a.Span.Line, b.Span.Line), cmp.Compare(a.Span.Column, b.Span.Column), strings.Compare(a.Why, b.Why))
}

// unrendered reports the variants that are not rendered.
func (w *varying) unrendered() {
	var left []string
	undecided := false
	for _, v := range w.plan() {
		if !w.isDone(v) {
			left, undecided = append(left, v.when()), undecided || v.Patch != "" || v.Cluster != ""
		}
	}
	all := w.all()
	if n := all.combined(); n > maxCombined {
		all.Lookup = LookupNothing
		left = append(left, "in most combinations of: "+all.when())
	}
	if len(left) > 0 {
		w.errs = append(w.errs, &Error{
			Span: w.asked[0].Span, Rule: "variants", Warning: true, Undecided: undecided,
			Err: fmt.Errorf("templates are rendered in %d variants, but not as they would be %s", len(w.done), strings.Join(left, "; ")),
		})
	}
}
