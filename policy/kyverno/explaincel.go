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

// matchConditions adds the match conditions of the policy's webhook to t.
// exempt names the one that exempts the request, or is "".
func (r *ruleExplainer) matchConditions(t *policy.Trial) (exempt string) {
	p := r.program.policy
	g := r.review.engine.conditions[p]
	if g == nil {
		return ""
	}
	r.review.quietly(func() {
		c := r.celRun(g, nil)
		for i, n := range g.conditions {
			e := r.evaluate(c, n, fmt.Sprintf("matchConditions[%s]", p.MatchConditions[i].Name), true)
			if t.Conditions = append(t.Conditions, e); e.Value == "false" && exempt == "" {
				exempt = "exempt by match condition " + p.MatchConditions[i].Name
			}
		}
	})
	return exempt
}

// celRun returns a run that evaluates expressions once more, with one cost
// budget.
func (r *ruleExplainer) celRun(g *celProgram, params *render.Object) *celRun {
	c := newCELRun(g, &run{review: r.review, program: r.program, target: r.target}, params)
	c.meter.Begin(celconfig.RuntimeCELCostBudget)
	return c
}

// celTrials returns the evaluations of the rule's expressions, a trial for each
// parameter.
func (r *ruleExplainer) celTrials(base policy.Trial, exempt string) []policy.Trial {
	var all []policy.Trial
	r.review.quietly(func() {
		g := r.program.cel()
		params, v := g.params(&run{review: r.review, program: r.program, target: r.target})
		if v != nil || len(params) == 0 {
			if base.Problem = "there is no parameter, and none is needed"; v != nil {
				base.Problem, _ = r.broken(fmt.Errorf("%s", v.message))
			}
			all = []policy.Trial{base}
			return
		}
		for i, p := range params {
			t := policy.Trial{ParamObject: p, NamespaceObject: r.namespace()}
			if p != nil {
				key := p.Key()
				t.Param = &key
			}
			if i == 0 {
				t.Conditions, t.Variables = base.Conditions, base.Variables
			}
			r.celTrial(&t, g, p, exempt)
			if all = append(all, t); len(all) == maxShown {
				return
			}
		}
	})
	if len(all) > 0 {
		last := &all[len(all)-1]
		r.fallBack(last)
		all[0].Variables = append(r.context(), all[0].Variables...)
	}
	return all
}

func (r *ruleExplainer) namespace() *render.Object {
	return r.review.engine.options.Cluster.Namespace(r.review.unit(), r.review.req.Namespace)
}

func (r *ruleExplainer) celTrial(t *policy.Trial, g *celProgram, params *render.Object, exempt string) {
	c := r.celRun(g, params)
	for i, n := range g.conditions {
		e := r.evaluate(c, n, "celPreconditions["+r.program.rule.CELPreconditions[i].Name+"]", true)
		if t.Conditions = append(t.Conditions, e); e.Value == "false" && exempt == "" {
			exempt = "the celPreconditions do not hold"
		} else if e.Value != "true" && exempt == "" {
			exempt = "a celPrecondition could not be evaluated"
		}
	}
	for i, n := range g.validations {
		name := "validate.cel.expressions[" + strconv.Itoa(i) + "]"
		e := r.described(name, n.Pointer, n.Source)
		if e.NotRun = exempt; exempt == "" {
			e = r.evaluate(c, n.Expression, name, true)
		}
		if e.Value == "false" && n.expression != nil {
			m := r.evaluate(c, n.expression, "messageExpression", false)
			e.Message = &m
		}
		if t.Validations = append(t.Validations, e); exempt == "" && e.Value != "true" {
			exempt = "an earlier one decides"
		}
	}
	for i, n := range g.variables {
		e := r.described("validate.cel.variables["+g.names.At(i)+"]", n.Pointer, n.Source)
		if v, _ := c.variables.Known(i); v == nil {
			e.NotRun = "nothing read it"
		} else {
			r.describe(&e, n, v, nil)
		}
		t.Variables = append(t.Variables, e)
	}
}

// describe writes a value or an error into e, in words.
func (r *ruleExplainer) describe(e *policy.Evaluation, n *cel.Expression, v ref.Val, err error) {
	if failed, ok := v.(*types.Err); ok && err == nil {
		err = failed
	}
	_, verdict := v.(types.Bool)
	switch hide := r.hide && !verdict && (n.AST == nil || cel.Quotes(n.AST)); {
	case err != nil:
		e.Error, e.Unknown = r.broken(err)
	case hide:
		e.Value = cel.Hidden
	default:
		e.Value = explain.Show(v)
	}
}

// evaluate evaluates an expression and describes its parts and the fields at
// fault.
func (r *ruleExplainer) evaluate(c *celRun, n *cel.Expression, name string, parts bool) policy.Evaluation {
	e := r.described(name, n.Pointer, n.Source)
	v, err := c.eval(n)
	if r.describe(&e, n, v, err); e.Unknown == "" && parts && n.Explainer != nil {
		cel.Failure{Source: n.Source, Secret: r.hide}.Explain(r.review.ctx, n.Explainer(), c.roots(), &e)
	}
	return e
}
