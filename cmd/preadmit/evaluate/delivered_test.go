package evaluate

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A deployed is one side of a change: a deployer with one object.
type deployed struct {
	spec       string // of the deployer
	id         string // of the deployer
	suspended  bool
	namespace  string // of the unit
	release    string
	chart      string
	kind       string // of the object; "" is none
	name, own  string // of the object, with its own namespace
	field      string // that differs
	annotation string // key=value
	file       string // of the object
}

// unit returns the unit of a deployer of a kind: "" is kubectl.
func (d *deployed) unit(t *testing.T, deployer string) *render.Unit {
	t.Helper()
	parse := func(text string) *render.Object {
		all, err := render.Parse(cmp.Or(d.file, "o.yaml"), []byte(text))
		rendertest.OK(t, err)
		return all[0]
	}
	u := &render.Unit{Source: render.Source{Path: "app", Kind: "manifest", Namespace: d.namespace}, ID: cmp.Or(d.id, "d"), Release: d.release, Chart: d.chart}
	if d.suspended {
		u.State = render.Suspended
	}
	switch deployer {
	case "":
	case "Helm":
		u.Kind = "helm"
	default:
		u.Owner = parse(fmt.Sprintf("apiVersion: example.org/v1\nkind: %s\nmetadata: {name: %s, finalizers: [resources-finalizer.argocd.argoproj.io]}\nspec: %s\n", deployer, u.ID, d.spec))
		if d.spec == "" {
			u.Owner = parse("apiVersion: example.org/v1\nkind: " + deployer + "\nmetadata: {name: " + u.ID + "}\nspec: {prune: true}\n")
		}
	}
	text := map[string]string{
		"ConfigMap":   "apiVersion: v1\ndata: {field: %s}",
		"Job":         "apiVersion: batch/v1\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: %s}]}}}", // immutable
		"RoleBinding": "apiVersion: rbac.authorization.k8s.io/v1\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %s}",
		"Application": "apiVersion: argoproj.io/v1alpha1\nspec: {project: %s}",

		"Service": "apiVersion: v1\nspec: {ports: [{port: 80, protocol: %s}]}", // neither a nor b is a protocol

		"CustomResourceDefinition": "apiVersion: apiextensions.k8s.io/v1\nspec: {group: %s}",
	}[d.kind]
	if d.kind != "" {
		o := parse(fmt.Sprintf(text, d.field) + fmt.Sprintf("\nkind: %s\nmetadata: {name: %s}\n", d.kind, d.name))
		o.Unit = u
		if d.own != "" {
			o.SetNamespace(d.own)
		}
		if key, value, ok := strings.Cut(d.annotation, "="); ok {
			o.SetAnnotations(map[string]string{key: value})
		}
		u.Objects = []*render.Object{o}
	}
	return u
}

