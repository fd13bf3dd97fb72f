package delivery

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A row is one way in which deployers differ from kubectl apply and kubectl delete.
type row struct {
	deployers []string // kinds of objects that deploy, or "Helm"
	at        step     // one or several
	when      condition
	act       Act
	why       string
	source    string // upstream, for the reader
}

// A subject is an object that a row is asked about.
type subject struct {
	*render.Object                // as it is, or as it was if it is gone
	live           *render.Object // as it was, if it is updated
	owner          *render.Object // the object that deploys it; may be nil
	left           *render.Unit   // the unit after the change, if the object is pruned
}

const (
	fluxGroup = "kustomize.toolkit.fluxcd.io/"
	keepKey   = "helm.sh/resource-policy"
	argoHook  = "argocd.argoproj.io/hook"
	helmHook  = "helm.sh/hook"

	applicationsSync = "/spec/syncPolicy/applicationsSync"
	syncOptions      = "argocd.argoproj.io/sync-options"
)

var (
	kustomization  = []string{"Kustomization"}
	release        = []string{"HelmRelease"}
	helm           = []string{"HelmRelease", "Helm"}
	application    = []string{"Application"}
	applicationSet = []string{"ApplicationSet"}
	resourceSet    = []string{"ResourceSet"}
)

// rows are asked in this order; the first that fits decides. Sources are kustomize-controller v1.10.1
// with fluxcd/pkg/ssa v0.84.0, helm-controller (main at 00785fbf, b8d65235) with helm v3.22.0, and
// argo-cd v3.6.1 with its gitops-engine c9c369ef.
var rows = []row{
	{kustomization, created | pruned | uninstalled, flux("reconcile", "disabled"), Leave, fluxGroup + "reconcile: disabled", "kustomize-controller apply (ExclusionSelector), deleteObjects (Exclusions)"},
	{kustomization, created | pruned | uninstalled, flux("ssa", "Ignore"), Leave, fluxGroup + "ssa: Ignore", "kustomize-controller apply (ExclusionSelector), deleteObjects (Exclusions)"},
	{kustomization, updated, flux("ssa", "IfNotPresent"), Leave, fluxGroup + "ssa: IfNotPresent", "ssa shouldSkipApply; inventory.AddChangeSet lists skipped objects, so they are pruned"},
	{kustomization, updated, flux("force", "enabled"), RecreateIfRefused, "", "ssa shouldForceApply, errors.IsImmutableError"},
	{kustomization, updated, spec("/spec/force", true), RecreateIfRefused, "", "ssa shouldForceApply, errors.IsImmutableError"},
	{kustomization, pruned | uninstalled, flux("prune", "disabled"), Leave, fluxGroup + "prune: disabled", "kustomize-controller deleteObjects (Exclusions)"},
	{kustomization, uninstalled, spec("/spec/deletionPolicy", "Orphan"), Leave, "spec.deletionPolicy: Orphan of its Kustomization", "kustomize-controller finalizerShouldDeleteResources"},
	{kustomization, uninstalled, spec("/spec/deletionPolicy", "Delete", "WaitForTermination"), Apply, "", "kustomize-controller finalizerShouldDeleteResources"},
	{kustomization, pruned | uninstalled, unless(spec("/spec/prune", true)), Leave, "its Kustomization does not set spec.prune", "kustomize-controller prune, finalizerShouldDeleteResources"},

	{helm, pruned, helmKeepsOnUpgrade, Leave, keepKey + ": keep", "helm pkg/kube Client.update"},
	{helm, uninstalled, helmKeeps, Leave, keepKey, "helm pkg/action filterManifestsToKeep"},
	{helm, pruned | uninstalled, hook, Leave, "Helm does not delete hooks with the release", "helm pkg/action Uninstall.deleteRelease"},
	{helm, updated, both(renamed, wasHook), CreateAgain, "", "helm pkg/action Configuration.execHook deletes hooks of the same name"},
	{helm, updated, renamed, Recreate, "", "helm pkg/kube Client.update: the new name is created, and then the old one deleted"},
	{helm, updated, both(hook, unless(wasHook)), Recreate, "", "helm pkg/kube Client.update deletes what is a hook now; pkg/action Configuration.execHook creates it"},
	{helm, updated, both(wasHook, unless(hook)), CreateAgain, "", "helm pkg/action Upgrade.performUpgrade refuses a hook that is still there: existingResourceConflict"},
	{helm, updated, both(recreatedHook, upgradeHook), Recreate, "", "helm pkg/action Configuration.execHook"},
	{helm, updated, hook, CreateAgain, "", "helm pkg/action Configuration.execHook"},
	{release, updated | pruned | uninstalled, madeNamespace, Leave, "Helm only creates the namespace of install.createNamespace", "helm pkg/action Install.RunWithContext"},
	{release, pruned | uninstalled, crds, Leave, "Helm never deletes the definitions of a chart's crds directory", "helm pkg/action Uninstall.deleteRelease; helm-controller applyCRDs"},
	{release, added, both(crds, spec("/spec/upgrade/crds", "Skip")), Leave, "spec.upgrade.crds: Skip of its HelmRelease", "helm-controller Upgrade, crdPolicyOrDefault (the default is Create), applyCRDs"},
	{release, updated, both(crds, unless(spec("/spec/upgrade/crds", "CreateReplace"))), Leave, "its HelmRelease does not set spec.upgrade.crds: CreateReplace", "helm-controller Upgrade, crdPolicyOrDefault, applyCRDs"},

	{application, updated, both(madeNamespace, unless(managed)), Leave, "Argo CD only creates the namespace of CreateNamespace=true", "argo-cd syncNamespace"},
	{application, pruned | uninstalled, madeNamespace, Leave, "Argo CD does not delete the namespace of CreateNamespace=true", "argo-cd syncNamespace, which sets no tracking"},
	{application, created, both(unrun, skipped), Leave, argoHook + ": Skip", "gitops-engine syncPhases: no task, although Reconcile finds the object"},
	{application, created, both(unrun, annotated(argoHook)), Leave, "Argo CD runs none of the hooks in " + argoHook, "gitops-engine syncPhases, NewHookType"},
	{application, created, unrun, Leave, "Argo CD runs none of the hooks in " + helmHook, "gitops-engine syncPhases, helm.NewType"},
	{application, updated, recreatedHook, Recreate, "", "gitops-engine syncTask.deleteBeforeCreation, hook.DeletePolicies"},
	{application, updated, hook, CreateAgain, "", "gitops-engine syncTask.deleteOnPhaseSuccessful"},
	{application, updated, both(replaced, inPlace), Apply, "", "gitops-engine applyObject"},
	{application, updated, both(replaced, option("Force=true")), Recreate, "", "gitops-engine applyObject, ReplaceResource"},
	{application, updated, both(unless(setting("ServerSideApply", "true")), option("Force=true")), RecreateIfRefused, "", "gitops-engine applyObject, ApplyResource; kubectl Patcher.Patch; ApplyOptions.Validate refuses both options together"},
	{application, updated, both(unless(setting("ServerSideApply", "true")), roleChanges), Recreate, "", "gitops-engine ApplyResource, rbacReconcile; kubectl ReconcileRoleBindingOptions.Run"},
	{application, pruned, hook, Leave, "Argo CD does not prune hooks", "gitops-engine getSyncTasks"},
	{application, pruned, setting("Prune", "false"), Leave, "its sync option Prune=false", "gitops-engine isPruningDisabled"},
	{application, pruned, setting("Prune", "confirm"), Leave, "its sync option Prune=confirm", "gitops-engine objRequiresPruneConfirmation"},
	{application, pruned, both(automated, unless(spec("/spec/syncPolicy/automated/prune", true))), Leave, "its Application does not set spec.syncPolicy.automated.prune", "argo-cd ApplicationController.autoSync"},
	{application, pruned, both(both(automated, last), unless(spec("/spec/syncPolicy/automated/allowEmpty", true))), Leave, "nothing of its Application is left, which does not set spec.syncPolicy.automated.allowEmpty", "argo-cd ApplicationController.autoSync"},
	{application, uninstalled, unless(finalizer), Leave, "its Application has no finalizer that deletes what it deployed", "argo-cd finalizeApplicationDeletion, Application.CascadedDeletion"},
	{application, uninstalled, definition, Leave, "Argo CD keeps definitions when an Application is deleted", "argo-cd shouldBeDeleted"},
	{application, uninstalled, keeps, Leave, keepKey + ": keep", "argo-cd shouldBeDeleted"},
	{application, uninstalled, setting("Delete", "false"), Leave, "its sync option Delete=false", "argo-cd shouldBeDeleted"},
	{application, uninstalled, setting("Delete", "confirm"), Leave, "its sync option Delete=confirm", "argo-cd finalizeApplicationDeletion, Application.IsDeletionConfirmed"},

	{kustomization, sent, secret, ApplyAsData, "", "kustomize-controller apply; ssa normalize.UnstructuredList, normalizeSecret"},
	{kustomization, sent, always, ApplyServerSide, "", "ssa ResourceManager.apply, which forces conflicts"},
	{release, sent, spec("/spec/upgrade/force", true), Replace, "", "helm-controller newUpgrade; helm pkg/kube updateResource, replaceResource in v4"},
	{release, sent, both(crds, clientSide), Replace, "", "helm-controller applyCRDs"},
	{release, sent, unless(clientSide), ApplyServerSide, "", "helm-controller newInstall, Upgrade: auto is what the release was installed by (v1.5.0 with helm v4)"},
	{helm, sent, always, ApplyDifference, "", "helm pkg/kube createPatch"},
	{application, sent, replaced, Replace, "", "gitops-engine applyObject: ReplaceResource is kubectl replace, UpdateResource an update by the dynamic client"},
	{application, sent, setting("ServerSideApply", "true"), ApplyServerSide, "", "gitops-engine shouldUseServerSideApply; newApplyOptions forces conflicts"},
	{resourceSet, sent, always, ApplyServerSide, "", "flux-operator ResourceSetReconciler.apply: ssa ResourceManager.ApplyAllStaged"},
	{applicationSet, sent, always, Replace, "", "argo-cd utils.CreateOrUpdate, whose caller sets the whole spec"},

	{applicationSet, updated, spec(applicationsSync, "create-only", "create-delete"), Leave, "spec.syncPolicy.applicationsSync of its ApplicationSet", "argo-cd ApplicationsSyncPolicy.AllowUpdate"},
	{applicationSet, pruned, spec(applicationsSync, "create-only", "create-update"), Leave, "spec.syncPolicy.applicationsSync of its ApplicationSet", "argo-cd ApplicationsSyncPolicy.AllowDelete"},
	{applicationSet, uninstalled, both(finalizer, spec(applicationsSync, "create-only", "create-update")), Leave, "spec.syncPolicy.applicationsSync of its ApplicationSet, which has a finalizer", "argo-cd ApplicationSetReconciler.Reconcile, removeOwnerReferencesOnDeleteAppSet"},
}

