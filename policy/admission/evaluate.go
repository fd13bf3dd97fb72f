package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/admissionregistration/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// evaluate adds the results of one policy with its bindings.
func (e *Engine) evaluate(r *review, b *bound, all *results) {
	as, why, ok := b.matches(r)
	if why != nil {
		all.add(b, b.strongest(), *why)
	}
	if !ok {
		return
	}
	r.evaluated, r.free = r.evaluated[:0], r.room
	for _, bind := range b.bindings {
		params, others := e.paramsBy(r, b, bind)
		for _, v := range others {
			all.add(b, bind.action, v)
		}
		for _, p := range params {
			vs := r.verdictsWith(b, p, as)
			for i := range vs {
				all.merge(b, bind.action, &vs[i])
			}
		}
	}
}

// matches reports whether the policy's bindings must be evaluated, and the
// version in which the policy sees the object. If not, why is the verdict on an
// object that the policy matches, or nil.
func (b *bound) matches(r *review) (as policy.Version, why *verdict, ok bool) {
	matches, as := b.criteria.Match(&r.subject)
	switch {
	case matches == match.No:
		return as, nil, false
	case len(b.bindings) == 0 && b.brokenBinding:
		return as, nil, false
	case len(b.bindings) == 0:
		kind, effect := bindingKind, "enforced"
		if b.mutates != nil {
			kind, effect = "MutatingAdmissionPolicyBinding", "applied"
		}
		return as, &verdict{
			rule: "binding", origin: b.object.Span(""), outcome: policy.Skip,
			message: fmt.Sprintf("no %s names this policy, so it is not %s", kind, effect),
		}, false
	case matches == match.Unknown:
		question, pointer := b.criteria.Question(&r.subject)
		return as, &verdict{rule: "matchConstraints", origin: b.object.Span("/spec/matchConstraints" + pointer), outcome: policy.Unknown, message: question}, false
	}
	return as, nil, true
}

// paramsBy returns the parameters with which a binding evaluates the policy for
// the request. If there are none, it returns the verdicts that say so.
func (e *Engine) paramsBy(r *review, b *bound, bind *binding) ([]*param, []verdict) {
	switch matches, _ := bind.criteria.Match(&r.subject); matches {
	case match.No:
		return nil, nil
	case match.Unknown:
		question, pointer := bind.criteria.Question(&r.subject)
		return nil, []verdict{{rule: "matchResources", origin: bind.object.Span("/spec/matchResources" + pointer), outcome: policy.Unknown, message: fmt.Sprintf("binding %s: %s", bind.name, question)}}
	}
	params, err := e.paramsOf(r, b, bind)
	switch {
	case err != nil:
		return nil, []verdict{b.withoutConfiguration(bind, err)}
	case len(params) == 0:
		return nil, b.withoutParams(r, bind)
	}
	return params, nil
}

// paramVerdicts holds the verdicts of a policy with one parameter. They do not
// depend on the binding that selected the parameter.
type paramVerdicts struct {
	param    *param
	verdicts []verdict
}

func (b *bound) strongest() policy.Action {
	action := policy.Audit
	for _, bind := range b.bindings {
		if bind.action.AtLeast(action) {
			action = bind.action
		}
	}
	return action
}

// verdictsWith returns the verdicts of the policy under evaluation with a
// parameter, which is evaluated once for all bindings.
func (r *review) verdictsWith(b *bound, p *param, as policy.Version) []verdict {
	for i := range r.evaluated {
		if r.evaluated[i].param == p {
			return r.evaluated[i].verdicts
		}
	}
	vs := r.run.setUp(b.compiled, p, as).verdicts()
	r.evaluated = append(r.evaluated, paramVerdicts{p, vs})
	return vs
}

// withoutConfiguration returns the verdict if looking up the binding's
// parameters fails, or if required ones are missing.
func (b *bound) withoutConfiguration(bind *binding, err error) verdict {
	x := run{policy: b.compiled, review: &review{}, params: nullParam}
	v := x.broken("params", bind.object.Span("/spec/paramRef"), fmt.Errorf("failed to configure binding: %w", err))
	v.certain = true
	if u := (*cel.Undecided)(nil); errors.As(err, &u) {
		v.outcome, v.message = policy.Unknown, u.Question
	}
	if errors.Is(err, errNoParams) {
		v.hint = "give the parameter with --with"
	}
	return v
}

// paramsOf returns the binding's parameters. An assumed binding selects all
// parameters.
func (e *Engine) paramsOf(r *review, b *bound, bind *binding) ([]*param, error) {
	kind := b.policy.Spec.ParamKind
	if !b.assumed || kind == nil {
		return e.params(r, kind, bind.paramRef)
	}
	gvk := policy.ParseGroupVersion(kind.APIVersion).WithKind(kind.Kind)
	var params []*param
	for _, o := range e.options.Cluster.List(gvk.GroupKind()) {
		p := e.param(o, gvk)
		if p.err != nil {
			return nil, p.err
		}
		params = append(params, p)
	}
	return params, nil
}

