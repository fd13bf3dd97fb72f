package policy

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// Passes holds passing results. A large run has millions of them, and few people
// read one, so the data that results of an object share is stored once, the data that
// results of a rule share once, and each result takes 8 bytes.
// Fingerprints are computed when they are read. The zero Passes is empty. Take and
// Join are safe for concurrent use; no other method may be called at the same time.
type Passes struct {
	mu      sync.Mutex
	objects []passed
	ruleSet
	list []pass
}

// A passed holds the data that passes of one object share.
type passed struct {
	Object    render.Key
	Origins   []render.Origin
	Unreached bool
	Printed   string // the unit in fingerprints
}

// A pass has the numbers of its object's data and of its rule's data.
type pass struct{ object, rule uint32 }

// Take moves the passes among results to p and returns the other results, in
// the same array. Passes with more data are not moved: those with fields, of a
// variant, or with a cost.
func (p *Passes) Take(results []Result) []Result { return p.take(results, printedUnit) }

// take is Take with a function that returns the unit in the fingerprint of a
// result. A result for which it returns false is not moved.
func (p *Passes) take(results []Result, printed func(*Result) (string, bool)) []Result {
	if p == nil || !slices.ContainsFunc(results, func(r Result) bool { return r.Outcome == Pass }) {
		return results
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := results[:0]
	for i := range results {
		r := &results[i]
		if unit, ok := printed(r); ok && r.plainPass() {
			p.add(r, unit)
			continue
		}
		rest = append(rest, *r)
	}
	clear(results[len(rest):])
	return rest
}

// plainPass reports whether a result is a pass that Passes can hold.
func (r *Result) plainPass() bool {
	return r.Outcome == Pass && len(r.Fields) == 0 && len(r.Missing) == 0 && r.Only == "" && r.Cost == nil && r.Suppression == nil &&
		r.Object.Kind != ""
}

// printedUnit returns the unit in the fingerprint of a result, which is empty for a
// plain manifest. ok is false if the fingerprint is not that of a pass.
func printedUnit(r *Result) (unit string, ok bool) {
	if !r.plainPass() {
		return "", false
	}
	unitless := r.unitlessPrint(nil)
	switch r.Fingerprint {
	case fingerprint(unitless, r.Object.Unit):
		return r.Object.Unit, true
	case fingerprint(unitless, ""):
		return "", true
	}
	return "", false
}

func (p *Passes) add(r *Result, printed string) {
	p.list = append(p.list, pass{p.object(passed{r.Object, r.Origins, r.Unreached, printed}), p.rule(r)})
}

// object returns the number of an object's data. Passes of one object come one
// after another, so it compares only with the last one.
func (p *Passes) object(o passed) uint32 {
	if n := len(p.objects); n > 0 {
		last := &p.objects[n-1]
		if last.Object == o.Object && last.Unreached == o.Unreached && last.Printed == o.Printed && slices.Equal(last.Origins, o.Origins) {
			return uint32(n - 1)
		}
	}
	o.Origins = slices.Clone(o.Origins) // results of the request share them
	p.objects = append(p.objects, o)
	return uint32(len(p.objects) - 1)
}

// Join moves the passes of other to p.
func (p *Passes) Join(other *Passes) {
	if p == nil || other == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	if len(p.list) == 0 {
		p.objects, p.ruleSet, p.list = other.objects, other.ruleSet, other.list
	} else {
		p.append(other)
	}
	other.objects, other.ruleSet, other.list = nil, ruleSet{}, nil
}

func (p *Passes) append(other *Passes) {
	rules := make([]uint32, len(other.rules))
	for i := range other.rules {
		rules[i] = p.rule(&other.rules[i])
	}
	base := uint32(len(p.objects))
	p.objects = append(p.objects, other.objects...)
	for _, x := range other.list {
		p.list = append(p.list, pass{x.object + base, rules[x.rule]})
	}
}

// Len returns the number of passes.
func (p *Passes) Len() int {
	if p == nil {
		return 0
	}
	return len(p.list)
}

// Change calls f to change the passes. Each call gets a result that holds either only
// the fields of an object (Object, Origins, Unreached) or only those of a rule.
func (p *Passes) Change(f func(*Result)) {
	if p == nil {
		return
	}
	var r Result
	for i := range p.objects {
		o := &p.objects[i]
		r = Result{Object: o.Object, Origins: o.Origins, Unreached: o.Unreached}
		f(&r)
		*o = passed{r.Object, r.Origins, r.Unreached, o.Printed}
	}
	for i := range p.rules {
		f(&p.rules[i])
	}
	p.ids = nil // of the rules before
}

// Objects yields the objects of passes, in the fields Object, Origins and
// Unreached. An object may come more than once.
func (p *Passes) Objects() iter.Seq[Result] {
	return func(yield func(Result) bool) {
		if p == nil {
			return
		}
		for _, o := range p.objects {
			if !yield(Result{Outcome: Pass, Object: o.Object, Origins: o.Origins, Unreached: o.Unreached}) {
				return
			}
		}
	}
}

// Rules yields the rules of passes, in the report's order, and the number of
// passes of each. Fields that concern an object are empty.
func (p *Passes) Rules() iter.Seq2[*Result, int] {
	return func(yield func(*Result, int) bool) {
		if p == nil {
			return
		}
		counts := make([]int, len(p.rules))
		for _, x := range p.list {
			counts[x.rule]++
		}
		for _, i := range p.ruleOrder() {
			if !yield(&p.rules[i], counts[i]) {
				return
			}
		}
	}
}

// Units returns the number of passes of each unit.
func (p *Passes) Units() map[string]int {
	counts := make(map[string]int)
	if p == nil {
		return counts
	}
	for _, x := range p.list {
		counts[p.objects[x.object].Object.Unit]++
	}
	return counts
}

// ruleOrder returns the indexes of rules, sorted by all their fields.
func (p *Passes) ruleOrder() []uint32 {
	order := make([]uint32, len(p.rules))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(i, j uint32) int {
		a, b := &p.rules[i], &p.rules[j]
		return cmp.Or(compareResults(a, b), strings.Compare(string(a.Action), string(b.Action)), strings.Compare(string(a.Severity), string(b.Severity)),
			slices.Compare(a.Assumed, b.Assumed), strings.Compare(a.Hint, b.Hint), strings.Compare(a.Reason, b.Reason),
			strings.Compare(string(a.Baseline), string(b.Baseline)), cmp.Compare(a.PolicyOrigin.EndLine, b.PolicyOrigin.EndLine),
			cmp.Compare(a.PolicyOrigin.EndColumn, b.PolicyOrigin.EndColumn))
	})
	return order
}

