package kyvernocel

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
)

var _ policy.Explainer = validator{}

// Explain implements policy.Explainer.
func (e validator) Explain(ctx context.Context, req *policy.Request, name, rule string) ([]policy.Explanation, error) {
	var all []policy.Explanation
	for _, p := range e.policies {
		if p.Name != name || p.Kind != Validating && p.Kind != ImageValidating || !p.has(rule) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := &explaining{policy: p, review: e.review(ctx, req, nil), rule: rule}
		all = append(all, x.explain())
	}
	return all, ctx.Err()
}

// has says whether a rule is one of the policy's; "" is all of them. Results
// may have other names than validations, which say why those were not run.
func (p *Policy) has(rule string) bool {
	return !strings.HasPrefix(rule, "validations[") || slices.ContainsFunc(p.main.validations, func(e *expression) bool { return e.rule == rule })
}

// explaining is one policy being explained on one request.
type explaining struct {
	policy *Policy
	review *review
	rule   string // "" is all of them
	hide   bool   // a Secret's values
}

func (x *explaining) about(rule string) bool {
	return x.rule == "" || x.rule == rule || !strings.HasPrefix(rule, "validations[")
}

func (x *explaining) explain() policy.Explanation {
	p := x.policy
	ex := policy.Explanation{Engine: p.engine(), Policy: p.Name, Origin: p.Object.Span(""), FailurePolicy: "Fail"}
	if p.spec.ignores() {
		ex.FailurePolicy = "Ignore"
	}
	for i, e := range p.main.validations {
		if x.about(e.rule) {
			ex.Rules = append(ex.Rules, p.rule(e, i))
		}
	}
	c, as, matches := p.about(x.review)
	ex.Matches = matches.Answer()
	if c == nil {
		c = p.main
	}
	ex.Match = x.matching(c)
	for _, v := range p.evaluate(x.review) {
		if x.about(v.rule) {
			ex.Results = append(ex.Results, p.result(v))
		}
	}
	if matches != match.No {
		ex.Trials = []policy.Trial{x.trial(c, as)}
	}
	return ex
}

// matching are the questions about the request.
func (x *explaining) matching(c *compiled) []policy.Check {
	var all []policy.Check
	if ns := x.policy.Namespace; ns != "" {
		answer := policy.Yes
		if ns != x.review.req.Namespace {
			answer = policy.No
		}
		all = append(all, policy.Check{Name: "namespace", Text: ns, Answer: answer, Origin: x.policy.Object.Span("/metadata/namespace")})
	}
	if c.criteria != nil {
		all = append(all, c.criteria.Checks(x.review, x.policy.Object, "/spec/matchConstraints")...)
	}
	return all
}

func (x *explaining) trial(c *compiled, as policy.Version) policy.Trial {
	r := x.review.run(c, as)
	t := policy.Trial{NamespaceObject: x.review.NamespaceObject()}
	if as.Kind != x.review.req.Kind {
		t.As = match.ResourceText(as.Resource)
	}
	if v, unfit := r.unfit(); unfit {
		t.Problem = v.message
		return t
	}
	exempt := x.conditions(r, &t)
	for _, e := range c.validations {
		if !x.about(e.rule) {
			continue
		}
		ev := described(e)
		if ev.NotRun = exempt; exempt == "" {
			ev = x.evaluate(r, e)
		}
		t.Validations = append(t.Validations, ev)
	}
	for i, e := range c.variables {
		ev := described(e)
		if v, _ := r.variables.Known(i); v == nil {
			ev.NotRun = "nothing read it"
		} else {
			x.say(&ev, v, nil)
		}
		t.Variables = append(t.Variables, ev)
	}
	return t
}

// conditions evaluates what comes before the validations, and says why these
// are not run, if so.
func (x *explaining) conditions(r *run, t *policy.Trial) (exempt string) {
	if v, done := r.exempt(); done {
		return v.message
	}
	unsettled := ""
	for _, e := range r.c.conditions {
		ev := x.evaluate(r, e)
		t.Conditions = append(t.Conditions, ev)
		switch {
		case ev.Value == "false" && exempt == "":
			exempt = fmt.Sprintf("exempt by match condition %q", e.name)
		case ev.Value != "true" && ev.Value != "false":
			unsettled = fmt.Sprintf("match condition %q could not be evaluated", e.name)
		}
	}
	exempt = cmp.Or(exempt, unsettled)
	if exempt == "" && r.c.policy.Kind == ImageValidating {
		if vs, done := r.verifiedImages(); done && len(vs) > 0 {
			exempt = vs[0].message
		}
	}
	return exempt
}

func described(e *expression) policy.Evaluation {
	return policy.Evaluation{Name: e.rule, Expression: e.source, Origin: e.origin}
}

// say puts a value or an error into words.
func (x *explaining) say(ev *policy.Evaluation, v ref.Val, err error) {
	err = cel.ErrorOf(v, err, x.hide)
	if q, open := asked(err); open {
		ev.Unknown = q.text
		return
	}
	cel.Describe(ev, v, err, x.hide)
}

// evaluate evaluates an expression and tells its parts and culprits.
func (x *explaining) evaluate(r *run, e *expression) policy.Evaluation {
	ev := described(e)
	v, err := r.eval(e)
	x.hide = r.secret
	if x.say(&ev, v, err); ev.Unknown == "" {
		r.failure(e).Explain(r.ctx, e.explainer(), r.roots(), &ev)
	}
	return ev
}
