package apiserver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

// TestQuota holds which of random objects exceed random quotas against the server's own CheckRequest.
func TestQuota(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 6))
	amount := func(n int) resource.Quantity { return *resource.NewQuantity(int64(random.IntN(n)), resource.DecimalSI) }
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "shop"} }
	class := "slow"
	makers := map[string]func(name string) runtime.Object{
		"Service": func(name string) runtime.Object {
			s := &corev1.Service{ObjectMeta: named(name), Spec: corev1.ServiceSpec{Type: []corev1.ServiceType{"ClusterIP", "NodePort", "LoadBalancer"}[random.IntN(3)]}}
			s.Spec.Ports = make([]corev1.ServicePort, random.IntN(3))
			return s
		},
		"PersistentVolumeClaim": func(name string) runtime.Object {
			c := &corev1.PersistentVolumeClaim{ObjectMeta: named(name), Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}}
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: amount(9)}
			return c
		},
		"Pod": func(name string) runtime.Object {
			p := &corev1.Pod{ObjectMeta: named(name), Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "c"}}}}
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: amount(4), corev1.ResourceMemory: amount(4)}
			return p
		},
		"ConfigMap": func(name string) runtime.Object { return &corev1.ConfigMap{ObjectMeta: named(name)} },
	}
	hard := []corev1.ResourceName{"services", "services.nodeports", "services.loadbalancers", "count/services", "persistentvolumeclaims", "requests.storage", "slow.storageclass.storage.k8s.io/requests.storage", "count/configmaps", "configmaps", "pods", "count/pods", "limits.cpu", "limits.memory"}
	refused, later := 0, 0
	for round := range 3000 {
		var quotas []*corev1.ResourceQuota
		for i := range 1 + random.IntN(2) {
			q := &corev1.ResourceQuota{ObjectMeta: named(fmt.Sprint("q", i))}
			q.Spec.Hard = corev1.ResourceList{}
			for range 4 {
				q.Spec.Hard[hard[random.IntN(len(hard))]] = amount(12)
			}
			q.Status.Hard = q.Spec.Hard
			quotas = append(quotas, q)
		}
		kind := []string{"Service", "PersistentVolumeClaim", "ConfigMap", "Pod"}[random.IntN(4)]
		gvk := corev1.SchemeGroupVersion.WithKind(kind)
		objects := map[string]runtime.Object{}
		for i := range random.IntN(4) {
			objects[fmt.Sprint("o", i)] = makers[kind](fmt.Sprint("o", i))
		}
		object, operation, old := makers[kind]("o0"), admission.Create, runtime.Object(nil)
		count := 1 // how often a controller creates it
		if kind == "Pod" || kind == "PersistentVolumeClaim" {
			count += random.IntN(4)
		} else if random.IntN(2) == 0 && objects["o0"] != nil {
			old, operation = objects["o0"], admission.Update
			old.(metav1.Object).SetResourceVersion("1")
		}
		objects["o0"] = object
		var listed []Listed
		for name, o := range objects {
			l := Listed{name, name, o, 1}
			if name == "o0" {
				l.Count = count
			}
			listed = append(listed, l)
		}
		sure := func(string, string, string) bool { return true }
		p := NewPlugins(nil, nil, func(schema.GroupKind) bool { return true }, nil, sure, NewUsage(func(schema.GroupKind, any, string) []Listed { return listed }), nil)
		p.quotas = quotas
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		e := evaluator(plural.GroupResource())
		var given []corev1.ResourceQuota
		for _, q := range quotas {
			used := corev1.ResourceList{}
			for name := range q.Spec.Hard {
				used[name] = resource.Quantity{}
			}
			for name, o := range objects {
				if name == "o0" && old == nil {
					continue
				} else if name == "o0" {
					o = old
				}
				usage, err := e.Usage(o)
				if err != nil {
					t.Fatal(err)
				}
				used = quota.Add(used, quota.Mask(usage, quota.ResourceNames(q.Spec.Hard)))
			}
			given = append(given, corev1.ResourceQuota{ObjectMeta: q.ObjectMeta, Spec: q.Spec, Status: corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: used}})
		}
		a := admission.NewAttributesRecord(object, old, gvk, "shop", "o0", corev1.SchemeGroupVersion.WithResource("x"), "", operation, nil, false, nil)
		var want error
		created := 0
		for ; created < count && want == nil; created++ {
			given, want = resourcequota.CheckRequest(given, a, e, nil)
		}
		got := p.quota(Request{Kind: gvk, Resource: plural.GroupResource(), Namespace: "shop", Object: object, Source: "o0", Name: "o0", Count: count}, object, old)
		if (want != nil) != (len(got) > 0) {
			t.Fatalf("round %d: %s %s: %v, the server: %v", round, operation, kind, got, want)
		}
		which := fmt.Sprintf(" (%s %d of %d)", kind, created, count)
		if want != nil && created > 1 {
			if later++; !slices.ContainsFunc(got, func(c Cause) bool { return strings.HasSuffix(c.Message, which) }) {
				t.Fatalf("round %d: %v, the server refuses%s: %v", round, got, which, want)
			}
		}
		if want != nil {
			refused++
		}
	}
	if refused == 0 || refused == 3000 || later == 0 {
		t.Errorf("%d refused", refused)
	}
	t.Logf("%d of 3000 refused, %d of them not the first of several", refused, later)
}