// Sort sorts passes into the report's order. Passes that are equal in it are
// ordered by their other fields, so that the order does not depend on that of
// evaluation.
func (p *Passes) Sort() {
	if p == nil {
		return
	}
	last := make([]uint32, len(p.rules))
	for rank, i := range p.ruleOrder() {
		last[i] = uint32(rank)
	}
	objects := ranks(len(p.objects), func(i, j uint32) int { return compareObjects(&p.objects[i].Object, &p.objects[j].Object) })
	rules := ranks(len(p.rules), func(i, j uint32) int { return compareRules(&p.rules[i], &p.rules[j]) })
	slices.SortFunc(p.list, func(a, b pass) int {
		if c := cmp.Or(cmp.Compare(objects[a.object], objects[b.object]), cmp.Compare(rules[a.rule], rules[b.rule])); c != 0 {
			return c
		}
		x, y := &p.objects[a.object], &p.objects[b.object]
		r, q := &p.rules[a.rule], &p.rules[b.rule]
		places := comparePlaces(&Result{Origins: x.Origins, PolicyOrigin: r.PolicyOrigin}, &Result{Origins: y.Origins, PolicyOrigin: q.PolicyOrigin})
		return cmp.Or(places, strings.Compare(r.Message, q.Message), cmp.Compare(last[a.rule], last[b.rule]), strings.Compare(x.Printed, y.Printed), cmp.Compare(a.object, b.object))
	})
}

// ranks numbers the n elements of a table in their order. Equal elements get the same
// number.
func ranks(n int, compare func(i, j uint32) int) []uint32 {
	order := make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, compare)
	ranks := make([]uint32, n)
	rank := uint32(0)
	for at, i := range order {
		if at > 0 && compare(order[at-1], i) != 0 {
			rank++
		}
		ranks[i] = rank
	}
	return ranks
}

