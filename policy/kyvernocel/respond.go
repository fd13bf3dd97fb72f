package kyvernocel

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/policy/kyvernocel/internal/kyvernolib"
	"github.com/preadmit/preadmit/render"
)

// Respond evaluates every policy for a request as Kyverno's command line does.
// It returns one response for each policy, or for each target of a policy that
// changes existing objects. A Plain policy that does not match has none. The
// request must come from a Chain, or have Kind, Resource, Name and Namespace
// set. It fails if ctx ends.
func (e *Engine) Respond(ctx context.Context, req *policy.Request, mocks *Mocks) ([]Response, error) {
	if mocks == nil {
		mocks = &Mocks{}
	}
	var all []Response
	r := e.review(ctx, req, mocks)
	for _, p := range e.policies {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all = append(all, p.respond(r)...)
	}
	return all, ctx.Err()
}

func (p *Policy) respond(r *review) []Response {
	mode, payload := p.spec.Evaluation.Mode, r.mocks.JSON
	if payload && mode != modeJSON && p.Kind != Deleting {
		return nil
	}
	json := mode == modeJSON || payload && r.req.Kind.Empty()
	c, as, matches := p.main, policy.Version{Resource: r.req.Resource.GroupVersionResource, Kind: r.req.Kind}, match.Yes
	if !json {
		c, as, matches = p.copyFor(r)
	}
	switch {
	case matches == match.No && p.Plain:
		return nil
	case matches != match.Yes:
		return []Response{{Policy: p}}
	}
	x := r.run(c, as)
	if v, unfit := x.unfit(); unfit {
		return []Response{p.response(v)}
	}
	switch p.Kind {
	case Mutating:
		return x.respondMutating()
	case Generating:
		return []Response{x.respondGenerating()}
	case Deleting:
		return []Response{x.respondDeleting()}
	default:
		return []Response{p.response(first(x.validations()))}
	}
}

// first returns the verdict that decides the response: the first one that is not
// a pass, because Kyverno stops there.
func first(vs []verdict) verdict {
	for _, v := range vs {
		if v.outcome != policy.Pass {
			return v
		}
	}
	v := verdict{outcome: policy.Pass, message: "success"}
	if len(vs) > 0 {
		v.assumed = vs[len(vs)-1].assumed
		if vs[0].message != "" { // of an exception that is reported as passed
			v.message = vs[0].message
		}
	}
	return v
}

var statuses = map[policy.Outcome]Status{
	policy.Pass: StatusPass, policy.Fail: StatusFail, policy.Error: StatusError, policy.Skip: StatusSkip, policy.Unknown: StatusUndecided,
}

func (p *Policy) response(v verdict) Response {
	return Response{Policy: p, Matched: true, Status: statuses[v.outcome], Message: v.message, Fields: v.fields, Assumed: v.assumed}
}

// before returns a verdict and true if exceptions or conditions end the policy.
func (r *run) before(conditions []*cel.Expression) (verdict, bool) {
	if v, done := r.exempt(); done {
		return v, true
	}
	held, culprit, err := r.all(conditions)
	switch {
	case err != nil:
		return r.broken(culprit, "failed to load context: ", err), true
	case !held:
		return verdict{outcome: policy.Skip, message: "skip"}, true
	}
	return verdict{}, false
}

func (r *run) respondMutating() []Response {
	p := r.c.policy
	if v, done := r.before(r.c.conditions); done {
		return []Response{p.response(v)}
	}
	if r.c.targets == nil && r.c.targetExpression == nil {
		return []Response{r.patched(r.as.Kind, r.objects.Tree)}
	}
	targets, err := r.existing()
	if err != nil {
		return []Response{p.response(r.broken(r.c.targetExpression, "", err))}
	}
	var all []Response
	for _, target := range targets {
		all = append(all, r.respondTarget(target))
	}
	if len(all) == 0 {
		return []Response{{Policy: p}}
	}
	return all
}

