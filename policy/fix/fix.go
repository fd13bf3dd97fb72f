// Package fix finds the changes of an object that make a failing rule pass.
//
// It takes a failure, the object, the policies' own objects and a function that evaluates a changed
// object, and returns policy.Fixes. It proposes values that are determined: by the Pod Security
// Standards (standards.go), by a value that the failing policy or a mutating one writes for the field
// (values.go, cel.go), or by the schema. Each proposal is evaluated, so a wrong one is never
// returned. Values that only a person knows, such as an owner or a size, are not proposed.
//
// The command fix calls it. Which line to edit is not known here.
package fix

import (
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A Search finds fixes for the failures of one object.
type Search struct {
	// Evaluate returns the results for a changed object that are not passes. A panic or an error of
	// an engine is among them.
	Evaluate func(object map[string]any) []policy.Result
	Values   *Values
	May      func(policy.Fix) bool       // whether a fix can be made; nil means each can
	Rule     func(*policy.Result) string // the text of a failure's rule, in which fields are named; may return ""
}

// Limits of a search. An object with many containers needs several steps for each.
const (
	maxSteps  = 64
	maxTrials = 400
)

// Fixes returns the fixes that make the rule of a failure pass for an object, and the object with
// them. If the rule passes already, there are no fixes. If no values are known with which it passes,
// or those make something else fail, the object is nil, too.
func (s *Search) Fixes(object map[string]any, r *policy.Result) ([]policy.Fix, map[string]any) {
	before := s.Evaluate(object)
	known := failing(before)
	fail := sameRule(before, r)
	var fixes []policy.Fix
	now, trials := object, 0
	for fail != nil {
		next, found := now, false
		for f := range s.proposals(now, fail) {
			if s.May != nil && !s.May(f) {
				continue
			}
			changed, err := f.Apply(now)
			if trials++; trials > maxTrials || len(fixes) > maxSteps {
				return nil, nil
			}
			if err != nil || render.Equal(changed, now) {
				continue
			}
			results := s.Evaluate(changed.(map[string]any))
			if addsTo(known, results) {
				continue
			}
			left := sameRule(results, r)
			if left != nil && equalFailure(left, fail) {
				continue // no progress
			}
			next, fail, found = changed.(map[string]any), left, true
			fixes = append(fixes, f)
			break
		}
		if !found {
			return nil, nil
		}
		now = next
	}
	return s.needed(object, fixes, known, r)
}

// needed leaves out fixes without which the rule passes, too.
func (s *Search) needed(object map[string]any, fixes []policy.Fix, known map[failure]bool, r *policy.Result) ([]policy.Fix, map[string]any) {
	for i := 0; i < len(fixes) && len(fixes) > 1; {
		fewer := append(fixes[:i:i], fixes[i+1:]...)
		if changed := applied(object, fewer); changed != nil {
			if results := s.Evaluate(changed); sameRule(results, r) == nil && !addsTo(known, results) {
				fixes = fewer
				continue
			}
		}
		i++
	}
	return fixes, applied(object, fixes)
}

func applied(object map[string]any, fixes []policy.Fix) map[string]any {
	var now any = object
	for _, f := range fixes {
		var err error
		if now, err = f.Apply(now); err != nil {
			return nil
		}
	}
	m, _ := now.(map[string]any)
	return m
}

// A failure identifies what a rule finds wrong, without the message.
type failure struct{ engine, policy, rule string }

func failureOf(r *policy.Result) failure {
	f := failure{r.Engine, r.Policy, r.Rule}
	if r.Engine == policy.EngineSchema || r.Engine == policy.EngineCRD {
		for _, field := range r.Fields { // a rule for all fields
			f.rule += " " + field
		}
	}
	return f
}

func failing(results []policy.Result) map[failure]bool {
	all := make(map[failure]bool)
	for i := range results {
		if r := &results[i]; r.Outcome == policy.Fail || r.Undecided() {
			all[failureOf(r)] = true
		}
	}
	return all
}

// addsTo reports whether results have a failure, or something undecided, that is not known.
func addsTo(known map[failure]bool, results []policy.Result) bool {
	for f := range failing(results) {
		if !known[f] {
			return true
		}
	}
	return false
}

func sameRule(results []policy.Result, r *policy.Result) *policy.Result {
	for i := range results {
		if x := &results[i]; (x.Outcome == policy.Fail || x.Undecided()) && failureOf(x) == failureOf(r) {
			return x
		}
	}
	return nil
}

func equalFailure(a, b *policy.Result) bool {
	return a.Message == b.Message && len(a.Fields) == len(b.Fields) && (len(a.Fields) == 0 || a.Fields[0] == b.Fields[0]) && a.Outcome == b.Outcome
}

// proposals yields the fixes to try for a failure, the likeliest first.
func (s *Search) proposals(object map[string]any, r *policy.Result) func(yield func(policy.Fix) bool) {
	return func(yield func(policy.Fix) bool) {
		var text string
		if s.Rule != nil {
			text = s.Rule(r)
		}
		for _, of := range []func(field string) []policy.Fix{
			func(f string) []policy.Fix { return typed(object, r, f) },
			func(f string) []policy.Fix { return s.Values.of(r.Policy, object, f) },
			func(f string) []policy.Fix { return standards(object, f, text+" "+r.Message) },
		} {
			for _, field := range r.Fields {
				for _, f := range of(field) {
					if !yield(f) {
						return
					}
				}
			}
		}
	}
}

// typed returns what a schema wants: the written value in another type, if that loses nothing (a
// number for its text, or the text of a number), the name that a misspelt field was meant to have, or
// the apiVersion that replaced a removed one.
func typed(object map[string]any, r *policy.Result, field string) []policy.Fix {
	if r.Engine != policy.EngineSchema && r.Engine != policy.EngineCRD {
		return nil
	}
	v, _ := render.Lookup(object, field)
	var as []any
	switch v := v.(type) {
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && strconv.FormatInt(n, 10) == v {
			as = append(as, n)
		}
		if v == "true" || v == "false" {
			as = append(as, v == "true")
		}
	case bool:
		as = append(as, strconv.FormatBool(v))
	case int64:
		as = append(as, strconv.FormatInt(v, 10))
	case float64:
		as = append(as, strconv.FormatFloat(v, 'f', -1, 64))
	}
	var fixes []policy.Fix
	if name := render.Meant(r.Hint); name != "" {
		fixes = append(fixes, policy.Fix{Edit: render.Edit{Pointer: field, Key: name}, Source: policy.FixSchema})
	}
	if _, use, ok := strings.Cut(r.Message, "; use "); ok && field == "/apiVersion" {
		if version, kind, _ := strings.Cut(use, " "); kind == object["kind"] {
			fixes = append(fixes, policy.Fix{Edit: render.Edit{Pointer: field, Value: version}, Source: policy.FixSchema})
		}
	}
	for _, v := range as {
		fixes = append(fixes, policy.Fix{Edit: render.Edit{Pointer: field, Value: v}, Source: policy.FixType})
	}
	return fixes
}
