package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// EnginePolicies is the engine of findings: results about policies themselves.
const EnginePolicies = "Policies"

// The findings, as in Result.Rule.
const (
	NeverMatches  = "never-matches"
	NotAsked      = "not-asked"
	AlwaysExempt  = "always-exempt"
	NeverFails    = "never-fails"
	NeverPasses   = "never-passes"
	NeverApplies  = "never-applies"
	Shadowed      = "shadowed"
	SameVerdict   = "same-verdict"
	NoParameter   = "no-parameter"
	ExemptsNone   = "exempts-nothing"
	NearLimit     = "near-limit"
	Deprecated    = "deprecated"
	AcceptsNone   = "accepts-nothing" // of a suppression
	NoBinding     = "no-binding"      // of a policy; a compile warning
	BindsNoPolicy = "binding"         // of a binding; a compile error
)

// A FindingKind documents a finding.
type FindingKind struct {
	Name   string
	Unused bool // the policy, or a part of it, has no effect in this run
	Action Action
	Title  string
	Help   string
}

// FindingKinds documents all findings that Inspectors and Uses make.
var FindingKinds = []FindingKind{
	{NeverMatches, true, Warn, "The rule matches no object of the repository.", "Compare the match of the policy with the objects that it is meant for. `preadmit explain POLICY OBJECT` answers each of its questions for one object."},
	{NotAsked, false, Audit, "The rule is about operations that are not evaluated here.", "`preadmit policies` evaluates objects as they are created. `preadmit check --base REV` evaluates updates and deletions."},
	{AlwaysExempt, true, Warn, "Every object that the rule matches is exempt from it.", "Compare the condition or exception with the objects: a condition that never holds turns the rule off."},
	{NeverFails, true, Warn, "The rule can't fail, whatever the object is.", "Remove the rule, or correct the expression."},
	{NeverPasses, false, Warn, "The rule can't pass, whatever the object is.", "If that is meant, write `false`; if not, correct the expression."},
	{NeverApplies, true, Warn, "A condition of the policy can't hold, whatever the object is.", "Correct the condition: the policy never gets further."},
	{Shadowed, false, Audit, "A validation only fails where an earlier one fails too.", "Remove the validation, or the earlier one."},
	{SameVerdict, false, Audit, "Two rules have the same verdict on every object.", "One of the rules may be enough."},
	{NoParameter, true, Warn, "The parameter that a binding names is not in the repository.", "Add the parameter, correct its name, or give it with --with if it exists on the cluster."},
	{ExemptsNone, true, Warn, "An exception exempts no object.", "Remove the exception, or correct the names and kinds in it."},
	{NearLimit, false, Warn, "An expression comes near the cost at which the API server stops it.", "Bound lists in the schema, leave nested loops, or split the policy: past the limit the request fails by failurePolicy."},
	{Deprecated, false, Warn, "The policy uses a field or version that is deprecated.", "Move to the replacement before the version that removes it."},
	{AcceptsNone, true, Warn, "A suppression accepts no failure.", "Remove the suppression."},
}

// An Inspector is a Validator or Mutator that finds mistakes in its policies
// without any request. It makes findings with NewFinding.
type Inspector interface{ Inspect() []Result }

// NewFinding returns a finding about a policy at a place in it.
func NewFinding(kind, policy string, at render.Span, format string, args ...any) Result {
	r := Result{
		Engine: EnginePolicies, Policy: policy, Rule: kind, Outcome: Fail, Action: Warn,
		Message: fmt.Sprintf(format, args...), PolicyOrigin: at,
	}
	if i := slices.IndexFunc(FindingKinds, func(k FindingKind) bool { return k.Name == kind }); i >= 0 {
		r.Action = FindingKinds[i].Action
	}
	if at.File != "" {
		r.Origins = []render.Origin{{Span: at, Role: render.Manifest}}
	}
	return r.Fingerprinted()
}

// Unused reports whether a finding, or a compile warning, says that something
// has no effect in this run.
func (r *Result) Unused() bool {
	switch r.Engine {
	case EnginePolicies:
		return slices.ContainsFunc(FindingKinds, func(k FindingKind) bool { return k.Unused && k.Name == r.Rule })
	case EngineCompile:
		return r.Rule == NoBinding || r.Rule == BindsNoPolicy
	}
	return false
}

// nearLimit is the share of a limit from which a cost is reported.
const nearLimit = 0.5

