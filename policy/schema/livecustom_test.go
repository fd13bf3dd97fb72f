package schema

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// definitions installs the published definitions that the server takes, and returns them.
func (c *comparison) definitions(t *testing.T, all []*unstructured.Unstructured) (taken []*render.Object) {
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	seen := make(map[string]bool)
	for _, o := range all {
		parsed := &render.Object{Unstructured: o}
		if !IsDefinition(parsed) || o.GetAPIVersion() != "apiextensions.k8s.io/v1" || seen[o.GetName()] {
			continue
		}
		seen[o.GetName()] = true
		if strategy, _, _ := unstructured.NestedString(o.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
			continue // which does not answer
		}
		unstructured.RemoveNestedField(o.Object, "status")
		if status, answer := c.do(t, http.MethodPost, path, o.Object); status != http.StatusCreated {
			c.add(fmt.Sprintf("explained: definition refused: %.200v", answer["message"]), func() string { return "" })
			continue
		}
		taken = append(taken, parsed)
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		for _, v := range versions {
			if m, _ := v.(map[string]any); m["storage"] != true {
				gk := parsed.Object["spec"].(map[string]any)
				names, _ := gk["names"].(map[string]any)
				c.converted[fmt.Sprintf("%v/%v %v", gk["group"], m["name"], names["kind"])] = true
			}
		}
	}
	for _, o := range taken {
		for range 200 {
			_, answer := c.do(t, http.MethodGet, path+"/"+o.GetName(), nil)
			conditions, _, _ := unstructured.NestedSlice(answer, "status", "conditions")
			if slices.ContainsFunc(conditions, func(one any) bool {
				m, _ := one.(map[string]any)
				return m["type"] == "Established" && m["status"] == "True"
			}) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return taken
}

// A customMaker makes random objects of a schema, most of which it allows.
type customMaker struct{ *rand.Rand }

func (m customMaker) value(s map[string]any, depth int) any {
	if m.IntN(60) == 0 {
		return []any{nil, "", "x", int64(0), int64(-1), 1.5, true, []any{}, map[string]any{}, "100Mi"}[m.IntN(10)]
	}
	if enum, ok := s["enum"].([]any); ok && len(enum) > 0 && m.IntN(10) > 0 {
		return runtime.DeepCopyJSONValue(enum[m.IntN(len(enum))])
	}
	typ, _ := s["type"].(string)
	if s["x-kubernetes-int-or-string"] == true {
		typ = []string{"integer", "string"}[m.IntN(2)]
	}
	switch typ {
	case "object":
		return m.object(s, depth)
	case "array":
		list := []any{}
		items, _ := s["items"].(map[string]any)
		for range m.IntN(3) {
			list = append(list, m.value(items, depth+1))
		}
		return list
	case "boolean":
		return m.IntN(2) == 0
	case "integer", "number":
		least, _ := s["minimum"].(int64)
		return least + int64(m.IntN(5))
	}
	if s["format"] == "date-time" {
		return "2030-01-02T03:04:05Z"
	}
	return []any{"a", "b", "name", "10s", "http://example.com/x", "Always", "app/v1", "1.2.3.4"}[m.IntN(8)]
}

func (m customMaker) object(s map[string]any, depth int) map[string]any {
	made := make(map[string]any)
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		needed := slices.Contains(required, any(name))
		if needed && m.IntN(40) > 0 || !needed && m.IntN(3+2*depth) == 0 {
			made[name] = m.value(property, depth+1)
		}
	}
	if more, ok := s["additionalProperties"].(map[string]any); ok && m.IntN(2) == 0 {
		made["key"] = m.value(more, depth+1)
	}
	if m.IntN(50) == 0 {
		made["unknown"] = "x"
	}
	return made
}

// of returns a random object of a version of a definition.
func (m customMaker) of(d *render.Object, name string) map[string]any {
	spec, _ := d.Object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	version, _ := versions[m.IntN(len(versions))].(map[string]any)
	root, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	object := m.object(root, 0)
	names, _ := spec["names"].(map[string]any)
	object["apiVersion"] = fmt.Sprintf("%v/%v", spec["group"], version["name"])
	object["kind"], object["metadata"] = names["kind"], map[string]any{"name": name}
	return object
}

// TestLiveCustom compares verdicts and stored objects of custom resources with those of a running server, which has
// published definitions: objects that are created, and updates of them.
func TestLiveCustom(t *testing.T) {
	s := startLive(t)
	if _, err := os.Stat("../../../shared"); err != nil {
		t.Skip("../../../shared is absent")
	}
	all, err := readManifests("../../../shared/repos", "../../../shared/charts", corporaRoot)
	rendertest.OK(t, err)
	c := comparison{liveServer: s, tally: newTally(), converted: make(map[string]bool)}
	definitions := c.definitions(t, all)
	c.kinds, err = New(definitions, Options{})
	rendertest.OK(t, err)
	c.kinds = c.kinds.On(policy.NewCluster())
	engine, err := crd.New(definitions, crd.Options{})
	rendertest.OK(t, err)
	c.validators = []policy.Validator{NewValidator(c.kinds, nil), engine}
	size, _ := strconv.Atoi(cmp.Or(os.Getenv("PREADMIT_LIVE"), "2000"))
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("PREADMIT_SEED"), "1"), 10, 64)
	m := customMaker{rand.New(rand.NewPCG(seed, 1))}
	change := &changer{Rand: m.Rand, seen: make(map[string]map[string]any), keys: make(map[string][]string)}
	var published []map[string]any
	for _, o := range all {
		if c.kinds.customs[o.GroupVersionKind().GroupKind()] != nil && o.Object["sops"] == nil {
			published = append(published, o.Object)
			change.learn(fmt.Sprint(o.Object["apiVersion"], o.Object["kind"]), o.Object)
		}
	}
	t.Logf("%d definitions, %d published objects", len(definitions), len(published))
	for i := range size {
		name := fmt.Sprintf("x%d-%d", seed, i)
		from := m.of(definitions[i%len(definitions)], name)
		if i%3 == 0 && len(published) > 0 {
			from = runtime.DeepCopyJSON(published[(i/3)%len(published)])
			rename(from, name)
		}
		c.object(t, 0, nil, from)
		c.object(t, 0, nil, change.changed(from))
		now := change.changed(from)
		rename(now, name)
		for _, by := range []policy.Method{policy.Apply, policy.ApplyServerSide, policy.Replace} {
			c.object(t, by, from, now)
		}
	}
	c.report(t)
}
