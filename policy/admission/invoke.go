package admission

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/patch"
)

// A mutation takes one request through the policies, as the API server's
// dispatcher does (k8s.io/apiserver/pkg/admission/plugin/policy/mutating): all
// that match the object as it came, and once more, where the object was
// changed after them, those whose reinvocationPolicy asks for it. What is
// between the two rounds there, webhooks and built-in plugins, is not here.
type mutation struct {
	ctx    context.Context
	engine *Engine
	req    policy.Request // Admitted is the object as it is by now
	steps  []policy.Step

	latest  *review // of the request as it is; nil when that has changed
	second  bool    // round
	dirty   bool    // a mutation of this round was applied
	refused bool    // the API server would stop here
	done    []invocation
	again   []invocation
}

// An invocation is a policy that matches, with a binding and a parameter.
type invocation struct {
	policy  *bound
	binding *binding
	param   *param
	as      policy.Version
}

func (x *mutation) run() {
	x.round()
	if len(x.again) > 0 && !x.refused {
		x.second = true
		x.round()
	}
}

// round invokes the policies that match. All are matched before the first one
// changes the object.
func (x *mutation) round() {
	var all []invocation
	for _, b := range x.engine.policies {
		all = append(all, x.matching(b)...)
	}
	x.dirty = false
	for _, i := range all {
		if x.refused || x.ctx.Err() != nil {
			return
		}
		x.invoke(i)
	}
	if x.dirty {
		x.reinvoke()
	}
}

// reinvoke marks what was invoked before a change.
func (x *mutation) reinvoke() {
	x.again = append(x.again, x.done...)
	x.done = nil
}

// review is that of the request as it is by now.
func (x *mutation) review() *review {
	if x.latest == nil {
		req := x.req
		x.latest = newReview(x.ctx, x.engine, &req)
	}
	return x.latest
}

// matching lists the invocations of a policy, and says why there are none
// where that is not because it is about other objects.
func (x *mutation) matching(b *bound) []invocation {
	r := x.review()
	as, why, ok := b.matches(r)
	if why != nil {
		x.say(b, *why)
	}
	if !ok {
		return nil
	}
	var all []invocation
	for _, bind := range b.bindings {
		params, others := x.engine.paramsBy(r, b, bind)
		for _, v := range others {
			x.say(b, v)
		}
		for _, p := range params {
			all = append(all, invocation{b, bind, p, as})
		}
	}
	return all
}

// invoke applies the mutations of a policy, each to what the one before left.
func (x *mutation) invoke(i invocation) {
	b := i.policy
	runs := x.review().run.setUp(b.compiled, i.param, i.as)
	if err := runs.objects.Err; err != nil {
		x.say(b, runs.broken("matchConstraints", b.object.Span("/spec/matchConstraints"), fmt.Errorf("failed to configure binding: %w", err)))
		return
	}
	if vs, done := runs.conditions(); done {
		for _, v := range vs {
			x.say(b, v)
		}
		return
	}
	if x.second && !slices.Contains(x.again, i) {
		return
	}
	before := x.req.Admitted
	for _, e := range b.validations {
		x.apply(i, e)
		if x.refused {
			return
		}
	}
	if !reflect.DeepEqual(before, x.req.Admitted) {
		x.reinvoke()
	}
	if b.mutates.reinvoke {
		x.done = append(x.done, i)
	}
}

// apply evaluates and applies one mutation.
func (x *mutation) apply(i invocation, e *expression) {
	r := x.review()
	runs := r.run.setUp(i.policy.compiled, i.param, i.as)
	value, err := runs.evaluate(e)
	if err != nil && r.questions.Any() {
		x.say(i.policy, runs.open(e))
		return
	}
	var changed map[string]any
	if err == nil {
		changed, err = x.patched(i, e, value)
	}
	var undecided *errUndecided
	var fatal *errRefused
	switch {
	case errors.As(err, &undecided):
		x.say(i.policy, verdict{rule: e.rule, origin: e.origin, outcome: policy.Unknown, message: err.Error(), assumed: runs.assumed()})
	case errors.As(err, &fatal):
		x.refuse(i.policy, runs, e, err)
	case err != nil:
		x.say(i.policy, runs.broken(e.rule, e.origin, err))
	default:
		x.dirty = true
		x.applied(i.policy, verdict{rule: e.rule, origin: e.origin, outcome: policy.Pass, assumed: runs.assumed()}, changed)
	}
}

// evaluate gives what a mutation yields. Each has a budget of its own.
func (x *run) evaluate(e *expression) (v ref.Val, err error) {
	err = x.meter.Group(validationsGroup, func() error {
		x.bind(true, true, x.as)
		v, err = x.eval(e)
		return err
	})
	return v, err
}

// applied notes what a mutation did; changed is nil when that is nothing.
func (x *mutation) applied(b *bound, v verdict, changed map[string]any) {
	if changed == nil || reflect.DeepEqual(changed, x.req.Admitted) {
		v.message = "changes nothing"
		x.say(b, v)
		return
	}
	v.fields = patch.Differences(x.req.Admitted, changed)
	v.message = "sets " + patch.OrList(v.fields)
	x.req.Admitted, x.latest = changed, nil
	x.steps = append(x.steps, policy.Step{Result: x.result(b, v), Admitted: changed})
}

// refuse is for what the API server answers with an error of its own: the
// failure policy has no say in it.
func (x *mutation) refuse(b *bound, runs *run, e *expression, err error) {
	v := runs.broken(e.rule, e.origin, err)
	v.message = policy.ShortError(err).Error()
	r := x.result(b, v)
	r.Action = policy.Deny
	x.steps = append(x.steps, policy.Step{Result: r})
	x.refused = true
}

// say adds a verdict that leaves the object as it is, once.
func (x *mutation) say(b *bound, v verdict) {
	for i := range x.steps {
		if said := &x.steps[i].Result; same(said, b, &v) {
			return
		}
	}
	if x.second && v.outcome == policy.Pass {
		return // what changed nothing the second time
	}
	x.steps = append(x.steps, policy.Step{Result: x.result(b, v)})
}

func (x *mutation) result(b *bound, v verdict) policy.Result {
	if b.assumed {
		v.assumed = append(slices.Clip(v.assumed), b.assumption())
	}
	return b.result(&v, b.actionOf(&v, policy.Deny))
}
