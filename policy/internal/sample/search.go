// Package sample looks for few objects that pass and fail each rule of a policy and
// take each of its branches, so that a test can be written of them. Objects of the
// repository come first; where none reaches a goal, [Find] changes them at the fields
// and with the literals that the policy's own text names.
package sample

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A Result is the status of one rule of the policy for an object, in the words of the
// written suite.
type Result struct {
	Rule, Status, Message string

	Fields    []string         // JSON pointers at fault
	Made      []map[string]any // the object as the policy left it, or the objects that the rule generated
	Generated bool
}

// A Sample is an object that may stand in a test.
type Sample struct {
	Object  *render.Object
	From    *render.Object // of the repository
	Edits   []Edit
	Results []Result
	Reaches []Goal

	size     int // of its JSON
	distance int // difference in size from the original

	valid  bool            // the API server would take the object
	fields map[string]bool // the fields that it may have, as far as known
}

// A Goal is a status of a rule, or a branch, that a test should reach.
type Goal struct {
	Rule, Status string
	Branch       policy.Branch
}

// A Search looks for samples.
type Search struct {
	// Evaluate returns no results if the policy does not match the object, or
	// can't be decided for it: undecided is the reason.
	Evaluate func(*render.Object) (results []Result, undecided string)
	Coverage *policy.Coverage // in which Evaluate counts branches
	Texts    []any            // values of the policy: fields and literals in them are tried
	Statuses []Goal           // to reach, besides all branches
	Kinds    policy.Kinds
}

// A Finder looks for objects that reach all goals of a policy.
type Finder struct {
	Search
	ctx   context.Context
	words vocabulary

	hits    map[policy.Branch]int64 // so far
	best    map[Goal]*Sample
	seen    map[string]bool // signatures of the samples
	samples []*Sample       // to change next
	missing map[Goal]bool   // goals that no sample reaches
	idle    int             // effort since a goal was reached
	allowed int             // the limit of idle
	matches bool            // the policy matches one of the objects
	reason  string          // why the policy can't be decided for one of them
}

// Limits of a finder. Effort is counted in changed objects, large ones more than
// once, so that a search ends at the same object on every machine.
const (
	maxSamples   = 10   // changed in each round
	maxRounds    = 3    // of changes, each of changed objects
	maxEach      = 800  // changes of one object
	atOnce       = 200  // changes of one object before the next object's turn
	ruleEffort   = 2500 // without success, for each rule without a status
	branchEffort = 500  // without success, for branches
	largeObject  = 4096 // bytes of JSON that count as another object
)

// Find looks among the objects, then among their changes. It always tries the same
// objects in the same order, since its limits are counts.
func Find(ctx context.Context, search Search, objects []*render.Object) *Finder {
	f := &Finder{
		Search: search, ctx: ctx, words: vocabulary{words: make(map[string]bool)},
		hits: make(map[policy.Branch]int64), best: make(map[Goal]*Sample), seen: make(map[string]bool), missing: make(map[Goal]bool),
	}
	for _, text := range search.Texts {
		f.words.read(text, false, nil)
	}
	f.run(objects)
	return f
}

// Matches reports whether the policy gives results for any of the unchanged objects,
// or why it can't be decided for one that it matches.
func (f *Finder) Matches() (matches bool, undecided string) { return f.matches, f.reason }

func (f *Finder) run(objects []*render.Object) {
	for _, o := range objects {
		if f.ctx.Err() != nil {
			return
		}
		if x := f.try(o, o, nil); len(x.Results) > 0 {
			f.matches = true
			f.offer(x)
		}
	}
	for _, g := range f.Goals() {
		if f.best[g] == nil {
			f.missing[g] = true
		}
	}
	f.setEffortLimit()
	for range maxRounds {
		round := f.samples
		slices.SortStableFunc(round, func(a, b *Sample) int { return cmp.Or(cmp.Compare(a.countFaults(), b.countFaults()), cheaper(a, b)) })
		round, f.samples = round[:min(len(round), maxSamples)], nil
		for done := 0; done < maxEach; done += atOnce {
			for _, x := range round {
				if !f.change(x, done) {
					return
				}
			}
		}
	}
}

// Name returns the object's namespace and name.
func (s *Sample) Name() string {
	return strings.TrimPrefix(s.Object.GetNamespace()+"/"+s.Object.GetName(), "/")
}

// Renamed returns a changed copy of the sample's object under its name in the test.
func (s *Sample) Renamed(made map[string]any) map[string]any {
	o := Replace(s.Object, runtime.DeepCopyJSON(made))
	o.SetName(s.Object.GetName())
	return o.Object
}

