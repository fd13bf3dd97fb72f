package kyverno

import (
	"context"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

var (
	_ policy.Explainer = (*validator)(nil)
	_ policy.Explainer = (*mutator)(nil)
)

// Explain implements policy.Explainer. It returns an explanation for each rule
// that may match objects of the kind, generate rules included. The results are
// those of Validate, which runs with a trace.
func (v *validator) Explain(ctx context.Context, req *policy.Request, name, rule string) ([]policy.Explanation, error) {
	t := &explainer{policy: name, rule: rule, concerns: func(r *Rule) bool { return r.Mutate == nil }, result: (*review).result}
	return v.engine.explain(ctx, req, t, stage{mutating, []*phase{&verifies}}, stage{validating, []*phase{&verifies, &validates, &generates}})
}

// Explain implements policy.Explainer. The request's object is the one that
// earlier mutators left.
func (m *mutator) Explain(ctx context.Context, req *policy.Request, name, rule string) ([]policy.Explanation, error) {
	t := &explainer{
		policy: name, rule: rule, concerns: func(r *Rule) bool { return r.Mutate != nil }, inTurn: true,
		result: func(r *review, resp *Response) policy.Result {
			x := r.result(resp)
			x.Action = mutationAction(resp)
			return x
		},
	}
	if req.Admitted == nil {
		return m.engine.explain(ctx, req, t)
	}
	return m.engine.explain(ctx, req, t, mutateStages...)
}

// An explainer explains rules while they are evaluated. A nil *explainer
// explains none.
type explainer struct {
	policy, rule string // "" is every rule of the policy
	concerns     func(*Rule) bool
	inTurn       bool // rules of other policies change the object, so they must run too
	result       func(*review, *Response) policy.Result
	done         map[*Rule]policy.Explanation
}

// skips reports whether the rules of a policy need not run.
func (e *explainer) skips(p *Policy) bool {
	return e != nil && !e.inTurn && p.Name != e.policy
}

// includes reports whether a rule is to be explained: by its own name, by the name of
// the rule from which autogen generated it, or with its whole policy.
func (e *explainer) includes(p *Policy, rule *Rule) bool {
	named := e.rule == "" || rule.Name == e.rule || rule.Base != nil && rule.Base.Name == e.rule
	return p.Name == e.policy && named && e.concerns(rule)
}

// run evaluates a rule and explains it.
func (e *explainer) run(r *review, p *phase, pol *Policy, rule *Rule, target *document.Target) []Response {
	if !e.includes(pol, rule) {
		return r.evaluate(p, pol, rule, target)
	}
	before := r.object
	r.trace = newTrace(r.engine.programs[rule])
	responses := r.evaluate(p, pol, rule, target)
	b := &ruleExplainer{review: r, trace: r.trace, program: r.trace.program, target: target, before: before, responses: responses}
	r.trace = nil
	for i := range responses {
		if p != &generates {
			b.results = append(b.results, e.result(r, &responses[i]))
		}
	}
	after := r.object
	if r.object = before; r.subject() == nil { // a mutation on DELETE
		r.object = after
	}
	e.done[rule] = b.explanation()
	r.object = after
	return responses
}

// explain runs stages and returns the explanations that t requests.
func (e *Engine) explain(ctx context.Context, req *policy.Request, t *explainer, stages ...stage) ([]policy.Explanation, error) {
	if !slices.ContainsFunc(e.policies, func(p *Policy) bool { return p.Name == t.policy }) {
		return nil, nil
	}
	t.done = map[*Rule]policy.Explanation{}
	r, err := e.review(ctx, req, t, stages, func(*review, *Response) {})
	if err != nil {
		return nil, err
	}
	var all []policy.Explanation
	for _, p := range e.policies {
		for _, rule := range p.AllRules() {
			if x, ok := t.explanation(r, p, rule); ok {
				all = append(all, x)
			}
		}
	}
	return all, ctx.Err()
}

// explanation returns the explanation of a rule, also of one that was not evaluated.
// Of a rule for Pods and its autogen rules, it explains the one for the object's
// kind. An autogen rule that was requested by its own name is always explained.
func (e *explainer) explanation(r *review, p *Policy, rule *Rule) (policy.Explanation, bool) {
	if !e.includes(p, rule) {
		return policy.Explanation{}, false
	}
	x, done := e.done[rule]
	if done && x.Matches != policy.No {
		return x, true
	}
	if own := rule.Base != nil && rule.Name == e.rule; !own && (!slices.Contains(p.RulesFor(r.req.Kind), rule) || p.HasGenerated(rule, r.req.Kind)) {
		return policy.Explanation{}, false
	}
	if done {
		return x, true
	}
	r.questions, r.assumed, r.secrets = nil, nil, nil
	b := &ruleExplainer{review: r, trace: newTrace(r.engine.programs[rule]), program: r.engine.programs[rule], target: r.targetOf(), before: r.object, idle: true}
	return b.explanation(), true
}

// A ruleExplainer explains how one rule evaluated one request, from the trace
// of the evaluation.
type ruleExplainer struct {
	review    *review
	trace     *trace
	program   *program
	target    *document.Target
	before    map[string]any // the object that the rule evaluated
	responses []Response
	results   []policy.Result
	idle      bool // the rule was not evaluated
	hide      bool // the rule read a Secret
}

func (r *ruleExplainer) explanation() policy.Explanation {
	p, rule := r.program.policy, r.program.rule
	x := &run{review: r.review, program: r.program, target: r.target}
	r.hide = x.secret()
	ex := policy.Explanation{
		Engine: policy.EngineKyverno, Policy: p.Name, Origin: p.Object.Span(""), Rules: []policy.Rule{documentOf(p, rule)},
		FailurePolicy: p.FailurePolicy, Results: r.results,
	}
	ex.Matches, ex.Match = r.matches()
	if rule.Generate == nil && rule.Mutate == nil {
		ex.Bindings = r.actions()
	}
	switch {
	case ex.Matches == policy.No:
	case r.idle:
		ex.Trials = []policy.Trial{{Problem: r.whyNotRun()}}
	default:
		ex.Trials = r.trials()
	}
	r.hide = x.secret()
	r.redact(&ex, x)
	return ex
}

// whyNotRun returns why a rule that matches was not evaluated.
func (r *ruleExplainer) whyNotRun() string {
	p := r.program.policy
	switch {
	case r.program.broken:
		return "the rule can't work; preadmit check shows why"
	case r.program.rule.Mutate != nil && r.review.object == nil:
		return "the object is deleted, so there is nothing to change"
	case p.ApplyOne:
		return "applyRules is One, and an earlier rule was applied"
	default:
		return "the rule does not apply to objects of this kind"
	}
}

// trials returns the rule's conditions, context and checks: one trial, or one
// for each parameter of validate.cel.
func (r *ruleExplainer) trials() []policy.Trial {
	t := policy.Trial{}
	exempt := r.conditions(&t)
	if v := r.program.rule.Validate; v != nil && v.CEL != nil && r.review.object != nil {
		return r.celTrials(t, exempt)
	}
	t.Validations = r.checks(exempt)
	r.fallBack(&t)
	t.Variables = r.context()
	return []policy.Trial{t}
}

// conditions adds the preconditions, exceptions and other steps before the
// rule's own checks to t. exempt names the one that ended the rule, or is "".
func (r *ruleExplainer) conditions(t *policy.Trial) (exempt string) {
	exempt = r.matchConditions(t)
	if n := r.block(r.program.preconditions); n != nil {
		t.Conditions = append(t.Conditions, r.evaluations(n, r.program.policy.Object, r.program.rule.Pointer, "")...)
		switch {
		case exempt != "":
		case n.err != nil:
			exempt = "the preconditions could not be evaluated"
		case !n.held:
			exempt = "the preconditions do not hold"
		}
	}
	for _, e := range r.review.engine.exceptions {
		if !e.Covers(r.program.policy, r.program.rule.Name) {
			continue
		}
		n := r.block(e.block)
		if n != nil {
			t.Conditions = append(t.Conditions, r.evaluations(n, e.Object, "/spec", "exception "+e.Name+" ")...)
		}
		if exempt == "" {
			exempt = r.exemptBy(e, n)
		}
	}
	return exempt
}

// exemptBy returns the sentence that an exception exempts the object.
func (r *ruleExplainer) exemptBy(e *exemption, n *tracedBlock) (exempt string) {
	r.review.quietly(func() {
		concerned, byUser := e.Concerns(r.target)
		v := r.program.rule.Validate
		switch {
		case !concerned || byUser || e.block != nil && n == nil:
		case n != nil && (n.err != nil || !n.held), len(e.PodSecurity) > 0 && v != nil && v.PodSecurity != nil:
		default:
			exempt = "exempt by exception " + e.key()
		}
	})
	return exempt
}

// block returns the trace of one of the rule's own blocks of conditions, not of
// one inside foreach.
func (r *ruleExplainer) block(of *block) *tracedBlock {
	for _, n := range r.trace.whole.notes {
		if n, ok := n.(*tracedBlock); ok && n.block == of && of != nil {
			return n
		}
	}
	return nil
}

// fallBack adds the rule's messages if no step explains its status: an error in
// a variable of a pattern, say, or a signature that can't be verified offline.
func (r *ruleExplainer) fallBack(t *policy.Trial) {
	for i := range r.responses {
		resp := &r.responses[i]
		explained := slices.ContainsFunc(slices.Concat(t.Conditions, t.Validations), func(e policy.Evaluation) bool { return explains(&e, resp.Status) })
		if explained || resp.Status == StatusPass || resp.Status == StatusSkip {
			continue
		}
		e := r.described(r.kind(), r.program.rule.Pointer+"/"+r.kind(), "")
		switch message := policy.Shorten(resp.Message, maxValue); resp.Status {
		case StatusUndecided:
			e.Unknown = message
		case StatusError:
			e.Error = message
		default:
			e.Value, e.Summary = "false", message
			e.Culprits = r.culprits(resp.Fields, "")
		}
		t.Validations = append(t.Validations, e)
	}
}

// explains reports whether an evaluation explains a status.
func explains(e *policy.Evaluation, s Status) bool {
	switch s {
	case StatusUndecided:
		return e.Unknown != ""
	case StatusError:
		return e.Error != ""
	default:
		return e.Value == "false" && !strings.HasPrefix(e.Name, "preconditions")
	}
}

// kind returns the rule's kind, such as validate.
func (r *ruleExplainer) kind() string {
	switch rule := r.program.rule; {
	case rule.Validate != nil:
		return "validate"
	case rule.Mutate != nil:
		return "mutate"
	case rule.Generate != nil:
		return "generate"
	default:
		return "verifyImages"
	}
}

// described returns an evaluation of the expression at a pointer of the policy.
func (r *ruleExplainer) described(name, pointer, expression string) policy.Evaluation {
	return policy.Evaluation{Name: name, Expression: policy.Shorten(expression, maxExpression), Origin: r.program.policy.Object.Span(pointer)}
}

// redact removes texts that still quote values of Secrets.
func (r *ruleExplainer) redact(ex *policy.Explanation, x *run) {
	if !r.hide {
		return
	}
	values := x.secretValues()
	quotes := func(text string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(text, v) })
	}
	clean := func(texts ...*string) {
		for _, t := range texts {
			if quotes(*t) {
				*t = hidden
			}
		}
	}
	for i := range ex.Match {
		clean(&ex.Match[i].Text, &ex.Match[i].Why)
	}
	for i := range ex.Trials {
		t := &ex.Trials[i]
		clean(&t.Problem)
		for _, list := range [][]policy.Evaluation{t.Conditions, t.Variables, t.Validations} {
			for j := range list {
				redactEvaluation(&list[j], quotes, clean)
			}
		}
	}
}

