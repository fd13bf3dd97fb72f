package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// Mutating changes requests' objects by MutatingAdmissionPolicies. It is safe
// for concurrent use.
type Mutating struct{ engine *Engine }

var _ policy.Mutator = (*Mutating)(nil)

var mutatingFamily = family{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", newMutatingPolicy, newMutatingBinding, true}

// NewMutating compiles the MutatingAdmissionPolicies among the objects, with
// their bindings. Errors are as for [New]. Policies run in the order of their
// names; the API server's order is undefined.
func NewMutating(objects []*render.Object, options Options) (*Mutating, error) {
	if options.Mergers == nil {
		options.Mergers, _ = options.Kinds.(Mergers)
	}
	e, err := newEngine(&mutatingFamily, objects, options)
	slices.SortStableFunc(e.policies, func(a, b *bound) int { return strings.Compare(a.policy.Name, b.policy.Name) })
	for _, b := range e.policies {
		slices.SortStableFunc(b.bindings, func(x, y *binding) int { return strings.Compare(x.name, y.name) })
	}
	return &Mutating{e}, err
}

// Rules implements policy.Mutator. There is one rule for each mutation.
func (m *Mutating) Rules() []policy.Rule { return m.engine.Rules() }

// SelectsPods implements policy.PodEngine.
func (m *Mutating) SelectsPods(of schema.GroupVersionKind) bool { return m.engine.SelectsPods(of) }

// Mutate implements policy.Mutator. There is a step for each mutation with each
// parameter, or a single one if the whole policy is skipped or fails.
func (m *Mutating) Mutate(ctx context.Context, req *policy.Request) ([]policy.Step, error) {
	if req.Admitted == nil || req.Operation == policy.Delete || len(m.engine.policies) == 0 || exempt(req.Resource.GroupVersionResource) {
		return nil, nil
	}
	x := &mutation{ctx: ctx, engine: m.engine, req: *req}
	x.run()
	return x.steps, ctx.Err()
}

// Reinvoke implements policy.Reinvoker. It applies those policies of the first call that have the
// reinvocationPolicy IfNeeded.
func (m *Mutating) Reinvoke(ctx context.Context, req *policy.Request, first []policy.Result) ([]policy.Step, error) {
	x := &mutation{ctx: ctx, engine: m.engine, req: *req, second: true, first: first}
	if !slices.ContainsFunc(m.engine.policies, x.invoked) {
		return nil, nil
	}
	x.round()
	return x.steps, ctx.Err()
}

// mutates holds the fields that only a MutatingAdmissionPolicy has. Its
// mutations are compiled in place of validations.
type mutates struct {
	mutations []v1.Mutation
	reinvoke  bool // ReinvocationPolicy IfNeeded
}

// Types of the values of mutations.
var (
	objectType = types.NewObjectType("Object")
	patchType  = celgo.ListType(types.NewObjectType("JSONPatch"))
)

// sources gives c the expressions of the mutations, in place of validations.
func (m *mutates) sources(c *compiled) {
	c.mutates = m
	for i, e := range c.validations {
		field, want := "applyConfiguration", objectType
		if m.mutations[i].PatchType == v1.PatchTypeJSONPatch {
			field, want = "jsonPatch", patchType
		}
		e.Rule = fmt.Sprintf("mutations[%d]", i)
		e.Pointer = render.Pointer("spec", "mutations", i, field, "expression")
		e.Want = []*celgo.Type{want}
	}
}

func newMutatingPolicy(k *compiler, o *render.Object) (*compiled, []error) {
	p := &v1.MutatingAdmissionPolicy{}
	errs, ok := decode(o, p, "policy")
	if !ok {
		return nil, errs
	}
	shell := shellOf(p)
	defaultPolicy(shell)
	errs = append(errs, anyOperation(shell, o)...)
	refused := checkMutating(p, shell).errors(o)
	errs = append(errs, refused...)
	if len(refused) > 0 {
		return nil, errs
	}
	c, faults := k.compile(o, shell, &mutates{p.Spec.Mutations, p.Spec.ReinvocationPolicy == v1.IfNeededReinvocationPolicy})
	errs = append(errs, faults...)
	switch {
	case len(faults) > 0:
		return nil, errs // applying only some mutations of a policy would give objects that its author did not intend
	case c != nil:
		errs = append(errs, k.types.check(c)...)
	}
	return c, errs
}

// shellOf returns a ValidatingAdmissionPolicy with the common fields of a
// MutatingAdmissionPolicy, and a validation for each mutation.
func shellOf(p *v1.MutatingAdmissionPolicy) *v1.ValidatingAdmissionPolicy {
	shell := &v1.ValidatingAdmissionPolicy{TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta}
	shell.Spec = v1.ValidatingAdmissionPolicySpec{
		ParamKind: p.Spec.ParamKind, MatchConstraints: p.Spec.MatchConstraints, Variables: p.Spec.Variables,
		FailurePolicy: p.Spec.FailurePolicy, MatchConditions: p.Spec.MatchConditions,
	}
	for _, m := range p.Spec.Mutations {
		shell.Spec.Validations = append(shell.Spec.Validations, v1.Validation{Expression: expressionOf(m)})
	}
	return shell
}

func expressionOf(m v1.Mutation) string {
	switch {
	case m.PatchType == v1.PatchTypeJSONPatch && m.JSONPatch != nil:
		return m.JSONPatch.Expression
	case m.PatchType == v1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
		return m.ApplyConfiguration.Expression
	default:
		return ""
	}
}

// checkMutating performs the API server's validation of a policy, as
// checkPolicy does.
func checkMutating(p *v1.MutatingAdmissionPolicy, shell *v1.ValidatingAdmissionPolicy) *checker {
	c := &checker{}
	c.policy(shell)
	if m := p.Spec.MatchConstraints; m != nil {
		c.mutable("/spec/matchConstraints/resourceRules", "policy", m.ResourceRules)
	}
	switch r := p.Spec.ReinvocationPolicy; r {
	case v1.NeverReinvocationPolicy, v1.IfNeededReinvocationPolicy:
	case "":
		c.add("/spec", "policy", "spec.reinvocationPolicy: required: Never or IfNeeded")
	default:
		c.add("/spec/reinvocationPolicy", "policy", "spec.reinvocationPolicy: unsupported value %q: must be IfNeeded or Never", r)
	}
	if len(p.Spec.Mutations) == 0 {
		c.add("/spec", "policy", "spec.mutations: mutations must contain at least one item")
	}
	for i, m := range p.Spec.Mutations {
		c.mutation(i, m)
	}
	return c
}

func (c *checker) mutation(i int, m v1.Mutation) {
	rule := fmt.Sprintf("mutations[%d]", i)
	pointer := render.Pointer("spec", "mutations", i)
	switch m.PatchType {
	case v1.PatchTypeJSONPatch:
		c.patch(pointer, rule, patchFields{"jsonPatch", "applyConfiguration"}, m.JSONPatch != nil, m.ApplyConfiguration != nil)
	case v1.PatchTypeApplyConfiguration:
		c.patch(pointer, rule, patchFields{"applyConfiguration", "jsonPatch"}, m.ApplyConfiguration != nil, m.JSONPatch != nil)
	case "":
		c.add(pointer, rule, "spec.%s.patchType: required: ApplyConfiguration or JSONPatch", rule)
	default:
		c.add(pointer+"/patchType", rule, "spec.%s.patchType: unsupported value %q: must be ApplyConfiguration or JSONPatch", rule, m.PatchType)
	}
}

// patchFields names the field of a patch type, and the field that it must not
// have.
type patchFields struct{ own, other string }

func (c *checker) patch(pointer, rule string, field patchFields, has, hasOther bool) {
	if !has {
		c.add(pointer, rule, "spec.%s.%s: required by the patchType", rule, field.own)
	}
	if hasOther {
		c.add(pointer+"/"+field.other, rule, "spec.%s.%s: must not be specified: the patchType is that of %s", rule, field.other, field.own)
	}
}

// mutable checks that no rule is for the deletion of objects.
// anyOperation has already reported rules without operations.
func (c *checker) mutable(pointer, rule string, rules []v1.NamedRuleWithOperations) {
	for i, r := range rules {
		for j, op := range r.Operations {
			if op == v1.Delete {
				c.add(pointer+render.Pointer(i, "operations", j), rule, "operations: unsupported value %q: must be *, CONNECT, CREATE or UPDATE", op)
			}
		}
	}
}

func newMutatingBinding(o *render.Object) (*binding, string, []error) {
	b := &v1.MutatingAdmissionPolicyBinding{}
	errs, ok := decode(o, b, "binding")
	if ok {
		c := &checker{}
		if m := b.Spec.MatchResources; m != nil {
			match.Default(m)
			c.mutable("/spec/matchResources/resourceRules", "binding", m.ResourceRules)
		}
		if p := b.Spec.ParamRef; p != nil && p.ParameterNotFoundAction == nil && o.GroupVersionKind().Version == "v1alpha1" {
			deny := v1.DenyAction // only that version defaults it
			p.ParameterNotFoundAction = &deny
		}
		c.binding(b.Name, b.Spec.PolicyName, b.Spec.MatchResources, b.Spec.ParamRef)
		errs = append(errs, c.errors(o)...)
	}
	if len(errs) > 0 {
		return nil, b.Spec.PolicyName, errs
	}
	return &binding{
		object: o, name: b.Name, criteria: match.New(b.Spec.MatchResources), paramRef: b.Spec.ParamRef, action: policy.Deny,
	}, b.Spec.PolicyName, nil
}