// existing returns the target resources that the policy changes: those that its
// expression returns, or else those that its target constraints match.
func (r *run) existing() ([]*render.Object, error) {
	wanted := func(o *render.Object) bool {
		t, _ := r.c.targets.Match(r.targetReview(o))
		return t == match.Yes
	}
	if r.c.targetExpression != nil {
		v, err := r.eval(r.c.targetExpression)
		if err != nil {
			return nil, err
		}
		found, err := returnedObjects(v)
		if err != nil {
			return nil, err
		}
		wanted = func(o *render.Object) bool {
			return slices.ContainsFunc(found, func(f unstructured.Unstructured) bool {
				return f.GroupVersionKind() == o.GroupVersionKind() && f.GetName() == o.GetName() && f.GetNamespace() == r.namespaceOf(o)
			})
		}
	}
	all := slices.DeleteFunc(slices.Clone(r.mocks.Targets), func(o *render.Object) bool { return !wanted(o) })
	return all, nil
}

// returnedObjects converts the value of an expression to objects: none for
// null, one, or the items of a list.
func returnedObjects(v ref.Val) ([]unstructured.Unstructured, error) {
	native, err := nativeOf(v)
	if err != nil || native == nil {
		return nil, err
	}
	tree, ok := native.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("returns %T, not an object or a list of objects", native)
	}
	items, ok := tree["items"].([]any)
	if !ok {
		items = []any{tree}
	}
	var all []unstructured.Unstructured
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			all = append(all, unstructured.Unstructured{Object: m})
		}
	}
	return all, nil
}

// targetReview returns a review of an existing object.
func (r *run) targetReview(o *render.Object) *review {
	req := r.req
	req.Object, req.Kind, req.Name = o, o.GroupVersionKind(), o.GetName()
	req.Resource = r.engine.options.Kinds.Resource(req.Kind)
	req.Namespace = r.namespaceOf(o)
	return r.engine.review(r.ctx, &req, r.mocks)
}

func (r *run) respondTarget(o *render.Object) Response {
	target := r.targetReview(o)
	kind := o.GroupVersionKind()
	t := target.run(r.c, policy.Version{Resource: target.req.Resource.GroupVersionResource, Kind: kind})
	held, culprit, err := t.all(r.c.targetConditions)
	response := Response{Policy: r.c.policy, Matched: true, Status: StatusSkip, Message: "skip"}
	switch {
	case err != nil:
		response = r.c.policy.response(t.broken(culprit, "", err))
	case held:
		response = t.patched(kind, t.objects.Tree)
	}
	response.Target = o
	return response
}

// patched applies all mutations to a tree, each to the result of the one
// before.
func (r *run) patched(kind schema.GroupVersionKind, tree map[string]any) Response {
	changed := false
	for i, e := range r.c.mutations {
		after, err := r.mutation(i, kind, tree)
		if err != nil {
			return r.c.policy.response(r.broken(e, "failed to evaluate policy: ", err))
		}
		if after != nil {
			tree, changed = after, true
			r.object = kyvernolib.Frozen(tree)
		}
	}
	response := r.c.policy.response(verdict{outcome: policy.Pass, message: "success", assumed: r.assumptions()})
	if changed {
		response.Patched = tree
	}
	return response
}

func (r *run) respondGenerating() Response {
	p := r.c.policy
	if v, done := r.before(r.c.conditions); done {
		return p.response(v)
	}
	before := len(r.generated)
	for _, m := range r.c.generations {
		if e, err := r.make(m); err != nil {
			return p.response(r.broken(e, "", err))
		}
	}
	response := p.response(verdict{outcome: policy.Pass, message: "policy evaluated successfully", assumed: r.assumptions()})
	response.Generated = slices.Clone(r.generated[before:])
	return response
}

func (r *run) respondDeleting() Response {
	p := r.c.policy
	if v, done := r.exempt(); done {
		return p.response(v)
	}
	held, culprit, err := r.all(r.c.deleting)
	switch {
	case err != nil:
		return p.response(r.broken(culprit, "", err))
	case !held:
		return p.response(verdict{rule: culprit.Rule, outcome: policy.Fail, message: "resource did not match", assumed: r.assumptions()})
	}
	return p.response(verdict{outcome: policy.Pass, message: "resource matched", assumed: r.assumptions()})
}
