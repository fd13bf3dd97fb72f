package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/render"
)

// gatekeeper adds Gatekeeper's engines. They are webhooks, asked in the order
// of their configurations' names: Gatekeeper mutates before Kyverno does.
func (b *bench) gatekeeper(in *input, o benchOptions, policies []*render.Object, judged admission.Options) {
	policies = withTemplates(policies, in)
	options := gatekeeper.Options{Cluster: judged.Cluster, Kinds: b.chain.Kinds, Now: o.now, Coverage: o.coverage}
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
// go by that is on the cluster and judges nothing by itself.
func withTemplates(policies []*render.Object, in *input) []*render.Object {
	all := slices.Clone(policies)
	for _, o := range render.Objects(in.context) {
		group := o.GroupVersionKind().Group
		if _, ok := gatekeeperKinds[group]; ok && group != "mutations.gatekeeper.sh" && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}

// gatekeeperKinds are the kinds of Gatekeeper's groups. Those of constraints
// are the templates'.
var gatekeeperKinds = map[string][]string{
	"config.gatekeeper.sh":       {"Config"},
	"expansion.gatekeeper.sh":    {"ExpansionTemplate"},
	"externaldata.gatekeeper.sh": {"Provider"},
	"mutations.gatekeeper.sh":    {"Assign", "AssignImage", "AssignMetadata", "ModifySet"},
	"syncset.gatekeeper.sh":      {"SyncSet"},
	"templates.gatekeeper.sh":    {"ConstraintTemplate"},
}

// misspeltGatekeeper is the error for an object of one of Gatekeeper's groups
// and of no kind that it has, or of such a kind in another group.
func misspeltGatekeeper(o *render.Object) error {
	gvk := o.GroupVersionKind()
	kinds, known := gatekeeperKinds[gvk.Group]
	err := &render.Error{Rule: "unknown-kind", Err: fmt.Errorf("no matches for kind %q in version %q", gvk.Kind, gvk.GroupVersion())}
	pointer := "/kind"
	switch {
	case known && slices.Contains(kinds, gvk.Kind):
		return nil
	case known:
		err.Hint = "there is " + strings.Join(kinds, ", ")
	case strings.HasSuffix(gvk.Group, ".gatekeeper.sh") && !slices.Contains(othersOfGatekeeper, gvk.Group):
		pointer = "/apiVersion"
	case gvk.Kind == "ConstraintTemplate":
		pointer, err.Hint = "/apiVersion", "did you mean templates.gatekeeper.sh/v1?"
	case gvk.Kind == "ExpansionTemplate":
		pointer, err.Hint = "/apiVersion", "did you mean expansion.gatekeeper.sh/v1beta1?"
	default:
		return nil
	}
	if at := o.At(pointer); len(at) > 0 {
		err.Span = at[0].Span
	}
	return err
}

// othersOfGatekeeper are groups of which it makes objects by itself, or for
// each template.
var othersOfGatekeeper = []string{"connection.gatekeeper.sh", "constraints.gatekeeper.sh", "status.gatekeeper.sh"}
