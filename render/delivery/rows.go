package delivery

import (
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A row is one way in which deployers differ from kubectl apply and kubectl delete.
type row struct {
	deployers []string // kinds of objects that deploy, or "Helm"
	at        step     // one or several
	when      func(o, owner *render.Object) bool
	act       Act
	why       string
	source    string // upstream, for the reader
}

const (
	fluxGroup = "kustomize.toolkit.fluxcd.io/"
	keepKey   = "helm.sh/resource-policy"
	argoHook  = "argocd.argoproj.io/hook"
)

var (
	kustomization  = []string{"Kustomization"}
	release        = []string{"HelmRelease"}
	helm           = []string{"HelmRelease", "Helm"}
	application    = []string{"Application"}
	applicationSet = []string{"ApplicationSet"}
)

// rows are asked in this order; the first that fits decides.
var rows = []row{
	{kustomization, created | updated | pruned | uninstalled, flux("reconcile", "disabled"), Leave, fluxGroup + "reconcile: disabled", "kustomize-controller v1.7.3 ExclusionSelector of apply, Exclusions of prune and finalize"},
	{kustomization, created | updated | pruned | uninstalled, flux("ssa", "Ignore"), Leave, fluxGroup + "ssa: Ignore", "kustomize-controller v1.7.3 ExclusionSelector of apply; reconcile keeps skipped objects out of the inventory"},
	{kustomization, updated | pruned | uninstalled, flux("ssa", "IfNotPresent"), Leave, fluxGroup + "ssa: IfNotPresent", "fluxcd/pkg/ssa v0.70.0 shouldSkipApply; kustomize-controller v1.7.3 reconcile keeps skipped objects out of the inventory"},
	{kustomization, updated, flux("force", "enabled"), RecreateIfRefused, "", "fluxcd/pkg/ssa v0.70.0 shouldForceApply; kustomize-controller v1.7.3 ForceSelector of apply"},
	{kustomization, updated, spec("/spec/force", true), RecreateIfRefused, "", "fluxcd/pkg/ssa v0.70.0 shouldForceApply"},
	{kustomization, pruned | uninstalled, flux("prune", "disabled"), Leave, fluxGroup + "prune: disabled", "kustomize-controller v1.7.3 Exclusions of prune and finalize"},
	{kustomization, uninstalled, spec("/spec/deletionPolicy", "Orphan"), Leave, "spec.deletionPolicy: Orphan of its Kustomization", "kustomize-controller v1.7.3 finalizerShouldDeleteResources"},
	{kustomization, uninstalled, spec("/spec/deletionPolicy", "Delete", "WaitForTermination"), Apply, "", "kustomize-controller v1.7.3 finalizerShouldDeleteResources"},
	{kustomization, pruned | uninstalled, unless(spec("/spec/prune", true)), Leave, "its Kustomization does not set spec.prune", "kustomize-controller v1.7.3 prune, finalizerShouldDeleteResources"},

	{helm, pruned, helmKeepsOnUpgrade, Leave, keepKey + ": keep", "helm v3.19.0 pkg/kube Client.Update"},
	{helm, uninstalled, helmKeeps, Leave, keepKey, "helm v3.19.0 pkg/action filterManifestsToKeep"},
	{helm, pruned | uninstalled, hook, Leave, "Helm does not delete hooks with the release", "helm v3.19.0 pkg/action Uninstall.deleteRelease"},
	{helm, updated, recreatedHook, Recreate, "", "helm v3.19.0 pkg/action Configuration.execHook"},
	{helm, updated, hook, CreateAgain, "", "helm v3.19.0 pkg/action Configuration.execHook"},
	{release, pruned | uninstalled, crds, Leave, "Helm never deletes the definitions of a chart's crds directory", "helm v3.19.0 pkg/action Uninstall.deleteRelease"},
	{release, updated, both(crds, spec("/spec/upgrade/crds", "Create")), Leave, "spec.upgrade.crds: Create of its HelmRelease creates definitions and does not change them", "helm-controller action.applyCRDs, from its documentation"},
	{release, updated, both(crds, unless(spec("/spec/upgrade/crds", "CreateReplace"))), Leave, "its HelmRelease does not set spec.upgrade.crds: CreateReplace", "helm-controller action.applyCRDs, from its documentation"},

	{application, created | updated, skipped, Leave, "argocd.argoproj.io/hook: Skip", "gitops-engine v0.7.3 syncPhases, hook.Skip"},
	{application, updated, recreatedHook, Recreate, "", "gitops-engine v0.7.3 syncTask.deleteBeforeCreation, hook.DeletePolicies"},
	{application, updated, hook, CreateAgain, "", "gitops-engine v0.7.3 syncTask.deleteOnPhaseSuccessful"},
	{application, updated, both(replaced, inPlace), Apply, "", "argo-cd/gitops-engine c9c369efcc5b applyObject"},
	{application, updated, both(replaced, option("Force=true")), Recreate, "", "argo-cd/gitops-engine c9c369efcc5b applyObject"},
	{application, updated, option("Force=true"), RecreateIfRefused, "", "argo-cd/gitops-engine c9c369efcc5b applyObject"},
	{application, updated, binding, RecreateIfRefused, "", "argo-cd/gitops-engine c9c369efcc5b kubectlResourceOperations.rbacReconcile"},
	{application, pruned, hook, Leave, "Argo CD does not prune hooks", "gitops-engine v0.7.3 sync.Reconcile"},
	{application, pruned, ownOption("Prune", "false"), Leave, "its sync option Prune=false", "argo-cd/gitops-engine c9c369efcc5b isPruningDisabled"},
	{application, pruned, ownOption("Prune", "confirm"), Leave, "its sync option Prune=confirm", "argo-cd/gitops-engine c9c369efcc5b objRequiresPruneConfirmation"},
	{application, pruned, appOption("Prune", "false"), Leave, "the sync option Prune=false of its Application", "argo-cd/gitops-engine c9c369efcc5b isPruningDisabled"},
	{application, pruned, appOption("Prune", "confirm"), Leave, "the sync option Prune=confirm of its Application", "argo-cd/gitops-engine c9c369efcc5b objRequiresPruneConfirmation"},
	{application, pruned, both(automated, unless(spec("/spec/syncPolicy/automated/prune", true))), Leave, "its Application does not set spec.syncPolicy.automated.prune", "argo-cd v3.4.0 ApplicationController.autoSync"},
	{application, uninstalled, unless(finalizer), Leave, "its Application has no finalizer that deletes what it deployed", "argo-cd v3.4.0 ApplicationController.finalizeApplicationDeletion, Application.CascadedDeletion"},
	{application, uninstalled, definition, Leave, "Argo CD keeps definitions when an Application is deleted", "argo-cd v3.4.0 ApplicationController.shouldBeDeleted"},
	{application, uninstalled, keeps, Leave, keepKey + ": keep", "argo-cd v3.4.0 ApplicationController.shouldBeDeleted"},
	{application, uninstalled, ownOption("Delete", "false"), Leave, "its sync option Delete=false", "argo-cd v3.4.0 ApplicationController.shouldBeDeleted"},
	{application, uninstalled, ownOption("Delete", "confirm"), Leave, "its sync option Delete=confirm", "argo-cd v3.4.0 ApplicationController.finalizeApplicationDeletion, Application.IsDeletionConfirmed"},
	{application, uninstalled, appOption("Delete", "false"), Leave, "the sync option Delete=false of its Application", "argo-cd v3.4.0 ApplicationController.shouldBeDeleted"},
	{application, uninstalled, appOption("Delete", "confirm"), Leave, "the sync option Delete=confirm of its Application", "argo-cd v3.4.0 ApplicationController.finalizeApplicationDeletion"},

	{applicationSet, updated, policyOfApplications("create-only"), Leave, "spec.syncPolicy.applicationsSync: create-only of its ApplicationSet", "argo-cd v3.4.0 ApplicationsSyncPolicy.AllowUpdate"},
	{applicationSet, updated, policyOfApplications("create-delete"), Leave, "spec.syncPolicy.applicationsSync: create-delete of its ApplicationSet", "argo-cd v3.4.0 ApplicationsSyncPolicy.AllowUpdate"},
	{applicationSet, pruned, policyOfApplications("create-only"), Leave, "spec.syncPolicy.applicationsSync: create-only of its ApplicationSet", "argo-cd v3.4.0 ApplicationsSyncPolicy.AllowDelete"},
	{applicationSet, pruned, policyOfApplications("create-update"), Leave, "spec.syncPolicy.applicationsSync: create-update of its ApplicationSet", "argo-cd v3.4.0 ApplicationsSyncPolicy.AllowDelete"},
}

type condition = func(o, owner *render.Object) bool

func unless(c condition) condition {
	return func(o, owner *render.Object) bool { return !c(o, owner) }
}

func both(a, b condition) condition {
	return func(o, owner *render.Object) bool { return a(o, owner) && b(o, owner) }
}

// flux is fluxcd/pkg/ssa's utils.AnyInMetadata for one key of labels and annotations.
func flux(key, want string) condition {
	return func(o, _ *render.Object) bool {
		return strings.EqualFold(o.GetAnnotations()[fluxGroup+key], want) || strings.EqualFold(o.GetLabels()[fluxGroup+key], want)
	}
}

// spec reports whether a field of the object that deploys has one of some values.
func spec(pointer string, values ...any) condition {
	return func(_, owner *render.Object) bool { return slices.Contains(values, value(owner, pointer)) }
}

func policyOfApplications(want string) condition {
	return spec("/spec/syncPolicy/applicationsSync", want)
}

// option is gitops-engine's HasAnnotationOption for sync options.
func option(want string) condition {
	return func(o, _ *render.Object) bool {
		return listed(o.GetAnnotations()["argocd.argoproj.io/sync-options"], want)
	}
}

// ownOption reports whether an object has a value of a sync option, as gitops-engine's
// GetAnnotationOptionValue does.
func ownOption(key, want string) condition { return option(key + "=" + want) }

// appOption reports whether an Application has a value of a sync option that the object does not set
// itself.
func appOption(key, want string) condition {
	return func(o, owner *render.Object) bool {
		list, _ := value(owner, "/spec/syncPolicy/syncOptions").([]any)
		return slices.Contains(list, any(key+"="+want)) && !strings.Contains(","+strings.ReplaceAll(o.GetAnnotations()["argocd.argoproj.io/sync-options"], " ", ""), ","+key+"=")
	}
}

// replaced reports whether Argo CD replaces an object: with force, it deletes and creates it.
func replaced(o, owner *render.Object) bool {
	return option("Replace=true")(o, owner) || appOption("Replace", "true")(o, owner)
}

// inPlace reports whether Argo CD never deletes an object to replace it, since others would be lost
// with it.
func inPlace(o, owner *render.Object) bool { return definition(o, owner) || o.GetKind() == "Namespace" }

// automated reports whether an Application is synchronized without a person.
func automated(_, owner *render.Object) bool {
	return value(owner, "/spec/syncPolicy/automated") != nil && value(owner, "/spec/syncPolicy/automated/enabled") != false
}

func finalizer(_, owner *render.Object) bool {
	return slices.ContainsFunc(owner.GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, "resources-finalizer.argocd.argoproj.io") })
}

