package policy

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// A Compact holds results in a tenth of the memory that they take otherwise, until they
// are needed. Texts, objects and data of rules are in tables, so that results share
// them. It is safe for concurrent use.
type Compact struct {
	mu       sync.Mutex
	rules    ruleSet
	objects  []compactObject
	messages texts
	fields   texts
	files    texts
	roles    texts
	pointers []uint32 // numbers of fields
	places   []compactPlace
	whole    []Result // results with data that the tables have no place for
}

// CompactResults are results that a Compact holds.
type CompactResults []compactResult

// A compactResult has the numbers of its parts in the tables of the Compact.
type compactResult struct {
	object, rule, message uint32
	whole                 uint32 // of Compact.whole, counted from 1; 0 if the other numbers are all there is
	fields, places        part
	unitless, fingerprint [fingerprintSize]byte
}

// A part is n elements of a table.
type part struct{ first, n uint32 }

func of[T any](p part, table []T) []T { return table[p.first : p.first+p.n] }

type compactObject struct {
	render.Key
	unreached bool
}

type compactPlace struct {
	file, role                       uint32
	line, column, endLine, endColumn int32
}

// texts numbers texts. Equal ones usually have one number.
type texts struct {
	all []string
	ids map[string]uint32 // of the latest ones
}

// maxShared bounds the number of texts whose numbers are known, and maxSharedText their
// length.
const (
	maxShared     = 4096
	maxSharedText = 512
)

func (t *texts) id(text string) uint32 {
	if id, ok := t.ids[text]; ok {
		return id
	}
	id := uint32(len(t.all))
	t.all = append(t.all, text)
	if len(text) > maxSharedText {
		return id
	}
	if t.ids == nil {
		t.ids = make(map[string]uint32)
	}
	if len(t.ids) >= maxShared {
		clear(t.ids)
	}
	t.ids[text] = id
	return id
}

// Add takes results, which the caller must not use any more.
func (c *Compact) Add(results []Result) CompactResults {
	if len(results) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(CompactResults, len(results))
	for i := range results {
		c.set(&all[i], &results[i], all[:i])
	}
	return all
}

// set makes x hold a result. It shares the object and the places with one of those before.
func (c *Compact) set(x *compactResult, r *Result, before []compactResult) {
	*x = compactResult{object: c.object(&r.Object), message: c.messages.id(r.Message)}
	rule := *r
	rule.Message = ""
	x.rule = c.rules.rule(&rule)
	fits := c.setPlaces(x, r.Origins, before)
	prints := setPrint(&x.fingerprint, r.Fingerprint) && setPrint(&x.unitless, r.UnitlessPrint)
	if !fits || !prints || !r.compacts() {
		c.whole = append(c.whole, *r)
		x.whole = uint32(len(c.whole))
		return
	}
	x.fields = part{uint32(len(c.pointers)), uint32(len(r.Fields))}
	for _, f := range r.Fields {
		c.pointers = append(c.pointers, c.fields.id(f))
	}
}

// compacts reports whether a result has only data for which there is a place.
func (r *Result) compacts() bool {
	return len(r.Literals) == 0 && r.Cost == nil && r.Suppression == nil && r.Fix == nil && !r.AsWritten && !r.OfKeys && !r.Unreached
}

func setPrint(to *[fingerprintSize]byte, digits string) bool {
	if len(digits) != 2*fingerprintSize {
		return false
	}
	for i := range len(digits) {
		if d := digits[i]; (d < '0' || d > '9') && (d < 'a' || d > 'f') {
			return false
		}
	}
	_, err := hex.Decode(to[:], []byte(digits))
	return err == nil
}

// object returns the number of an object. Results of one object come one after another,
// so it compares only with the last one.
func (c *Compact) object(k *render.Key) uint32 {
	if n := len(c.objects); n > 0 && c.objects[n-1].Key == *k {
		return uint32(n - 1)
	}
	c.objects = append(c.objects, compactObject{Key: *k})
	return uint32(len(c.objects) - 1)
}

// setPlaces reports whether there is room for the numbers of lines and columns.
func (c *Compact) setPlaces(x *compactResult, origins []render.Origin, before []compactResult) bool {
	x.places = part{uint32(len(c.places)), uint32(len(origins))}
	for _, o := range origins {
		p := compactPlace{c.files.id(o.File), c.roles.id(string(o.Role)), int32(o.Line), int32(o.Column), int32(o.EndLine), int32(o.EndColumn)}
		if c.origin(p) != o {
			return false
		}
		c.places = append(c.places, p)
	}
	for i := len(before) - 1; i >= 0 && before[i].object == x.object; i-- {
		if slices.Equal(of(before[i].places, c.places), of(x.places, c.places)) {
			c.places = c.places[:x.places.first]
			x.places = before[i].places
			break
		}
	}
	return true
}

func (c *Compact) origin(p compactPlace) render.Origin {
	return render.Origin{
		Span: render.Span{File: c.files.all[p.file], Line: int(p.line), Column: int(p.column), EndLine: int(p.endLine), EndColumn: int(p.endColumn)},
		Role: render.Role(c.roles.all[p.role]),
	}
}

