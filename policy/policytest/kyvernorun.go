package policytest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// verdicts holds the outcomes of a test's policies for one object.
type verdicts struct {
	t       *kyvernoTest
	subject *render.Object
	json    bool   // the subject is of a jsonPayload
	given   string // operation of the expected result, or ""

	object *render.Object // as mutations left it
	ones   []*verdict
}

// A verdict is the outcome of one policy in one phase.
type verdict struct {
	policy *kyvernoPolicy
	phase  Phase
	KyvernoVerdict
	given   *render.Object // that it evaluated
	patched map[string]any // the object as the policy left it
	err     error
}

// A stage is a phase for some kinds of policies.
type stage struct {
	phase Phase
	kinds []string
	first bool // they see the object as it was given
}

// stages lists the steps in which Kyverno's command line processes an object:
// its own mutations and validations precede those of policies in CEL.
var stages = []stage{
	{Mutating, []string{"ClusterPolicy", "Policy"}, false},
	{Validating, []string{"ClusterPolicy", "Policy"}, false},
	{Mutating, []string{"MutatingAdmissionPolicy"}, false},
	{Mutating, []string{"MutatingPolicy"}, false},
	{Validating, []string{"ValidatingAdmissionPolicy", "ValidatingPolicy"}, false},
	{Generating, []string{"GeneratingPolicy"}, false},
	{Generating, []string{"ClusterPolicy", "Policy"}, false},
	{Validating, []string{"ImageValidatingPolicy"}, true},
	{Deleting, []string{"DeletingPolicy", "ClusterCleanupPolicy", "CleanupPolicy"}, true},
}

func (s stage) has(kind string) bool {
	return slices.ContainsFunc(s.kinds, func(k string) bool { return k == kind || "Namespaced"+k == kind })
}

// evaluate returns the policies' outcomes for an object and operation. It
// evaluates them once.
func (k *kyvernoTest) evaluate(o *render.Object, op string, json bool) *verdicts {
	key := op + "\x00" + fmt.Sprintf("%p", o)
	v := k.verdicts[key]
	if v == nil {
		v = &verdicts{t: k, subject: o, object: o, json: json, given: op}
		for _, s := range stages {
			v.run(s)
		}
		k.verdicts[key] = v
	}
	return v
}

func (v *verdicts) run(s stage) {
	for _, p := range v.t.policies {
		if p.engine == nil || !s.has(p.kind) {
			continue
		}
		one := &verdict{policy: p, phase: s.phase, given: v.seen(p, s)}
		one.KyvernoVerdict, one.err = p.engine.Evaluate(v.t.ctx, s.phase, v.request(p, one.given))
		if one.Object != nil {
			v.object = &render.Object{Unstructured: &unstructured.Unstructured{Object: one.Object}, Provenance: v.subject.Provenance, Unit: v.subject.Unit}
		}
		one.patched = v.object.Object
		v.ones = append(v.ones, one)
	}
	if s.phase == Mutating && s.has("MutatingPolicy") {
		v.shareObject()
	}
}

// shareObject sets the object after the last MutatingPolicy as the result of
// all MutatingPolicies, because Kyverno compares that one.
func (v *verdicts) shareObject() {
	for _, one := range v.ones {
		if strings.HasSuffix(one.policy.kind, "MutatingPolicy") {
			one.patched = v.object.Object
		}
	}
}

// seen returns the object on which a policy is evaluated. A policy that has
// changed the object continues with its own result.
func (v *verdicts) seen(p *kyvernoPolicy, s stage) *render.Object {
	if s.first {
		return v.subject
	}
	for _, one := range v.of(p) {
		if one.Object != nil {
			return one.given
		}
	}
	return v.object
}

func (v *verdicts) request(p *kyvernoPolicy, o *render.Object) *KyvernoRequest {
	policyName := p.object.GetName()
	req := &KyvernoRequest{JSON: v.json, Variables: v.t.variables(policyName, v.subject.GetName()), Sources: v.t.sources[p]}
	req.Rules, req.Foreach = v.t.rules(policyName)
	op := operation(v.given, req.Variables)
	if v.given != "" {
		req.Variables = withKey(req.Variables, "request.operation", v.given)
	}
	req.Request = v.t.requestOf(o, op)
	return req
}

// of returns the verdicts of a policy.
func (v *verdicts) of(p *kyvernoPolicy) []*verdict {
	return slices.DeleteFunc(slices.Clone(v.ones), func(one *verdict) bool { return one.policy != p })
}

// tested returns the kind and name of the object of a case.
func tested(o *render.Object, file string) (kind, called string) {
	if o.GetKind() == "" {
		return "", cmp.Or(file, o.GetName())
	}
	return o.GetKind(), cmp.Or(name(o), o.GetGenerateName()+"*")
}
