package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestLiveOthers holds what the API server refuses because of other objects, and the deletion of Namespaces, against
// a running one: random Services, classes and claims, which are created and then changed.
func TestLiveOthers(t *testing.T) {
	s := startLive(t)
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("PREADMIT_SEED"), "1"), 10, 64)
	random := rand.New(rand.NewPCG(seed, 3))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	s.create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "shop"}})
	for _, class := range []string{"fast", "slow", "plain"} {
		o := map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": map[string]any{"name": class}, "provisioner": "p"}
		if class != "plain" {
			o["allowVolumeExpansion"] = class == "fast"
		}
		s.create(t, "/apis/storage.k8s.io/v1/storageclasses", o)
	}
	classes := rendertest.Parse(t, "classes.yaml", `
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: p, allowVolumeExpansion: true}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: slow}, provisioner: p, allowVolumeExpansion: false}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: plain}, provisioner: p}`)
	service := func(name string) string {
		ports := "{port: 80" + one("", "", ", nodePort: 30100", ", nodePort: 30101") + "}"
		if random.IntN(3) == 0 {
			ports += ", {name: b, port: 81" + one("", ", protocol: UDP") + one("", ", nodePort: 30100", ", nodePort: 30102") + "}"
			ports = strings.Replace(ports, "{port", "{name: a, port", 1)
		}
		return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: shop}, spec: {type: %s, ports: [%s]%s}}",
			name, one("ClusterIP", "NodePort", "NodePort", "LoadBalancer"), ports, one("", "", ", clusterIP: None", ", clusterIP: 10.96.7.1", ", clusterIP: 10.96.7.2")+
				one("", "", ", externalTrafficPolicy: Local", ", externalTrafficPolicy: Local, healthCheckNodePort: 30100"))
	}
	priority := func(name string) string {
		return "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: " + name + "}, value: 7" + one("", ", globalDefault: false", ", globalDefault: true") + "}"
	}
	claim := func(name string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s, namespace: shop}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}%s}}",
			name, one("1Gi", "2Gi", "3Gi"), one(", storageClassName: fast", ", storageClassName: slow", ", storageClassName: plain", ", storageClassName: absent", ", storageClassName: ''"))
	}
	compared, refused := 0, 0
	for round := range 400 {
		make, path := service, "/api/v1/namespaces/shop/services"
		switch round % 4 {
		case 2:
			make, path = priority, "/apis/scheduling.k8s.io/v1/priorityclasses"
		case 3:
			make, path = claim, "/api/v1/namespaces/shop/persistentvolumeclaims"
		}
		a, b, after := parse(t, make("a")), parse(t, make("b")), parse(t, make("b"))
		if round%4 == 3 { // the class can't change
			class, _ := render.Lookup(b.Object, "/spec/storageClassName")
			rendertest.OK(t, unstructured.SetNestedField(after.Object, class, "spec", "storageClassName"))
		}
		if address, _ := render.Lookup(b.Object, "/spec/clusterIP"); address == nil { // which the server chooses
			unstructured.RemoveNestedField(after.Object, "spec", "clusterIP")
		}
		hold := func(req policy.Request, status int, answer map[string]any) {
			t.Helper()
			cluster := policy.NewCluster(append(slices.Clone(classes), a, req.Subject())...)
			cluster.Declared(classes)
			kinds := newKinds(t, "").On(cluster)
			got, _ := ours(t, comparison{kinds: kinds, validators: []policy.Validator{NewValidator(kinds, nil)}}, req)
			compared++
			if want := status >= 400; want != (len(got.refusals) > 0) {
				t.Errorf("round %d: the server says %d %v, preadmit %v\n%s", round, status, answer["message"], got.text, text(t, a, b, after))
			} else if want {
				refused++
			}
		}
		if status, answer := s.do(t, http.MethodPost, path, a.Object); status != http.StatusCreated {
			hold(policy.Request{Operation: policy.Create, Object: a}, status, answer)
			continue
		}
		time.Sleep(50 * time.Millisecond) // until the plugin Priority has heard of a class
		status, answer := s.do(t, http.MethodPost, path, b.Object)
		hold(policy.Request{Operation: policy.Create, Object: b}, status, answer)
		if status == http.StatusCreated {
			time.Sleep(50 * time.Millisecond)
			s.change(t, path+"/b", b, after, hold)
		}
		for _, name := range []string{"a", "b"} {
			s.remove(t, path+"/"+name)
		}
	}
	t.Logf("%d requests compared, %d refused", compared, refused)
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease", "shop"} {
		o := parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
		kinds := newKinds(t, "").On(policy.NewCluster())
		got, _ := ours(t, comparison{kinds: kinds, validators: []policy.Validator{NewValidator(kinds, nil)}}, policy.Request{Operation: policy.Delete, OldObject: o})
		if status, answer := s.do(t, http.MethodDelete, "/api/v1/namespaces/"+name, nil); (status == http.StatusForbidden) != (len(got.refusals) > 0) {
			t.Errorf("%s: the server says %d %v, preadmit %v", name, status, answer["message"], got.text)
		}
	}
}

