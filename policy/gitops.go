package policy

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// deployers are the kinds that make a controller deploy something else, which
// nothing here follows yet.
var deployers = map[schema.GroupKind]string{
	{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}: "the release that this HelmRelease makes is not checked: Flux objects are not followed with --gitops off",
	{Group: "argoproj.io", Kind: "Application"}:            "what this Application deploys is not checked with its parameters: Argo CD objects are not followed with --gitops off",
	{Group: "argoproj.io", Kind: "ApplicationSet"}:         "the Applications that this ApplicationSet makes are not checked: Argo CD objects are not followed with --gitops off",
}

// NotFollowed returns an Unknown result for each GitOps object whose deployment is
// not rendered, so that the run does not pass by omission.
func NotFollowed(head []*render.Object, followed bool) []Result {
	var results []Result
	if followed {
		return nil
	}
	for _, o := range head {
		why := deployers[o.GroupVersionKind().GroupKind()]
		if changes := fluxChanges(o); changes != "" {
			why = fmt.Sprintf("spec.%s of this Kustomization is not applied to what it deploys: Flux objects are not followed with --gitops off", changes)
		}
		if why == "" {
			continue
		}
		results = append(results, Result{
			Engine: EngineRender, Policy: "gitops", Rule: "not-followed", Operation: Create, Object: o.Key(),
			Outcome: Unknown, Action: Warn, Message: why, Origins: o.At(""),
		}.Fingerprinted())
	}
	return results
}

// OnlyInVariants returns results about objects that only some installations of a chart
// have: what they would deploy is not rendered, and policies among them check nothing
// here.
func OnlyInVariants(units []*render.Unit, isPolicy func(*render.Object) bool) []Result {
	var results []Result
	for _, u := range units {
		for _, o := range u.Variants {
			gk := o.GroupVersionKind().GroupKind()
			r := Result{
				Engine: EngineRender, Policy: "gitops", Rule: "only-in-variant", Operation: Create, Object: o.Key(),
				Origins: o.At(""),
			}
			switch {
			case slices.ContainsFunc(u.Objects, func(x *render.Object) bool { return x.Unversioned() == o.Unversioned() }):
				continue // that one is followed, or checks
			case deploying[gk], render.Holds(gk):
				r.Outcome, r.Action = Unknown, Deny
				r.Message = fmt.Sprintf("what this %s deploys is not checked: it is there %s", gk.Kind, o.Variant)
			case isPolicy(o):
				r.Outcome, r.Action = Fail, Warn
				r.Message = fmt.Sprintf("nothing is checked by this %s: it is there %s", gk.Kind, o.Variant)
			default:
				continue
			}
			results = append(results, r.Fingerprinted())
		}
	}
	return results
}

// deploying are the kinds of objects that deploy others.
var deploying = map[schema.GroupKind]bool{
	{Group: "argoproj.io", Kind: "Application"}: true, {Group: "argoproj.io", Kind: "ApplicationSet"}: true,
	{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}: true, {Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}: true,
	{Group: "fluxcd.controlplane.io", Kind: "ResourceSet"}: true,
}

// fluxChanges names what a Flux Kustomization changes in what it deploys.
func fluxChanges(o *render.Object) string {
	if o.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}) {
		return ""
	}
	for _, field := range []string{"patches", "postBuild", "components", "images", "commonMetadata", "targetNamespace"} {
		if _, ok := render.Lookup(o.Object, "/spec/"+field); ok {
			return field
		}
	}
	return ""
}
