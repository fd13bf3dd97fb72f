package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// Pruned drops the requests that GitOps controllers do not make: the DELETE of an
// object that they leave on the cluster, and changes of a chart's definitions that an
// upgrade leaves unchanged. before and stays hold the units of the base and of the
// head, by Identity. notes list the dropped requests, with reasons.
func Pruned(reqs []Request, before, stays map[string]bool) (rest []Request, notes []string) {
	left := make(map[string]int)
	rest = make([]Request, 0, len(reqs))
	for _, r := range reqs {
		if r.Operation == Delete {
			if u := r.OldObject.Unit; u != nil && u.State == render.Unreached {
				continue // it was never deployed
			}
			if why := leftBehind(r.OldObject, stays); why != "" {
				left[r.OldObject.Unit.Identity()+" left on the cluster, though no longer deployed: "+why]++
				continue
			}
		} else if why := notUpgraded(r, before); why != "" {
			left[r.Object.Unit.Identity()+" not applied by the upgrade: "+why]++
			continue
		}
		rest = append(rest, r)
	}
	for _, text := range slices.Sorted(maps.Keys(left)) {
		objects := " objects of "
		if left[text] == 1 {
			objects = " object of "
		}
		notes = append(notes, strconv.Itoa(left[text])+objects+text)
	}
	return rest, notes
}

// notUpgraded returns why Flux does not apply a definition of a chart's crds
// directory when it upgrades a release, or "" if it does.
func notUpgraded(r Request, before map[string]bool) string {
	u := r.Object.Unit
	if u == nil || u.Owner == nil || u.Owner.GetKind() != "HelmRelease" || !before[u.Identity()] || !ofCRDs(r.Object) ||
		r.OldObject != nil && reflect.DeepEqual(r.Object.Object, r.OldObject.Object) {
		return ""
	}
	switch crds, _ := render.Lookup(u.Owner.Object, "/spec/upgrade/crds"); {
	case crds == "CreateReplace", crds == "Create" && r.Operation == Create:
		return ""
	case crds == "Create":
		return "spec.upgrade.crds: Create of its HelmRelease creates definitions and does not change them"
	}
	return "its HelmRelease does not set spec.upgrade.crds: CreateReplace"
}

// ofCRDs reports whether an object is a definition in the crds directory of a
// chart.
func ofCRDs(o *render.Object) bool {
	if o.GetKind() != "CustomResourceDefinition" {
		return false
	}
	at := o.At("/kind")
	return len(at) > 0 && strings.Contains("/"+at[0].File, "/crds/") && !strings.Contains("/"+at[0].File, "/templates/")
}

// leftBehind returns why an object that is no longer deployed is not deleted,
// or "" if it is. stays are the units that still exist.
func leftBehind(o *render.Object, stays map[string]bool) string {
	if o.Unit == nil || o.Unit.Owner == nil {
		return ""
	}
	owner := o.Unit.Owner
	kept := stays[o.Unit.Identity()]
	if !kept {
		if why := leftBehind(owner, stays); why != "" {
			return fmt.Sprintf("its %s %s is left as well: %s", owner.GetKind(), owner.GetName(), why)
		}
	}
	switch owner.GetKind() {
	case "Kustomization":
		return leftByFlux(o, owner, kept)
	case "HelmRelease":
		switch {
		case o.GetAnnotations()["helm.sh/resource-policy"] == "keep":
			return "helm.sh/resource-policy: keep"
		case ofCRDs(o):
			return "Helm never deletes the definitions of a chart's crds directory"
		}
	case "Application":
		return leftByArgoCD(o, owner, kept)
	case "ApplicationSet":
		if !kept { // its Applications are deleted too, unless it has a finalizer of its own
			return ""
		}
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
	deletion, _ := render.Lookup(owner.Object, "/spec/deletionPolicy")
	switch {
	case !kept && deletion == "Orphan":
		return "spec.deletionPolicy: Orphan of its Kustomization"
	case !kept && (deletion == "Delete" || deletion == "WaitForTermination"):
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
	for _, option := range []string{option, strings.Replace(option, "=false", "=confirm", 1)} {
		if slices.Contains(syncOptions(o), option) {
			return "its sync option " + option
		}
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
