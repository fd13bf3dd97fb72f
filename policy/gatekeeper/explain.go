package gatekeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

var _ policy.Explainer = (*Engine)(nil)

// Explain implements policy.Explainer. It returns an explanation for each
// constraint with the given name, and with rule as its kind.
func (e *Engine) Explain(ctx context.Context, req *policy.Request, name, rule string) ([]policy.Explanation, error) {
	var all []policy.Explanation
	for _, c := range e.constraints {
		if c.object.GetName() != name || rule != "" && c.object.GetKind() != rule {
			continue
		}
		x, err := e.explain(ctx, req, c)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, ctx.Err()
}

func (e *Engine) explain(ctx context.Context, req *policy.Request, c *constraint) (policy.Explanation, error) {
	x := policy.Explanation{
		Engine: policy.EngineGatekeeper, Policy: c.object.GetName(), Origin: c.origin,
		Rules: []policy.Rule{c.rule}, Matches: policy.No,
	}
	if n := c.template.native; n != nil {
		x.FailurePolicy = "Fail"
		if n.ignores {
			x.FailurePolicy = "Ignore"
		}
	}
	r := e.reviewOf(ctx, req)
	x.Match, x.Matches = r.checks(c)
	results, err := e.Validate(ctx, req)
	for _, result := range results {
		if result.Policy == x.Policy && result.Rule == c.object.GetKind() && result.PolicyOrigin == c.origin {
			x.Results = append(x.Results, result)
		}
	}
	if x.Matches == policy.Yes {
		x.Trials = []policy.Trial{r.trial(c)}
	}
	return x, err
}

// checks returns the checks that decide whether the constraint is evaluated,
// each with its answer.
func (r *review) checks(c *constraint) (all []policy.Check, matches policy.Answer) {
	matches = policy.Yes
	add := func(x policy.Check) {
		all = append(all, x)
		if x.Answer == policy.No || matches == policy.Yes {
			matches = x.Answer
		}
	}
	webhook := policy.Check{Name: "webhook", Text: "Gatekeeper's webhook is called", Answer: policy.Yes, Why: r.exemption.why, Origin: c.origin}
	switch {
	case r.exemption.open:
		webhook.Answer = policy.Undecided
	case r.exemption.why != "" || !r.engine.called(policy.Operation(r.operation)):
		webhook.Answer = policy.No
	}
	add(webhook)
	if len(c.template.operations) > 0 {
		add(policy.Check{
			Name: "operations", Text: strings.Join(c.template.operations, ", "), Answer: answerOf(c.template.concerns(r.operation), nil),
			Origin: c.template.object.Span("/spec/targets/0/operations"),
		})
	}
	add(policy.Check{
		Name: "enforcementAction", Text: strings.Join(c.actions, ", "), Answer: answerOf(len(c.actions) > 0, nil),
		Origin: c.object.Span("/spec/enforcementAction"),
	})
	for _, part := range c.match.Parts() {
		matched, err := r.matches(part.Only)
		check := policy.Check{Name: part.Name, Text: part.Text, Answer: answerOf(matched, err), Origin: c.object.Span("/spec/match/" + part.Name)}
		if err != nil {
			check.Why = strings.TrimPrefix(err.Error(), "undecided: ")
		}
		add(check)
	}
	return all, matches
}

func answerOf(yes bool, err error) policy.Answer {
	switch {
	case err != nil:
		return policy.Undecided
	case yes:
		return policy.Yes
	}
	return policy.No
}

// trial evaluates the constraint once more and describes each step.
func (r *review) trial(c *constraint) policy.Trial {
	key := c.object.Key()
	t := policy.Trial{Param: &key, ParamObject: c.object}
	if c.template.native != nil {
		r.nativeTrial(c, &t)
		return t
	}
	t.Variables = []policy.Evaluation{{
		Name: "input.parameters", Value: jsonText(rego.Plain(c.parameters.Value)), Origin: c.object.Span("/spec/parameters"),
	}}
	for _, resp := range r.hide(c, r.evaluateRego(c)) {
		ev := policy.Evaluation{Name: "violation", Origin: c.template.object.Span("/spec/targets/0")}
		switch resp.Outcome {
		case policy.Pass:
			ev.Value = "true"
		case policy.Fail:
			ev.Value = resp.Message
			ev.Incomplete = len(resp.Fields) == maxFields
		case policy.Unknown:
			ev.Unknown = resp.Message
		default:
			ev.Error = resp.Message
		}
		if resp.Details != nil {
			ev.Expression = "details: " + jsonText(resp.Details)
		}
		for _, f := range resp.Fields {
			ev.Culprits = append(ev.Culprits, r.culprit(f))
		}
		t.Validations = append(t.Validations, ev)
	}
	return t
}

// culprit returns a field of the object with its value.
func (r *review) culprit(pointer string) policy.Culprit {
	root := "object"
	if r.operation == string(policy.Delete) {
		root = "oldObject"
	}
	value, there := render.Lookup(r.subject(), pointer)
	c := policy.Culprit{Root: root, Pointer: pointer, Missing: !there}
	switch {
	case !there:
	case r.secret():
		c.Value = cel.Hidden
	default:
		c.Value = policy.Shorten(jsonText(value), maxValue)
	}
	return c
}

// maxValue is the most bytes of a value that are shown.
const maxValue = 200

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return policy.Shorten(string(text), policy.MaxMessage)
}

// nativeTrial evaluates the expressions of a template in CEL, every cost
// counted.
func (r *review) nativeTrial(c *constraint, t *policy.Trial) {
	x := r.nativeRun(c)
	x.begin(true, nativeBudget)
	for _, e := range x.code.conditions {
		t.Conditions = append(t.Conditions, x.evaluation("matchCondition["+e.Name+"]", e))
	}
	x.begin(false, nativeBudget)
	for i, e := range x.code.validations {
		ev := x.evaluation(fmt.Sprintf("validations[%d]", i), e)
		if ev.Value != "true" && ev.Unknown == "" {
			x.failure(e).Explain(x.ctx, e.Explainer(), x.roots(), &ev)
		}
		t.Validations = append(t.Validations, ev)
	}
	t.ValidationsCost = policy.Cost{Spent: nativeBudget - x.meter.Remaining(), Limit: nativeBudget}
	t.Variables = x.variables.Evaluations(x.code.variables, func(ev *policy.Evaluation, e *cel.Expression, v ref.Val, asked []string) {
		switch {
		case types.IsError(v) && len(asked) > 0:
			ev.Unknown = x.undecided(asked).Message
		case types.IsError(v):
			ev.Error = cel.ShownError(e.Source, v.(*types.Err), x.secret()).Error()
		case r.secret():
			ev.Value = cel.Hidden
		default:
			ev.Value = explain.Show(v)
		}
	})
}

func (n *nativeRun) evaluation(name string, e *cel.Expression) policy.Evaluation {
	ev := policy.Evaluation{Name: name, Expression: e.Source, Origin: e.Origin}
	before := n.meter.Remaining()
	v, err := n.eval(e)
	ev.Cost = before - n.meter.Remaining()
	switch {
	case errors.Is(err, cel.ErrBudget):
		ev.Error = err.Error()
	case errors.Is(err, errOpen):
		ev.Unknown = n.undecided(n.questions.All()).Message
	case err != nil:
		ev.Error = policy.Shorten(err.Error(), policy.MaxMessage)
	default:
		ev.Value = explain.Show(v)
	}
	return ev
}
