// Package sample looks for few objects that pass and fail each rule of a policy and
// take each of its branches, so that a test can be written of them. Objects of the
// repository come first; where none reaches a goal, [Find] changes them at the fields
// and with the literals that the policy's own text names.
package sample

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A Ruling is the status of one rule of the policy for an object, in the words of the
// suite that is written.
type Ruling struct {
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
	Rulings []Ruling
	Reaches []Goal

	size     int // of its JSON
	distance int // by how much its size was changed
}

// A Goal is what a test should reach: a status of a rule, or a branch.
type Goal struct {
	Rule, Status string
	Branch       policy.Branch
}

// A Search says what samples are looked for.
type Search struct {
	Evaluate func(*render.Object) []Ruling // returns nothing if the policy does not match the object
	Coverage *policy.Coverage              // in which Evaluate counts branches
	Texts    []any                         // values of the policy: fields and literals in them are tried
	Statuses []Goal                        // to reach, besides all branches
	Kinds    policy.Kinds
}

// A Finder looks for objects that reach all goals of a policy.
type Finder struct {
	Search
	ctx   context.Context
	words vocabulary

	hits    map[policy.Branch]int64 // so far
	best    map[Goal]*Sample
	seen    map[string]bool // what samples reach, with the fields at fault
	samples []*Sample       // to change next
	tried   int
	further int // the limit of tried, once it is lower
	matched int // objects of the repository that the policy matches
}

// Limits of a finder.
const (
	maxSamples = 10   // that are changed in each round
	maxRounds  = 3    // of changes, one upon the other
	maxTried   = 3000 // changed objects
	maxEach    = 800  // changes of one object
	maxFurther = 800  // changed objects once every rule has each status
)

// Find looks among the objects, then among their changes. It always tries the same
// objects in the same order, since its limits are counts.
func Find(ctx context.Context, search Search, objects []*render.Object) *Finder {
	f := &Finder{
		Search: search, ctx: ctx, words: vocabulary{words: make(map[string]bool)},
		hits: make(map[policy.Branch]int64), best: make(map[Goal]*Sample), seen: make(map[string]bool),
	}
	for _, text := range search.Texts {
		f.words.read(text, false, nil)
	}
	f.run(objects)
	return f
}

// Matches reports whether the policy matches any of the unchanged objects.
func (f *Finder) Matches() bool { return f.matched > 0 }

func (f *Finder) run(objects []*render.Object) {
	for _, o := range objects {
		if f.ctx.Err() != nil {
			return
		}
		if x := f.try(o, o, nil); len(x.Rulings) > 0 {
			f.matched++
			f.offer(x)
		}
	}
	for range maxRounds {
		round := f.samples
		slices.SortStableFunc(round, func(a, b *Sample) int { return cmp.Or(cmp.Compare(a.faults(), b.faults()), cheaper(a, b)) })
		f.samples = nil
		for _, x := range round[:min(len(round), maxSamples)] {
			if !f.change(x) {
				return
			}
		}
	}
}

// Name returns the object's name, behind its namespace if it has one.
func (x *Sample) Name() string {
	return strings.TrimPrefix(x.Object.GetNamespace()+"/"+x.Object.GetName(), "/")
}

// Renamed returns a changed copy of the sample's object under its name in the test.
func (x *Sample) Renamed(made map[string]any) map[string]any {
	o := Replace(x.Object, runtime.DeepCopyJSON(made))
	o.SetName(x.Object.GetName())
	return o.Object
}

// faults counts what is wrong with a sample: those with little are changed first.
func (x *Sample) faults() int {
	n := 0
	for _, r := range x.Rulings {
		if r.Status != "pass" && r.Status != "admit" {
			n += 1 + len(r.Fields)
		}
	}
	return n
}

// change tries the changes of one sample. It returns false if there is nothing more to try.
func (f *Finder) change(x *Sample) bool {
	var named []string
	for _, r := range x.Rulings {
		named = append(named, r.Fields...)
	}
	namespace := cmp.Or(x.Object.GetNamespace(), "default")
	valid := f.admits(x.Object, namespace)
	fields := make(map[string]bool)
	tried, going := 0, true
	f.words.edits(x.Object.Object, named, func(path []string) bool { return f.hasField(x.Object, namespace, path, valid, fields) }, func(e Edit) bool {
		if tried >= maxEach {
			return false
		}
		if f.tried >= f.limit() || len(f.missing()) == 0 || f.ctx.Err() != nil {
			going = false
			return false
		}
		tree, changed := e.apply(x.Object.Object)
		if !changed {
			return true
		}
		o := Replace(x.Object, tree)
		if valid && !f.admits(o, namespace) {
			return true
		}
		tried++
		f.tried++
		f.offer(f.try(o, x.From, append(slices.Clone(x.Edits), e)))
		return true
	})
	return going
}

// limit returns how many changed objects may be tried: fewer from when only branches
// are missing.
func (f *Finder) limit() int {
	if f.further == 0 && !slices.ContainsFunc(f.Statuses, func(g Goal) bool { return f.best[g] == nil }) {
		f.further = min(f.tried+maxFurther, maxTried)
	}
	return cmp.Or(f.further, maxTried)
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
		if _, present := first(o.Object, part); !found && present {
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

func sizeOf(o *render.Object) int {
	data, err := json.Marshal(o.Object)
	if err != nil {
		return 0
	}
	return len(data)
}

// Replace returns a copy of an object with other content.
func Replace(o *render.Object, tree map[string]any) *render.Object {
	c := *o
	c.Unstructured = &unstructured.Unstructured{Object: tree}
	return &c
}

// try evaluates an object and notes which branches that took.
func (f *Finder) try(o, from *render.Object, edits []Edit) *Sample {
	x := &Sample{Object: o, From: from, Edits: edits, Rulings: f.Evaluate(o), size: sizeOf(o)}
	if len(edits) > 0 {
		x.distance = max(x.size, sizeOf(from)) - min(x.size, sizeOf(from))
	}
	for _, r := range x.Rulings {
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

// offer keeps a sample for the goals that it reaches better than others, and to be
// changed if no other reaches the same.
func (f *Finder) offer(x *Sample) {
	if len(x.Rulings) == 0 {
		return
	}
	for _, g := range x.Reaches {
		if was := f.best[g]; was == nil || cheaper(x, was) < 0 {
			f.best[g] = x
		}
	}
	var b strings.Builder
	fmt.Fprint(&b, x.Object.GetKind(), x.Reaches)
	for _, r := range x.Rulings {
		fmt.Fprint(&b, "\x00", r.Rule, r.Status, r.Fields)
	}
	if sig := b.String(); !f.seen[sig] {
		f.seen[sig] = true
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

// Goals returns everything to reach: what is wanted, and the branches.
func (f *Finder) Goals() []Goal {
	all := slices.Clone(f.Statuses)
	for _, b := range f.Coverage.Branches() {
		b.Hits = 0
		all = append(all, Goal{Branch: b})
	}
	return all
}

func (f *Finder) missing() []Goal {
	return slices.DeleteFunc(f.Goals(), func(g Goal) bool { return f.best[g] != nil })
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

// needed leaves out samples without which the others reach the same.
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
		namespace := "default"
		if o.Unit != nil {
			namespace = cmp.Or(o.Unit.Namespace, namespace)
		}
		c.SetNamespace(namespace)
	}
	if c.GetName() == "" {
		c.SetName(c.GetGenerateName() + "x")
		c.SetGenerateName("")
	}
	return c
}
