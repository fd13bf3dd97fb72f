package admission

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

var _ policy.Explainer = (*Engine)(nil)

// Explain implements policy.Explainer. The results are those of Validate. The
// values and costs beside them come from a second evaluation.
func (e *Engine) Explain(ctx context.Context, req *policy.Request, name, rule string) ([]policy.Explanation, error) {
	var all []policy.Explanation
	for _, b := range e.policies {
		if b.policy.Name != name || !b.has(rule) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := &explainer{engine: e, bound: b, review: newReview(ctx, e, req), rule: rule}
		all = append(all, x.explain())
	}
	return all, ctx.Err()
}

// has reports whether a rule belongs to the policy. "" means all rules. Results
// may also have the names of match conditions or variables, which explain why
// validations were not run.
func (b *bound) has(rule string) bool {
	if rule == "" || !strings.HasPrefix(rule, "validations[") {
		return true
	}
	return slices.ContainsFunc(b.validations, func(e *cel.Expression) bool { return e.Rule == rule })
}

// An explainer explains how one policy evaluates one request.
type explainer struct {
	engine *Engine
	bound  *bound
	review *review
	rule   string
	hide   bool // values, because a Secret is involved
}

// includes reports whether a rule is to be explained.
func (e *explainer) includes(rule string) bool { return e.rule == "" || e.rule == rule }

func (e *explainer) explain() policy.Explanation {
	b := e.bound
	ex := policy.Explanation{
		Engine: policy.EngineAdmission, Policy: b.policy.Name, Origin: b.object.Span(""),
		FailurePolicy: string(*b.policy.Spec.FailurePolicy), Matches: policy.No,
	}
	for _, v := range b.validations {
		if e.includes(v.Rule) {
			ex.Rules = append(ex.Rules, b.rule(v, b.policy.Spec.Validations[v.Index]))
		}
	}
	if r := e.review.req.Resource; exempt(r.GroupVersionResource) {
		ex.Match = []policy.Check{{Name: "resource", Text: match.ResourceText(r.GroupVersionResource), Answer: policy.No, Why: "the API server never shows these to admission policies"}}
		return ex
	}
	matches, as := b.criteria.Match(&e.review.subject)
	ex.Matches, ex.Match = matches.Answer(), b.criteria.Checks(&e.review.subject, b.object, "/spec/matchConstraints")
	ex.Results = e.results()
	params := e.bindings(&ex, matches)
	if matches == match.No {
		return ex
	}
	if len(b.bindings) == 0 && b.policy.Spec.ParamKind == nil {
		params = []*param{nullParam}
	}
	for _, p := range params {
		ex.Trials = append(ex.Trials, e.trial(p, as))
	}
	return ex
}

// results returns the policy's results for the rule.
func (e *explainer) results() []policy.Result {
	var all results
	e.engine.evaluate(e.review, e.bound, &all)
	return slices.DeleteFunc(all.list, func(r policy.Result) bool {
		return !e.includes(r.Rule) && strings.HasPrefix(r.Rule, "validations[")
	})
}