func redactEvaluation(e *policy.Evaluation, quotes func(string) bool, clean func(...*string)) {
	clean(&e.Expression, &e.Value, &e.Error, &e.Unknown, &e.NotRun, &e.Summary)
	if e.Message != nil {
		clean(&e.Message.Expression, &e.Message.Value, &e.Message.Error)
	}
	for i := range e.Parts {
		clean(&e.Parts[i].Loop, &e.Parts[i].Text, &e.Parts[i].Value)
	}
	e.Culprits = slices.DeleteFunc(e.Culprits, func(c policy.Culprit) bool { return quotes(c.Pointer) })
	for i := range e.Culprits {
		clean(&e.Culprits[i].Value, &e.Culprits[i].Text, &e.Culprits[i].Element)
	}
}

// seen returns the object that the rule evaluated.
func (r *ruleExplainer) seen() map[string]any {
	if r.before != nil {
		return r.before
	}
	return r.review.subject()
}

// culprits returns the object's fields that are at fault.
func (r *ruleExplainer) culprits(fields []string, text string) []policy.Culprit {
	root, object := "object", r.seen()
	if r.review.object == nil {
		root = "oldObject"
	}
	var all []policy.Culprit
	for _, f := range withoutRoot(fields) {
		v, found := render.Lookup(object, f)
		c := policy.Culprit{Root: root, Pointer: f, Missing: !found, Text: text, Element: r.element(object, f)}
		if found {
			c.Value = r.show(v, true)
		}
		all = append(all, c)
	}
	return all
}
