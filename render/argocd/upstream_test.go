package argocd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/delivery"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestUpstream compares the expected operations of Argo CD with those of its own engine, gitops-engine. It
// creates, updates and removes an object of each kind that the engine treats differently, with each pair of
// annotations and each sync option of the Application. It does not cover what kubectl does within one
// operation, such as replacing the role of a binding. `make deployers` builds the program that runs the
// engine.
func TestUpstream(t *testing.T) {
	program := os.Getenv("PREADMIT_DEPLOYERS")
	if program == "" {
		t.Skip("make deployers runs it")
	}
	const argo = "argocd.argoproj.io/"
	kinds := map[string]string{
		"ConfigMap": "v1", "Namespace": "v1", "Job": "batch/v1", "CustomResourceDefinition": "apiextensions.k8s.io/v1",
	}
	settings := []string{
		"", argo + "sync-options=Replace=true", argo + "sync-options=Force=true", argo + "sync-options=Force=true,Replace=true", argo + "sync-options=Force=false",
		argo + "sync-options=ServerSideApply=true", argo + "sync-options=ServerSideApply=false", argo + "sync-options=ServerSideApply=true,Force=true",
		argo + "sync-options=Prune=false", argo + "sync-options=Prune=true", argo + "sync-options=Prune=confirm", argo + "sync-options= Prune=false , Delete=false",
		argo + "hook=PreSync", argo + "hook=Sync", argo + "hook=PostSync", argo + "hook=Skip", argo + "hook=", argo + "hook=PreSync,Skip", argo + "hook=Unknown",
		argo + "hook-delete-policy=HookSucceeded", argo + "hook-delete-policy=BeforeHookCreation", argo + "hook-delete-policy=HookSucceeded,BeforeHookCreation",
		argo + "hook-delete-policy=garbage", "helm.sh/hook=pre-upgrade", "helm.sh/hook=post-install,pre-delete", "helm.sh/hook=crd-install", "helm.sh/hook=test",
		"helm.sh/hook=", "helm.sh/hook-delete-policy=hook-succeeded", "helm.sh/hook-delete-policy=before-hook-creation", "helm.sh/resource-policy=keep",
	}
	type change struct {
		Was, Now []map[string]any
		Options  []string
	}
	var cases []change
	var objects [][2]*render.Object
	for _, kind := range []string{"ConfigMap", "Namespace", "Job", "CustomResourceDefinition"} {
		for i, a := range settings {
			for _, b := range settings[i:] {
				key, _, _ := strings.Cut(a, "=")
				if other, _, _ := strings.Cut(b, "="); key == other && a != b {
					continue // one annotation has one value
				}
				for _, option := range []string{"", "Replace=true", "ServerSideApply=true", "Prune=false", "Prune=confirm"} {
					for _, at := range []string{"created", "updated", "removed"} {
						was, now := annotated(t, kinds[kind], kind, "a", a, b), annotated(t, kinds[kind], kind, "b", a, b)
						now.Unit = new(render.Unit)
						now.Unit.Owner = &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{"kind": "Application"}}}
						if why, _ := delivery.LeavesAlone(now); why != "" && at == "removed" {
							continue // Argo CD never applied the annotation, so the object on the cluster lacks it
						}
						c := change{Options: []string{option}}
						if at == "created" {
							was = nil
						} else {
							c.Was = append(c.Was, was.Object)
						}
						if at == "removed" {
							now = nil
						} else {
							c.Now = append(c.Now, now.Object)
						}
						cases, objects = append(cases, c), append(objects, [2]*render.Object{was, now})
					}
				}
			}
		}
	}
	in, err := json.Marshal(cases)
	rendertest.OK(t, err)
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	rendertest.OK(t, err)
	var done [][]string
	rendertest.OK(t, json.Unmarshal(out, &done))
	wrong := 0
	for i, c := range cases {
		owner := parsed(t, fmt.Sprintf("apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec: {syncPolicy: {syncOptions: [%q]}}", c.Options[0]))
		unit := func() *render.Unit {
			u := &render.Unit{ID: "u"}
			u.Owner = owner
			return u
		}
		before, after := unit(), unit()
		was, now := objects[i][0], objects[i][1]
		if was != nil { // an object that Argo CD skips was deployed before the annotation
			was.Unit, before.Objects = before, []*render.Object{was}
		}
		act := delivery.Leave
		switch {
		case now != nil:
			now.Unit, after.Objects = after, []*render.Object{now}
			if why, _ := delivery.LeavesAlone(now); why != "" {
				break
			}
			fallthrough
		default:
			act, _ = delivery.New([]*render.Unit{before}, []*render.Unit{after}).Act(was, now)
		}
		if text := strings.Join(done[i], ", "); was != nil && now != nil && (act == delivery.Apply || act == delivery.RecreateIfRefused) {
			if got, want := delivery.Sends(was, now), sends(text); got != want {
				wrong++
				t.Errorf("%s %v, option %q: sent by act %d, upstream %d: %s", now.GetKind(), now.GetAnnotations(), c.Options[0], got, want, text)
			}
		}
		if got, want := requests(act, was != nil, now != nil), upstream(done[i], was != nil); got != want {
			if wrong++; wrong <= 20 {
				o := cmp.Or(now, was)
				t.Errorf("was %v, is %v, %s %v, option %q: %q, upstream %q", was != nil, now != nil, o.GetKind(), o.GetAnnotations(), c.Options[0], got, want)
			}
		}
	}
	t.Logf("%d changes, %d differ", len(cases), wrong)
}

