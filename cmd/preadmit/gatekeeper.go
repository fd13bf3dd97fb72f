package main

import (
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/render"
)

// gatekeeper adds Gatekeeper's engines. They are webhooks, asked in the order
// of their configurations' names: Gatekeeper mutates before Kyverno does.
func (b *bench) gatekeeper(in *load.Input, o benchOptions, policies []*render.Object, evaluated admission.Options) {
	policies = withTemplates(policies, in)
	options := gatekeeper.Options{Cluster: evaluated.Cluster, Kinds: b.chain.Kinds, Now: o.now, Coverage: o.coverage}
	if o.prints != nil {
		options.Print = func(_ string, at render.Span, text string) { o.prints.add(at.File, at.Line, text) }
	}
	mutators, err := gatekeeper.NewMutating(policies, options)
	b.broken(err)
	constraints, err := gatekeeper.New(policies, options)
	b.broken(err)
	b.chain.Mutators = append(b.chain.Mutators, mutators)
	b.chain.Validators = append(b.chain.Validators, constraints)
}

// withTemplates are the policies, with what constraints and mutators among them
// go by that is on the cluster and checks nothing by itself.
func withTemplates(policies []*render.Object, in *load.Input) []*render.Object {
	all := slices.Clone(policies)
	for _, o := range render.Objects(in.Context) {
		group := o.GroupVersionKind().Group
		if lint.IsGatekeeper(group) && group != "mutations.gatekeeper.sh" && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}
