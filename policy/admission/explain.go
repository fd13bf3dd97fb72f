package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

var _ policy.Explainer = (*Engine)(nil)

// Explain implements policy.Explainer. The results are those of Validate;
// what stands beside them is evaluated once more, with every cost counted.
func (e *Engine) Explain(ctx context.Context, req *policy.Request, name, rule string) ([]policy.Explanation, error) {
	var all []policy.Explanation
	for _, b := range e.policies {
		if b.policy.Name != name || !b.has(rule) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := &explaining{engine: e, bound: b, review: newReview(ctx, e, req), rule: rule}
		all = append(all, x.explain())
	}
	return all, ctx.Err()
}

// has says whether a rule is one of the policy's; "" is all of them. Results
// may have other names than validations, which say why those were not run.
func (b *bound) has(rule string) bool {
	if rule == "" || !strings.HasPrefix(rule, "validations[") {
		return true
	}
	return slices.ContainsFunc(b.validations, func(e *expression) bool { return e.rule == rule })
}

// explaining is one policy being explained on one request.
type explaining struct {
	engine *Engine
	bound  *bound
	review *review
	rule   string
	hide   bool // values, since a Secret is involved
}

// about says whether a rule is to be explained.
func (x *explaining) about(rule string) bool { return x.rule == "" || x.rule == rule }

func (x *explaining) explain() policy.Explanation {
	b := x.bound
	ex := policy.Explanation{
		Engine: policy.EngineAdmission, Policy: b.policy.Name, Origin: b.object.Span(""),
		FailurePolicy: string(*b.policy.Spec.FailurePolicy), Matches: policy.No,
	}
	for _, v := range b.validations {
		if x.about(v.rule) {
			ex.Rules = append(ex.Rules, b.rule(v, b.policy.Spec.Validations[v.index]))
		}
	}
	if r := x.review.req.Resource; exempt(r.GroupVersionResource) {
		ex.Match = []policy.Check{{Name: "resource", Text: match.ResourceText(r.GroupVersionResource), Answer: policy.No, Why: "the API server never shows these to admission policies"}}
		return ex
	}
	matches, as := b.criteria.Match(&x.review.subject)
	ex.Matches, ex.Match = matches.Answer(), b.criteria.Checks(&x.review.subject, b.object, "/spec/matchConstraints")
	ex.Results = x.results()
	params := x.bindings(&ex, matches)
	if matches == match.No {
		return ex
	}
	if len(b.bindings) == 0 && b.policy.Spec.ParamKind == nil {
		params = []*param{nullParam}
	}
	for _, p := range params {
		ex.Trials = append(ex.Trials, x.trial(p, as))
	}
	return ex
}

// results are the results of the policy for the rule.
func (x *explaining) results() []policy.Result {
	var all results
	x.engine.evaluate(x.review, x.bound, &all)
	return slices.DeleteFunc(all.list, func(r policy.Result) bool {
		return !x.about(r.Rule) && strings.HasPrefix(r.Rule, "validations[")
	})
}

// bindings adds the policy's bindings, and returns the parameters by those
// that match, each once.
func (x *explaining) bindings(ex *policy.Explanation, matches match.Truth) []*param {
	var all []*param
	for _, bind := range x.bound.bindings {
		b := policy.Bound{Name: bind.name, Origin: bind.object.Span(""), Actions: actionsOf(bind)}
		m, _ := bind.criteria.Match(&x.review.subject)
		b.Matches = m.Answer()
		if bind.object != nil {
			b.Match = bind.criteria.Checks(&x.review.subject, bind.object, "/spec/matchResources")
		}
		if matches != match.No && m != match.No {
			params, err := x.engine.paramsOf(x.review, x.bound, bind)
			if err != nil {
				b.Problem = err.Error()
			}
			for _, p := range params {
				if p.object != nil {
					b.Params = append(b.Params, p.object.Key())
				}
				if !slices.Contains(all, p) {
					all = append(all, p)
				}
			}
		}
		ex.Bindings = append(ex.Bindings, b)
	}
	return all
}

// actionsOf are the binding's validationActions.
func actionsOf(bind *binding) []string {
	if bind.object == nil {
		return []string{"Deny"}
	}
	list, _ := render.Lookup(bind.object.Object, "/spec/validationActions")
	items, _ := list.([]any)
	var actions []string
	for _, a := range items {
		if s, ok := a.(string); ok {
			actions = append(actions, s)
		}
	}
	return actions
}

// trial evaluates the policy with a parameter.
func (x *explaining) trial(p *param, as policy.Version) policy.Trial {
	run := x.review.run.setUp(x.bound.compiled, p, as)
	run.meter = x.bound.plans.Counting()
	x.hide = run.secret()
	t := policy.Trial{ParamObject: p.object, NamespaceObject: x.review.subject.NamespaceObject()}
	if p.object != nil {
		key := p.object.Key()
		t.Param = &key
	}
	if as.Kind != x.review.req.Kind {
		t.As = match.ResourceText(as.Resource)
	}
	if err := run.objects.Err; err != nil {
		t.Problem = err.Error()
		return t
	}
	exempt := x.conditions(run, &t)
	x.validations(run, &t, exempt)
	return t
}

