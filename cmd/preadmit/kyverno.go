package main

import (
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/kyverno"
	"github.com/preadmit/preadmit/policy/kyvernocel"
	"github.com/preadmit/preadmit/render"
)

// kyverno adds Kyverno's engines. They are webhooks: on the cluster they
// mutate after MutatingAdmissionPolicies and judge after
// ValidatingAdmissionPolicies.
func (b *bench) kyverno(in *input, o *checkOptions, policies []*render.Object, cluster *policy.Cluster) error {
	all := withExceptions(policies, in)
	rules, err := kyverno.New(all, kyverno.Options{Cluster: cluster, Kinds: b.chain.Kinds, KubeVersion: o.kubeVersion})
	if rules == nil {
		return err
	}
	b.broken(err)
	expressions, err := kyvernocel.New(all, kyvernocel.Options{Cluster: cluster, Kinds: b.chain.Kinds})
	b.broken(err)
	b.chain.Mutators = append(b.chain.Mutators, rules.Mutator(), expressions.Mutator())
	b.chain.Validators = append(b.chain.Validators, rules.Validator(), expressions.Validator())
	return nil
}

// withExceptions are the policies, with the PolicyExceptions that are on the
// cluster, wherever they come from: they judge nothing by themselves.
func withExceptions(policies []*render.Object, in *input) []*render.Object {
	all := slices.Clone(policies)
	for _, units := range [][]*render.Unit{in.head, in.context} {
		for _, o := range objects(units) {
			if o.GetKind() == "PolicyException" && !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	return all
}
