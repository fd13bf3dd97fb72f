package overlay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/filters/patchstrategicmerge"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

// kustomized is what kustomize makes of an object and a patch.
func kustomized(t *testing.T, object, patch map[string]any) (map[string]any, error) {
	t.Helper()
	parse := func(v any) *kyaml.RNode {
		text, err := json.Marshal(v)
		rendertest.OK(t, err)
		return kyaml.MustParse(string(text))
	}
	nodes, err := patchstrategicmerge.Filter{Patch: parse(patch)}.Filter([]*kyaml.RNode{parse(object)})
	if err != nil {
		return nil, err
	}
	if len(nodes) != 1 {
		return nil, fmt.Errorf("%d objects", len(nodes))
	}
	text, err := nodes[0].MarshalJSON()
	if err != nil {
		return nil, err
	}
	return decode(t, string(text)), nil
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	rendertest.OK(t, json.Unmarshal([]byte(text), &m))
	return m
}

// TestMergeAsKustomize compares merges of random patches with kustomize's.
func TestMergeAsKustomize(t *testing.T) {
	t.Parallel()
	for seed := range uint64(800) {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		kind := g.pick("Pod", "Deployment", "Service", "Rollout")
		object, patch := g.object(kind, false), g.object(kind, true)
		want, wantErr := kustomized(t, object, patch)
		c, _ := cloneObject(patch)
		o, _ := cloneObject(object)
		var m merger
		got, err := m.merge(o, c, shape{}, "")
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%d: error %v, kustomize's %v\n%s\n%s", seed, err, wantErr, text(object), text(patch))
		}
		if err == nil && !reflect.DeepEqual(got, any(want)) {
			t.Fatalf("%d: %s\nobject %s\npatch  %s", seed, cmp.Diff(any(want), got), text(object), text(patch))
		}
	}
}

// TestDuplicatesAsKustomize compares merges of lists that have elements with the same
// name with kustomize's.
func TestDuplicatesAsKustomize(t *testing.T) {
	t.Parallel()
	for seed := range uint64(800) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		list := func() []any {
			list := []any{}
			for range 1 + g.IntN(4) {
				e := map[string]any{"name": g.pick("a", "b", "c")}
				if g.maybe() {
					e["value"] = g.pick("x", "y", "z")
				} else {
					e["valueFrom"] = map[string]any{"fieldRef": map[string]any{"fieldPath": g.pick("x", "y")}}
				}
				list = append(list, e)
			}
			return list
		}
		pod := func(env []any) map[string]any {
			return map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "env": env}}}}
		}
		object, patch := pod(list()), pod(list())
		want, err := kustomized(t, object, patch)
		rendertest.OK(t, err)
		o, _ := cloneObject(object)
		c, _ := cloneObject(patch)
		var m merger
		got, err := m.merge(o, c, shape{}, "")
		rendertest.OK(t, err)
		if diff := cmp.Diff(any(want), got); diff != "" {
			t.Fatalf("%d: %s\nobject %s\npatch  %s", seed, diff, text(object), text(patch))
		}
	}
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

type generator struct{ *rand.Rand }

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }
func (g generator) maybe() bool              { return g.IntN(2) == 0 }

func (g generator) object(kind string, patch bool) map[string]any {
	o := map[string]any{"metadata": g.metadata(patch)}
	if !patch || g.maybe() {
		o["apiVersion"] = map[string]string{"Pod": "v1", "Service": "v1", "Deployment": "apps/v1", "Rollout": "argoproj.io/v1alpha1"}[kind]
		o["kind"] = kind
	}
	switch kind {
	case "Pod":
		o["spec"] = g.podSpec(patch)
	case "Service":
		o["spec"] = map[string]any{"ports": g.servicePorts()}
	default:
		o["spec"] = map[string]any{"template": map[string]any{"metadata": g.metadata(patch), "spec": g.podSpec(patch)}}
	}
	return o
}

func (g generator) metadata(patch bool) map[string]any {
	m := map[string]any{"labels": g.strings(patch)}
	if g.maybe() {
		m["annotations"] = g.strings(patch)
	}
	if g.maybe() {
		m["finalizers"] = g.some("f")
	}
	return m
}

func (g generator) strings(patch bool) map[string]any {
	m := map[string]any{}
	for range g.IntN(4) {
		m[g.pick("a", "b", "c", "x/y")] = g.pick("1", "two", "")
		if patch && g.IntN(5) == 0 {
			m[g.pick("a", "b", "c")] = nil
		}
	}
	return m
}

