package report

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A partWriter encodes the fields that a rule's results share once, and those that an
// object's results share once. It writes the same bytes as encoding each result whole.
type partWriter struct {
	rules   map[sharedRule]*encodedRule
	last    *encodedRule // that was written last; may be nil
	assumed assumedIDs
	key     render.Key
	object  []byte // of key
	from    []render.Origin
	origins []byte // of from
}

// sharedRule has the fields that are equal in many results of a rule.
type sharedRule struct {
	engine, policy, rule, message, hint, reason, only string

	operation policy.Operation
	outcome   policy.Outcome
	action    policy.Action
	severity  policy.Severity
	baseline  policy.Baseline
	origin    render.Span
	unreached bool
	assumed   int // number of the list
}

// assumedIDs numbers lists of assumptions. Equal lists usually have one number. Results that
// are held compactly share lists, so that most are known by their address.
type assumedIDs struct {
	last  int
	known map[textList]int
	equal map[string]int
}

// A textList is the address of a list that is not empty.
type textList struct {
	first *string
	n     int
}

func (a *assumedIDs) id(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	at := textList{&texts[0], len(texts)}
	id, ok := a.known[at]
	if ok {
		return id
	}
	if a.known == nil || len(a.known) >= maxRules {
		a.known, a.equal = make(map[textList]int), make(map[string]int)
	}
	var key []byte
	for _, text := range texts {
		key = append(binary.AppendUvarint(key, uint64(len(text))), text...)
	}
	if id, ok = a.equal[string(key)]; !ok {
		a.last++
		id = a.last
		a.equal[string(key)] = id
	}
	a.known[at] = id
	return id
}

// encodedRule is an encoded result without its object, fields, origins and fingerprint.
type encodedRule struct {
	key                        sharedRule
	next                       *encodedRule // that was written after it the last time; may be nil
	before, middle, after, end []byte
}

// The values of a result that is cut into an encodedRule. No text of a result can
// have them: it has no quotes that are not escaped.
var (
	noObject      = []byte(`"object":{"apiVersion":"","kind":"","namespace":"","name":"","unit":""}`)
	noFields      = []byte(`"fields":[],"origins":[]`)
	noFingerprint = []byte(`"fingerprint":""`)
)

// inParts writes a result, if it is one of those that are written in parts.
func (j *jsonWriter) inParts(r *policy.Result) bool {
	if len(r.Missing) > 0 || r.Cost != nil || r.Suppression != nil {
		return false
	}
	rule := j.rule(r)
	if rule == nil {
		return false
	}
	p := &j.parts
	if p.object == nil || p.key != r.Object {
		p.key, p.object = r.Object, append(append(p.object[:0], `"object":`...), j.encoded(r.Object)...)
	}
	if p.origins == nil || !slices.Equal(p.from, r.Origins) {
		p.from = append(p.from[:0], r.Origins...)
		p.origins = append(append(p.origins[:0], `,"origins":`...), j.encoded(p.from)...)
	}
	for _, part := range [][]byte{rule.before, p.object, rule.middle, []byte(`"fields":`)} {
		j.out.Write(part)
	}
	if len(r.Fields) == 0 {
		j.text("[]")
	} else {
		j.value(r.Fields)
	}
	j.out.Write(p.origins)
	j.out.Write(rule.after)
	j.text(`"fingerprint":`)
	if strings.Trim(r.Fingerprint, "0123456789abcdef") == "" {
		j.text(`"` + r.Fingerprint + `"`)
	} else {
		j.value(r.Fingerprint)
	}
	j.out.Write(rule.end)
	return true
}

// maxRules bounds how many rules are kept encoded, since each message is one, and how many lists
// of assumptions are known.
const maxRules = 8 << 10

// rule returns nil for a result that can't be cut. Results of similar objects are about the same
// rules in the same order, so it looks first at the rule that came after the last one before.
func (j *jsonWriter) rule(r *policy.Result) *encodedRule {
	key := sharedRule{
		r.Engine, r.Policy, r.Rule, r.Message, r.Hint, r.Reason, r.Only,
		r.Operation, r.Outcome, r.Action, r.Severity, r.Baseline, r.PolicyOrigin, r.Unreached, j.parts.assumed.id(r.Assumed),
	}
	last := j.parts.last
	if last != nil && last.next != nil && last.next.key == key {
		j.parts.last = last.next
		return last.next
	}
	e := j.encodedRule(r, key)
	if last != nil {
		last.next = e
	}
	j.parts.last = e
	return e
}

func (j *jsonWriter) encodedRule(r *policy.Result, key sharedRule) *encodedRule {
	if e, ok := j.parts.rules[key]; ok {
		return e
	}
	x := *r
	x.Object, x.Fields, x.Origins, x.Fingerprint = render.Key{}, nil, nil, ""
	data := bytes.Clone(j.encoded(whole(x)))
	e := &encodedRule{key: key}
	var ok, ok2, ok3 bool
	e.before, data, ok = bytes.Cut(data, noObject)
	e.middle, data, ok2 = bytes.Cut(data, noFields)
	e.after, e.end, ok3 = bytes.Cut(data, noFingerprint)
	if !ok || !ok2 || !ok3 {
		e = nil
	}
	if j.parts.rules == nil || len(j.parts.rules) >= maxRules {
		j.parts.rules, j.parts.last = make(map[sharedRule]*encodedRule), nil
	}
	j.parts.rules[key] = e
	return e
}
