package schema

import (
	"fmt"
	"math/rand/v2"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// omitted are the fields that random objects go without: what would have to
// make sense, and what 1.36 shows otherwise than the types of 1.37. Taints
// always have their time, which the API server takes from its clock.
var omitted = map[string]bool{
	"managedFields": true, "openAPIV3Schema": true,
	"nodeAllocatableResourceClaimStatuses": true,
}

// A generator makes values of types.
type generator struct {
	*rand.Rand
	full bool // no empty lists
}

func (g *generator) kind(b *builtin) map[string]any {
	object := g.object(b.goType().typ, 0)
	object["apiVersion"], object["kind"] = b.gvk.GroupVersion().String(), b.gvk.Kind
	return object
}

func (g *generator) value(typ reflect.Type, depth int) any {
	switch typ {
	case reflect.TypeFor[resource.Quantity]():
		return []any{"0.5", "1024Mi", "2", int64(3), "100m", "1500u", "4Gi"}[g.IntN(7)]
	case reflect.TypeFor[intstr.IntOrString]():
		return []any{"25%", int64(8080), "http", int64(0), ""}[g.IntN(5)]
	case reflect.TypeFor[metav1.MicroTime]():
		return "2024-05-06T07:08:09.123456Z"
	case reflect.TypeFor[metav1.Time]():
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
	n := g.IntN(3)
	if g.full {
		n = max(n, 1)
	}
	for range n {
		list = append(list, g.value(typ.Elem(), depth+1))
	}
	return list
}

func (g *generator) object(typ reflect.Type, depth int) map[string]any {
	object := map[string]any{}
	for _, f := range fieldsOf(typ) {
		always := f.name == "timeAdded" || f.name == "taint" || f.name == "spec"
		if depth > 12 || omitted[f.name] || !always && g.IntN(100) < 45 {
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
