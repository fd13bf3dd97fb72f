package kyvernocel

import (
	"context"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
)

var _ policy.Explainer = validator{}

// Explain implements policy.Explainer.
func (v validator) Explain(ctx context.Context, req *policy.Request, name, rule string) ([]policy.Explanation, error) {
	var all []policy.Explanation
	for _, p := range v.policies {
		if p.Name != name || p.Kind != Validating && p.Kind != ImageValidating || !p.has(rule) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := &explainer{policy: p, review: v.review(ctx, req, nil), rule: rule}
		all = append(all, x.explain())
	}
	return all, ctx.Err()
}

// has reports whether a rule belongs to the policy. "" means all rules. Results
// may also have the names of match conditions or variables, which explain why
// validations were not run.
func (p *Policy) has(rule string) bool {
	return !strings.HasPrefix(rule, "validations[") || slices.ContainsFunc(p.main.validations, func(e *cel.Expression) bool { return e.Rule == rule })
}

// An explainer explains how one policy evaluates one request.
type explainer struct {
	policy *Policy
	review *review
	rule   string // "" means all rules
	hide   bool   // the values of a Secret
}

func (e *explainer) includes(rule string) bool {
	return e.rule == "" || e.rule == rule || !strings.HasPrefix(rule, "validations[")
}

func (e *explainer) explain() policy.Explanation {
	p := e.policy
	ex := policy.Explanation{Engine: p.engine(), Policy: p.Name, Origin: p.Object.Span(""), FailurePolicy: "Fail"}
	if p.spec.ignores() {
		ex.FailurePolicy = "Ignore"
	}
	for i, x := range p.main.validations {
		if e.includes(x.Rule) {
			ex.Rules = append(ex.Rules, p.rule(x, i))
		}
	}
	c, as, matches := p.copyFor(e.review)
	ex.Matches = matches.Answer()
	if c == nil {
		c = p.main
	}
	ex.Match = e.matching(c)
	for _, v := range p.evaluate(e.review) {
		if e.includes(v.rule) {
			ex.Results = append(ex.Results, p.result(v))
		}
	}
	if matches != match.No {
		ex.Trials = []policy.Trial{e.trial(c, as)}
	}
	return ex
}

// matching returns the checks that decide whether the policy matches the
// request.
func (e *explainer) matching(c *compiled) []policy.Check {
	var all []policy.Check
	if ns := e.policy.Namespace; ns != "" {
		answer := policy.Yes
		if ns != e.review.req.Namespace {
			answer = policy.No
		}
		all = append(all, policy.Check{Name: "namespace", Text: ns, Answer: answer, Origin: e.policy.Object.Span("/metadata/namespace")})
	}
	if c.criteria != nil {
		all = append(all, c.criteria.Checks(e.review, e.policy.Object, "/spec/matchConstraints")...)
	}
	return all
}

func (e *explainer) trial(c *compiled, as policy.Version) policy.Trial {
	r := e.review.run(c, as)
	t := policy.Trial{NamespaceObject: e.review.NamespaceObject()}
	if as.Kind != e.review.req.Kind {
		t.As = match.ResourceText(as.Resource)
	}
	if v, unfit := r.unfit(); unfit {
		t.Problem = v.message
		return t
	}
	exempt := e.conditions(r, &t)
	for _, x := range c.validations {
		if !e.includes(x.Rule) {
			continue
		}
		ev := x.Evaluation()
		if ev.NotRun = exempt; exempt == "" {
			ev = e.evaluate(r, x)
		}
		t.Validations = append(t.Validations, ev)
	}
	t.Variables = r.variables.Evaluations(c.variables, func(ev *policy.Evaluation, _ *cel.Expression, v ref.Val, _ []string) { e.describe(ev, v, nil) })
	return t
}

// conditions evaluates the match conditions and exceptions. exempt says why the
// validations are not run, or is "".
func (e *explainer) conditions(r *run, t *policy.Trial) (exempt string) {
	if v, done := r.exempt(); done {
		return v.message
	}
	for _, x := range r.c.conditions {
		t.Conditions = append(t.Conditions, e.evaluate(r, x))
	}
	exempt = cel.Exempt(t.Conditions, func(i int) string { return r.c.conditions[i].Name })
	if exempt == "" && r.c.policy.Kind == ImageValidating {
		if vs, done := r.verifiedImages(); done && len(vs) > 0 {
			exempt = vs[0].message
		}
	}
	return exempt
}

// describe writes a value or an error into the evaluation, in words.
func (e *explainer) describe(ev *policy.Evaluation, v ref.Val, err error) {
	err = cel.ErrorOf(v, err, e.hide)
	if q, open := asked(err); open {
		ev.Unknown = q.text
		return
	}
	cel.Describe(ev, v, err, e.hide)
}

// evaluate evaluates an expression and describes its parts and the fields at
// fault.
func (e *explainer) evaluate(r *run, x *cel.Expression) policy.Evaluation {
	ev := x.Evaluation()
	v, err := r.eval(x)
	e.hide = r.secret
	if e.describe(&ev, v, err); ev.Unknown == "" {
		r.failure(x).Explain(r.ctx, x.Explainer(), r.roots(), &ev)
	}
	return ev
}
