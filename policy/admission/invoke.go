package admission

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/patch"
)

// A mutation applies the mutating policies to one request, as the API server's
// dispatcher does (k8s.io/apiserver/pkg/admission/plugin/policy/mutating):
// first all policies that match the original object, then again those with the
// reinvocationPolicy IfNeeded if a later policy changed the object. If a webhook
// changed it, the chain calls Reinvoke for another second round.
type mutation struct {
	ctx    context.Context
	engine *Engine
	req    policy.Request // Admitted is the current object
	steps  []policy.Step

	latest  *review // of the current object; nil after a change
	second  bool    // in the second round
	dirty   bool    // a mutation of this round was applied
	refused bool    // the API server denies the request here
	done    []invocation
	again   []invocation
	first   []policy.Result // of the first call, in a call of Reinvoke; nil otherwise
}

// An invocation is a matching policy with a binding and a parameter.
type invocation struct {
	policy  *bound
	binding *binding
	param   *param
	as      policy.Version
}

func (m *mutation) run() {
	m.round()
	if len(m.again) > 0 && !m.refused {
		m.second = true
		m.round()
	}
}

// round invokes the policies that match. All are matched before the first one
// changes the object.
func (m *mutation) round() {
	var all []invocation
	for _, b := range m.engine.policies {
		m.observed(b, func() { all = append(all, m.matching(b)...) })
	}
	m.dirty = false
	for _, i := range all {
		if m.refused || m.ctx.Err() != nil {
			return
		}
		m.observed(i.policy, func() { m.invoke(i) })
	}
	if m.dirty {
		m.reinvoke()
	}
}

func (m *mutation) observed(b *bound, f func()) {
	policy.Observed(m.ctx, policy.EngineMutation, b.object.GetName(), f)
}

// reinvoke queues the invocations before a change for the second round.
func (m *mutation) reinvoke() {
	m.again = append(m.again, m.done...)
	m.done = nil
}

// review returns the review of the request with its current object.
func (m *mutation) review() *review {
	if m.latest == nil {
		req := m.req
		m.latest = newReview(m.ctx, m.engine, &req)
	}
	return m.latest
}

// matching returns the invocations of a policy. If the policy matches but can't
// be invoked, matching records a result that says why.
func (m *mutation) matching(b *bound) []invocation {
	r := m.review()
	as, why, ok := b.matches(r)
	if why != nil {
		m.record(b, *why)
	}
	if !ok {
		return nil
	}
	var all []invocation
	for _, bind := range b.bindings {
		params, others := m.engine.paramsBy(r, b, bind)
		for _, v := range others {
			m.record(b, v)
		}
		for _, p := range params {
			all = append(all, invocation{b, bind, p, as})
		}
	}
	return all
}

// invoke applies the mutations of a policy in order, each to the result of the
// one before.
func (m *mutation) invoke(i invocation) {
	b := i.policy
	runs := m.review().run.setUp(b.compiled, i.param, i.as)
	if err := runs.objects.Err; err != nil {
		m.record(b, runs.broken("matchConstraints", b.object.Span("/spec/matchConstraints"), fmt.Errorf("failed to configure binding: %w", err)))
		return
	}
	if vs, done := runs.conditions(); done {
		for _, v := range vs {
			m.record(b, v)
		}
		return
	}
	if m.first != nil && !m.invoked(b) || m.first == nil && m.second && !slices.Contains(m.again, i) {
		return
	}
	before := m.req.Admitted
	for _, e := range b.validations {
		m.apply(i, e)
		if m.refused {
			return
		}
	}
	if !reflect.DeepEqual(before, m.req.Admitted) {
		m.reinvoke()
	}
	if b.mutates.reinvoke {
		m.done = append(m.done, i)
	}
}

// invoked reports whether the first call applied a policy that Reinvoke applies again.
func (m *mutation) invoked(b *bound) bool {
	return b.mutates.reinvoke && slices.ContainsFunc(m.first, func(r policy.Result) bool {
		return r.Engine == b.engine() && r.Policy == b.policy.Name && r.Outcome == policy.Pass
	})
}

// apply evaluates and applies one mutation.
func (m *mutation) apply(i invocation, e *cel.Expression) {
	r := m.review()
	runs := r.run.setUp(i.policy.compiled, i.param, i.as)
	value, err := runs.evaluate(e)
	if err != nil && r.questions.Any() {
		m.record(i.policy, runs.open(e))
		return
	}
	var changed map[string]any
	if err == nil {
		changed, err = m.patched(i, e, value)
	}
	var undecided *errUndecided
	var fatal *errRefused
	switch {
	case errors.As(err, &undecided):
		m.record(i.policy, verdict{rule: e.Rule, origin: e.Origin, outcome: policy.Unknown, message: err.Error(), assumed: runs.assumed()})
	case errors.As(err, &fatal):
		m.refuse(i.policy, runs, e, err)
	case err != nil:
		m.record(i.policy, runs.broken(e.Rule, e.Origin, err))
	default:
		m.dirty = true
		m.applied(i.policy, verdict{rule: e.Rule, origin: e.Origin, outcome: policy.Pass, assumed: runs.assumed()}, changed, runs.secret())
	}
}

// evaluate returns the value of a mutation's expression. Each mutation has its
// own cost budget.
func (r *run) evaluate(e *cel.Expression) (ref.Val, error) {
	r.meter.Begin(celconfig.RuntimeCELCostBudget)
	r.bind(true, true, r.as)
	return r.eval(e)
}

// applied records the result of a mutation. changed is nil if it changed
// nothing; secret reports whether the mutation has read a Secret.
func (m *mutation) applied(b *bound, v verdict, changed map[string]any, secret bool) {
	if changed == nil || reflect.DeepEqual(changed, m.req.Admitted) {
		v.message = "changes nothing"
		m.record(b, v)
		return
	}
	v.fields = patch.Differences(m.req.Admitted, changed)
	v.message = "sets " + patch.OrList(v.fields)
	m.req.Admitted, m.latest = changed, nil
	m.steps = append(m.steps, policy.Step{Result: m.result(b, v), Admitted: changed, Secret: secret})
}

// refuse records an error with which the API server denies a request whatever
// the failure policy is.
func (m *mutation) refuse(b *bound, runs *run, e *cel.Expression, err error) {
	v := runs.broken(e.Rule, e.Origin, err)
	v.message = policy.ShortError(err).Error()
	r := m.result(b, v)
	r.Action = policy.Deny
	m.steps = append(m.steps, policy.Step{Result: r})
	m.refused = true
}

// record adds a verdict that leaves the object as it is, unless an equal one was
// recorded.
func (m *mutation) record(b *bound, v verdict) {
	for i := range m.steps {
		if have := &m.steps[i].Result; same(have, b, &v) {
			return
		}
	}
	if m.second && v.outcome == policy.Pass {
		return // changed nothing in the second round
	}
	m.steps = append(m.steps, policy.Step{Result: m.result(b, v)})
}

func (m *mutation) result(b *bound, v verdict) policy.Result {
	if b.assumed {
		v.assumed = append(slices.Clip(v.assumed), b.assumption())
	}
	return b.result(&v, b.actionOf(&v, policy.Deny))
}