func (g generator) some(prefix string) []any {
	list := []any{}
	seen := map[string]bool{}
	for range g.IntN(4) {
		if s := prefix + g.pick("1", "2", "3"); !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	return list
}

// named makes elements with names of their own.
func (g generator) named(key string, fill func(map[string]any)) []any {
	list := []any{}
	for _, name := range g.some("n") {
		e := map[string]any{key: name}
		fill(e)
		list = append(list, e)
	}
	return list
}

func (g generator) podSpec(patch bool) map[string]any {
	spec := map[string]any{"containers": g.named("name", func(c map[string]any) { g.container(c, patch) })}
	// Where the object has no volumes kustomize makes one of the directive that
	// replaces them.
	if !patch || g.maybe() {
		spec["volumes"] = g.named("name", func(v map[string]any) { v["emptyDir"] = map[string]any{"medium": g.pick("Memory", "")} })
		if !patch && len(spec["volumes"].([]any)) == 0 {
			spec["volumes"] = []any{map[string]any{"name": "n1"}}
		}
	}
	if g.maybe() {
		spec["tolerations"] = []any{map[string]any{"key": g.pick("k", "l")}}
	}
	if g.maybe() {
		spec["imagePullSecrets"] = g.named("name", func(map[string]any) {})
	}
	if g.maybe() {
		spec["hostAliases"] = g.named("ip", func(h map[string]any) { h["hostnames"] = g.some("h") })
	}
	if g.maybe() {
		spec["topologySpreadConstraints"] = g.named("topologyKey", func(c map[string]any) {
			c["whenUnsatisfiable"] = g.pick("DoNotSchedule", "ScheduleAnyway")
			c["maxSkew"] = float64(g.IntN(3))
		})
	}
	if patch && g.IntN(8) == 0 {
		spec["volumes"] = append([]any{map[string]any{"$patch": "replace"}}, g.named("name", func(map[string]any) {})...)
	}
	if g.maybe() {
		spec["affinity"] = map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
			"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": g.pick("a", "b"), "operator": "Exists"}}}},
		}}}
	}
	if patch && g.maybe() {
		spec["dnsConfig"] = map[string]any{"options": []any{map[string]any{"name": "x", "value": nil}}, "searches": nil, "nameservers": g.some("n")}
	}
	if g.maybe() {
		spec["securityContext"] = map[string]any{"runAsNonRoot": g.maybe()}
	}
	if patch && g.IntN(6) == 0 {
		spec["securityContext"] = nil
	}
	if patch && g.IntN(8) == 0 {
		spec["securityContext"] = map[string]any{"$patch": g.pick("replace", "delete", "merge"), "runAsUser": float64(1)}
	}
	return spec
}

func (g generator) container(c map[string]any, patch bool) {
	if g.maybe() {
		c["image"] = g.pick("nginx", "redis:1")
	}
	if g.maybe() {
		c["args"] = g.some("a")
	}
	if g.maybe() {
		c["env"] = g.named("name", func(e map[string]any) { e["value"] = g.pick("x", "y") })
	}
	if g.maybe() {
		c["volumeMounts"] = g.named("mountPath", func(v map[string]any) { v["name"] = g.pick("x", "y") })
	}
	if g.maybe() {
		c["resources"] = map[string]any{"limits": map[string]any{"memory": g.pick("1Gi", "2Gi")}}
	}
	if g.maybe() {
		c["ports"] = g.ports()
	}
	if patch && g.IntN(10) == 0 {
		c["$patch"] = g.pick("delete", "merge")
	}
}

func (g generator) ports() []any {
	list := []any{}
	protocol := g.maybe()
	for _, n := range []float64{80, 443} {
		if g.maybe() {
			list = append(list, map[string]any{"containerPort": n, "name": g.pick("http", "web")})
			if protocol {
				list[len(list)-1].(map[string]any)["protocol"] = g.pick("TCP", "UDP")
			}
		}
	}
	return list
}

func (g generator) servicePorts() []any {
	list := []any{}
	for _, n := range []float64{80, 443} {
		if g.maybe() {
			list = append(list, map[string]any{"port": n, "protocol": "TCP", "name": g.pick("http", "web")})
		}
	}
	return list
}
