package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverv1 "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"

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

// SelectsMade implements policy.MadeEngine.
func (m *Mutating) SelectsMade(made, maker schema.GroupVersionKind) bool {
	return m.engine.SelectsMade(made, maker)
}

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
	p.Spec.FailurePolicy = shell.Spec.FailurePolicy
	refused := refuseMutating(o, p)
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

// refuseMutating is refusePolicy for a MutatingAdmissionPolicy.
func refuseMutating(o *render.Object, p *v1.MutatingAdmissionPolicy) []error {
	p = p.DeepCopy()
	p.ObjectMeta = metav1.ObjectMeta{Name: p.Name}
	withoutExpressions(p.Spec.Variables, p.Spec.MatchConditions)
	for i := range p.Spec.Mutations {
		m := &p.Spec.Mutations[i]
		if m.ApplyConfiguration != nil {
			m.ApplyConfiguration.Expression = "Object{}"
		}
		if m.JSONPatch != nil {
			m.JSONPatch.Expression = "[JSONPatch{}]"
		}
	}
	return refusals(o, "policy", p, serverv1.Convert_v1_MutatingAdmissionPolicy_To_admissionregistration_MutatingAdmissionPolicy, validation.ValidateMutatingAdmissionPolicy)
}

func newMutatingBinding(o *render.Object) (*binding, string, []error) {
	b := &v1.MutatingAdmissionPolicyBinding{}
	errs, ok := decode(o, b, "binding")
	if ok {
		if m := b.Spec.MatchResources; m != nil {
			match.Default(m)
		}
		if p := b.Spec.ParamRef; p != nil && p.ParameterNotFoundAction == nil && o.GroupVersionKind().Version == "v1alpha1" {
			deny := v1.DenyAction // only that version defaults it
			p.ParameterNotFoundAction = &deny
		}
		errs = append(errs, refuseMutatingBinding(o, b)...)
	}
	if len(errs) > 0 {
		return nil, b.Spec.PolicyName, errs
	}
	return &binding{
		object: o, name: b.Name, criteria: match.New(b.Spec.MatchResources), paramRef: b.Spec.ParamRef, action: policy.Deny,
	}, b.Spec.PolicyName, nil
}

// refuseMutatingBinding is refusePolicy for a MutatingAdmissionPolicyBinding.
func refuseMutatingBinding(o *render.Object, b *v1.MutatingAdmissionPolicyBinding) []error {
	b = &v1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: b.Name}, Spec: b.Spec}
	return refusals(o, "binding", b, serverv1.Convert_v1_MutatingAdmissionPolicyBinding_To_admissionregistration_MutatingAdmissionPolicyBinding, validation.ValidateMutatingAdmissionPolicyBinding)
}
