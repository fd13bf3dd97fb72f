package report

import (
	"bytes"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Most results of a large report are passes. A passWriter encodes what the passes of
// a rule share once, and what those of an object share once. The bytes that are
// written are those of encoding each result whole.
type passWriter struct {
	rules   map[passRule]*encodedRule
	key     render.Key
	object  []byte // of key
	from    []render.Origin
	origins []byte // of from
}

// passRule is what passes of a rule have in common.
type passRule struct {
	engine, policy, rule, message, hint, reason, only string

	operation policy.Operation
	outcome   policy.Outcome
	action    policy.Action
	severity  policy.Severity
	baseline  policy.Baseline
	origin    render.Span
	unreached bool
}

// encodedRule is an encoded result without its object, origins and fingerprint.
type encodedRule struct{ before, middle, after, end []byte }

// The values of a result that is cut into an encodedRule. No text of a result can
// have them: it has no quotes that are not escaped.
var (
	noObject      = []byte(`"object":{"apiVersion":"","kind":"","namespace":"","name":"","unit":""}`)
	noOrigins     = []byte(`"origins":[]`)
	noFingerprint = []byte(`"fingerprint":""`)
)

// pass writes a result, if it is one of those that are written in parts.
func (j *jsonWriter) pass(r *policy.Result) bool {
	if r.Outcome != policy.Pass || len(r.Fields)+len(r.Assumed)+len(r.Missing) > 0 || r.Cost != nil || r.Suppression != nil {
		return false
	}
	rule := j.passRule(r)
	if rule == nil {
		return false
	}
	p := &j.passes
	if p.object == nil || p.key != r.Object {
		p.key, p.object = r.Object, append(append(p.object[:0], `"object":`...), j.encoded(r.Object)...)
	}
	if p.origins == nil || !slices.Equal(p.from, r.Origins) {
		p.from = append(p.from[:0], r.Origins...)
		p.origins = append(append(p.origins[:0], `"origins":`...), j.encoded(p.from)...)
	}
	for _, part := range [][]byte{rule.before, p.object, rule.middle, p.origins, rule.after} {
		j.out.Write(part)
	}
	j.text(`"fingerprint":`)
	if strings.Trim(r.Fingerprint, "0123456789abcdef") == "" {
		j.text(`"` + r.Fingerprint + `"`)
	} else {
		j.value(r.Fingerprint)
	}
	j.out.Write(rule.end)
	return true
}

// maxPassRules bounds how many rules are kept encoded, since each message is one.
const maxPassRules = 8 << 10

// passRule is nil for a result that can't be cut.
func (j *jsonWriter) passRule(r *policy.Result) *encodedRule {
	key := passRule{
		r.Engine, r.Policy, r.Rule, r.Message, r.Hint, r.Reason, r.Only,
		r.Operation, r.Outcome, r.Action, r.Severity, r.Baseline, r.PolicyOrigin, r.Unreached,
	}
	if e, ok := j.passes.rules[key]; ok {
		return e
	}
	if len(j.passes.rules) >= maxPassRules {
		return nil
	}
	x := *r
	x.Object, x.Origins, x.Fingerprint = render.Key{}, nil, ""
	data := bytes.Clone(j.encoded(whole(x)))
	e := &encodedRule{}
	var ok, ok2, ok3 bool
	e.before, data, ok = bytes.Cut(data, noObject)
	e.middle, data, ok2 = bytes.Cut(data, noOrigins)
	e.after, e.end, ok3 = bytes.Cut(data, noFingerprint)
	if !ok || !ok2 || !ok3 {
		e = nil
	}
	if j.passes.rules == nil {
		j.passes.rules = make(map[passRule]*encodedRule)
	}
	j.passes.rules[key] = e
	return e
}
