// Deployers runs Argo CD's own engine on changes, so that render/delivery can be compared with it. It reads
// the changes as JSON from standard input and writes the operations of each to standard output.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube/kubetest"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// A testCase is a change of an Application: the objects before and after it, and its sync options.
type testCase struct {
	Was, Now []*unstructured.Unstructured
	Options  []string
}

func main() {
	var cases []testCase
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		fatal(err)
	}
	all := make([][]string, len(cases))
	for i, c := range cases {
		done, err := synchronize(c)
		if err != nil {
			done = append(done, "error: "+err.Error())
		}
		all[i] = done
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// synchronize runs syncs until one ends, as the application controller does. It passes the Application's
// options to the engine as argo-cd's appStateManager.SyncAppState does.
func synchronize(c testCase) ([]string, error) {
	cl := &cluster{objects: make(map[kube.ResourceKey]*unstructured.Unstructured)}
	for _, o := range c.Was {
		cl.objects[kube.GetResourceKey(o)] = o
	}
	server := httptest.NewServer(cl)
	defer server.Close()
	option := func(name string) bool { return slices.Contains(c.Options, name) }
	var prune *string
	for _, o := range c.Options {
		if v, ok := strings.CutPrefix(o, "Prune="); ok {
			prune = &v
		}
	}
	phase, message := common.OperationRunning, ""
	var results []common.ResourceSyncResult
	for range 8 {
		live := make(map[kube.ResourceKey]*unstructured.Unstructured)
		for key, o := range cl.objects {
			live[key] = o
		}
		var targets []*unstructured.Unstructured
		for _, o := range c.Now {
			targets = append(targets, o.DeepCopy())
		}
		config := &rest.Config{Host: server.URL}
		s, cleanup, err := sync.NewSyncContext("r", sync.Reconcile(targets, live, "n", scopes{}), config, config, cl, "n",
			sync.WithInitialState(phase, message, results, metav1.Now()), sync.WithLogr(logr.Discard()), sync.WithHealthOverride(healthy{}),
			sync.WithPrune(true), sync.WithReplace(option("Replace=true")), sync.WithServerSideApply(option("ServerSideApply=true")),
			sync.WithPruneLast(option("PruneLast=true")), sync.WithDefaultPruneOption(prune))
		if err != nil {
			return nil, err
		}
		s.Sync()
		phase, message, results = s.GetState()
		cleanup()
		if phase.Completed() {
			if phase != common.OperationSucceeded {
				return cl.done, fmt.Errorf("%s: %s", phase, message)
			}
			return cl.done, nil
		}
	}
	return cl.done, fmt.Errorf("does not end: %s", message)
}

type healthy struct{}

func (healthy) GetResourceHealth(*unstructured.Unstructured) (*health.HealthStatus, error) {
	return &health.HealthStatus{Status: health.HealthStatusHealthy}, nil
}

type scopes struct{}

func (scopes) IsNamespaced(gk schema.GroupKind) (bool, error) {
	return gk.Kind != "CustomResourceDefinition" && gk.Kind != "Namespace", nil
}

// A cluster keeps objects, and records what is done to them.
type cluster struct {
	kubetest.MockKubectlCmd
	objects map[kube.ResourceKey]*unstructured.Unstructured
	done    []string
}

func (c *cluster) record(what string, o *unstructured.Unstructured, dry cmdutil.DryRunStrategy, force bool) {
	if dry != cmdutil.DryRunNone {
		return
	}
	if force {
		what += " by force"
	}
	c.done = append(c.done, what+" "+o.GetName())
	c.objects[kube.GetResourceKey(o)] = o
}

func (c *cluster) ManageResources(*rest.Config) (kube.ResourceOperations, func(), error) {
	return &operations{cluster: c}, func() {}, nil
}

// operations are those that change objects.
type operations struct {
	kubetest.MockResourceOps
	cluster *cluster
}

func (op *operations) ApplyResource(_ context.Context, o *unstructured.Unstructured, dry cmdutil.DryRunStrategy, force, _, serverSide bool, _ string) (string, error) {
	if serverSide {
		op.cluster.record("apply server-side", o, dry, false)
	} else {
		op.cluster.record("apply", o, dry, force)
	}
	return "", nil
}

func (op *operations) ReplaceResource(_ context.Context, o *unstructured.Unstructured, dry cmdutil.DryRunStrategy, force bool) (string, error) {
	op.cluster.record("replace", o, dry, force)
	return "", nil
}

func (op *operations) UpdateResource(_ context.Context, o *unstructured.Unstructured, dry cmdutil.DryRunStrategy) (*unstructured.Unstructured, error) {
	op.cluster.record("update", o, dry, false)
	return o, nil
}

func (op *operations) CreateResource(_ context.Context, o *unstructured.Unstructured, dry cmdutil.DryRunStrategy, _ bool) (string, error) {
	op.cluster.record("create", o, dry, false)
	return "", nil
}

func (c *cluster) DeleteResource(_ context.Context, _ *rest.Config, gvk schema.GroupVersionKind, name, namespace string, _ metav1.DeleteOptions) error {
	c.done = append(c.done, "delete "+name)
	delete(c.objects, kube.NewResourceKey(gvk.Group, gvk.Kind, namespace, name))
	return nil
}

func (c *cluster) GetResource(_ context.Context, _ *rest.Config, gvk schema.GroupVersionKind, name, namespace string) (*unstructured.Unstructured, error) {
	return c.objects[kube.NewResourceKey(gvk.Group, gvk.Kind, namespace, name)], nil
}

// ServeHTTP answers the discovery and dynamic clients of the engine.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group, rest := "", parts[1:]
	if parts[0] == "apis" && len(parts) > 2 {
		group, rest = parts[1], parts[2:]
	}
	if len(rest) == 1 {
		json.NewEncoder(w).Encode(resources(group, rest[0]))
		return
	}
	key := kube.ResourceKey{Group: group, Name: rest[len(rest)-1]}
	if len(rest) > 3 {
		key.Namespace = rest[2]
	}
	for k, o := range c.objects {
		if key.Kind = k.Kind; k != key {
			continue
		}
		if r.Method == http.MethodDelete {
			c.done = append(c.done, "delete "+k.Name)
			delete(c.objects, k)
		}
		if k.Kind == "CustomResourceDefinition" { // the engine waits until it is served
			o = o.DeepCopy()
			o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
		}
		json.NewEncoder(w).Encode(o)
		return
	}
	w.WriteHeader(http.StatusNotFound)
	json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
}

// resources lists the kinds that the cases have.
func resources(group, version string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.Trim(group+"/"+version, "/")}
	for _, kind := range map[string][]string{
		"": {"ConfigMap", "Namespace", "Secret", "Service"}, "batch": {"Job"}, "apps": {"Deployment"},
		"rbac.authorization.k8s.io": {"RoleBinding"}, "apiextensions.k8s.io": {"CustomResourceDefinition"},
	}[group] {
		namespaced, _ := scopes{}.IsNamespaced(schema.GroupKind{Group: group, Kind: kind})
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: strings.ToLower(kind) + "s", SingularName: strings.ToLower(kind), Kind: kind, Namespaced: namespaced,
			Verbs: metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete"},
		})
	}
	return list
}
