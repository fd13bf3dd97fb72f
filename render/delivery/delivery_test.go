package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// objects reads an object that a test writes as YAML.
func object(t *testing.T, text string) *render.Object {
	t.Helper()
	all, err := render.Parse("o.yaml", []byte(text))
	rendertest.OK(t, err)
	if len(all) != 1 {
		t.Fatalf("%d objects in %s", len(all), text)
	}
	return all[0]
}

// TestRows holds what each deployer does with an object that is created, updated, pruned or left
// over when the deployer itself goes, and that each row of the table decides one of the cases, here or in TestChangeMatrix.
func TestRows(t *testing.T) {
	t.Parallel()
	const (
		flux     = "kustomize.toolkit.fluxcd.io/"
		argo     = "argocd.argoproj.io/"
		finalize = "metadata: {finalizers: [resources-finalizer.argocd.argoproj.io]}\n"
	)
	decided := make(map[int]bool)
	for _, c := range []struct {
		deployer, spec string // the object that deploys, and its fields
		kind           string // of the object; "" is a ConfigMap
		annotation     string // of the object, key=value, several separated by ;, after + or - only after or before an update
		at             step
		want           Act
	}{
		{"Kustomization", "spec: {prune: true}", "", "", created | updated | pruned | uninstalled, Apply},
		{"Kustomization", "spec: {prune: true}", "", flux + "reconcile=disabled", created | pruned | uninstalled, Leave},
		{"Kustomization", "spec: {prune: true}", "", flux + "ssa=ignore", created | pruned | uninstalled, Leave},
		{"Kustomization", "spec: {prune: true}", "", flux + "ssa=IfNotPresent", created | pruned | uninstalled, Apply},
		{"Kustomization", "spec: {prune: true}", "", flux + "ssa=IfNotPresent", updated, Leave},
		{"Kustomization", "spec: {prune: true}", "", flux + "force=enabled", updated, RecreateIfRefused},
		{"Kustomization", "spec: {prune: true, force: true}", "", "", updated, RecreateIfRefused},
		{"Kustomization", "spec: {prune: true}", "", flux + "prune=disabled", pruned | uninstalled, Leave},
		{"Kustomization", "spec: {prune: false}", "", "", pruned | uninstalled, Leave},
		{"Kustomization", "spec: {prune: true, deletionPolicy: Orphan}", "", "", pruned, Apply},
		{"Kustomization", "spec: {prune: true, deletionPolicy: Orphan}", "", "", uninstalled, Leave},
		{"Kustomization", "spec: {prune: false, deletionPolicy: Delete}", "", "", uninstalled, Apply},
		{"Kustomization", "spec: {prune: false, deletionPolicy: Delete}", "", "", pruned, Leave},

		{"HelmRelease", "spec: {}", "", "", created | updated | pruned | uninstalled, Apply},
		{"HelmRelease", "spec: {}", "", "helm.sh/resource-policy=keep", pruned | uninstalled, Leave},
		{"HelmRelease", "spec: {}", "", "helm.sh/resource-policy= Keep", uninstalled, Leave},
		{"HelmRelease", "spec: {}", "", "helm.sh/resource-policy= Keep", pruned, Apply},
		{"HelmRelease", "spec: {}", "Job", "helm.sh/hook=pre-upgrade", pruned | uninstalled, Leave},
		{"HelmRelease", "spec: {}", "Job", "helm.sh/hook=pre-upgrade", updated, Recreate},
		{"HelmRelease", "spec: {}", "Job", "helm.sh/hook=pre-install, post-upgrade", updated, Recreate},
		{"HelmRelease", "spec: {}", "Job", "helm.sh/hook=pre-install", updated, CreateAgain},
		{"HelmRelease", "spec: {}", "Job", "helm.sh/hook=pre-upgrade;helm.sh/hook-delete-policy=hook-succeeded", updated, CreateAgain},
		{"HelmRelease", "spec: {}", "Job", "helm.sh/hook=pre-upgrade;helm.sh/hook-delete-policy=hook-succeeded,before-hook-creation", updated, Recreate},

		{"HelmRelease", "spec: {}", "Job", "+helm.sh/hook=pre-upgrade", updated, Recreate},
		{"HelmRelease", "spec: {}", "Job", "-helm.sh/hook=pre-upgrade", updated, CreateAgain},
		{"HelmRelease", "spec: {}", "Job", "revision", updated, Recreate},
		{"HelmRelease", "spec: {}", "Job", "revision;helm.sh/hook=pre-upgrade", updated, CreateAgain},

		{"HelmRelease", "spec: {install: {createNamespace: true}}", "Namespace", "made", created, Apply},
		{"HelmRelease", "spec: {install: {createNamespace: true}}", "Namespace", "made", updated | pruned | uninstalled, Leave},
		{"HelmRelease", "spec: {}", "Namespace", "", updated | pruned | uninstalled, Apply},

		{"Application", finalize + "spec: {}", "Namespace", "made", created, Apply},
		{"Application", finalize + "spec: {}", "Namespace", "made", updated | pruned | uninstalled, Leave},
		{"Application", finalize + "spec: {syncPolicy: {managedNamespaceMetadata: {}}}", "Namespace", "made", pruned | uninstalled, Leave},
		{"Application", finalize + "spec: {syncPolicy: {managedNamespaceMetadata: {}}}", "Namespace", "made", created | updated, Apply},
		{"Application", finalize + "spec: {}", "Namespace", "", updated | pruned | uninstalled, Apply},
		{"Application", finalize + "spec: {}", "", "", created | updated | pruned | uninstalled, Apply},
		{"Application", "spec: {}", "", "", uninstalled, Leave},
		{"Application", finalize + "spec: {}", "", argo + "hook= Skip,", created, Leave},
		{"Application", finalize + "spec: {}", "", argo + "hook=Skip,Never", created, Leave},
		{"Application", finalize + "spec: {}", "", argo + "hook=Skip", pruned, Apply}, // the object on the cluster lacks the annotation
		{"Application", finalize + "spec: {}", "", argo + "hook=skip", created, Leave},
		{"Application", finalize + "spec: {}", "", argo + "hook=", created, Leave},
		{"Application", finalize + "spec: {}", "", "helm.sh/hook=test", created, Leave},
		{"Application", finalize + "spec: {}", "", "helm.sh/hook=test, pre-delete", created, Apply},
		{"Application", finalize + "spec: {}", "", "helm.sh/hook=crd-install", created, Apply},
		{"Application", finalize + "spec: {}", "", argo + "hook=Skip,PostSync", created, Apply},
		{"Application", finalize + "spec: {}", "", argo + "hook=PreDelete", created, Apply},
		{"Application", finalize + "spec: {}", "", argo + "hook=Skip,PreDelete", created, Leave},
		{"Application", finalize + "spec: {}", "", argo + "hook=never;helm.sh/hook=pre-install", created, Apply},
		{"Application", finalize + "spec: {}", "Job", argo + "hook=PreSync", updated, Recreate},
		{"Application", finalize + "spec: {}", "Job", argo + "hook=PreSync;" + argo + "hook-delete-policy=HookSucceeded", updated, CreateAgain},
		{"Application", finalize + "spec: {}", "Job", "helm.sh/hook=post-install", updated, Recreate},
		{"Application", finalize + "spec: {}", "Job", argo + "hook=Sync;" + argo + "hook-delete-policy=HookSucceeded;helm.sh/hook-delete-policy=before-hook-creation", updated, Recreate},
		{"Application", finalize + "spec: {}", "Job", argo + "hook=PreSync;" + argo + "hook-delete-policy=garbage", updated, Recreate},
		{"Application", finalize + "spec: {}", "CustomResourceDefinition", "helm.sh/hook=crd-install", updated, Apply},
		{"Application", finalize + "spec: {syncPolicy: {syncOptions: [ServerSideApply=true]}}", "Job", argo + "sync-options=Force=true", updated, Apply},
		{"Application", finalize + "spec: {syncPolicy: {syncOptions: [ServerSideApply=true]}}", "RoleBinding", argo + "sync-options=ServerSideApply=false", updated, Recreate},
		{"Application", finalize + "spec: {syncPolicy: {syncOptions: [Replace=true]}}", "", argo + "sync-options=Force=true,Replace=false", updated, Recreate},
		{"Application", finalize + "spec: {}", "CustomResourceDefinition", argo + "sync-options=Force=true,Replace=true", updated, Apply},
		{"Application", finalize + "spec: {}", "Namespace", argo + "sync-options=Force=true,Replace=true", updated, Apply},
		{"Application", finalize + "spec: {}", "RoleBinding", argo + "sync-options=ServerSideApply=true", updated, Apply},
		{"Application", finalize + "spec: {syncPolicy: {syncOptions: [Delete=false, Prune=false]}}", "", argo + "sync-options=Delete=true,Prune=true", pruned | uninstalled, Apply},
		{"Application", finalize + "spec: {}", "Job", argo + "hook=PostSync", pruned, Leave},
		{"Application", finalize + "spec: {}", "", argo + "sync-options=Force=true,Replace=true", updated, Recreate},
		{"Application", finalize + "spec: {syncPolicy: {syncOptions: [Replace=true]}}", "", argo + "sync-options=Force=true", updated, Recreate},
		{"Application", finalize + "spec: {}", "", argo + "sync-options=Force=true", updated, RecreateIfRefused},
		{"Application", finalize + "spec: {}", "RoleBinding", "", updated, Recreate},
		{"Application", finalize + "spec: {}", "", argo + "sync-options=Prune=false", pruned, Leave},
		{"Application", finalize + "spec: {}", "", argo + "sync-options=Prune=confirm", pruned, Leave},
		{"Application", finalize + "spec: {syncPolicy: {syncOptions: [Prune=false]}}", "", "", pruned, Leave},
		{"Application", finalize + "spec: {syncPolicy: {syncOptions: [Prune=confirm]}}", "", "", pruned, Leave},
		{"Application", finalize + "spec: {syncPolicy: {automated: {}}}", "", "", pruned, Leave},
		{"Application", finalize + "spec: {syncPolicy: {automated: {prune: true}}}", "", "", pruned, Apply},
		{"Application", finalize + "spec: {syncPolicy: {automated: {enabled: false}}}", "", "", pruned, Apply},
		{"Application", finalize + "spec: {}", "CustomResourceDefinition", "", uninstalled, Leave},
		{"Application", finalize + "spec: {}", "CustomResourceDefinition", "", pruned, Apply},
		{"Application", finalize + "spec: {}", "", "helm.sh/resource-policy=keep", uninstalled, Leave},
		{"Application", finalize + "spec: {}", "", argo + "sync-options=Delete=false", uninstalled, Leave},
		{"Application", finalize + "spec: {}", "", argo + "sync-options=Delete=confirm", uninstalled, Leave},
		{"Application", finalize + "spec: {syncPolicy: {syncOptions: [Delete=false]}}", "", "", uninstalled, Leave},
		{"Application", finalize + "spec: {syncPolicy: {syncOptions: [Delete=confirm]}}", "", "", uninstalled, Leave},

		{"ApplicationSet", "spec: {}", "Application", "", created | updated | pruned, Apply},
		{"ApplicationSet", "spec: {syncPolicy: {applicationsSync: create-only}}", "Application", "", updated | pruned, Leave},
		{"ApplicationSet", "spec: {syncPolicy: {applicationsSync: create-delete}}", "Application", "", updated, Leave},
		{"ApplicationSet", "spec: {syncPolicy: {applicationsSync: create-delete}}", "Application", "", pruned, Apply},
		{"ApplicationSet", "spec: {syncPolicy: {applicationsSync: create-update}}", "Application", "", updated, Apply},
		{"ApplicationSet", "spec: {syncPolicy: {applicationsSync: create-update}}", "Application", "", pruned, Leave},
		{"ApplicationSet", "spec: {syncPolicy: {applicationsSync: create-update}}", "Application", "", uninstalled, Apply},
		{"ApplicationSet", finalize + "spec: {syncPolicy: {applicationsSync: create-update}}", "Application", "", uninstalled, Leave},
		{"ApplicationSet", finalize + "spec: {syncPolicy: {applicationsSync: create-delete}}", "Application", "", uninstalled, Apply},
		{"ApplicationSet", "spec: {syncPolicy: {applicationsSync: sync}}", "Application", "", updated | pruned, Apply},

		{"Kustomization", "spec: {}", "", flux + "force=enabled", sent, ApplyServerSide},
		{"Kustomization", "spec: {}", "Secret", "", sent, ApplyAsData},
		{"HelmRelease", "spec: {}", "Secret", "", sent, ApplyServerSide},
		{"HelmRelease", "spec: {}", "", "", sent, ApplyServerSide},
		{"HelmRelease", "spec: {upgrade: {force: true}}", "", "", sent, Replace},
		{"HelmRelease", "spec: {upgrade: {serverSideApply: disabled}}", "", "", sent, ApplyDifference},
		{"HelmRelease", "spec: {install: {serverSideApply: false}}", "", "", sent, ApplyDifference},
		{"HelmRelease", "spec: {install: {serverSideApply: false}, upgrade: {serverSideApply: auto}}", "", "", sent, ApplyDifference},
		{"HelmRelease", "spec: {install: {serverSideApply: false}, upgrade: {serverSideApply: enabled}}", "", "", sent, ApplyServerSide},
		{"Application", "spec: {}", "", "", sent, Apply},
		{"Application", "spec: {}", "Namespace", argo + "sync-options=Replace=true", sent, Replace},
		{"Application", "spec: {}", "", argo + "sync-options=ServerSideApply=true", sent, ApplyServerSide},
		{"Application", "spec: {syncPolicy: {syncOptions: [ServerSideApply=true]}}", "", argo + "sync-options=ServerSideApply=false", sent, Apply},
		{"Application", "spec: {syncPolicy: {syncOptions: [ServerSideApply=true, Replace=true]}}", "", "", sent, Replace},
		{"ApplicationSet", "spec: {}", "Application", "", sent, Replace},
		{"ResourceSet", "spec: {}", "ConfigMap", "", sent, ApplyServerSide},
	} {
		owner := object(t, fmt.Sprintf("apiVersion: example.org/v1\nkind: %s\n%s\n", c.deployer, c.spec))
		o := &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}}
		switch c.kind {
		case "RoleBinding":
			o.SetAPIVersion("rbac.authorization.k8s.io/v1")
			o.SetKind(c.kind)
		case "":
		default:
			o.SetKind(c.kind)
		}
		annotations, before := make(map[string]string), make(map[string]string)
		for pair := range strings.SplitSeq(c.annotation, ";") {
			key, value, _ := strings.Cut(pair, "=")
			switch key {
			case "revision":
				o.Assumed = []string{render.NamedByRevision}
			case "made":
				o.Provenance = made{}
			}
			if !strings.HasPrefix(key, "-") {
				annotations[strings.TrimPrefix(key, "+")] = value
			}
			if !strings.HasPrefix(key, "+") {
				before[strings.TrimPrefix(key, "-")] = value
			}
		}
		o.SetAnnotations(annotations)
		o.Unit = new(render.Unit)
		o.Unit.Owner = owner
		for _, at := range []step{created, updated, pruned, uninstalled, sent} {
			if c.at&at == 0 {
				continue
			}
			got := Apply
			s := &subject{Object: o}
			if at == updated { // from a binding of another role
				s.live = &render.Object{Unstructured: o.DeepCopy()}
				s.live.SetAnnotations(before)
				s.live.Object["roleRef"] = map[string]any{"name": "other"}
			}
			if r := rowFor(at, s); r != nil {
				got = r.act
				decided[slices.IndexFunc(rows, func(x row) bool { return x.source == r.source && x.why == r.why && x.at == r.at && x.act == r.act })] = true
				if r.act == Leave && r.why == "" {
					t.Errorf("%s: a row that leaves an object gives no reason", r.source)
				}
			}
			if got != c.want {
				t.Errorf("%s {%s}, %s %q, step %d: act %d, want %d", c.deployer, c.spec, c.kind, c.annotation, at, got, c.want)
			}
		}
	}
	for i, r := range rows {
		elsewhere := strings.Contains(r.source, "applyCRDs") || strings.Contains(r.why, "nothing of its Application") // they need a rendered unit
		if r.source == "" || !decided[i] && !elsewhere && !sameAsOther(i) {
			t.Errorf("row %d (%v, %s) decides no case", i, r.deployers, r.source)
		}
	}
}

