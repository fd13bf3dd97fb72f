package policy

import (
	"encoding/hex"
	"slices"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// A Compact holds results in a fifth of the memory that they take otherwise, until
// they are needed. It is safe for concurrent use.
type Compact struct {
	mu     sync.Mutex
	rules  ruleSet
	shared sharedTexts
}

// CompactResults are results that a Compact holds.
type CompactResults []compactResult

type compactResult struct {
	object                *render.Key
	message               string
	fields                []string
	origins               []render.Origin
	whole                 *Result // a result with data that has no place here; the rest is empty
	rule                  uint32  // of Compact.rules
	identity, fingerprint [fingerprintSize]byte
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
		r := &results[i]
		c.shared.share(r)
		x := &all[i]
		if !x.prints(r) || !r.compacts() {
			whole := *r
			*x = compactResult{whole: &whole}
			continue
		}
		rule := *r
		rule.Message = ""
		x.rule = c.rules.rule(&rule)
		x.message, x.fields, x.origins = r.Message, r.Fields, r.Origins
		x.likeOthers(r, all[:i])
	}
	return all
}

// compacts reports whether a result has only data for which there is a place.
func (r *Result) compacts() bool {
	return len(r.Missing) == 0 && len(r.Literals) == 0 && r.Only == "" && r.Cost == nil && r.Suppression == nil && !r.AsWritten && !r.Unreached
}

// prints sets the fingerprint and the identity, and reports whether they are such.
func (x *compactResult) prints(r *Result) bool {
	return setPrint(&x.identity, r.Identity) && setPrint(&x.fingerprint, r.Fingerprint)
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

// likeOthers shares the object and the places of a result with those before it.
func (x *compactResult) likeOthers(r *Result, before []compactResult) {
	for i := len(before) - 1; i >= 0; i-- {
		y := &before[i]
		if y.whole != nil {
			continue
		}
		if x.object == nil && *y.object == r.Object {
			x.object = y.object
		}
		if len(r.Origins) > 0 && slices.Equal(r.Origins, y.origins) {
			x.origins = y.origins
			break
		}
	}
	if x.object == nil {
		object := r.Object
		x.object = &object
	}
}

// Append appends results that c holds to others.
func (c *Compact) Append(to []Result, held CompactResults) []Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range held {
		x := &held[i]
		if x.whole != nil {
			to = append(to, *x.whole)
			continue
		}
		to = append(to, c.rules.rules[x.rule])
		r := &to[len(to)-1]
		r.Object, r.Message, r.Fields, r.Origins = *x.object, x.message, x.fields, slices.Clone(x.origins)
		r.Identity, r.Fingerprint = hex.EncodeToString(x.identity[:]), hex.EncodeToString(x.fingerprint[:])
	}
	return to
}

// A ruleSet holds what results of a rule have in common, once. Each has a number.
type ruleSet struct {
	rules []Result // without data of an object
	ids   map[string]uint32
}

// rule returns the number of a rule's data.
func (s *ruleSet) rule(r *Result) uint32 {
	key := make([]byte, 0, 512)
	for _, s := range []string{
		r.Engine, r.Policy, r.Rule, string(r.Operation), string(r.Action), string(r.Severity), r.Message, r.PolicyOrigin.File,
		r.Hint, r.Reason, string(r.Baseline), string(r.Outcome),
	} {
		key = append(append(key, s...), 0)
	}
	for _, n := range []int{r.PolicyOrigin.Line, r.PolicyOrigin.Column, r.PolicyOrigin.EndLine, r.PolicyOrigin.EndColumn} {
		key = append(key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	for _, a := range r.Assumed {
		key = append(append(key, a...), 0)
	}
	if id, ok := s.ids[string(key)]; ok {
		return id
	}
	if s.ids == nil {
		s.ids = make(map[string]uint32)
	}
	id := uint32(len(s.rules))
	s.ids[string(key)] = id
	rule := *r
	rule.Object, rule.Origins, rule.Unreached, rule.Fingerprint, rule.Identity = render.Key{}, nil, false, "", ""
	rule.Fields, rule.Literals, rule.AsWritten = nil, nil, false
	s.rules = append(s.rules, rule)
	return id
}