// Findings returns the findings that follow from the counts: rules that are always
// exempt, come near a cost limit, or have the same verdicts as another rule.
func (u *Uses) Findings() []Result {
	var all []Result
	byVerdicts := make(map[uint64]*Use)
	for _, use := range u.List() {
		if use.Origin.File == "" {
			continue // of a pack
		}
		if use.Exempted > 0 && use.Exempted == use.Matched {
			all = u.exempted(all, use)
		}
		if c := use.Cost; c != nil && c.Share() >= nearLimit {
			all = append(all, NewFinding(NearLimit, use.Policy, use.Origin, "%s used %.0f%% of the cost that the API server allows, on one object: expression %d of %d, policy %d of %d",
				use.name(), 100*c.Share(), c.Expression, c.ExpressionLimit, c.Policy, c.PolicyLimit))
		}
		if use.Failed == 0 || use.Passed == 0 {
			continue
		}
		sum := use.verdicts.Sum64()
		first := byVerdicts[sum]
		if first == nil {
			byVerdicts[sum] = use
			continue
		}
		r := NewFinding(SameVerdict, use.Policy, use.Origin, "%s has the same verdict as %s on all %d objects: %d passed, %d failed",
			use.name(), first.name(), use.Passed+use.Failed, use.Passed, use.Failed)
		r.Origins = append(r.Origins, render.Origin{Span: first.Origin, Role: render.Reference})
		all = append(all, r)
	}
	return all
}

// exempted adds the finding for a rule that is always exempt. If all rules of a
// policy are exempt for the same reason, it adds one finding for the policy.
func (u *Uses) exempted(all []Result, use *Use) []Result {
	why, name := use.exemption(), use.name()
	if strings.Contains(why, "names this policy") {
		return all // the finding about the missing binding reports it
	}
	if rules := u.policies[useKey{engine: use.Engine, policy: use.Policy}]; len(rules) > 1 && !slices.ContainsFunc(rules, func(x *Use) bool {
		return x.Exempted != use.Exempted || x.Matched != use.Matched || x.exemption() != why
	}) {
		if name = use.Policy; rules[0] != use {
			return all
		}
	}
	return append(all, NewFinding(AlwaysExempt, use.Policy, use.Origin, "%s decides on nothing: %s that it matches %s exempt%s",
		name, allOf(use.Matched), isAre(use.Matched), mostly(why, use)))
}

// Unmatched returns the uses of rules that matched no object. If an engine
// matches policies as a whole, a policy's rules are one use without a rule.
func (u *Uses) Unmatched() []*Use {
	var all []*Use
	for _, use := range u.List() {
		rules := u.policies[useKey{engine: use.Engine, policy: use.Policy}]
		switch {
		case use.Matched > 0 || use.Origin.File == "":
		case use.Engine == EngineKyverno:
			all = append(all, use)
		case rules[0] == use && !slices.ContainsFunc(rules, func(x *Use) bool { return x.Matched > 0 }):
			whole := *use
			whole.Rule = ""
			all = append(all, &whole)
		}
	}
	return all
}

func (u *Use) name() string {
	if u.Rule == "" || u.Rule == u.Policy {
		return u.Policy
	}
	return u.Policy + "/" + u.Rule
}

func allOf(n int) string {
	if n == 1 {
		return "the only object"
	}
	return fmt.Sprintf("all %d objects", n)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// mostly returns the most frequent reason for exemptions, with its count if
// there are other reasons.
func mostly(why string, use *Use) string {
	n := use.exempts[why]
	why = strings.TrimPrefix(why, "exempt ")
	switch {
	case len(use.exempts) > 1:
		return fmt.Sprintf(": %d of them %s", n, why)
	case strings.HasPrefix(why, "by "):
		return " " + why
	default:
		return ": " + why
	}
}

// WithoutConsequences drops findings that follow from others about the same
// policy. For example, a policy with an impossible condition or without a
// parameter is always exempt.
func WithoutConsequences(findings []Result) []Result {
	causes := make(map[string]bool)
	for i := range findings {
		if r := &findings[i]; r.Engine == EnginePolicies && (r.Rule == NeverApplies || r.Rule == NoParameter) {
			causes[r.Policy] = true
		}
	}
	return slices.DeleteFunc(findings, func(r Result) bool { return r.Engine == EnginePolicies && r.Rule == AlwaysExempt && causes[r.Policy] })
}
