package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// notes say what holds for the whole run and no result says.
func notes(kinds policy.Kinds, head []*render.Object) []string {
	var notes []string
	if names := unknownKinds(kinds, head); len(names) > 0 {
		notes = append(notes, fmt.Sprintf(
			"neither built in nor defined by a CustomResourceDefinition in the tree or --with, so judged as written: %s", few(names)))
	}
	if names := webhooks(head); len(names) > 0 {
		notes = append(notes, "admission webhooks are not called: "+few(names))
	}
	return append(notes, standIns(head)...)
}

// standIns are what templates were given for what only a cluster or the moment
// knows: what they would write otherwise is not judged.
func standIns(head []*render.Object) []string {
	units := make(map[string][]string)
	for _, o := range head {
		for _, a := range o.Assumed {
			if strings.HasPrefix(a, "template uses ") {
				units[a] = append(units[a], o.Unit.Identity())
			}
		}
	}
	var notes []string
	for a, in := range units {
		notes = append(notes, a+": in "+few(unique(in)))
	}
	slices.Sort(notes)
	return notes
}

// unknownKinds are the kinds whose types and scope nothing here tells. Policies
// are read by their engines.
func unknownKinds(kinds policy.Kinds, head []*render.Object) []string {
	var names []string
	for _, o := range head {
		read := isForJudging(o)
		if gvk := o.GroupVersionKind(); !read && strings.Contains(gvk.Group, ".") && !kinds.Resource(gvk).Known {
			names = append(names, gvk.Kind+"."+gvk.Group)
		}
	}
	return unique(names)
}

func webhooks(head []*render.Object) []string {
	var names []string
	for _, o := range head {
		switch o.GroupVersionKind().GroupKind().String() {
		case "ValidatingWebhookConfiguration.admissionregistration.k8s.io", "MutatingWebhookConfiguration.admissionregistration.k8s.io":
			names = append(names, o.GetKind()+" "+plain(o.GetName()))
		}
	}
	return unique(names)
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// few joins the first names of many.
func few(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// brokenPasses say which objects pass only because a function of a template
// failed, which Gatekeeper takes for no violation.
func brokenPasses(results []policy.Result) []string {
	var objects []string
	for i := range results {
		r := &results[i]
		if r.Engine == policy.EngineGatekeeper && r.Outcome == policy.Pass && strings.HasPrefix(r.Message, policy.FunctionsFailed) {
			objects = append(objects, fmt.Sprintf("%s by %s", objectPattern(r.Object), r.Policy))
		}
	}
	if len(objects) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d passed only because a function of the template failed, which Gatekeeper takes for no violation: %s", len(objects), few(unique(objects)))}
}