// change updates an object that has just been created as kubectl apply does: a claim is bound before.
func (s *liveServer) change(t *testing.T, path string, was, is *render.Object, hold func(policy.Request, int, map[string]any)) {
	t.Helper()
	_, stored := s.do(t, http.MethodGet, path, nil)
	if was.GetKind() == "PersistentVolumeClaim" {
		size, _ := render.Lookup(was.Object, "/spec/resources/requests/storage")
		stored["status"] = map[string]any{"phase": "Bound", "capacity": map[string]any{"storage": size}}
		_, stored = s.do(t, http.MethodPut, path+"/status", stored)
	}
	kinds := newKinds(t, "")
	merged, err := kinds.Merge(policy.Apply, was.GroupVersionKind(), was.Object, is.Object, stored)
	rendertest.OK(t, err)
	status, answer := s.do(t, http.MethodPut, path, merged)
	hold(policy.Request{Operation: policy.Update, OldObject: was, Object: is}, status, answer)
}

// remove deletes an object, whatever protects it.
func (s *liveServer) remove(t *testing.T, path string) {
	t.Helper()
	if status, stored := s.do(t, http.MethodGet, path, nil); status == http.StatusOK {
		if unstructured.RemoveNestedField(stored, "metadata", "finalizers"); strings.Contains(path, "persistentvolumeclaims") {
			s.do(t, http.MethodPut, path, stored)
		}
		s.do(t, http.MethodDelete, path, nil)
	}
}

func text(t *testing.T, objects ...*render.Object) string {
	var all []string
	for _, o := range objects {
		data, err := json.Marshal(o.Object)
		rendertest.OK(t, err)
		all = append(all, string(data))
	}
	return strings.Join(all, "\n")
}

// TestLiveTooLong holds the limit of kubectl apply's annotation against a running server.
func TestLiveTooLong(t *testing.T) {
	s := startLive(t)
	s.create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "shop"}})
	refused := 0
	for _, size := range lengths() {
		o := long(t, size)
		status, answer := s.do(t, http.MethodPost, "/api/v1/namespaces/shop/configmaps?dryRun=All", applied(t, o).Object)
		got := tooLong(&policy.Request{Operation: policy.Create, Object: o, Namespace: "shop", Resource: policy.Resource{Namespaced: true}})
		if (status >= 400) != (len(got) > 0) {
			t.Errorf("%d: the server says %d %v, preadmit %v", size, status, answer["message"], got)
		}
		if status >= 400 {
			refused++
		}
	}
	if refused == 0 || refused == len(lengths()) {
		t.Errorf("%d of %d are refused", refused, len(lengths()))
	}
}

// lengths are those of texts around the one whose manifest just fits.
func lengths() (all []int) {
	for n := maxAnnotations - 400; n < maxAnnotations; n += 3 {
		all = append(all, n)
	}
	return all
}

// long returns a ConfigMap with a text of a size.
func long(t *testing.T, size int) *render.Object {
	o := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: long, annotations: {a: b}}}")
	o.Object["data"] = map[string]any{"text": strings.Repeat("<", size%7) + strings.Repeat("x", size-6*(size%7))} // JSON has \u003c for <
	return o
}

// applied returns an object as kubectl apply creates it in the namespace shop.
func applied(t *testing.T, o *render.Object) *unstructured.Unstructured {
	sent := o.DeepCopy()
	sent.SetNamespace("shop")
	data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, sent)
	rendertest.OK(t, err)
	annotations := sent.GetAnnotations()
	annotations[corev1.LastAppliedConfigAnnotation] = string(data)
	sent.SetAnnotations(annotations)
	return sent
}

// TestLiveVersioned holds what the server says of a manifest with a resourceVersion.
func TestLiveVersioned(t *testing.T) {
	s := startLive(t)
	s.create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "shop"}})
	path := "/api/v1/namespaces/shop/configmaps"
	for i, version := range []string{"", "0", "1", "x", "18446744073709551616"} {
		o := parse(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d, namespace: shop, resourceVersion: %q}, data: {a: b}}", i, version))
		applied := o.DeepCopy()
		applied.SetName("applied-" + o.GetName())
		for _, c := range []struct {
			method, path string
			object       *unstructured.Unstructured
			operation    policy.Operation
			by           policy.Method
		}{
			{http.MethodPost, path, o.Unstructured, policy.Create, policy.Apply},
			{http.MethodPatch, path + "/applied-" + o.GetName() + "?a=b" + serverSide, applied, policy.Create, policy.ApplyServerSide},
			{http.MethodPut, path + "/applied-" + o.GetName(), applied, policy.Update, policy.Replace},
		} {
			if c.method != http.MethodPost && len(strings.Trim(version, "01")) > 0 {
				continue // the server can't read it
			}
			status, answer := s.do(t, c.method, c.path, c.object)
			got := versioned(&policy.Request{Operation: c.operation, Method: c.by, Object: &render.Object{Unstructured: c.object}})
			if (status >= 400) != (len(got) > 0) || len(got) > 0 && c.operation == policy.Create && got[0].Message != answer["message"] {
				t.Errorf("%s with resourceVersion %q: the server says %d %v, preadmit %v", c.method, version, status, answer["message"], got)
			}
		}
	}
}