// TestChangeMatrix holds the requests that each deployer makes for each edit: CREATE, UPDATE and DELETE of
// an object, in their order. The last column is the function of the deployer that decides, in the version that
// render/delivery names.
func TestChangeMatrix(t *testing.T) {
	t.Parallel()
	const (
		flux, argo = "kustomize.toolkit.fluxcd.io/", "argocd.argoproj.io/"
		prune      = "{prune: true}"
	)
	object := deployed{spec: prune, namespace: "n", release: "r", chart: "c", kind: "ConfigMap", name: "o", field: "a"}
	with := func(edits ...func(*deployed)) *deployed {
		d := object
		for _, edit := range edits {
			edit(&d)
		}
		return &d
	}
	kind := func(k string) func(*deployed) { return func(d *deployed) { d.kind = k } }
	annotated := func(a string) func(*deployed) { return func(d *deployed) { d.annotation = a } }
	spec := func(s string) func(*deployed) { return func(d *deployed) { d.spec = s } }
	edited := func(d *deployed) { d.field = "b" }
	renamed := func(d *deployed) { d.name = "p" }
	moved := func(d *deployed) { d.namespace = "m" }
	placed := func(d *deployed) { d.own = "m" }
	removed := func(d *deployed) { d.kind = "" }
	suspended := func(d *deployed) { d.suspended = true }
	released := func(d *deployed) { d.release = "s" }
	charted := func(d *deployed) { d.chart = "e" }
	handed := func(d *deployed) { d.id = "another" }
	defined := func(d *deployed) { d.kind, d.file = "CustomResourceDefinition", "chart/crds/o.yaml" }
	automatic := func(d *deployed) { d.spec = "{syncPolicy: {automated: {prune: true}}}" }
	const recreated, other = "DELETE n/o, CREATE n/o", "CREATE n/p, DELETE n/o"
	for _, c := range []struct {
		deployer  string
		was, is   *deployed // nil without the deployer
		want, why string
	}{
		{"", nil, with(), "CREATE n/o", "kubectl apply"},
		{"", with(), with(edited), "UPDATE n/o", "kubectl apply"},
		{"", with(), with(renamed), other, "kubectl apply, kubectl delete"},
		{"", with(), with(placed), "CREATE m/o, DELETE n/o", "kubectl apply, kubectl delete"},
		{"", with(), with(moved), "CREATE m/o, DELETE n/o", "kubectl apply --namespace"},
		{"", with(), nil, "DELETE n/o", "kubectl delete"},
		{"", with(kind("Job")), with(kind("Job"), edited), "UPDATE n/o", "kubectl apply: the server refuses it"},
		{"", with(annotated(flux + "reconcile=disabled")), with(annotated(flux+"reconcile=disabled"), edited), "UPDATE n/o", "annotations of other deployers say nothing"},

		{"Helm", with(), with(edited), "UPDATE n/o", "helm pkg/kube Client.Update"},
		{"Helm", with(annotated("helm.sh/resource-policy=keep")), with(removed), "", "helm pkg/kube Client.Update"},
		{"Helm", with(annotated("helm.sh/resource-policy=keep")), nil, "", "helm pkg/action filterManifestsToKeep"},
		{"Helm", with(kind("Job"), annotated("helm.sh/hook=pre-upgrade")), with(kind("Job"), annotated("helm.sh/hook=pre-upgrade"), edited), recreated, "helm pkg/action Configuration.execHook"},

		{"Helm", with(), with(annotated("helm.sh/hook=pre-upgrade")), recreated, "helm pkg/kube Client.update deletes it, pkg/action Configuration.execHook"},
		{"Helm", with(annotated("helm.sh/hook=pre-upgrade")), with(), "CREATE n/o", "helm pkg/action existingResourceConflict"},

		{"Kustomization", with(), with(edited), "UPDATE n/o", "ssa ResourceManager.Apply"},
		{"Kustomization", with(), with(renamed), other, "kustomize-controller prune"},
		{"Kustomization", with(spec("{prune: false}")), with(spec("{prune: false}"), renamed), "CREATE n/p", "kustomize-controller prune"},
		{"Kustomization", with(), with(moved), "CREATE m/o, DELETE n/o", "kustomize-controller prune"},
		{"Kustomization", with(annotated(flux + "prune=disabled")), with(placed), "CREATE m/o", "kustomize-controller Exclusions of prune"},
		{"Kustomization", with(), with(removed), "DELETE n/o", "kustomize-controller prune"},
		{"Kustomization", with(), nil, "DELETE n/o", "kustomize-controller finalize"},
		{"Kustomization", with(spec("{prune: true, deletionPolicy: Orphan}")), nil, "", "kustomize-controller finalizerShouldDeleteResources"},
		{"Kustomization", with(suspended), with(suspended, edited), "", "kustomize-controller Reconcile"},
		{"Kustomization", with(), with(suspended, edited), "UPDATE n/o", "kustomize-controller Reconcile, once it is resumed"},
		{"Kustomization", with(), with(suspended, removed), "DELETE n/o", "kustomize-controller Reconcile, once it is resumed"},
		{"Kustomization", with(suspended), with(suspended, removed), "", "kustomize-controller Reconcile"},
		{"Kustomization", with(), with(handed, edited), "UPDATE n/o", "kustomize-controller finalize deletes the objects with its own labels"},
		{"Kustomization", with(suspended), nil, "", "kustomize-controller finalize"},
		{"Kustomization", with(kind("Job")), with(kind("Job"), edited), "UPDATE n/o", "ssa shouldForceApply"},
		{"Kustomization", with(kind("Job"), annotated(flux+"force=enabled")), with(kind("Job"), annotated(flux+"force=enabled"), edited), recreated, "ssa shouldForceApply"},
		{"Kustomization", with(annotated(flux + "force=enabled")), with(annotated(flux+"force=enabled"), edited), "UPDATE n/o", "ssa shouldForceApply: the server refuses nothing"},
		{"Kustomization", with(kind("Service"), annotated(flux+"force=enabled")), with(kind("Service"), annotated(flux+"force=enabled"), edited), recreated, "ssa IsImmutableError: any invalid object"},
		{"Kustomization", with(kind("Service")), with(kind("Service"), edited), "UPDATE n/o", "ssa shouldForceApply"},
		{"Kustomization", with(annotated(flux + "ssa=IfNotPresent")), with(annotated(flux+"ssa=IfNotPresent"), edited), "", "ssa shouldSkipApply"},
		{"Kustomization", with(annotated(flux + "ssa=IfNotPresent")), with(removed), "DELETE n/o", "kustomize-controller inventory.AddChangeSet lists skipped objects"},
		{"Kustomization", with(annotated(flux + "ssa=Ignore")), with(removed), "", "kustomize-controller deleteObjects"},
		{"Kustomization", with(kind("Job"), annotated(flux+"force=enabled")), with(kind("Job"), edited), recreated, "ssa shouldForceApply asks the object on the cluster, too"},
		{"Kustomization", nil, with(annotated(flux + "ssa=IfNotPresent")), "CREATE n/o", "ssa shouldSkipApply"},

		{"HelmRelease", with(), with(edited), "UPDATE n/o", "helm-controller action.Upgrade"},
		{"HelmRelease", with(), with(released), recreated, "helm-controller action.ReleaseTargetChanged"},
		{"HelmRelease", with(), with(charted), recreated, "helm-controller action.ReleaseTargetChanged"},
		{"HelmRelease", with(), with(handed, released), recreated, "helm pkg/action Uninstall.deleteRelease does not ask whose an object is"},
		{"HelmRelease", with(), with(handed, edited), "UPDATE n/o", "helm-controller upgrades a release that another HelmRelease has installed"},
		{"HelmRelease", with(suspended), with(handed, edited), "CREATE n/o, perhaps UPDATE n/o", "helm-controller reconcileDelete deletes nothing; the version on the cluster may be older"},
		{"HelmRelease", with(annotated("helm.sh/resource-policy=keep")), with(annotated("helm.sh/resource-policy=keep"), handed, edited), "UPDATE n/o", "helm pkg/action filterManifestsToKeep"},
		{"HelmRelease", with(annotated("helm.sh/resource-policy=keep")), with(annotated("helm.sh/resource-policy=keep"), released, edited), "UPDATE n/o", "helm pkg/action filterManifestsToKeep"},
		{"HelmRelease", with(), with(moved), "DELETE n/o, CREATE m/o", "helm-controller reconcileRelease: ReleaseTargetChanged, uninstall, requeue"},
		{"HelmRelease", with(), with(released, renamed), "DELETE n/o, CREATE n/p", "helm-controller reconcileRelease: ReleaseTargetChanged, uninstall, requeue"},
		{"HelmRelease", with(), with(renamed), other, "helm pkg/kube Client.update"},
		{"HelmRelease", with(spec("{storageNamespace: s}")), with(spec("{storageNamespace: t}")), recreated, "helm-controller ReleaseTargetChanged"},
		{"HelmRelease", with(removed), with(defined), "CREATE n/o", "helm-controller crdPolicyOrDefault: Create"},
		{"HelmRelease", with(removed), with(defined, spec("{upgrade: {crds: Skip}}")), "", "helm-controller applyCRDs"},
		{"HelmRelease", nil, with(defined, spec("{upgrade: {crds: Skip}}")), "CREATE n/o", "helm-controller installs, with spec.install"},
		{"HelmRelease", with(defined), with(defined, edited), "", "helm-controller applyCRDs: Create skips what exists"},
		{"HelmRelease", with(defined), with(defined, edited, spec("{upgrade: {crds: CreateReplace}}")), "UPDATE n/o", "helm-controller applyCRDs"},
		{"HelmRelease", with(defined), with(removed), "", "helm-controller applyCRDs: it never deletes definitions"},
		{"HelmRelease", with(), nil, "DELETE n/o", "helm-controller reconcileDelete"},
		{"HelmRelease", with(suspended), nil, "", "helm-controller reconcileDelete"},
		{"HelmRelease", with(suspended), with(suspended, released), "", "helm-controller Reconcile"},

		{"Application", with(), with(edited), "UPDATE n/o", "gitops-engine applyObject"},
		{"Application", with(), with(renamed), "DELETE n/o, CREATE n/p", "gitops-engine runTasks prunes first"},
		{"Application", with(annotated(argo + "sync-options=PruneLast=true")), with(renamed), other, "gitops-engine getSyncTasks"},
		{"Application", with(spec("{syncPolicy: {syncOptions: [PruneLast=true]}}")), with(spec("{syncPolicy: {syncOptions: [PruneLast=true]}}"), renamed), other, "argo-cd SyncAppState WithPruneLast"},
		{"Application", with(annotated(argo + "sync-wave=1")), with(renamed), other, "gitops-engine getSyncTasks: a later wave"},
		{"Application", with(automatic), with(automatic, removed), "", "argo-cd autoSync: all resources would be pruned"},
		{"Application", with(spec("{syncPolicy: {automated: {prune: true, allowEmpty: true}}}")), with(spec("{syncPolicy: {automated: {prune: true, allowEmpty: true}}}"), removed), "DELETE n/o", "argo-cd autoSync"},
		{"Application", with(automatic), with(automatic, moved), "DELETE n/o, CREATE m/o", "gitops-engine runTasks prunes first"},
		{"Application", with(kind("Job"), annotated(argo+"sync-options=Force=true")), with(kind("Job"), edited), recreated, "gitops-engine applyObject asks the object on the cluster, too"},
		{"Application", with(kind("Job"), annotated(argo+"sync-options=Force=true,ServerSideApply=true")), with(kind("Job"), annotated(argo+"sync-options=Force=true,ServerSideApply=true"), edited), "UPDATE n/o", "kubectl ApplyOptions.Validate"},
		{"Application", with(spec("{syncPolicy: {automated: {}}}")), with(spec("{syncPolicy: {automated: {}}}"), renamed), "CREATE n/p", "argo-cd ApplicationController.autoSync"},
		{"Application", with(annotated(argo + "sync-options=Prune=false")), with(moved), "CREATE m/o", "gitops-engine isPruningDisabled"},
		{"Application", with(), with(handed, edited), "UPDATE n/o", "argo-cd finalizeApplicationDeletion leaves what the other Application has marked by then"},
		{"Application", with(spec("")), with(spec(""), handed, edited), "UPDATE n/o", "argo-cd Application.CascadedDeletion"},
		{"Application", with(), nil, "DELETE n/o", "argo-cd finalizeApplicationDeletion"},
		{"Application", with(spec("")), nil, "", "argo-cd Application.CascadedDeletion"},
		{"Application", with(kind("CustomResourceDefinition")), nil, "", "argo-cd shouldBeDeleted"},
		{"Application", with(kind("Job")), with(kind("Job"), edited), "UPDATE n/o", "gitops-engine applyObject: the server refuses it"},
		{"Application", with(kind("RoleBinding")), with(kind("RoleBinding"), edited), recreated, "gitops-engine rbacReconcile"},
		{"Application", with(kind("RoleBinding")), with(kind("RoleBinding"), annotated("k=v")), "UPDATE n/o", "kubectl ReconcileRoleBindingOptions.Run"},
		{"Application", with(kind("Service"), annotated(argo+"sync-options=Force=true")), with(kind("Service"), annotated(argo+"sync-options=Force=true"), edited), recreated, "kubectl Patcher.Patch: any invalid object"},
		{"Application", with(kind("Job"), annotated(argo+"sync-options=Force=true")), with(kind("Job"), annotated(argo+"sync-options=Force=true"), edited), recreated, "gitops-engine applyObject"},
		{"Application", with(annotated(argo + "sync-options=Force=true,Replace=true")), with(annotated(argo+"sync-options=Force=true,Replace=true"), edited), recreated, "gitops-engine applyObject"},
		{"Application", with(kind("Job"), annotated(argo+"hook=PreSync")), with(kind("Job"), annotated(argo+"hook=PreSync"), edited), recreated, "gitops-engine deleteBeforeCreation"},
		{"Application", with(spec("{syncPolicy: {automated: {}}}")), with(removed, spec("{syncPolicy: {automated: {prune: true, allowEmpty: true}}}")), "DELETE n/o", "argo-cd autoSync, with the new spec"},
		{"Application", with(spec("{syncPolicy: {automated: {prune: true, allowEmpty: true}}}")), with(removed, spec("{syncPolicy: {automated: {}}}")), "DELETE n/o", "argo-cd autoSync, perhaps before the new spec"},
		{"Kustomization", with(), with(annotated(flux+"ssa=IfNotPresent"), edited), "perhaps UPDATE n/o", "ssa shouldSkipApply, without the annotation"},
		{"Kustomization", with(spec("{prune: false}")), with(removed, spec("{prune: true}")), "perhaps DELETE n/o", "kustomize-controller prune, with the new spec and the old inventory"},
		{"Application", with(kind("Job"), annotated(argo+"hook=PreSync")), with(removed), "", "gitops-engine sync.Reconcile"},

		{"ApplicationSet", with(kind("Application")), with(kind("Application"), edited), "UPDATE n/o", "argo-cd AllowUpdate"},
		{"ApplicationSet", with(kind("Application"), spec("{syncPolicy: {applicationsSync: create-only}}")), with(kind("Application"), spec("{syncPolicy: {applicationsSync: create-only}}"), edited), "", "argo-cd AllowUpdate"},
		{"ApplicationSet", with(kind("Application"), spec("{syncPolicy: {applicationsSync: create-only}}")), nil, "", "argo-cd removeOwnerReferencesOnDeleteAppSet"},
		{"ApplicationSet", with(kind("Application"), spec("{syncPolicy: {applicationsSync: create-delete}}")), nil, "DELETE n/o", "argo-cd AllowDelete"},
		{"ApplicationSet", with(kind("Application"), spec("{syncPolicy: {applicationsSync: create-update}}")), with(removed, spec("{syncPolicy: {applicationsSync: create-update}}")), "", "argo-cd AllowDelete"},
	} {
		was, now := &load.Input{Deployed: new(render.Deployment)}, &load.Input{Deployed: new(render.Deployment)}
		for in, side := range map[*load.Input]*deployed{was: c.was, now: c.is} {
			if side != nil {
				in.Head = []*render.Unit{side.unit(t, c.deployer)}
			}
		}
		d, err := delivered(t.Context(), policy.Requests(render.Objects(was.Head), render.Objects(now.Head)), was, now, "")
		rendertest.OK(t, err)
		var got []string
		for _, r := range d.made {
			if o := r.Subject(); r.Operation != policy.Update || !r.Unchanged() {
				got = append(got, fmt.Sprintf("%s %s/%s", r.Operation, o.EffectiveNamespace(), o.GetName()))
			}
		}
		for _, r := range d.unsent {
			if r.Operation == policy.Update {
				got = append(got, fmt.Sprintf("perhaps %s %s/%s", r.Operation, r.Object.EffectiveNamespace(), r.Object.GetName()))
			}
		}
		for _, r := range d.lost {
			got = append(got, fmt.Sprintf("perhaps %s %s/%s", r.Operation, r.OldObject.EffectiveNamespace(), r.OldObject.GetName()))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s, %+v to %+v: %q, want %q by %s", c.deployer, c.was, c.is, text, c.want, c.why)
		}
	}
}