// helmKeeps reports whether Helm leaves an object when it uninstalls the release. Values of the
// annotation other than keep have the same effect: filterManifestsToKeep drops these objects.
func helmKeeps(o, _ *render.Object) bool { _, ok := o.GetAnnotations()[keepKey]; return ok }

func helmKeepsOnUpgrade(o, _ *render.Object) bool { return o.GetAnnotations()[keepKey] == "keep" }

// keeps is gitops-engine's HasAnnotationOption for Helm's annotation.
func keeps(o, _ *render.Object) bool { return listed(o.GetAnnotations()[keepKey], "keep") }

// binding reports whether Argo CD changes an object by kubectl auth reconcile, which recreates a
// binding whose role changes.
func binding(o, owner *render.Object) bool {
	serverSide := option("ServerSideApply=true")(o, owner) || appOption("ServerSideApply", "true")(o, owner)
	return !serverSide && o.GetAPIVersion() == "rbac.authorization.k8s.io/v1" && strings.HasSuffix(o.GetKind(), "Binding")
}

func definition(o, _ *render.Object) bool {
	return o.GetKind() == "CustomResourceDefinition"
}

// crds reports whether an object is a definition in the crds directory of a chart.
func crds(o, _ *render.Object) bool { return ofCRDs(o) }

func ofCRDs(o *render.Object) bool {
	if o.GetKind() != "CustomResourceDefinition" {
		return false
	}
	at := o.At("/kind")
	return len(at) > 0 && strings.Contains("/"+at[0].File, "/crds/") && !strings.Contains("/"+at[0].File, "/templates/")
}