type condition = func(s *subject) bool

func always(*subject) bool { return true }

func unless(c condition) condition { return func(s *subject) bool { return !c(s) } }

func both(a, b condition) condition { return func(s *subject) bool { return a(s) && b(s) } }

// flux is fluxcd/pkg/ssa's utils.AnyInMetadata for one key of labels and annotations. Like
// shouldForceApply, it asks the object on the cluster, too.
func flux(key, want string) condition {
	return func(s *subject) bool {
		for _, o := range []*render.Object{s.Object, cmp.Or(s.live, s.Object)} {
			if strings.EqualFold(o.GetAnnotations()[fluxGroup+key], want) || strings.EqualFold(o.GetLabels()[fluxGroup+key], want) {
				return true
			}
		}
		return false
	}
}

// spec reports whether a field of the object that deploys has one of some values.
func spec(pointer string, values ...any) condition {
	return func(s *subject) bool { return slices.Contains(values, value(s.owner, pointer)) }
}

// clientSide reports whether the releases of a HelmRelease are not applied server-side. Flux installs them so since
// helm-controller v1.5.0, and upgrades them as they were installed.
func clientSide(s *subject) bool {
	switch mode := value(s.owner, "/spec/upgrade/serverSideApply"); mode {
	case "enabled", "disabled":
		return mode == "disabled"
	}
	return s.Unit.ByClient || value(s.owner, "/spec/install/serverSideApply") == false
}

