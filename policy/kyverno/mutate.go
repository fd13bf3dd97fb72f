package kyverno

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	diff "github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/policy/kyverno/internal/overlay"
	"github.com/preadmit/preadmit/render"
)

// A mutation is a rule's mutate with its templates parsed.
type mutation struct {
	rule    *template // the whole rule, because Kyverno substitutes variables in all of it
	loops   []*patchLoop
	targets []*patchTarget
}

// A patchLoop is an entry of mutate.foreach.
type patchLoop struct {
	pointer       string // in the policy as it is written
	list          *list
	reverse       bool
	entries       []*entry
	preconditions *block
	merge         *template // nil without patchStrategicMerge
	json          *template // nil without patchesJson6902
	loops         []*patchLoop
}

// A patchTarget is an entry of mutate.targets.
type patchTarget struct {
	*document.MutateTarget
	where         *template // template of apiVersion, kind, namespace and name
	entries       []*entry
	preconditions *block
}

func newMutation(rule *Rule) *mutation {
	m := &mutation{loops: newPatchLoops(rule.Mutate.Foreach)}
	if len(m.loops) == 0 {
		m.rule = newTemplate(rule.Source)
	}
	for _, t := range rule.Mutate.Targets {
		where := map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "namespace": t.Namespace, "name": t.Name}
		m.targets = append(m.targets, &patchTarget{t, newTemplate(where), newEntries(t.Context), newBlock(t.Preconditions)})
	}
	return m
}

func newPatchLoops(entries []*document.ForeachMutate) []*patchLoop {
	var loops []*patchLoop
	for _, f := range entries {
		l := &patchLoop{
			pointer: f.Pointer,
			list:    newList(f.List), entries: newEntries(f.Context), preconditions: newBlock(f.Preconditions), loops: newPatchLoops(f.Foreach),
			reverse: f.HasStrategicMerge && f.Order == "" || f.Order == "Descending",
		}
		if f.HasStrategicMerge {
			l.merge = newTemplate(f.StrategicMerge, "patchStrategicMerge")
		}
		if f.JSON6902 != "" {
			l.json = newTemplate(f.JSON6902, "patchesJson6902")
		}
		loops = append(loops, l)
	}
	return loops
}

// mutates is the phase of mutate rules. Each rule changes the review's object
// for the rules after it. Rules with targets change other objects.
var mutates = phase{
	concerns: func(r *Rule) bool { return r.Mutate != nil },
	run: func(x *run) []Response {
		if len(x.program.mutation.targets) > 0 {
			return x.mutateTargets()
		}
		if x.review.object == nil {
			return nil
		}
		s := x.review.scopeOf(x.program.rule, x.program.entries)
		if v, _ := x.admits(s); v != nil {
			return []Response{x.response(v)}
		}
		return []Response{x.mutateObject(s)}
	},
}

// patches and targets are the phases of mutate rules that change the request's object, and of those that change others.
// Kyverno's validating webhooks are called for the latter.
var (
	patches      = phase{concerns: func(r *Rule) bool { return r.Mutate != nil && len(r.Mutate.Targets) == 0 }, run: mutates.run}
	targets      = phase{concerns: func(r *Rule) bool { return r.Mutate != nil && len(r.Mutate.Targets) > 0 }, run: mutates.run}
	mutateStages = []stage{{mutating, []*phase{&patches}}, {validating, []*phase{&targets}}}
)

func (r *run) mutateObject(s *scope) Response {
	result, v := r.patch(s, r.review.object)
	if v == nil {
		if object, err := r.readmit(result); err != nil {
			v = broken("the patched object would not be admitted", err)
		} else if len(r.review.questions) == 0 {
			resp := r.response(patched(r.review.object, result))
			resp.Patched = object
			r.review.replace(object)
			return resp
		}
	}
	if v == nil {
		v = &verdict{}
	}
	return r.response(v)
}

// readmit returns a patched object after the API server's decoding and
// defaulting. With Options.CLI it returns the object unchanged.
func (r *run) readmit(object map[string]any) (map[string]any, error) {
	rev := r.review
	if rev.engine.options.CLI || rev.engine.options.Kinds == nil {
		return object, nil
	}
	o := &render.Object{Unstructured: &unstructured.Unstructured{Object: object}, Unit: rev.unit()}
	return rev.req.Admit(rev.engine.options.Kinds, o)
}

// patched returns the verdict of a patch that changed something.
func patched(before, after map[string]any) *verdict {
	o := unstructured.Unstructured{Object: after}
	message := fmt.Sprintf("mutated %s/%s", o.GetKind(), o.GetName())
	if ns := o.GetNamespace(); ns != "" {
		message += " in namespace " + ns
	}
	pointers := diff.Differences(before, after)
	if len(pointers) > maxFields {
		pointers = pointers[:maxFields]
	}
	return &verdict{status: StatusPass, message: message, fields: pointers}
}