// Append appends results that c holds to others.
func (c *Compact) Append(to []Result, held CompactResults) []Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range held {
		to = append(to, Result{})
		c.expand(&held[i], &to[len(to)-1])
	}
	return to
}

// Each yields results that c holds. A result is valid until the next one comes.
func (c *Compact) Each(parts ...CompactResults) iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		var r Result
		for _, part := range parts {
			for i := range part {
				c.mu.Lock()
				c.expand(&part[i], &r)
				c.mu.Unlock()
				if !yield(&r) {
					return
				}
			}
		}
	}
}

// expand sets r to a result.
func (c *Compact) expand(x *compactResult, r *Result) {
	if x.whole > 0 {
		*r = c.whole[x.whole-1]
		r.Origins = slices.Clone(r.Origins)
		return
	}
	*r = c.rules.rules[x.rule]
	r.Object, r.Unreached = c.objects[x.object].Key, c.objects[x.object].unreached
	r.Message = c.messages.all[x.message]
	r.Origins = slices.Grow(r.Origins, int(x.places.n))
	for _, p := range of(x.places, c.places) {
		r.Origins = append(r.Origins, c.origin(p))
	}
	r.Fields = slices.Grow(r.Fields, int(x.fields.n))
	for _, f := range of(x.fields, c.pointers) {
		r.Fields = append(r.Fields, c.fields.all[f])
	}
	var digits [4 * fingerprintSize]byte
	hex.Encode(digits[:2*fingerprintSize], x.unitless[:])
	hex.Encode(digits[2*fingerprintSize:], x.fingerprint[:])
	prints := string(digits[:])
	r.UnitlessPrint, r.Fingerprint = prints[:2*fingerprintSize], prints[2*fingerprintSize:]
}

// A CompactList is a list of results that its Compact holds. A nil list is empty. It is
// not safe for concurrent use, but its Compact is.
type CompactList struct {
	Compact
	results []*compactResult // in the memory of CompactResults: a copy would be large
}

// Keep adds results that the Compact holds to the list, without repeats as in
// WithoutRepeats. The caller must not change them. They must be all results of their units.
func (l *CompactList) Keep(parts ...CompactResults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := len(l.results)
	l.results = slices.Grow(l.results, lengths(parts))
	variants := make(map[string]bool) // units with results of variants
	for _, part := range parts {
		for i := range part {
			x := &part[i]
			if l.rules.rules[x.rule].Only != "" {
				variants[l.objects[x.object].Unit] = true
			}
			l.results = append(l.results, x)
		}
	}
	if len(variants) == 0 {
		return
	}
	known := repeats[[fingerprintSize]byte]{}
	only := func(x *compactResult) (r *Result, is bool) {
		r = &l.rules.rules[x.rule]
		return r, r.Only != ""
	}
	for _, x := range l.results[first:] {
		if r, is := only(x); !is && variants[l.objects[x.object].Unit] {
			known.learn(x.fingerprint, r)
		}
	}
	kept := l.results[:first]
	for _, x := range l.results[first:] {
		if r, is := only(x); is {
			if known.has(x.fingerprint, r) {
				continue
			}
			known.learn(x.fingerprint, r)
		}
		kept = append(kept, x)
	}
	l.results = kept
}

func lengths(parts []CompactResults) int {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	return n
}

// Sorted returns all results, sorted.
func (l *CompactList) Sorted() []Result {
	l.Sort()
	all := make([]Result, len(l.results))
	for i := range all {
		l.Expand(i, &all[i])
	}
	return all
}

// Len returns the number of results.
func (l *CompactList) Len() int {
	if l == nil {
		return 0
	}
	return len(l.results)
}

// Expand sets r to a result.
func (l *CompactList) Expand(i int, r *Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expand(l.results[i], r)
}

// All yields the results. A result is valid until the next one comes.
func (l *CompactList) All() iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		var r Result
		for i := range l.Len() {
			if l.Expand(i, &r); !yield(&r) {
				return
			}
		}
	}
}

// replace puts the results that f changes in the place of those that were there. f
// reports whether it changed a result.
func (l *CompactList) replace(f func(*Result) bool) {
	i := 0
	for r := range l.All() {
		if f(r) {
			changed := *r
			l.results[i] = &l.Add([]Result{changed})[0]
		}
		i++
	}
}

// Change calls f to change the results. Each call gets a result that holds either only
// the fields of an object (Object, Unreached), or those of a rule, or a message, or the
// file of a place, or all data.
func (l *CompactList) Change(f func(*Result)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var r Result
	for i := range l.objects {
		r = Result{Object: l.objects[i].Key}
		f(&r)
		l.objects[i] = compactObject{r.Object, r.Unreached}
	}
	for i := range l.rules.rules {
		f(&l.rules.rules[i])
	}
	for i := range l.messages.all {
		r = Result{Message: l.messages.all[i]}
		f(&r)
		l.messages.all[i] = r.Message
	}
	for i := range l.files.all {
		r = Result{Origins: []render.Origin{{Span: render.Span{File: l.files.all[i]}}}}
		f(&r)
		l.files.all[i] = r.Origins[0].File
	}
	for i := range l.whole {
		f(&l.whole[i])
	}
	l.rules.ids, l.messages.ids, l.files.ids = nil, nil, nil // of the names before
}

