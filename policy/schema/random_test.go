package schema

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/preadmit/preadmit/render"
)

// Objects of every kind with fields that are there or not by chance are
// completed as the API server completes them.
func TestRandomObjectsAsTheOracle(t *testing.T) {
	t.Parallel()
	kinds, err := New(nil, Options{KubeVersion: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	var requests []oracleRequest
	for i, b := range kinds.sortedKinds(func(b *builtin) bool { return b.goType() != nil }) {
		for seed := range 40 {
			g := &generator{rand.New(rand.NewPCG(uint64(i), uint64(seed)))}
			object, _ := g.value(b.goType().typ, 0).(map[string]any)
			if object == nil {
				object = map[string]any{}
			}
			object["apiVersion"], object["kind"] = b.gvk.GroupVersion().String(), b.gvk.Kind
			requests = append(requests, oracleRequest{Object: object})
		}
	}
	same, refused := 0, 0
	different := map[string]int{}
	for i, a := range askOracle(t, requests) {
		o := &render.Object{Unstructured: &unstructured.Unstructured{Object: requests[i].Object}}
		name := o.GetAPIVersion() + " " + o.GetKind()
		got, err := kinds.Admit(o, "")
		if (err != nil) != (a.Error != "") {
			t.Errorf("%s: error %v, want %q", name, err, a.Error)
			continue
		}
		if err != nil {
			refused++
			continue
		}
		if diff := cmp.Diff(expected(t, kinds, a.Object), normal(t, got)); diff != "" {
			if different[name]++; different[name] == 1 {
				t.Errorf("%s (-oracle +ours):\n%s", name, diff)
			}
			continue
		}
		same++
	}
	t.Logf("%d objects the same, %d refused by both, %v different", same, refused, different)
}

// A generator makes values of types.
type generator struct{ *rand.Rand }

func (g *generator) value(typ reflect.Type, depth int) any {
	switch typ {
	case reflect.TypeFor[resource.Quantity]():
		return []any{"0.5", "1024Mi", "2", int64(3), "100m", "1500u", "4Gi"}[g.IntN(7)]
	case reflect.TypeFor[intstr.IntOrString]():
		return []any{"25%", int64(8080), "http", int64(0), ""}[g.IntN(5)]
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "2024-05-06T07:08:09Z"
	case reflect.TypeFor[metav1.Duration]():
		return "1m0s"
	case reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[runtime.RawExtension]():
		return map[string]any{"a": "b"}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return g.value(typ.Elem(), depth)
	case reflect.String:
		return g.text(typ)
	case reflect.Bool:
		return g.IntN(2) == 0
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return int64(g.IntN(3))
	case reflect.Float64:
		return 0.5
	case reflect.Slice:
		return g.list(typ, depth)
	case reflect.Map:
		return map[string]any{g.key(typ): g.value(typ.Elem(), depth+1)}
	case reflect.Struct:
		return g.object(typ, depth)
	}
	return nil
}

func (g *generator) list(typ reflect.Type, depth int) any {
	if typ.Elem().Kind() == reflect.Uint8 {
		return "aGVsbG8="
	}
	list := []any{}
	for range g.IntN(3) {
		list = append(list, g.value(typ.Elem(), depth+1))
	}
	return list
}

func (g *generator) object(typ reflect.Type, depth int) map[string]any {
	object := map[string]any{}
	for _, f := range fieldsOf(typ) {
		if depth > 12 || g.IntN(100) < 45 || f.name == "managedFields" || f.name == "openAPIV3Schema" || f.name == "timeAdded" {
			continue
		}
		if v := g.value(f.typ, depth+1); v != nil {
			object[f.name] = v
		}
	}
	return object
}

func (g *generator) key(typ reflect.Type) string {
	return []string{"a", "cpu", "memory", "hugepages-2Mi", "example.com/gpu"}[g.IntN(5)]
}

func (g *generator) text(typ reflect.Type) string {
	words := map[string][]string{
		"ServiceType":                   {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName", ""},
		"ServiceAffinity":               {"None", "ClientIP", ""},
		"DeploymentStrategyType":        {"Recreate", "RollingUpdate", ""},
		"DaemonSetUpdateStrategyType":   {"OnDelete", "RollingUpdate", ""},
		"StatefulSetUpdateStrategyType": {"OnDelete", "RollingUpdate", ""},
		"MetricSourceType":              {"Resource", "Pods", "Object", "External", "ContainerResource"},
		"LimitType":                     {"Container", "Pod"},
		"DeviceAllocationMode":          {"ExactCount", "All", ""},
		"ResourceName":                  {"cpu", "memory"},
	}
	if w := words[typ.Name()]; w != nil {
		return w[g.IntN(len(w))]
	}
	return []string{"", "a", "User", "nginx:latest", "ghcr.io/a/b@sha256:" + fmt.Sprintf("%064d", 1), "Group", "latest"}[g.IntN(7)]
}