// option is gitops-engine's HasAnnotationOption for sync options. Like applyObject, it asks the object
// on the cluster, too.
func option(want string) condition {
	return func(s *subject) bool {
		return slices.Contains(append(list(s.Object, syncOptions), list(cmp.Or(s.live, s.Object), syncOptions)...), want)
	}
}

// setting reports whether a sync option has a value: the object's own, else its Application's. It is
// gitops-engine's GetAnnotationOptionValue, then Argo CD's SyncOptions.GetOptionValue.
func setting(key, want string) condition {
	return func(s *subject) bool {
		for _, option := range append(list(s.Object, syncOptions), s.options()...) {
			if v, ok := strings.CutPrefix(option, key+"="); ok {
				return v == want
			}
		}
		return false
	}
}

// options returns the sync options of an Application.
func (s *subject) options() []string {
	var all []string
	options, _ := value(s.owner, "/spec/syncPolicy/syncOptions").([]any)
	for _, o := range options {
		all = append(all, fmt.Sprint(o))
	}
	return all
}

// replaced reports whether Argo CD replaces an object: with force, it deletes and creates it.
func replaced(s *subject) bool {
	return option("Replace=true")(s) || slices.Contains(s.options(), "Replace=true")
}

// inPlace reports whether Argo CD never deletes an object to replace it, since others would be lost
// with it.
func inPlace(s *subject) bool { return definition(s) || s.GetKind() == "Namespace" }