// Sort sorts the results into the report's order.
func (l *CompactList) Sort() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	objects := ranks(len(l.objects), func(i, j uint32) int { return compareObjects(&l.objects[i].Key, &l.objects[j].Key) })
	rules := ranks(len(l.rules.rules), func(i, j uint32) int { return compareRules(&l.rules.rules[i], &l.rules.rules[j]) })
	slices.SortStableFunc(l.results, func(a, b *compactResult) int {
		if c := cmp.Or(cmp.Compare(objects[a.object], objects[b.object]), cmp.Compare(rules[a.rule], rules[b.rule])); c != 0 {
			return c
		}
		if c := compareSpans(l.place(a, b), l.place(b, a)); c != 0 {
			return c
		}
		return strings.Compare(l.messages.all[a.message], l.messages.all[b.message])
	})
}

// place returns the place of x that is compared with that of other.
func (c *Compact) place(x, other *compactResult) render.Span {
	if x.places.n > 0 && other.places.n > 0 {
		return c.origin(c.places[x.places.first]).Span
	}
	return c.rules.rules[x.rule].PolicyOrigin
}

// A ruleSet holds what results of a rule have in common, once. Each has a number.
type ruleSet struct {
	rules []Result          // without data of an object
	ids   map[string]uint32 // nil until a rule is added
	key   []byte            // memory of the last key
	last  uint32            // the last number
	after []uint32          // by number, the one that came after it; 0 if unknown
}

// rule returns the number of a rule's data. Results of similar objects are about the same rules in
// the same order, so it looks first at the one that came after the last one before.
func (s *ruleSet) rule(r *Result) uint32 {
	if int(s.last) < len(s.after) {
		if next := s.after[s.last]; next > 0 && s.rules[next].sameRule(r) {
			s.last = next
			return next
		}
	}
	id := s.find(r)
	for len(s.after) < len(s.rules) {
		s.after = append(s.after, 0)
	}
	s.after[s.last], s.last = id, id
	return id
}

// find returns the number of a rule's data by its key.
func (s *ruleSet) find(r *Result) uint32 {
	if s.ids == nil {
		s.ids = make(map[string]uint32, len(s.rules))
		for i := range s.rules {
			s.ids[string(s.rules[i].ruleKey(nil))] = uint32(i)
		}
	}
	s.key = r.ruleKey(s.key[:0])
	if id, ok := s.ids[string(s.key)]; ok {
		return id
	}
	id := uint32(len(s.rules))
	s.ids[string(s.key)] = id
	rule := *r
	rule.forObject()
	s.rules = append(s.rules, rule)
	return id
}

// sameRule reports whether two results have the same ruleKey.
func (r *Result) sameRule(o *Result) bool {
	return r.Rule == o.Rule && r.Policy == o.Policy && r.Outcome == o.Outcome && r.Message == o.Message && r.Engine == o.Engine &&
		r.Operation == o.Operation && r.Action == o.Action && r.Severity == o.Severity && r.PolicyOrigin == o.PolicyOrigin &&
		r.Hint == o.Hint && r.Reason == o.Reason && r.Baseline == o.Baseline && r.Only == o.Only && r.Pods == o.Pods && r.Made == o.Made &&
		slices.Equal(r.Assumed, o.Assumed) && slices.Equal(r.Missing, o.Missing)
}

// ruleKey appends everything that results of a rule have in common.
func (r *Result) ruleKey(key []byte) []byte {
	add := func(text string) { key = append(binary.AppendUvarint(key, uint64(len(text))), text...) }
	if r.Pods {
		add("")
	}
	for _, s := range []string{
		r.Engine, r.Policy, r.Rule, string(r.Operation), string(r.Action), string(r.Severity), r.Message, r.PolicyOrigin.File,
		r.Hint, r.Reason, string(r.Baseline), string(r.Outcome), r.Only, r.Made,
	} {
		add(s)
	}
	for _, n := range []int{r.PolicyOrigin.Line, r.PolicyOrigin.Column, r.PolicyOrigin.EndLine, r.PolicyOrigin.EndColumn, len(r.Assumed)} {
		key = binary.AppendVarint(key, int64(n))
	}
	for _, a := range r.Assumed {
		add(a)
	}
	for _, m := range r.Missing {
		add(m.Kind)
		add(m.Name)
	}
	return key
}

// forObject drops a result's data about an object, so that the rest can be of any.
func (r *Result) forObject() {
	r.Object, r.Origins, r.Unreached, r.Fingerprint, r.UnitlessPrint = render.Key{}, nil, false, "", ""
	r.Fields, r.Literals, r.AsWritten, r.OfKeys, r.Cost, r.Suppression, r.Fix = nil, nil, false, false, nil, nil, nil
}
