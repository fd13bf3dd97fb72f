package kyverno

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
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

// actions returns the settings that decide the action when the rule fails: the
// one that applies, and those before it that don't.
func (r *ruleExplainer) actions() []policy.Bound {
	p, rule := r.program.policy, r.program.rule
	s := &settings{ruleExplainer: r}
	if v := rule.Validate; v != nil {
		s.overrides(v.Overrides, rule.Pointer, "/validate/failureActionOverrides")
		s.is(v.Action, rule.Pointer, "/validate/failureAction")
	}
	if a := document.ImagesAction(rule.VerifyImages); a != "" {
		for _, v := range rule.VerifyImages {
			if v.Action == a {
				s.is(a, "", v.Pointer+"/failureAction")
			}
		}
	}
	s.overrides(p.Overrides, "", "/spec/validationFailureActionOverrides")
	if text, _ := lookup(p.Object.Object, "spec", "validationFailureAction"); text != nil {
		s.is(p.Action, "", "/spec/validationFailureAction")
	} else if !s.done {
		s.list = append(s.list, policy.Bound{Name: "validationFailureAction", Matches: policy.Yes, Actions: []string{p.Action + " by default"}})
	}
	return append(s.list, r.warnings()...)
}

// warnings returns the settings that make an audited failure a warning.
func (r *ruleExplainer) warnings() []policy.Bound {
	var all []policy.Bound
	o, reported := r.program.policy.Object, r.program.reported
	if reported.warns {
		all = append(all, policy.Bound{Name: "emitWarning", Origin: o.Span("/spec/emitWarning"), Matches: policy.Yes, Actions: []string{"a warning where it is not enforced"}})
	}
	if reported.unscored {
		at := "/metadata/annotations/policies.kyverno.io~1scored"
		all = append(all, policy.Bound{Name: "policies.kyverno.io/scored: false", Origin: o.Span(at), Matches: policy.Yes, Actions: []string{"a warning where it is not enforced"}})
	}
	return all
}

// settings collects the settings that may decide the action, until one does.
type settings struct {
	*ruleExplainer
	list []policy.Bound
	done bool
}

func (s *settings) is(action, base, at string) {
	if s.done || action == "" {
		return
	}
	s.done = true
	s.list = append(s.list, policy.Bound{
		Name: s.called(base, at), Origin: s.program.policy.Object.Span(base + at), Matches: policy.Yes, Actions: []string{action},
	})
}

// called returns a setting's name, relative to the rule or the policy.
func (s *settings) called(base, at string) string {
	if base == "" && strings.HasPrefix(at, s.program.rule.Pointer) {
		return s.name(at)
	}
	return document.Dotted(strings.TrimPrefix(at, "/spec"))
}

func (s *settings) overrides(all []document.ActionOverride, base, at string) {
	req := s.review.req
	for i := range all {
		o := &all[i]
		if s.done || len(s.list) == maxChecks {
			return
		}
		if o.Action == "" {
			continue
		}
		labels, fits, unknown := map[string]string(nil), false, ""
		s.review.quietly(func() {
			s.review.questions = nil
			labels = s.review.namespaceLabels()
			fits = o.Fits(req.Namespace, labels)
			if len(s.review.questions) > 0 && o.NamespaceSelector != nil && !o.NamespaceSelector.SelectsByNameOnly() {
				unknown = s.review.questions[0]
			}
		})
		here := base + at + "/" + strconv.Itoa(i)
		bound := policy.Bound{Name: s.called(base, at+"/"+strconv.Itoa(i)), Origin: s.program.policy.Object.Span(here), Matches: answer(fits), Actions: []string{o.Action}}
		if len(o.Namespaces) > 0 {
			bound.Match = append(bound.Match, s.override("namespaces", here, strings.Join(o.Namespaces, ", "), pattern.AnyWildcard(o.Namespaces, req.Namespace), namespaceText(req.Namespace)))
		}
		if o.NamespaceSelector != nil {
			c := s.override("namespaceSelector", here, selectorText(o.NamespaceSelector), o.NamespaceSelector.Matches(labels), "the namespace "+labelsText(labels))
			if unknown != "" {
				c.Answer, c.Why = policy.Undecided, unknown
				if len(bound.Match) == 0 || bound.Match[0].Answer == policy.Yes {
					bound.Matches = policy.Undecided
				}
			}
			bound.Match = append(bound.Match, c)
		}
		s.list, s.done = append(s.list, bound), fits
	}
}

func (s *settings) override(name, at, text string, holds bool, why string) policy.Check {
	if holds {
		why = ""
	}
	return policy.Check{Name: name, Text: policy.Shorten(text, maxChecked), Answer: answer(holds), Why: why, Origin: s.program.policy.Object.Span(at + "/" + name)}
}