// automated reports whether an Application is synchronized without a person.
func automated(s *subject) bool {
	return value(s.owner, "/spec/syncPolicy/automated") != nil && value(s.owner, "/spec/syncPolicy/automated/enabled") != false
}

// last reports whether nothing else of the Application is left, either.
func last(s *subject) bool { return s.left != nil && len(s.left.Objects) == 0 }

func finalizer(s *subject) bool {
	return slices.ContainsFunc(s.owner.GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, "resources-finalizer.argocd.argoproj.io") })
}

// helmKeeps reports whether Helm leaves an object when it uninstalls the release. Values of the
// annotation other than keep have the same effect: filterManifestsToKeep drops these objects.
func helmKeeps(s *subject) bool { _, ok := s.GetAnnotations()[keepKey]; return ok }

func helmKeepsOnUpgrade(s *subject) bool { return s.GetAnnotations()[keepKey] == "keep" }

// keeps is gitops-engine's HasAnnotationOption for Helm's annotation.
func keeps(s *subject) bool { return slices.Contains(list(s.Object, keepKey), "keep") }

// roleChanges reports whether a binding gets another role. Argo CD applies bindings by kubectl auth
// reconcile, which deletes such a binding and creates it again.
func roleChanges(s *subject) bool {
	return s.GetAPIVersion() == "rbac.authorization.k8s.io/v1" && strings.HasSuffix(s.GetKind(), "Binding") &&
		!reflect.DeepEqual(value(s.Object, "/roleRef"), value(s.live, "/roleRef"))
}

func secret(s *subject) bool { return s.GetAPIVersion() == "v1" && s.GetKind() == "Secret" }

func definition(s *subject) bool { return s.GetKind() == "CustomResourceDefinition" }

// madeNamespace reports whether an object is the Namespace that a deployer creates by an option of its own object.
func madeNamespace(s *subject) bool {
	if s.GetKind() != "Namespace" || s.GetAPIVersion() != "v1" {
		return false
	}
	at := s.At("/kind")
	return len(at) > 0 && at[0].Role == render.Generated
}

