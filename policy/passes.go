package policy

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// Passes holds passing results. A large run has hundreds of thousands of them,
// and few people read one, so they are stored in columns: the data that results
// of an object share once, the data that results of a rule share once, and 24
// bytes for each result. The zero Passes is empty. Take and Join are safe for
// concurrent use; no other method may be called at the same time.
type Passes struct {
	mu      sync.Mutex
	objects []passed
	rules   []Result // without what a passed holds
	ids     map[string]uint32
	all     []pass
}

// A passed holds the data that passes of one object share.
type passed struct {
	Object    render.Key
	Origins   []render.Origin
	Unreached bool
}

type pass struct {
	object, rule uint32
	fingerprint  [fingerprintSize]byte
}

const fingerprintSize = 16

// Take moves the passes among results to p and returns the other results, in
// the same array. Passes with more data are not moved: those with fields, of a
// variant, or with a cost.
func (p *Passes) Take(results []Result) []Result {
	if p == nil || !slices.ContainsFunc(results, func(r Result) bool { return r.Outcome == Pass }) {
		return results
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := results[:0]
	for i := range results {
		if !p.add(&results[i]) {
			rest = append(rest, results[i])
		}
	}
	clear(results[len(rest):])
	return rest
}

func (p *Passes) add(r *Result) bool {
	x := pass{}
	if r.Outcome != Pass || len(r.Fields) > 0 || len(r.Missing) > 0 || r.Only != "" || r.Cost != nil || r.Suppression != nil ||
		len(r.Fingerprint) != 2*fingerprintSize {
		return false
	}
	if _, err := hex.Decode(x.fingerprint[:], []byte(r.Fingerprint)); err != nil || strings.ToLower(r.Fingerprint) != r.Fingerprint {
		return false
	}
	x.object, x.rule = p.object(passed{r.Object, r.Origins, r.Unreached}), p.rule(r)
	p.all = append(p.all, x)
	return true
}

// object returns the number of an object's data. Passes of one object come one
// after another, so it compares only with the last one.
func (p *Passes) object(o passed) uint32 {
	if n := len(p.objects); n > 0 {
		last := &p.objects[n-1]
		if last.Object == o.Object && last.Unreached == o.Unreached && slices.Equal(last.Origins, o.Origins) {
			return uint32(n - 1)
		}
	}
	p.objects = append(p.objects, o)
	return uint32(len(p.objects) - 1)
}

// rule returns the number of a rule's data.
func (p *Passes) rule(r *Result) uint32 {
	key := make([]byte, 0, 512)
	for _, s := range []string{
		r.Engine, r.Policy, r.Rule, string(r.Operation), string(r.Action), string(r.Severity), r.Message, r.PolicyOrigin.File,
		r.Hint, r.Reason, string(r.Baseline),
	} {
		key = append(append(key, s...), 0)
	}
	for _, n := range []int{r.PolicyOrigin.Line, r.PolicyOrigin.Column, r.PolicyOrigin.EndLine, r.PolicyOrigin.EndColumn} {
		key = append(key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	for _, a := range r.Assumed {
		key = append(append(key, a...), 0)
	}
	if id, ok := p.ids[string(key)]; ok {
		return id
	}
	if p.ids == nil {
		p.ids = make(map[string]uint32)
	}
	id := uint32(len(p.rules))
	p.ids[string(key)] = id
	rule := *r
	rule.Object, rule.Origins, rule.Unreached, rule.Fingerprint, rule.Identity = render.Key{}, nil, false, "", ""
	rule.Fields, rule.Literals, rule.AsWritten = nil, nil, false
	p.rules = append(p.rules, rule)
	return id
}

// Join adds the passes of other.
func (p *Passes) Join(other *Passes) {
	if p == nil || other == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	base := uint32(len(p.objects))
	p.objects = append(p.objects, other.objects...)
	rules := make([]uint32, len(other.rules))
	for i := range other.rules {
		rules[i] = p.rule(&other.rules[i])
	}
	p.all = slices.Grow(p.all, len(other.all))
	for _, x := range other.all {
		p.all = append(p.all, pass{x.object + base, rules[x.rule], x.fingerprint})
	}
}

// Len returns the number of passes.
func (p *Passes) Len() int {
	if p == nil {
		return 0
	}
	return len(p.all)
}

// Change calls f to change the passes. Each call gets a result that holds either only
// the fields of an object (Object, Origins, Unreached) or only those of a rule.
func (p *Passes) Change(f func(*Result)) {
	if p == nil {
		return
	}
	for i := range p.objects {
		o := &p.objects[i]
		r := Result{Object: o.Object, Origins: o.Origins, Unreached: o.Unreached}
		f(&r)
		*o = passed{r.Object, r.Origins, r.Unreached}
	}
	for i := range p.rules {
		f(&p.rules[i])
	}
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
		for i := range p.all {
			counts[p.all[i].rule]++
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
	for i := range p.all {
		counts[p.objects[p.all[i].object].Object.Unit]++
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
	objects := p.objectRanks()
	rules := make([]uint32, len(p.rules))
	for rank, i := range p.ruleOrder() {
		rules[i] = uint32(rank)
	}
	slices.SortFunc(p.all, func(a, b pass) int {
		if c := cmp.Compare(objects[a.object], objects[b.object]); c != 0 {
			return c
		}
		return cmp.Or(p.compare(a, b), cmp.Compare(rules[a.rule], rules[b.rule]), bytes.Compare(a.fingerprint[:], b.fingerprint[:]))
	})
}

// compare compares passes of one object.
func (p *Passes) compare(a, b pass) int {
	x, y := &p.rules[a.rule], &p.rules[b.rule]
	if c := compareRules(x, y); c != 0 {
		return c
	}
	places := comparePlaces(&Result{Origins: p.objects[a.object].Origins, PolicyOrigin: x.PolicyOrigin}, &Result{Origins: p.objects[b.object].Origins, PolicyOrigin: y.PolicyOrigin})
	return cmp.Or(places, strings.Compare(x.Message, y.Message))
}

// objectRanks numbers objects in the report's order. Equal keys get the same
// number.
func (p *Passes) objectRanks() []uint32 {
	order := make([]uint32, len(p.objects))
	for i := range order {
		order[i] = uint32(i)
	}
	compare := func(i, j uint32) int {
		a, b := &p.objects[i].Object, &p.objects[j].Object
		return cmp.Or(strings.Compare(a.Unit, b.Unit), compareKeys(*a, *b))
	}
	slices.SortFunc(order, compare)
	ranks := make([]uint32, len(order))
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
		if p == nil {
			return
		}
		var r Result
		for i := range p.all {
			p.expand(i, &r)
			if !yield(&r) {
				return
			}
		}
	}
}

func (p *Passes) expand(i int, r *Result) {
	x := &p.all[i]
	o := &p.objects[x.object]
	*r = p.rules[x.rule]
	r.Object, r.Origins, r.Unreached = o.Object, o.Origins, o.Unreached
	r.Fingerprint = hex.EncodeToString(x.fingerprint[:])
}

// Merged yields results and passes, both sorted, in the report's order. A pass
// is valid only until the next result comes.
func Merged(results []*Result, p *Passes) iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		for r := range p.All() {
			for len(results) > 0 && compareResults(results[0], r) <= 0 {
				if !yield(results[0]) {
					return
				}
				results = results[1:]
			}
			if !yield(r) {
				return
			}
		}
		for _, r := range results {
			if !yield(r) {
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
			parts[name] = &Passes{objects: p.objects, rules: p.rules}
		}
		of[i] = parts[name]
	}
	for _, x := range p.all {
		part := of[x.object]
		part.all = append(part.all, x)
	}
	return parts
}

// PackedPasses holds passes as plain data.
type PackedPasses struct {
	Objects      []passed
	Rules        []Result
	Object, Rule []uint32
	Fingerprints string // all fingerprints, concatenated
}

// Pack returns passes as plain data.
func (p *Passes) Pack() PackedPasses {
	var k PackedPasses
	if p.Len() == 0 {
		return k
	}
	objects, rules := make(map[uint32]uint32), make(map[uint32]uint32)
	fingerprints := make([]byte, 0, fingerprintSize*len(p.all))
	for i := range p.all {
		x := &p.all[i]
		k.Object = append(k.Object, number(objects, x.object, func() { k.Objects = append(k.Objects, p.objects[x.object]) }))
		k.Rule = append(k.Rule, number(rules, x.rule, func() { k.Rules = append(k.Rules, p.rules[x.rule]) }))
		fingerprints = append(fingerprints, x.fingerprint[:]...)
	}
	k.Fingerprints = string(fingerprints)
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

// Unpack returns the packed passes. ok is false if Pack did not make k.
func (p *PackedPasses) Unpack() (passes *Passes, ok bool) {
	passes = &Passes{objects: p.Objects}
	if len(p.Object) != len(p.Rule) || len(p.Fingerprints) != fingerprintSize*len(p.Object) {
		return nil, false
	}
	rules := make([]uint32, len(p.Rules))
	for i := range p.Rules {
		rules[i] = passes.rule(&p.Rules[i])
	}
	for i := range p.Object {
		if int(p.Object[i]) >= len(p.Objects) || int(p.Rule[i]) >= len(rules) {
			return nil, false
		}
		x := pass{object: p.Object[i], rule: rules[p.Rule[i]]}
		copy(x.fingerprint[:], p.Fingerprints[fingerprintSize*i:])
		passes.all = append(passes.all, x)
	}
	return passes, true
}
