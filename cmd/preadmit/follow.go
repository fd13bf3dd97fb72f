package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// deployers are the kinds that make a controller deploy something else, which
// nothing here follows yet.
var deployers = map[schema.GroupKind]string{
	{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}: "the release that this HelmRelease makes is not checked: Flux objects are not followed with --gitops off",
	{Group: "argoproj.io", Kind: "Application"}:            "what this Application deploys is not checked with its parameters: Argo CD objects are not followed with --gitops off",
	{Group: "argoproj.io", Kind: "ApplicationSet"}:         "the Applications that this ApplicationSet makes are not checked: Argo CD objects are not followed with --gitops off",
}

// notFollowed returns an Unknown result for each GitOps object whose deployment is
// not rendered, so that the run does not pass by omission.
func notFollowed(head []*render.Object, followed bool) []policy.Result {
	var results []policy.Result
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
		results = append(results, policy.Result{
			Engine: policy.EngineRender, Policy: "gitops", Rule: "not-followed", Operation: policy.Create, Object: o.Key(),
			Outcome: policy.Unknown, Action: policy.Warn, Message: why, Origins: o.At(""),
		}.Fingerprinted())
	}
	return results
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
