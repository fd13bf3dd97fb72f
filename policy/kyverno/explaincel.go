package kyverno

import (
	"fmt"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/render"
)

// matchConditions tells those of the policy's webhook, and which of them
// exempts the request.
func (b *ruleExplainer) matchConditions(t *policy.Trial) (exempt string) {
	p := b.program.policy
	g := b.review.engine.conditions[p]
	if g == nil {
		return ""
	}
	b.review.quietly(func() {
		r := b.celRun(g, nil)
		for i, n := range g.conditions {
			e := b.evaluate(r, n, fmt.Sprintf("matchConditions[%s]", p.MatchConditions[i].Name), true)
			if t.Conditions = append(t.Conditions, e); e.Value == "false" && exempt == "" {
				exempt = "exempt by match condition " + p.MatchConditions[i].Name
			}
		}
	})
	return exempt
}

// celRun evaluates expressions once more, under one budget.
func (b *ruleExplainer) celRun(g *celProgram, params *render.Object) *celRun {
	r := newCELRun(g, &run{review: b.review, program: b.program, target: b.target}, params)
	r.meter = g.plans.Counting()
	r.meter.Begin(celconfig.RuntimeCELCostBudget)
	return r
}

// celTrials tells the rule's expressions: a trial for each parameter.
func (b *ruleExplainer) celTrials(base policy.Trial, exempt string) []policy.Trial {
	var all []policy.Trial
	b.review.quietly(func() {
		g := b.program.cel()
		params, v := g.params(&run{review: b.review, program: b.program, target: b.target})
		if v != nil || len(params) == 0 {
			if base.Problem = "there is no parameter, and none is needed"; v != nil {
				base.Problem, _ = b.broken(fmt.Errorf("%s", v.message))
			}
			all = []policy.Trial{base}
			return
		}
		for i, p := range params {
			t := policy.Trial{ParamObject: p, NamespaceObject: b.namespace()}
			if p != nil {
				key := p.Key()
				t.Param = &key
			}
			if i == 0 {
				t.Conditions, t.Variables = base.Conditions, base.Variables
			}
			b.celTrial(&t, g, p, exempt)
			if all = append(all, t); len(all) == maxShown {
				return
			}
		}
	})
	if len(all) > 0 {
		last := &all[len(all)-1]
		b.fallBack(last)
		all[0].Variables = append(b.context(), all[0].Variables...)
	}
	return all
}

func (b *ruleExplainer) namespace() *render.Object {
	return b.review.engine.options.Cluster.Namespace(b.review.unit(), b.review.req.Namespace)
}

func (b *ruleExplainer) celTrial(t *policy.Trial, g *celProgram, params *render.Object, exempt string) {
	r := b.celRun(g, params)
	for i, n := range g.conditions {
		e := b.evaluate(r, n, "celPreconditions["+b.program.rule.CELPreconditions[i].Name+"]", true)
		if t.Conditions = append(t.Conditions, e); e.Value == "false" && exempt == "" {
			exempt = "the celPreconditions do not hold"
		} else if e.Value != "true" && exempt == "" {
			exempt = "a celPrecondition could not be evaluated"
		}
	}
	for i, n := range g.validations {
		name := "validate.cel.expressions[" + strconv.Itoa(i) + "]"
		e := b.described(name, n.pointer, n.source)
		if e.NotRun = exempt; exempt == "" {
			e = b.evaluate(r, n.celExpression, name, true)
		}
		if e.Value == "false" && n.expression != nil {
			m := b.evaluate(r, n.expression, "messageExpression", false)
			e.Message = &m
		}
		if t.Validations = append(t.Validations, e); exempt == "" && e.Value != "true" {
			exempt = "the one before it decides"
		}
	}
	for i, n := range g.variables {
		e := b.described("validate.cel.variables["+g.names.At(i)+"]", n.pointer, n.source)
		if v, _ := r.variables.Known(i); v == nil {
			e.NotRun = "nothing read it"
		} else {
			b.say(&e, n, v, nil)
		}
		t.Variables = append(t.Variables, e)
	}
}

// say puts a value or an error into words.
func (b *ruleExplainer) say(e *policy.Evaluation, n *celExpression, v ref.Val, err error) {
	if failed, ok := v.(*types.Err); ok && err == nil {
		err = failed
	}
	_, verdict := v.(types.Bool)
	switch hide := b.hide && !verdict && (n.program == nil || cel.Quotes(n.program.AST)); {
	case err != nil:
		e.Error, e.Unknown = b.broken(err)
	case hide:
		e.Value = cel.Hidden
	default:
		e.Value = explain.Show(v)
	}
}

// evaluate evaluates an expression and tells its parts and culprits.
func (b *ruleExplainer) evaluate(r *celRun, n *celExpression, name string, parts bool) policy.Evaluation {
	e := b.described(name, n.pointer, n.source)
	v, err := r.eval(n)
	if b.say(&e, n, v, err); e.Unknown == "" && parts && n.explainer != nil {
		cel.Failure{Source: n.source, Secret: b.hide}.Explain(b.review.ctx, n.explainer(), r.roots(), &e)
	}
	return e
}