// countFaults counts a sample's results that are not passes, and their fields. Samples with
// few are changed first.
func (s *Sample) countFaults() int {
	n := 0
	for _, r := range s.Results {
		if r.Status != "pass" && r.Status != "admit" {
			n += 1 + len(r.Fields)
		}
	}
	return n
}

// change tries changes of one sample, after the first done ones. It returns false if
// the search is over.
func (f *Finder) change(x *Sample, done int) bool {
	var named []string
	for _, r := range x.Results {
		named = append(named, r.Fields...)
	}
	namespace := cmp.Or(x.Object.GetNamespace(), "default")
	if x.fields == nil {
		x.valid, x.fields = f.admits(x.Object, namespace), make(map[string]bool)
	}
	n, going := 0, true
	f.words.edits(x.Object.Object, named, func(path []string) bool { return f.hasField(x.Object, namespace, path, x.valid, x.fields) }, func(e Edit) bool {
		if n++; n <= done {
			return true
		}
		if going = f.idle < f.allowed && f.ctx.Err() == nil; n > done+atOnce || !going {
			return false
		}
		if tree, changed := e.apply(x.Object.Object); changed {
			f.tryChange(x, Replace(x.Object, tree), e, namespace)
		}
		return true
	})
	return going
}

// tryChange evaluates a changed object. It offers the object if it may be useful and
// the API server would accept it.
func (f *Finder) tryChange(x *Sample, o *render.Object, e Edit, namespace string) {
	changed := f.try(o, x.From, append(slices.Clone(x.Edits), e))
	f.idle += 1 + changed.size/largeObject
	if f.useful(changed) && (!x.valid || f.admits(o, namespace)) {
		f.offer(changed)
	}
}

// setEffortLimit sets the limit of effort without success, by the missing goals.
func (f *Finder) setEffortLimit() {
	f.idle, f.allowed = 0, 0
	rules := make(map[string]bool)
	for g := range f.missing {
		if g.Status != "" {
			rules[g.Rule] = true
		}
		f.allowed = branchEffort
	}
	if len(rules) > 0 {
		f.allowed = ruleEffort * len(rules)
	}
}

func (f *Finder) admits(o *render.Object, namespace string) bool {
	_, err := f.Kinds.Admit(o, namespace)
	return err == nil
}

// hasField reports whether an object of the kind may have a field: whether the API
// server would decode it, where it decoded the object.
func (f *Finder) hasField(o *render.Object, namespace string, path []string, valid bool, known map[string]bool) bool {
	if !valid {
		return true
	}
	for n := 1; n <= len(path); n++ {
		part := path[:n]
		if part[n-1] == each {
			continue
		}
		key := strings.Join(part, "\x00")
		ok, found := known[key]
		if _, present := firstAt(o.Object, part); !found && present {
			ok, found = true, true
		}
		if !found {
			tree, _ := Edit{path: part}.apply(o.Object)
			ok = tree != nil && f.admits(Replace(o, tree), namespace)
		}
		if known[key] = ok; !ok {
			return false
		}
	}
	return true
}

// sizeOf returns about how long the JSON of a value is.
func sizeOf(v any) int {
	n := 2
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			n += len(k) + 4 + sizeOf(x)
		}
	case []any:
		for _, x := range v {
			n += 1 + sizeOf(x)
		}
	case string:
		n += len(v)
	}
	return n
}

// Replace returns a copy of an object with other content.
func Replace(o *render.Object, tree map[string]any) *render.Object {
	c := *o
	c.Unstructured = &unstructured.Unstructured{Object: tree}
	return &c
}

// try evaluates an object and records the branches taken.
func (f *Finder) try(o, from *render.Object, edits []Edit) *Sample {
	x := &Sample{Object: o, From: from, Edits: edits, size: sizeOf(o.Object)}
	var undecided string
	if x.Results, undecided = f.Evaluate(o); len(edits) == 0 {
		f.reason = cmp.Or(f.reason, undecided)
	} else {
		was := sizeOf(from.Object)
		x.distance = max(x.size, was) - min(x.size, was)
	}
	for _, r := range x.Results {
		x.Reaches = append(x.Reaches, Goal{Rule: r.Rule, Status: r.Status})
	}
	for _, b := range f.Coverage.Branches() {
		hits := b.Hits
		b.Hits = 0
		if hits > f.hits[b] {
			x.Reaches = append(x.Reaches, Goal{Branch: b})
		}
		f.hits[b] = hits
	}
	return x
}