// withoutParams returns the verdicts if parameters are missing and
// parameterNotFoundAction is Allow, or if an assumed binding finds none.
func (b *bound) withoutParams(r *review, bind *binding) []verdict {
	kind := b.policy.Spec.ParamKind
	if b.assumed {
		return []verdict{{
			rule: "params", origin: b.object.Span("/spec/paramKind"), outcome: policy.Unknown,
			message: fmt.Sprintf("needs a parameter of kind %s: give it, and a binding, with --with", kind.Kind),
		}}
	}
	x := run{policy: b.compiled, review: r, params: nullParam}
	return x.skip(fmt.Sprintf("binding %s finds no %s, and its parameterNotFoundAction is %s", bind.name, kind.Kind, v1.AllowAction))
}

// results collects the results of policies. Results of a rule with equal
// outcomes and messages become one, with the strongest action.
type results struct {
	list  []policy.Result
	since int // lowest index of results of policies with this name

	expected int // most results there can be
}

func (r *results) add(b *bound, action policy.Action, v verdict) { r.merge(b, action, &v) }

func (r *results) merge(b *bound, action policy.Action, v *verdict) {
	action = b.actionOf(v, action)
	for i := r.since; i < len(r.list); i++ {
		if have := &r.list[i]; same(have, b, v) {
			if action.AtLeast(have.Action) {
				have.Action = action
			}
			return
		}
	}
	have := r.next()
	b.report(have, v, action)
	if b.assumed {
		have.Assumed = b.alsoAssumed(have.Assumed)
	}
}

// alsoAssumed adds to the assumptions of a result that the binding is assumed.
// Results without other assumptions share one list.
func (b *bound) alsoAssumed(others []string) []string {
	if len(others) == 0 && b.assumptions != nil {
		return b.assumptions
	}
	return append(slices.Clip(others), b.assumption())
}

// next adds an empty result.
func (r *results) next() *policy.Result {
	if n := len(r.list); n == cap(r.list) {
		r.list = slices.Grow(r.list, max(min(r.expected-n, max(n, 64)), 1))
	}
	r.list = append(r.list, policy.Result{})
	return &r.list[len(r.list)-1]
}

func (b *bound) result(v *verdict, action policy.Action) policy.Result {
	var r policy.Result
	b.report(&r, v, action)
	return r
}

// report fills in a result in place, because results are large.
func (b *bound) report(r *policy.Result, v *verdict, action policy.Action) {
	r.Engine, r.Policy, r.Rule = b.engine(), b.policy.Name, v.rule
	r.Outcome, r.Action, r.Severity = v.outcome, action, b.severity
	r.Message, r.Reason, r.Hint = v.message, v.reason, v.hint
	r.Fields, r.Literals, r.Assumed, r.Cost = v.fields, v.literals, v.assumed, v.cost
	r.PolicyOrigin = v.origin
}

// engine returns the kind of the policy, which is the engine in results.
func (c *compiled) engine() string {
	if c.mutates != nil {
		return policy.EngineMutation
	}
	return policy.EngineAdmission
}

// assumption returns the sentence that the policy's binding is assumed.
func (b *bound) assumption() string {
	if b.mutates != nil {
		return fmt.Sprintf("policy %s has no binding: applied as if it had one", b.policy.Name)
	}
	return fmt.Sprintf("policy %s has no binding: checked as if bound with Deny", b.policy.Name)
}

func same(r *policy.Result, b *bound, v *verdict) bool {
	return r.Rule == v.rule && r.Outcome == v.outcome && r.Message == v.message &&
		r.Policy == b.policy.Name && slices.Equal(r.Fields, v.fields)
}

// actionOf returns the action for a verdict. For an error it depends on the
// failure policy, otherwise it is the binding's.
func (b *bound) actionOf(v *verdict, action policy.Action) policy.Action {
	switch {
	case v.outcome != policy.Error:
		return action
	case b.ignores():
		return policy.Warn
	case v.certain:
		return policy.Deny
	default:
		return action
	}
}

// Evaluate evaluates the expressions of one policy for a request, for tests of
// expressions. It ignores the policy's match constraints and bindings. params
// is the parameter; nil is null. The request must be one that a Chain has
// completed, with a user. It fails if ctx ends or if there is no such policy.
func (e *Engine) Evaluate(ctx context.Context, req *policy.Request, name string, params *render.Object) ([]policy.Result, error) {
	named := e.named(name, req.Subject().Unit)
	if len(named) == 0 {
		return nil, fmt.Errorf("there is no ValidatingAdmissionPolicy %s", name)
	}
	b, p := named[0], nullParam
	if kind := b.policy.Spec.ParamKind; params != nil && kind != nil {
		p = e.param(params, policy.ParseGroupVersion(kind.APIVersion).WithKind(kind.Kind))
		if p.err != nil {
			return nil, p.err
		}
	}
	as := policy.Version{Resource: req.Resource.GroupVersionResource, Kind: req.Kind}
	all := results{expected: len(b.validations)}
	r := newReview(ctx, e, req)
	r.userKnown = true
	for _, v := range r.run.setUp(b.compiled, p, as).verdicts() {
		all.add(b, policy.Deny, v)
	}
	return all.list, ctx.Err()
}