// All yields the passes. A result is valid until the next one comes.
func (p *Passes) All() iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		p.each(func(r *Result, o *passed) bool {
			r.UnitlessPrint = r.unitlessPrint(nil)
			r.Fingerprint = fingerprint(r.UnitlessPrint, o.Printed)
			return yield(r)
		})
	}
}

// Unprinted yields the passes without fingerprints, which take most of the time of All.
func (p *Passes) Unprinted() iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		p.each(func(r *Result, _ *passed) bool { return yield(r) })
	}
}

// each calls f for each pass, without its fingerprints, until f returns false.
func (p *Passes) each(f func(*Result, *passed) bool) {
	if p == nil {
		return
	}
	var r Result
	for _, x := range p.list {
		o := &p.objects[x.object]
		r = p.rules[x.rule]
		r.Object, r.Origins, r.Unreached = o.Object, o.Origins, o.Unreached
		if !f(&r, o) {
			return
		}
	}
}

// AppendTo appends the passes to results.
func (p *Passes) AppendTo(results []Result) []Result {
	results = slices.Grow(results, p.Len())
	for pass := range p.All() {
		results = append(results, *pass)
		results[len(results)-1].Origins = slices.Clone(pass.Origins) // which passes of an object share
	}
	return results
}

// Each yields the results of a slice.
func Each(results []Result) iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		for i := range results {
			if !yield(&results[i]) {
				return
			}
		}
	}
}

// Merged yields two sorted lists of results in the report's order. Of equal results,
// those of the first list come first. A result is valid only until the next one comes.
func Merged(first, second iter.Seq[*Result]) iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		next, stop := iter.Pull(first)
		defer stop()
		x, ok := next()
		for y := range second {
			for ; ok && compareResults(x, y) <= 0; x, ok = next() {
				if !yield(x) {
					return
				}
			}
			if !yield(y) {
				return
			}
		}
		for ; ok; x, ok = next() {
			if !yield(x) {
				return
			}
		}
	}
}

// By divides passes by the value of f for their objects. The parts keep the
// order and share data, so they must not be changed.
func (p *Passes) By(f func(render.Key) string) map[string]*Passes {
	parts := make(map[string]*Passes)
	if p == nil {
		return parts
	}
	of := make([]*Passes, len(p.objects))
	for i := range p.objects {
		name := f(p.objects[i].Object)
		if parts[name] == nil {
			parts[name] = &Passes{objects: p.objects, ruleSet: ruleSet{rules: p.rules}}
		}
		of[i] = parts[name]
	}
	for _, x := range p.list {
		of[x.object].list = append(of[x.object].list, x)
	}
	return parts
}

// PackedPasses holds passes as plain data.
type PackedPasses struct {
	Objects []passed
	Rules   []Result
	Object  []uint32 // of each pass
	Rule    []uint32
}

// Pack returns passes as plain data.
func (p *Passes) Pack() PackedPasses {
	var k PackedPasses
	if p == nil {
		return k
	}
	objects, rules := make(map[uint32]uint32), make(map[uint32]uint32)
	for _, x := range p.list {
		k.Object = append(k.Object, number(objects, x.object, func() { k.Objects = append(k.Objects, p.objects[x.object]) }))
		k.Rule = append(k.Rule, number(rules, x.rule, func() { k.Rules = append(k.Rules, p.rules[x.rule]) }))
	}
	return k
}

// number returns the new number of an old one; it calls add for a number that
// it sees first.
func number(ids map[uint32]uint32, old uint32, add func()) uint32 {
	id, ok := ids[old]
	if !ok {
		id = uint32(len(ids))
		ids[old] = id
		add()
	}
	return id
}

// Unpack returns the packed passes, which the caller must not use any more. ok is false
// if Pack did not make them.
func (p *PackedPasses) Unpack() (passes *Passes, ok bool) {
	if len(p.Object) != len(p.Rule) {
		return nil, false
	}
	passes = &Passes{objects: p.Objects, ruleSet: ruleSet{rules: p.Rules}, list: make([]pass, len(p.Rule))}
	for i, x := range p.Object {
		if passes.list[i] = (pass{x, p.Rule[i]}); int(x) >= len(p.Objects) || int(p.Rule[i]) >= len(p.Rules) {
			return nil, false
		}
	}
	for i := range p.Rules {
		p.Rules[i].forObject()
	}
	return passes, true
}
