package policytest

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

// A ruling is what one rule of the policy says of an object, in the words of the
// suite that is written.
type ruling struct {
	rule, status, message string

	fields    []string         // JSON pointers at fault
	made      []map[string]any // the object as the policy left it, or the objects that the rule generated
	generated bool
}

// A sample is an object that may stand in a test.
type sample struct {
	object  *render.Object
	from    *render.Object // of the repository
	edits   []edit
	rulings []ruling
	reaches []goal

	size     int // of its JSON
	distance int // by how much its size was changed
}

// A goal is what a test should reach: a status of a rule, or a branch.
type goal struct {
	rule, status string
	branch       policy.Branch
}

// A finder looks for objects that reach all goals of a policy.
type finder struct {
	ctx      context.Context
	judge    func(*render.Object) []ruling // nothing if the policy is not about the object
	coverage *policy.Coverage
	words    *vocabulary
	kinds    policy.Kinds

	hits    map[policy.Branch]int64 // so far
	wanted  []goal
	best    map[goal]*sample
	seen    map[string]bool // what samples reach, with the fields at fault
	samples []*sample       // to change next
	judged  int
	further int // the limit of judged, once it is lower
	matched int // objects of the repository that the policy is about
}

// Limits of a finder.
const (
	maxSamples = 10   // that are changed in each round
	maxRounds  = 3    // of changes, one upon the other
	maxJudged  = 3000 // changed objects
	maxEach    = 800  // changes of one object
	maxFurther = 800  // changed objects once every rule has each status
)

// run looks among the objects, then among their changes. It always takes the same
// way, since its limits are counts.
func (s *finder) run(objects []*render.Object) {
	for _, o := range objects {
		if s.ctx.Err() != nil {
			return
		}
		if x := s.try(o, o, nil); len(x.rulings) > 0 {
			s.matched++
			s.offer(x)
		}
	}
	for range maxRounds {
		round := s.samples
		slices.SortStableFunc(round, func(a, b *sample) int { return cmp.Or(cmp.Compare(a.faults(), b.faults()), cheaper(a, b)) })
		s.samples = nil
		for _, x := range round[:min(len(round), maxSamples)] {
			if !s.change(x) {
				return
			}
		}
	}
}

// faults counts what is wrong with a sample: those with little are changed first.
func (x *sample) faults() int {
	n := 0
	for _, r := range x.rulings {
		if r.status != "pass" && r.status != admit {
			n += 1 + len(r.fields)
		}
	}
	return n
}

// change tries the changes of one sample. It returns false if there is nothing more to try.
func (s *finder) change(x *sample) bool {
	var named []string
	for _, r := range x.rulings {
		named = append(named, r.fields...)
	}
	namespace := cmp.Or(x.object.GetNamespace(), "default")
	valid := s.admits(x.object, namespace)
	fields := make(map[string]bool)
	tried, going := 0, true
	s.words.edits(x.object.Object, named, func(path []string) bool { return s.hasField(x.object, namespace, path, valid, fields) }, func(e edit) bool {
		if tried >= maxEach {
			return false
		}
		if s.judged >= s.limit() || len(s.missing()) == 0 || s.ctx.Err() != nil {
			going = false
			return false
		}
		tree, changed := e.apply(x.object.Object)
		if !changed {
			return true
		}
		o := changedObject(x.object, tree)
		if valid && !s.admits(o, namespace) {
			return true
		}
		tried++
		s.judged++
		s.offer(s.try(o, x.from, append(slices.Clone(x.edits), e)))
		return true
	})
	return going
}

// limit returns how many changed objects may be judged: fewer from when only branches
// are missing.
func (s *finder) limit() int {
	if s.further == 0 && !slices.ContainsFunc(s.wanted, func(g goal) bool { return s.best[g] == nil }) {
		s.further = min(s.judged+maxFurther, maxJudged)
	}
	return cmp.Or(s.further, maxJudged)
}

func (s *finder) admits(o *render.Object, namespace string) bool {
	_, err := s.kinds.Admit(o, namespace)
	return err == nil
}