// made is the Provenance of an object that a deployer creates by an option.
type made struct{}

func (made) At(string) []render.Origin { return []render.Origin{{Role: render.Generated}} }

// sameAsOther reports whether another row cannot be told from row i by its act, reason and source.
func sameAsOther(i int) bool {
	return slices.IndexFunc(rows, func(x row) bool {
		return x.source == rows[i].source && x.why == rows[i].why && x.at == rows[i].at && x.act == rows[i].act
	}) != i
}

// TestFirst holds which deleted objects are gone before the others of their unit are applied.
func TestFirst(t *testing.T) {
	t.Parallel()
	unit := func(deployer, spec, release string) *render.Unit {
		u := &render.Unit{ID: "u", Release: release}
		if deployer != "" {
			u.Owner = object(t, fmt.Sprintf("apiVersion: example.org/v1\nkind: %s\nmetadata: {name: d}\nspec: %s\n", deployer, spec))
		}
		return u
	}
	objects := func(names string) (all []*render.Object) { // name@wave:hook
		for s := range strings.FieldsSeq(names) {
			name, rest, _ := strings.Cut(s, "@")
			wave, hook, _ := strings.Cut(rest, ":")
			o := object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\n")
			o.SetAnnotations(map[string]string{"argocd.argoproj.io/sync-wave": wave})
			switch {
			case hook == "last":
				o.SetAnnotations(map[string]string{"argocd.argoproj.io/sync-options": "PruneLast=true"})
			case hook != "":
				o.SetAnnotations(map[string]string{"argocd.argoproj.io/hook": hook})
			}
			all = append(all, o)
		}
		return all
	}
	for _, c := range []struct{ deployer, spec, was, is, gone, applied, want, why string }{
		{"", "{}", "", "", "a", "b", "", "kubectl apply, then kubectl delete"},
		{"Kustomization", "{}", "", "", "a", "b", "", "kustomize-controller reconcile: apply, then prune"},
		{"HelmRelease", "{}", "r", "r", "a", "b", "", "helm Client.update deletes last"},
		{"HelmRelease", "{}", "r", "s", "a", "b", "a", "helm-controller reconcileRelease uninstalls, then requeues"},
		{"Application", "{}", "", "", "a", "b", "a", "runTasks prunes first"},
		{"Application", "{}", "", "", "a@1", "b", "", "getSyncTasks: wave 1 after wave 0"},
		{"Application", "{}", "", "", "a@-1 b@1", "c", "b", "getSyncTasks swaps the waves of a and b"},
		{"Application", "{}", "", "", "a@-1 b b@1", "c", "b b", "getSyncTasks swaps the first and the last"},
		{"Application", "{}", "", "", "a@1", "b@1", "a", "runTasks prunes first"},
		{"Application", "{}", "", "", "a@:last b", "c", "b", "PruneLast of the object"},
		{"Application", "{syncPolicy: {syncOptions: [PruneLast=true]}}", "", "", "a", "b", "", "WithPruneLast"},
		{"Application", "{}", "", "", "a", "b c@:PreSync", "", "the hook is created before the sync"},
		{"Application", "{}", "", "", "a", "b@0 c@:PostSync", "a", "the hook is created after the sync"},
	} {
		got := New([]*render.Unit{unit(c.deployer, c.spec, c.was)}, []*render.Unit{unit(c.deployer, c.spec, c.is)}).First("u", objects(c.gone), objects(c.applied))
		var names []string
		for _, o := range got {
			names = append(names, o.GetName())
		}
		if text := strings.Join(names, " "); text != c.want {
			t.Errorf("%s %s: delete %s, apply %s: %q first, want %q by %s", c.deployer, c.spec, c.gone, c.applied, text, c.want, c.why)
		}
	}
}