// patch applies the rule's patches to an object. If it returns a verdict, the
// object is not patched.
func (r *run) patch(s *scope, object map[string]any) (map[string]any, *verdict) {
	m := r.program.mutation
	if len(m.loops) > 0 {
		return r.patchLoops(m.loops, s, object)
	}
	v, err := m.rule.fill(s)
	if err != nil {
		return nil, broken("variable substitution failed", err)
	}
	rule, _ := v.(map[string]any)
	merge, has := lookup(rule, "mutate", "patchStrategicMerge")
	text, _ := lookup(rule, "mutate", "patchesJson6902")
	json, _ := text.(string)
	return applied(object, merge, has && merge != nil, json)
}

// applied returns an object with a patch applied. The verdict of a patch that
// changes nothing is a skip.
func applied(object map[string]any, merge any, merges bool, json string) (map[string]any, *verdict) {
	var result overlay.Result
	var err error
	switch {
	case merges:
		result, err = overlay.StrategicMerge(object, integers(merge))
	case json != "":
		result, err = overlay.JSON6902(object, json)
	default:
		return nil, &verdict{status: StatusError, message: "empty mutate rule"}
	}
	if err != nil {
		return nil, broken("failed to patch resource", err)
	}
	// A merge that only reorders the elements of a list names no field.
	if !result.Applied || len(result.Pointers) == 0 && render.Equal(result.Object, object) {
		return nil, &verdict{status: StatusSkip, message: "no patches applied"}
	}
	return result.Object, nil
}

// patchLoops runs the entries of a foreach. The list of each entry is evaluated
// on the object as it was before the entry.
func (r *run) patchLoops(loops []*patchLoop, s *scope, object map[string]any) (map[string]any, *verdict) {
	count := 0
	r.nesting++
	defer func() { r.nesting-- }()
	for _, l := range loops {
		elements, expr, err := l.list.elements(s)
		traced := s.review.trace.list(l.pointer, s, expr, elements, err)
		if err != nil {
			return nil, broken("failed to evaluate list "+r.listText(l), err)
		}
		next, v := r.patchElements(l, elements, s, object, traced)
		if v != nil {
			return nil, broken("failed to mutate elements", errors.New(v.message))
		}
		if !render.Equal(next, object) {
			count++
			object = next
			s = s.on(s.review.with(s.review.operation, object, s.review.old))
		}
	}
	if count == 0 {
		return nil, &verdict{status: StatusSkip, message: "0 elements processed"}
	}
	return object, nil
}

func (r *run) listText(l *patchLoop) string {
	if l.list.expr != nil {
		return l.list.expr.String()
	}
	return "of a foreach"
}

// patchElements patches the object for each element in turn. Each patch applies
// to the result of the one before.
func (r *run) patchElements(l *patchLoop, elements []any, s *scope, object map[string]any, traced *tracedList) (map[string]any, *verdict) {
	for n := range elements {
		i := n
		if l.reverse {
			i = len(elements) - 1 - n
		}
		if elements[i] == nil {
			continue
		}
		if r.elements++; r.elements > maxElements {
			return nil, &verdict{status: StatusError, message: fmt.Sprintf("foreach has more than %d elements", maxElements)}
		}
		inner := s.inner(elementNames(r.nesting-1, i, elements[i], nil), l.entries)
		traced.begin(i, elements[i])
		held, _, err := l.preconditions.holds(inner)
		if err != nil {
			return nil, broken(fmt.Sprintf("failed to evaluate mutate.foreach[%d].preconditions", i), err)
		}
		if !held {
			traced.end(nil)
			continue
		}
		next, v := r.patchElement(l, inner, object)
		traced.patched(object, next, v)
		switch {
		case v == nil:
			object = next
		case v.status != StatusSkip:
			return nil, v
		}
	}
	return object, nil
}

func (r *run) patchElement(l *patchLoop, s *scope, object map[string]any) (map[string]any, *verdict) {
	if len(l.loops) > 0 {
		return r.patchLoops(l.loops, s, object)
	}
	var merge any
	json := ""
	t := l.merge
	if t == nil {
		t = l.json
	}
	if t == nil {
		return nil, &verdict{status: StatusError, message: "empty mutate rule"}
	}
	v, err := t.fill(s)
	if err != nil {
		return nil, broken("variable substitution failed", err)
	}
	if l.merge != nil {
		merge = v
	} else if json, err = textOf(v); err != nil {
		return nil, broken("variable substitution failed", err)
	}
	return applied(object, merge, l.merge != nil, json)
}