// hasField reports whether an object of the kind may have a field: whether the API
// server would decode it, where it decoded the object.
func (s *finder) hasField(o *render.Object, namespace string, path []string, valid bool, known map[string]bool) bool {
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
			tree, _ := edit{path: part}.apply(o.Object)
			ok = tree != nil && s.admits(changedObject(o, tree), namespace)
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

func changedObject(o *render.Object, tree map[string]any) *render.Object {
	c := *o
	c.Unstructured = &unstructured.Unstructured{Object: tree}
	return &c
}

// try judges an object and counts which branches that took.
func (s *finder) try(o, from *render.Object, edits []edit) *sample {
	x := &sample{object: o, from: from, edits: edits, rulings: s.judge(o), size: sizeOf(o)}
	if len(edits) > 0 {
		x.distance = max(x.size, sizeOf(from)) - min(x.size, sizeOf(from))
	}
	for _, r := range x.rulings {
		x.reaches = append(x.reaches, goal{rule: r.rule, status: r.status})
	}
	for _, b := range s.coverage.Branches() {
		hits := b.Hits
		b.Hits = 0
		if hits > s.hits[b] {
			x.reaches = append(x.reaches, goal{branch: b})
		}
		s.hits[b] = hits
	}
	return x
}

// offer keeps a sample for the goals that it reaches better than others, and to be
// changed if no other reaches the same.
func (s *finder) offer(x *sample) {
	if len(x.rulings) == 0 {
		return
	}
	for _, g := range x.reaches {
		if was := s.best[g]; was == nil || cheaper(x, was) < 0 {
			s.best[g] = x
		}
	}
	var b strings.Builder
	fmt.Fprint(&b, x.object.GetKind(), x.reaches)
	for _, r := range x.rulings {
		fmt.Fprint(&b, "\x00", r.rule, r.status, r.fields)
	}
	if sig := b.String(); !s.seen[sig] {
		s.seen[sig] = true
		s.samples = append(s.samples, x)
	}
}

// cheaper orders samples: unchanged, little changed and small ones first.
func cheaper(a, b *sample) int {
	return cmp.Or(
		cmp.Compare(len(a.edits), len(b.edits)), cmp.Compare(a.distance, b.distance), cmp.Compare(a.size, b.size),
		strings.Compare(a.object.GetKind(), b.object.GetKind()), strings.Compare(name(a.object), name(b.object)),
	)
}

// goals returns everything to reach: what is wanted, and the branches.
func (s *finder) goals() []goal {
	all := slices.Clone(s.wanted)
	for _, b := range s.coverage.Branches() {
		b.Hits = 0
		all = append(all, goal{branch: b})
	}
	return all
}

func (s *finder) missing() []goal {
	return slices.DeleteFunc(s.goals(), func(g goal) bool { return s.best[g] != nil })
}

// choose returns a small set of samples that reaches every goal that any reaches.
func (s *finder) choose() []*sample {
	var all []*sample
	left := make(map[goal]bool)
	for _, g := range s.goals() {
		if x := s.best[g]; x != nil {
			left[g] = true
			if !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
	}
	slices.SortStableFunc(all, cheaper)
	var chosen []*sample
	for len(left) > 0 {
		next, most := (*sample)(nil), 0
		for _, x := range all {
			if n := countIn(x.reaches, left); n > most {
				next, most = x, n
			}
		}
		chosen = append(chosen, next)
		for _, g := range next.reaches {
			delete(left, g)
		}
	}
	return s.needed(chosen)
}

func countIn(goals []goal, left map[goal]bool) int {
	n := 0
	for _, g := range goals {
		if left[g] {
			n++
		}
	}
	return n
}

// needed leaves out samples without which the others reach the same.
func (s *finder) needed(chosen []*sample) []*sample {
	counts := make(map[goal]int)
	for _, x := range chosen {
		for _, g := range x.reaches {
			counts[g]++
		}
	}
	all := make(map[goal]bool)
	for _, g := range s.goals() {
		all[g] = true
	}
	return slices.DeleteFunc(chosen, func(x *sample) bool {
		if slices.ContainsFunc(x.reaches, func(g goal) bool { return all[g] && counts[g] == 1 }) {
			return false
		}
		for _, g := range x.reaches {
			counts[g]--
		}
		return true
	})
}

// forTest returns a copy of an object as the API server would have it in a test: with
// a name and a namespace, without status, and with other values in a Secret.
func forTest(o *render.Object, kinds policy.Kinds) *render.Object {
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
	c := changedObject(o, tree)
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
