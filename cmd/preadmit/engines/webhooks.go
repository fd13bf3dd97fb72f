package engines

import (
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/policy/kyverno"
	"github.com/preadmit/preadmit/policy/kyvernocel"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/render"
)

// kyverno adds Kyverno's engines. Kyverno is a webhook: on the cluster it mutates after
// MutatingAdmissionPolicies and validates after ValidatingAdmissionPolicies. The engines get the
// same cluster and authorizer as those.
func (b *Set) kyverno(in *load.Input, s *Settings, policies []*render.Object, evaluated admission.Options) error {
	cluster := evaluated.Cluster
	all := withParts(policies, slices.Concat(in.Head, in.Context), func(o *render.Object) bool { return o.GetKind() == "PolicyException" || lint.IsKyvernoConfig(o) })
	rules, err := kyverno.New(all, kyverno.Options{
		Cluster: cluster, Kinds: b.Chain.Kinds, KubeVersion: s.KubeVersion, Now: s.now,
		Authorizer: evaluated.Authorizer, AuthorizerAssumed: evaluated.AuthorizerAssumed, Coverage: evaluated.Coverage,
	})
	if rules == nil {
		return err
	}
	b.broken(err)
	expressions, err := kyvernocel.New(all, kyvernocel.Options{Cluster: cluster, Kinds: b.Chain.Kinds, Now: s.now(), Coverage: evaluated.Coverage})
	b.broken(err)
	b.Chain.Mutators = append(b.Chain.Mutators, rules.Mutator(), expressions.Mutator())
	b.Chain.Validators = append(b.Chain.Validators, rules.Validator(), expressions.Validator())
	return nil
}

// gatekeeper adds Gatekeeper's engines. The API server calls webhooks in the order of their
// configurations' names, so Gatekeeper mutates before Kyverno.
func (b *Set) gatekeeper(in *load.Input, o Options, policies []*render.Object, evaluated admission.Options) {
	policies = withParts(policies, in.Context, func(o *render.Object) bool {
		group := o.GroupVersionKind().Group
		return lint.IsGatekeeper(group) && group != "mutations.gatekeeper.sh"
	})
	options := gatekeeper.Options{Cluster: evaluated.Cluster, Kinds: b.Chain.Kinds, Now: o.now, Coverage: o.Coverage}
	if o.Prints != nil {
		options.Print = func(_ string, at render.Span, text string) { o.Prints.add(at.File, at.Line, text) }
	}
	mutators, err := gatekeeper.NewMutating(policies, options)
	b.broken(err)
	constraints, err := gatekeeper.New(policies, options)
	b.broken(err)
	b.Chain.Mutators = append(b.Chain.Mutators, mutators)
	b.Chain.Validators = append(b.Chain.Validators, constraints)
}

// withParts returns the policies and the objects on the cluster that belong to policies without
// checking anything themselves, such as exceptions and templates.
func withParts(policies []*render.Object, units []*render.Unit, isPart func(*render.Object) bool) []*render.Object {
	all := slices.Clone(policies)
	for _, o := range render.Objects(units) {
		if isPart(o) && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}
