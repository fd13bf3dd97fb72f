package kyvernocel

import (
	"context"
	"errors"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/policy/kyvernocel/internal/kyvernolib"
	"github.com/preadmit/preadmit/render"
)

// A mutator changes objects before they are evaluated.
type mutator struct{ *Engine }

// Mutator changes requests' objects by MutatingPolicies, in the order of their
// names, a step for each mutation.
func (e *Engine) Mutator() policy.Mutator { return mutator{e} }

// Mutate implements policy.Mutator.
func (m mutator) Mutate(ctx context.Context, req *policy.Request) ([]policy.Step, error) {
	if req.Admitted == nil || req.Operation == policy.Delete || len(m.policies) == 0 {
		return nil, nil
	}
	if _, ignored := m.filters.Ignores(req); ignored {
		return nil, ctx.Err()
	}
	var steps []policy.Step
	now := *req
	r := m.review(ctx, &now, nil) // of the object as it is now; nil until a policy needs it
	for _, p := range r.policiesFor(true) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var made []policy.Step
		policy.Observed(ctx, policy.EngineMutating, p.Name, func() {
			if r == nil {
				r = m.review(ctx, &now, nil)
			}
			made = p.mutate(r)
		})
		for _, s := range made {
			if s.Admitted != nil {
				now.Admitted, now.Typed, r = s.Admitted, nil, nil
			}
			steps = append(steps, s)
		}
	}
	return steps, ctx.Err()
}

// mutate returns the steps with which a policy changes the object of a request.
// If one fails, none is applied.
func (p *Policy) mutate(r *review) []policy.Step {
	c, as, matches := p.copyFor(r)
	switch {
	case matches == match.No:
		return nil
	case matches == match.Unknown:
		return []policy.Step{{Result: p.result(p.unmatched(c, r))}}
	}
	x := r.run(c, as)
	if v, done := x.beforeMutations(); done {
		return []policy.Step{{Result: p.result(v)}}
	}
	// Kyverno hands the object on from mutation to mutation as the patch left it: an empty
	// map stays, which the API server drops when it decodes the result.
	tree, held := x.objects.Tree, x.objects.Tree
	steps := make([]policy.Step, 0, len(c.mutations))
	for i, e := range c.mutations {
		patched, err := x.mutation(i, as.Kind, tree)
		var after map[string]any
		if err == nil && patched != nil {
			after, err = x.admit(held, patched)
		}
		if err != nil {
			return []policy.Step{{Result: p.result(x.broken(e, "", err))}}
		}
		v := verdict{rule: e.Rule, origin: e.Origin, outcome: policy.Pass, assumed: x.assumptions(), message: "changes nothing"}
		if patched != nil {
			tree = patched
			x.object = kyvernolib.Frozen(tree)
		}
		if after != nil {
			v.fields = patch.Differences(held, after)
			v.message = "sets " + patch.OrList(v.fields)
			held = after
		}
		steps = append(steps, policy.Step{Result: p.result(v), Admitted: after, Secret: r.secret})
	}
	return x.asRequested(steps)
}

// asRequested converts the objects of steps, which a policy may have changed in
// another version, to the version of the request.
func (r *run) asRequested(steps []policy.Step) []policy.Step {
	if r.as.Kind == r.req.Kind {
		return steps
	}
	for i := range steps {
		if steps[i].Admitted == nil {
			continue
		}
		converted, err := r.review.objects.Convert(steps[i].Admitted, r.req.Kind)
		if err != nil {
			return []policy.Step{{Result: r.c.policy.result(r.broken(r.c.mutations[i], "", err))}}
		}
		steps[i].Admitted = converted
	}
	return steps
}

// beforeMutations returns a verdict and true if exceptions or conditions keep
// the policy from changing the object.
func (r *run) beforeMutations() (verdict, bool) {
	if v, unfit := r.unfit(); unfit {
		return v, true
	}
	rule := func(v verdict) verdict {
		if v.rule == "" {
			v.rule, v.origin = r.c.mutations[0].Rule, r.c.mutations[0].Origin
		}
		return v
	}
	if v, done := r.exempt(); done {
		return rule(v), true
	}
	held, culprit, err := r.all(r.c.conditions)
	switch {
	case err != nil:
		return r.broken(culprit, "failed to load context: ", err), true
	case !held:
		return rule(verdict{outcome: policy.Skip, message: r.exempted(culprit), assumed: r.assumptions()}), true
	case r.c.targets != nil || r.c.targetExpression != nil:
		return rule(verdict{outcome: policy.Skip, message: "changes objects that are there, not those that are admitted"}), true
	}
	return verdict{}, false
}

// mutation evaluates mutation i and applies it to an object's tree. It returns
// nil if nothing changes.
func (r *run) mutation(i int, kind schema.GroupVersionKind, before map[string]any) (map[string]any, error) {
	v, err := r.eval(r.c.mutations[i])
	if err != nil || nothing(v) {
		return nil, err
	}
	var after map[string]any
	if r.c.spec.Mutations[i].PatchType == v1.PatchTypeJSONPatch {
		after, err = patch.JSON(before, v)
	} else {
		after, err = r.configure(kind, before, v)
	}
	if err != nil {
		return nil, policy.ShortError(cel.ShownError(r.c.mutations[i].Source, err, r.secret))
	}
	if after == nil || render.Equal(before, after) {
		return nil, nil
	}
	return after, nil
}

// nothing reports whether a mutation's value is null or an empty list, which
// change nothing.
func nothing(v ref.Val) bool {
	if v == nil || v == types.NullValue {
		return true
	}
	l, ok := v.(traits.Lister)
	return ok && l.Size() == types.IntZero
}

// configure merges an apply configuration into an object's tree.
func (r *run) configure(kind schema.GroupVersionKind, before map[string]any, v ref.Val) (map[string]any, error) {
	configuration, err := patch.Configuration(v)
	if err != nil {
		return nil, err
	}
	converter, err := r.engine.converter(kind)
	if err != nil {
		return nil, err
	}
	if atomics := r.c.spec.Evaluation.UseServerSideApply; atomics != nil && *atomics {
		return patch.MergeAtomics(converter, kind, before, configuration)
	}
	return patch.Merge(converter, kind, before, configuration)
}

// converter returns the converter of a kind, or one that deduces the structure
// from objects. Kyverno's command line knows only built-in kinds.
func (e *Engine) converter(kind schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	custom := strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, ".k8s.io")
	if e.options.Mergers != nil && !(e.options.CLI && custom) {
		if c, err := e.options.Mergers.TypeConverter(kind); c != nil || err != nil {
			return c, err
		}
	}
	return managedfields.NewDeducedTypeConverter(), nil
}

// admit decodes and defaults a patched object as the API server does. It returns
// nil if the result equals the object before the patch.
func (r *run) admit(before, after map[string]any) (map[string]any, error) {
	was, is := unstructured.Unstructured{Object: before}, &unstructured.Unstructured{Object: after}
	switch {
	case is.GroupVersionKind() != was.GroupVersionKind():
		return nil, errors.New("a mutation may not change apiVersion and kind")
	case is.GetNamespace() != was.GetNamespace() || is.GetName() != was.GetName():
		return nil, errors.New("a mutation may not change name and namespace")
	}
	admitted, err := r.req.Admit(r.engine.options.Kinds, &render.Object{Unstructured: is})
	if err != nil {
		return nil, policy.ShortError(err)
	}
	if render.Equal(before, admitted) {
		return nil, nil
	}
	return admitted, nil
}
