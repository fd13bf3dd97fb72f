package engines

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
func (b *Set) gatekeeper(in *load.Input, o Options, policies []*render.Object, evaluated admission.Options) {
	policies = withTemplates(policies, in)
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