// signature is equal for samples that reach the same goals with the same fields at
// fault.
func (s *Sample) signature() string {
	var b strings.Builder
	fmt.Fprint(&b, s.Object.GetKind(), s.Reaches)
	for _, r := range s.Results {
		fmt.Fprint(&b, "\x00", r.Rule, r.Status, r.Fields)
	}
	return b.String()
}

// useful reports whether a sample is better than others for a goal, or reaches new
// ones.
func (f *Finder) useful(x *Sample) bool {
	return len(x.Results) > 0 && (!f.seen[x.signature()] || slices.ContainsFunc(x.Reaches, func(g Goal) bool { return f.better(x, g) }))
}

func (f *Finder) better(x *Sample, g Goal) bool {
	was := f.best[g]
	return was == nil || cheaper(x, was) < 0
}

// offer keeps a sample for the goals that it reaches better than others, and to be
// changed if no other reaches the same.
func (f *Finder) offer(x *Sample) {
	for _, g := range x.Reaches {
		if !f.better(x, g) {
			continue
		}
		f.best[g] = x
		if f.missing[g] {
			delete(f.missing, g)
			f.setEffortLimit()
		}
	}
	if signature := x.signature(); !f.seen[signature] {
		f.seen[signature] = true
		f.samples = append(f.samples, x)
	}
}

// cheaper orders samples: unchanged, little changed and small ones first.
func cheaper(a, b *Sample) int {
	return cmp.Or(
		cmp.Compare(len(a.Edits), len(b.Edits)), cmp.Compare(a.distance, b.distance), cmp.Compare(a.size, b.size),
		strings.Compare(a.Object.GetKind(), b.Object.GetKind()), strings.Compare(a.Name(), b.Name()),
	)
}

// Goals returns the wanted statuses and all branches.
func (f *Finder) Goals() []Goal {
	all := slices.Clone(f.Statuses)
	for _, b := range f.Coverage.Branches() {
		b.Hits = 0
		all = append(all, Goal{Branch: b})
	}
	return all
}

// Choose returns a small set of samples that reaches every goal that any reaches.
func (f *Finder) Choose() []*Sample {
	var all []*Sample
	left := make(map[Goal]bool)
	for _, g := range f.Goals() {
		if x := f.best[g]; x != nil {
			left[g] = true
			if !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
	}
	slices.SortStableFunc(all, cheaper)
	var chosen []*Sample
	for len(left) > 0 {
		next, most := (*Sample)(nil), 0
		for _, x := range all {
			if n := countIn(x.Reaches, left); n > most {
				next, most = x, n
			}
		}
		chosen = append(chosen, next)
		for _, g := range next.Reaches {
			delete(left, g)
		}
	}
	return f.needed(chosen)
}

func countIn(goals []Goal, left map[Goal]bool) int {
	n := 0
	for _, g := range goals {
		if left[g] {
			n++
		}
	}
	return n
}

// needed leaves out samples whose goals the others reach.
func (f *Finder) needed(chosen []*Sample) []*Sample {
	counts := make(map[Goal]int)
	for _, x := range chosen {
		for _, g := range x.Reaches {
			counts[g]++
		}
	}
	all := make(map[Goal]bool)
	for _, g := range f.Goals() {
		all[g] = true
	}
	return slices.DeleteFunc(chosen, func(x *Sample) bool {
		if slices.ContainsFunc(x.Reaches, func(g Goal) bool { return all[g] && counts[g] == 1 }) {
			return false
		}
		for _, g := range x.Reaches {
			counts[g]--
		}
		return true
	})
}

// Prepare returns a copy of an object as the API server would have it in a test: with
// a name and a namespace, without status, and with other values in a Secret.
func Prepare(o *render.Object, kinds policy.Kinds) *render.Object {
	tree := runtime.DeepCopyJSON(o.Object)
	delete(tree, "status")
	if o.GetKind() == "Secret" {
		for field, cover := range map[string]string{"data": "eA==", "stringData": "x"} {
			values, _ := tree[field].(map[string]any)
			for k := range values {
				values[k] = cover
			}
		}
	}
	c := Replace(o, tree)
	if c.GetNamespace() == "" && kinds.Resource(c.GroupVersionKind()).Namespaced {
		c.SetNamespace(c.EffectiveNamespace())
	}
	if c.GetName() == "" {
		c.SetName(c.GetGenerateName() + "x")
		c.SetGenerateName("")
	}
	return c
}