// managed reports whether an Application sets labels or annotations of the namespace that it creates.
func managed(s *subject) bool {
	return value(s.owner, "/spec/syncPolicy/managedNamespaceMetadata") != nil
}

// crds reports whether an object is a definition in the crds directory of a chart.
func crds(s *subject) bool {
	at := s.At("/kind")
	return definition(s) && len(at) > 0 && strings.Contains("/"+at[0].File, "/crds/") && !strings.Contains("/"+at[0].File, "/templates/")
}

// hook reports whether its deployer runs an object as a hook. Argo CD takes Helm's hooks as its own,
// except definitions: gitops-engine hook.IsHook.
func hook(s *subject) bool {
	events, is := s.GetAnnotations()[helmHook]
	if s.owner != nil && s.owner.GetKind() == "Application" {
		return (annotated(argoHook)(s) || is && events != "crd-install") && !unrun(s)
	}
	return events != ""
}

// wasHook reports whether an object was a hook before the change.
func wasHook(s *subject) bool { return hook(&subject{Object: s.live, owner: s.owner}) }

// renamed reports whether a chart has the revision of the release in the name of an object.
func renamed(s *subject) bool { return slices.Contains(s.Assumed, render.NamedByRevision) }

func annotated(key string) condition {
	return func(s *subject) bool { _, is := s.GetAnnotations()[key]; return is }
}

func skipped(s *subject) bool { return slices.Contains(list(s.Object, argoHook), "Skip") }

// The hooks that Argo CD runs in a sync (NewHookType in gitops-engine, NewType in its package hook/helm), and
// those that it runs when the Application is deleted (hookTypeAnnotations in its controller).
var (
	syncHooks     = []string{"PreSync", "Sync", "PostSync", "SyncFail"}
	helmHooks     = []string{"pre-install", "pre-upgrade", "post-upgrade", "post-install"}
	deletionHooks = []string{"PreDelete", "PostDelete", "pre-delete", "post-delete"}
)

// unrun reports whether an object is a hook that Argo CD never runs, and therefore never applies
// (syncPhases in gitops-engine).
func unrun(s *subject) bool {
	names := func(annotation string, hooks []string) bool {
		return slices.ContainsFunc(list(s.Object, annotation), func(h string) bool { return slices.Contains(hooks, h) })
	}
	events, is := s.GetAnnotations()[helmHook]
	switch {
	case !annotated(argoHook)(s) && (!is || events == "crd-install"), names(argoHook, syncHooks):
		return false
	case skipped(s):
		return true
	}
	return !names(helmHook, helmHooks) && !names(argoHook, deletionHooks) && !names(helmHook, deletionHooks)
}

// recreatedHook reports whether an object is a hook whose last run is deleted before it is created
// again. This is the default of Helm and Argo CD.
func recreatedHook(s *subject) bool {
	policies := list(s.Object, "helm.sh/hook-delete-policy")
	if s.owner != nil && s.owner.GetKind() == "Application" {
		known := []string{"hook-succeeded", "hook-failed", "before-hook-creation", "HookSucceeded", "HookFailed", "BeforeHookCreation"}
		policies = slices.DeleteFunc(append(policies, list(s.Object, argoHook+"-delete-policy")...), func(p string) bool { return !slices.Contains(known, p) })
	}
	return hook(s) && (len(policies) == 0 || slices.Contains(policies, "before-hook-creation") || slices.Contains(policies, "BeforeHookCreation"))
}

// upgradeHook reports whether Helm runs a hook in an upgrade, or Flux after one. Others are created on another cluster at
// most.
func upgradeHook(s *subject) bool {
	events := list(s.Object, helmHook)
	tests := slices.Contains(events, "test") && s.owner != nil && value(s.owner, "/spec/test/enable") == true
	return tests || slices.Contains(events, "pre-upgrade") || slices.Contains(events, "post-upgrade")
}

// list returns the parts of an annotation, as gitops-engine's GetAnnotationCSVs does.
func list(o *render.Object, annotation string) []string {
	var all []string
	for s := range strings.SplitSeq(o.GetAnnotations()[annotation], ",") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}