// bindings adds the policy's bindings, and returns the parameters of those that
// match, without duplicates.
func (e *explainer) bindings(ex *policy.Explanation, matches match.Truth) []*param {
	var all []*param
	for _, bind := range e.bound.bindings {
		b := policy.Bound{Name: bind.name, Origin: bind.object.Span(""), Actions: actionsOf(bind)}
		m, _ := bind.criteria.Match(&e.review.subject)
		b.Matches = m.Answer()
		if bind.object != nil {
			b.Match = bind.criteria.Checks(&e.review.subject, bind.object, "/spec/matchResources")
		}
		if matches != match.No && m != match.No {
			params, err := e.engine.paramsOf(e.review, e.bound, bind)
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

// actionsOf returns the binding's validationActions.
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
func (e *explainer) trial(p *param, as policy.Version) policy.Trial {
	run := e.review.run.setUp(e.bound.compiled, p, as)
	e.hide = run.secret()
	t := policy.Trial{ParamObject: p.object, NamespaceObject: e.review.subject.NamespaceObject()}
	if p.object != nil {
		key := p.object.Key()
		t.Param = &key
	}
	if as.Kind != e.review.req.Kind {
		t.As = match.ResourceText(as.Resource)
	}
	if err := run.objects.Err; err != nil {
		t.Problem = err.Error()
		return t
	}
	exempt := e.conditions(run, &t)
	e.validations(run, &t, exempt)
	return t
}

// conditions evaluates the match conditions. It returns why validations are not
// run, or "".
func (e *explainer) conditions(run *run, t *policy.Trial) string {
	run.bind(false, true, policy.Version{Resource: e.review.req.Resource.GroupVersionResource, Kind: run.as.Kind})
	m := e.meter(run, celconfig.RuntimeCELCostBudgetMatchConditions)
	for _, x := range e.bound.conditions {
		t.Conditions = append(t.Conditions, m.evaluate(x))
	}
	t.ConditionsCost = m.cost()
	return cel.Exempt(t.Conditions, func(i int) string { return e.bound.policy.Spec.MatchConditions[i].Name })
}

// validations evaluates all validations, because costs add up, and describes
// the requested ones and the variables that were read.
func (e *explainer) validations(run *run, t *policy.Trial, exempt string) {
	if exempt == "" {
		run.bind(true, true, run.as)
	}
	m := e.meter(run, celconfig.RuntimeCELCostBudget)
	for _, x := range e.bound.validations {
		var ev policy.Evaluation
		if exempt != "" {
			ev = x.Evaluation()
			ev.NotRun = exempt
		} else if !e.includes(x.Rule) {
			ev = m.plain(x) // for its cost
		} else {
			ev = m.evaluate(x)
		}
		if e.includes(x.Rule) {
			t.Validations = append(t.Validations, ev)
		}
	}
	t.Variables = run.act.variables.Evaluations(e.bound.variables, func(ev *policy.Evaluation, _ *cel.Expression, v ref.Val, asked []string) {
		if len(asked) > 0 && types.IsError(v) {
			ev.Unknown = cel.QuestionsText(asked)
			return
		}
		cel.Describe(ev, v, cel.ErrorOf(v, nil, e.hide), e.hide)
	})
	if exempt == "" {
		e.messages(m, t)
	}
	t.ValidationsCost = m.cost()
}

// messages evaluates the messageExpressions of validations that failed.
func (e *explainer) messages(m *meter, t *policy.Trial) {
	m.run.bind(true, false, m.run.as)
	for i := range t.Validations {
		ev := &t.Validations[i]
		j := slices.IndexFunc(e.bound.validations, func(x *cel.Expression) bool { return x.Rule == ev.Name })
		if x := e.bound.messages[j]; x != nil && ev.Value == "false" {
			text := m.plain(x)
			text.Name = "messageExpression"
			ev.Message = &text
		}
	}
}

// A meter evaluates a group of expressions that share a budget.
type meter struct {
	*explainer
	run    *run
	budget int64
	out    bool // of budget
}

func (e *explainer) meter(run *run, budget int64) *meter {
	run.meter.Begin(budget)
	return &meter{explainer: e, run: run, budget: budget}
}

func (m *meter) cost() policy.Cost {
	return policy.Cost{Spent: m.budget - m.run.meter.Remaining(), Limit: m.budget}
}

// plain evaluates an expression and describes only its value and cost.
func (m *meter) plain(e *cel.Expression) policy.Evaluation {
	ev := e.Evaluation()
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

// evaluate evaluates an expression and describes its parts and, unless it is
// true, the fields at fault.
func (m *meter) evaluate(e *cel.Expression) policy.Evaluation {
	ev := m.plain(e)
	if ev.NotRun != "" || ev.Unknown != "" || m.out {
		return ev
	}
	explainer := e.Explainer
	if explainer == nil {
		explainer = m.bound.explainer(e)
	}
	m.review.questions.Quietly(func() {
		if why := explainer(); why != nil {
			in := explain.Input{Roots: m.run.roots(), Want: true, Steps: cel.MaxParts, Hide: m.hide}
			if x, err := why.Explain(m.review.ctx, in); err == nil {
				m.addParts(e, &ev, &x)
			}
		}
	})
	return ev
}

func (m *meter) addParts(e *cel.Expression, ev *policy.Evaluation, x *explain.Explanation) {
	x.Steps = shown(x.Steps)
	cel.Failure{Source: e.Source, Secret: m.hide}.Add(ev, x)
}

// shown leaves out steps that only lead to the field of the step before them.
func shown(steps []explain.Step) []explain.Step {
	var all []explain.Step
	for _, s := range steps {
		if n := len(all); n == 0 || s.Error || !leadsTo(s.Text, all[n-1].Text) {
			all = append(all, s)
		}
	}
	return all
}

// leadsTo reports whether a part is a prefix of a field that is already shown,
// as object.spec is of object.spec.replicas.
func leadsTo(part, field string) bool {
	rest, ok := strings.CutPrefix(field, part)
	return ok && part != "" && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "[")) && !strings.ContainsAny(field, "( ")
}