// mutateTargets patches the objects that the rule's targets name. The object of
// the request does not change.
func (r *run) mutateTargets() []Response {
	s := r.review.scopeOf(r.program.rule, r.program.entries)
	if v, _ := r.admits(s); v != nil {
		return []Response{r.response(v)}
	}
	var all []Response
	for _, t := range r.program.mutation.targets {
		objects, err := r.targetsOf(t, s)
		if err != nil {
			all = append(all, r.response(broken("variable substitution failed", err)))
			continue
		}
		for _, o := range objects {
			all = append(all, r.mutateTarget(t, s, o))
		}
	}
	return all
}

// targetsOf returns the objects that a target names.
func (r *run) targetsOf(t *patchTarget, s *scope) ([]*render.Object, error) {
	v, err := t.where.fill(s)
	if err != nil {
		return nil, err
	}
	where, _ := v.(map[string]any)
	part := func(key string) string { text, _ := textOf(where[key]); return text }
	gv := policy.ParseGroupVersion(part("apiVersion"))
	candidates := r.review.mocks.Targets
	if !r.review.engine.options.CLI {
		candidates = r.review.engine.options.Cluster.List(gv.WithKind(part("kind")).GroupKind())
	}
	var found []*render.Object
	for _, o := range candidates {
		gvk := o.GroupVersionKind()
		if !pattern.Wildcard(part("kind"), gvk.Kind) || gv.Group != gvk.Group || gv.Version != gvk.Version {
			continue
		}
		if n := part("name"); n != "" && !pattern.Wildcard(n, o.GetName()) {
			continue
		}
		if n := part("namespace"); n != "" && !pattern.Wildcard(n, o.GetNamespace()) {
			continue
		}
		if t.Selector == nil || t.Selector.Matches(o.GetLabels()) {
			found = append(found, o)
		}
	}
	return found, nil
}

func (r *run) mutateTarget(t *patchTarget, s *scope, o *render.Object) Response {
	r.review.saw(o.Object)
	outer := *s
	outer.target, _ = floats(o.Object).(map[string]any)
	inner := outer.inner(nil, t.entries)
	held, decided, err := t.preconditions.holds(inner)
	switch {
	case err != nil:
		return r.response(broken("failed to evaluate preconditions", err))
	case !held:
		return r.response(r.unmet(t.preconditions, decided, inner))
	}
	result, v := r.patch(inner, o.Object)
	if v != nil {
		resp := r.response(v)
		resp.Target = o.Object
		return resp
	}
	v = patched(o.Object, result)
	v.fields = nil // they are fields of the target, not of the request's object
	resp := r.response(v)
	resp.Patched, resp.Target = result, o.Object
	return resp
}

// Mutator returns the mutator that applies the mutate rules to requests'
// objects, as Kyverno's mutating webhook does. Each rule sees the object as the
// rule before left it. A rule with targets changes nothing in the request.
func (e *Engine) Mutator() policy.Mutator { return &mutator{e} }

type mutator struct{ engine *Engine }

// Rules implements policy.Mutator.
func (m *mutator) Rules() []policy.Rule {
	return m.engine.rules(func(r *Rule) bool { return r.Mutate != nil })
}

// SelectsMade implements policy.MadeEngine.
func (m *mutator) SelectsMade(made, maker schema.GroupVersionKind) bool {
	return m.engine.selectsMade(&mutates, made, maker.Kind)
}

// Mutate implements policy.Mutator.
func (m *mutator) Mutate(ctx context.Context, req *policy.Request) ([]policy.Step, error) {
	if len(m.engine.policies) == 0 || req.Admitted == nil {
		return nil, nil
	}
	if _, ignored := m.engine.filters.Ignores(req); ignored {
		return nil, ctx.Err()
	}
	var steps []policy.Step
	_, err := m.engine.review(ctx, req, nil, mutateStages, func(r *review, resp *Response) {
		s := policy.Step{Result: r.result(resp)}
		s.Result.Action = mutationAction(resp)
		if resp.Target == nil {
			s.Admitted, s.Secret = resp.Patched, len(r.secrets) > 0
		}
		if r.converted && s.Admitted != nil {
			var err error
			if s.Admitted, err = m.engine.options.Kinds.Convert(s.Admitted, req.Kind); err != nil {
				s.Result.Outcome, s.Result.Message = policy.Error, err.Error()
			}
		}
		steps = append(steps, s)
	})
	return steps, err
}

// mutationAction returns the action when a mutate rule breaks: the webhook
// denies the request, unless the policy ignores failures.
func mutationAction(resp *Response) policy.Action {
	if resp.Policy.FailurePolicy == "Ignore" {
		return policy.Warn
	}
	return policy.Deny
}