// conditions evaluates the match conditions, and says why validations are not
// run, if so.
func (x *explaining) conditions(run *run, t *policy.Trial) (exempt string) {
	run.bind(false, true, policy.Version{Resource: x.review.req.Resource.GroupVersionResource, Kind: run.as.Kind})
	m := x.meter(run, celconfig.RuntimeCELCostBudgetMatchConditions)
	unsettled := ""
	for i, e := range x.bound.conditions {
		ev := m.evaluate(e)
		t.Conditions = append(t.Conditions, ev)
		name := x.bound.policy.Spec.MatchConditions[i].Name
		switch {
		case ev.Value == "false" && exempt == "":
			exempt = fmt.Sprintf("exempt by match condition %q", name)
		case ev.Value != "true" && ev.Value != "false":
			unsettled = fmt.Sprintf("match condition %q could not be evaluated", name)
		}
	}
	t.ConditionsCost = m.cost()
	exempt = cmp.Or(exempt, unsettled)
	return exempt
}

// validations evaluates the validations, all of them for their cost, and adds
// those that are to be explained, with the variables that were read.
func (x *explaining) validations(run *run, t *policy.Trial, exempt string) {
	if exempt == "" {
		run.bind(true, true, run.as)
	}
	m := x.meter(run, celconfig.RuntimeCELCostBudget)
	for _, e := range x.bound.validations {
		var ev policy.Evaluation
		if exempt != "" {
			ev = x.described(e)
			ev.NotRun = exempt
		} else if !x.about(e.rule) {
			ev = m.plain(e) // for what it costs
		} else {
			ev = m.evaluate(e)
		}
		if x.about(e.rule) {
			t.Validations = append(t.Validations, ev)
		}
	}
	t.Variables = x.variables(run)
	if exempt == "" {
		x.messages(m, t)
	}
	t.ValidationsCost = m.cost()
}

// messages evaluates the messageExpressions of validations that failed.
func (x *explaining) messages(m *meter, t *policy.Trial) {
	m.run.bind(true, false, m.run.as)
	for i := range t.Validations {
		ev := &t.Validations[i]
		j := slices.IndexFunc(x.bound.validations, func(e *expression) bool { return e.rule == ev.Name })
		if e := x.bound.messages[j]; e != nil && ev.Value == "false" {
			text := m.plain(e)
			text.Name = "messageExpression"
			ev.Message = &text
		}
	}
}

// variables are those of the policy, with the values that they had.
func (x *explaining) variables(run *run) []policy.Evaluation {
	var all []policy.Evaluation
	for i, e := range x.bound.variables {
		ev := x.described(e)
		switch v, asked := run.act.variables.Known(i); {
		case v == nil:
			ev.NotRun = "nothing read it"
		case len(asked) > 0 && types.IsError(v):
			ev.Unknown = cel.QuestionsText(asked)
		default:
			cel.Describe(&ev, v, cel.ErrorOf(v, nil, x.hide), x.hide)
		}
		all = append(all, ev)
	}
	return all
}

// described is an expression that was not evaluated.
func (x *explaining) described(e *expression) policy.Evaluation {
	return policy.Evaluation{Name: e.rule, Expression: e.source, Origin: e.origin}
}

// A meter evaluates a group of expressions that share a budget.
type meter struct {
	*explaining
	run    *run
	budget int64
	out    bool // of budget
}

func (x *explaining) meter(run *run, budget int64) *meter {
	run.meter.Begin(budget)
	return &meter{explaining: x, run: run, budget: budget}
}

func (m *meter) cost() policy.Cost {
	return policy.Cost{Spent: m.budget - m.run.meter.Remaining(), Limit: m.budget}
}

// plain evaluates an expression to its value and cost.
func (m *meter) plain(e *expression) policy.Evaluation {
	ev := m.described(e)
	if m.out {
		ev.NotRun = cel.ErrBudget.Error()
		return ev
	}
	before := m.run.meter.Remaining()
	v, err := m.run.eval(e)
	switch {
	case errors.Is(err, cel.ErrBudget):
		ev.Error, m.out = err.Error(), true
		ev.Cost = before - m.run.meter.Remaining()
		m.run.meter.Begin(before)
		return ev
	case err != nil && m.review.questions.Any():
		ev.Unknown = m.review.questions.Text()
	default:
		cel.Describe(&ev, v, cel.ErrorOf(v, err, m.hide), m.hide)
	}
	ev.Cost = before - m.run.meter.Remaining()
	return ev
}

// evaluate evaluates an expression and tells its parts and, where it is not
// true, the culprits.
func (m *meter) evaluate(e *expression) policy.Evaluation {
	ev := m.plain(e)
	if ev.NotRun != "" || ev.Unknown != "" || m.out {
		return ev
	}
	explainer := e.explainer
	if explainer == nil {
		explainer = m.bound.explainer(e)
	}
	m.review.questions.Quietly(func() {
		if why := explainer(); why != nil {
			in := explain.Input{Roots: m.run.roots(), Want: true, Steps: cel.MaxParts, Hide: m.hide}
			if told, err := why.Explain(m.review.ctx, in); err == nil {
				m.tell(e, &ev, &told)
			}
		}
	})
	return ev
}

func (m *meter) tell(e *expression, ev *policy.Evaluation, told *explain.Explanation) {
	told.Steps = shown(told.Steps)
	cel.Failure{Source: e.source, Secret: m.hide}.Add(ev, told)
}

// shown leaves out the steps that are but the way to the field before them.
func shown(steps []explain.Step) []explain.Step {
	var all []explain.Step
	for _, s := range steps {
		if n := len(all); n == 0 || s.Error || !leadsTo(s.Text, all[n-1].Text) {
			all = append(all, s)
		}
	}
	return all
}

// leadsTo says whether a part is but the way to a field that was told already,
// as object.spec is to object.spec.replicas.
func leadsTo(part, field string) bool {
	rest, ok := strings.CutPrefix(field, part)
	return ok && part != "" && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "[")) && !strings.ContainsAny(field, "( ")
}