// hook reports whether its deployer runs an object as a hook. Argo CD takes Helm's hooks as its own,
// except definitions, see gitops-engine's hook.Types.
func hook(o, owner *render.Object) bool {
	if owner != nil && owner.GetKind() == "Application" {
		if o.GetAnnotations()[argoHook] != "" {
			return !skipped(o, owner)
		}
		return isHook(o) && !listed(o.GetAnnotations()["helm.sh/hook"], "crd-install")
	}
	return isHook(o)
}

// skipped reports whether Argo CD never applies an object.
func skipped(o, _ *render.Object) bool { return o.GetAnnotations()[argoHook] == "Skip" }

func isHook(o *render.Object) bool { return o.GetAnnotations()["helm.sh/hook"] != "" }

// recreatedHook reports whether an object is a hook whose last run is deleted before it is created
// again. This is the default of Helm and Argo CD.
func recreatedHook(o, owner *render.Object) bool {
	if !hook(o, owner) {
		return false
	}
	own := map[string]string{"helm.sh/hook-delete-policy": "before-hook-creation"}
	if owner != nil && owner.GetKind() == "Application" {
		own[argoHook+"-delete-policy"] = "BeforeHookCreation"
	}
	none := true
	for key, before := range own {
		list := o.GetAnnotations()[key]
		if listed(list, before) {
			return true
		}
		none = none && list == ""
	}
	return none
}

// listed reports whether a text is in a list that is separated by commas.
func listed(list, want string) bool {
	for s := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(s) == want {
			return true
		}
	}
	return false
}
