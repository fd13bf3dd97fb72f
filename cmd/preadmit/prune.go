package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// pruned leaves out the DELETE requests for objects that their controller
// leaves on the cluster, and says so.
func pruned(reqs []policy.Request, head *input) (rest []policy.Request, notes []string) {
	stays := make(map[string]bool)
	for _, u := range head.head {
		stays[u.Identity()] = true
	}
	left := make(map[string]int)
	for _, r := range reqs {
		if r.Operation == policy.Delete {
			if why := leftBehind(r.OldObject, stays); why != "" {
				left[r.OldObject.Unit.Identity()+" left on the cluster, though no longer deployed: "+why]++
				continue
			}
		}
		rest = append(rest, r)
	}
	for _, text := range slices.Sorted(maps.Keys(left)) {
		notes = append(notes, plural(left[text], "object")+" of "+text)
	}
	return rest, notes
}

// leftBehind says why an object that is no longer deployed is not deleted, or
// "" where it is. stays are the units that are still there.
func leftBehind(o *render.Object, stays map[string]bool) string {
	if o.Unit == nil || o.Unit.Owner == nil {
		return ""
	}
	owner := o.Unit.Owner
	kept := stays[o.Unit.Identity()]
	switch owner.GetKind() {
	case "Kustomization":
		return leftByFlux(o, owner, kept)
	case "HelmRelease":
		if o.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
			return "helm.sh/resource-policy: keep"
		}
	case "Application":
		return leftByArgoCD(o, owner, kept)
	case "ApplicationSet":
		if preserve, _ := render.Lookup(owner.Object, "/spec/syncPolicy/applicationsSync"); preserve == "create-only" || preserve == "create-update" {
			return fmt.Sprintf("spec.syncPolicy.applicationsSync: %s of its ApplicationSet", preserve)
		}
	}
	return ""
}

func leftByFlux(o, owner *render.Object, kept bool) string {
	const disabled = "kustomize.toolkit.fluxcd.io/prune"
	if o.GetAnnotations()[disabled] == "disabled" || o.GetLabels()[disabled] == "disabled" {
		return disabled + ": disabled"
	}
	prune, _ := render.Lookup(owner.Object, "/spec/prune")
	policy, _ := render.Lookup(owner.Object, "/spec/deletionPolicy")
	switch {
	case !kept && policy == "Orphan":
		return "spec.deletionPolicy: Orphan of its Kustomization"
	case !kept && (policy == "Delete" || policy == "WaitForTermination"):
	case prune != true:
		return "its Kustomization does not set spec.prune"
	}
	return ""
}

func leftByArgoCD(o, owner *render.Object, kept bool) string {
	option := "Delete=false"
	if kept {
		option = "Prune=false"
	}
	if slices.Contains(syncOptions(o), option) {
		return "its sync option " + option
	}
	if !kept {
		if !slices.ContainsFunc(owner.GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, "resources-finalizer.argocd.argoproj.io") }) {
			return "its Application has no finalizer that deletes what it deployed"
		}
		return ""
	}
	_, automated := render.Lookup(owner.Object, "/spec/syncPolicy/automated")
	if prune, _ := render.Lookup(owner.Object, "/spec/syncPolicy/automated/prune"); automated && prune != true {
		return "its Application does not set spec.syncPolicy.automated.prune"
	}
	return ""
}

func syncOptions(o *render.Object) []string {
	var all []string
	for option := range strings.SplitSeq(o.GetAnnotations()["argocd.argoproj.io/sync-options"], ",") {
		all = append(all, strings.TrimSpace(option))
	}
	return all
}