func parsed(t *testing.T, text string) *render.Object {
	t.Helper()
	all, err := render.Parse("o.yaml", []byte(text))
	rendertest.OK(t, err)
	return all[0]
}

// annotated returns an object with annotations, each key=value.
func annotated(t *testing.T, apiVersion, kind, field string, pairs ...string) *render.Object {
	t.Helper()
	o := parsed(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: o}\nspec: {field: %s}\n", apiVersion, kind, field))
	if kind != "Namespace" && kind != "CustomResourceDefinition" {
		o.SetNamespace("n")
	}
	annotations := make(map[string]string)
	for _, pair := range pairs {
		if key, value, ok := strings.Cut(pair, "="); ok {
			annotations[key] = value
		}
	}
	if len(annotations) > 0 {
		o.SetAnnotations(annotations)
	}
	return o
}

// upstream converts the operations of the engine to the form of requests. It leaves out how the engine
// creates or updates an object, the deletion of a new hook that has succeeded, and pruning that a person must
// confirm.
func upstream(done []string, existed bool) string {
	text := strings.Join(done, ", ")
	if strings.HasPrefix(text, "error: does not end: waiting for pruning confirmation") {
		return ""
	}
	text = strings.NewReplacer("replace by force", "recreate", "replace", "apply", "update", "apply", "create", "apply", "apply server-side", "apply").Replace(text)
	text = strings.Replace(text, "delete o, apply by force o", "recreate o", 1)
	text = strings.Replace(text, "delete o, apply o", "recreate o", 1)
	if !existed {
		text = strings.Replace(strings.Replace(text, " by force", "", 1), "recreate", "apply", 1)
	}
	if before, ok := strings.CutSuffix(text, ", delete o"); ok && (!existed || before == "recreate o") {
		text = before
	}
	return strings.Replace(text, "apply by force o, delete o", "apply o, delete o", 1)
}

// sends returns how the engine updates an object.
func sends(done string) delivery.Act {
	switch {
	case strings.Contains(done, "apply server-side"):
		return delivery.ApplyServerSide
	case strings.Contains(done, "replace") || strings.Contains(done, "update"):
		return delivery.Replace
	}
	return delivery.Apply
}

// requests returns the operations that the engine should carry out for an act.
func requests(act delivery.Act, was, is bool) string {
	switch {
	case act == delivery.Leave:
		return ""
	case !is:
		return "delete o"
	case act == delivery.RecreateIfRefused:
		return "apply by force o"
	case act == delivery.Recreate:
		return "recreate o"
	case act == delivery.CreateAgain:
		return "apply o, delete o"
	}
	return "apply o"
}
