package engines

import (
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/kyverno"
	"github.com/preadmit/preadmit/policy/kyvernocel"
	"github.com/preadmit/preadmit/render"
)

// kyverno adds Kyverno's engines. They are webhooks: on the cluster they
// mutate after MutatingAdmissionPolicies and validate after
// ValidatingAdmissionPolicies, with the same cluster and authorizer.
func (b *Set) kyverno(in *load.Input, s *Settings, policies []*render.Object, evaluated admission.Options) error {
	all, cluster := withExceptions(policies, in), evaluated.Cluster
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

// withExceptions are the policies, with the PolicyExceptions that are on the
// cluster, wherever they come from: they check nothing by themselves.
func withExceptions(policies []*render.Object, in *load.Input) []*render.Object {
	all := slices.Clone(policies)
	for _, units := range [][]*render.Unit{in.Head, in.Context} {
		for _, o := range render.Objects(units) {
			if o.GetKind() == "PolicyException" && !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	return all
}
