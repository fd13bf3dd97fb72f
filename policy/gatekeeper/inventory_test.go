package gatekeeper

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// seesServices says what it finds of Services, in all namespaces.
const seesServices = `
package k
violation[{"msg": msg}] {
  other := data.inventory.namespace[ns]["v1"]["Service"][name]
  msg := sprintf("%v/%v %v", [ns, name, other.spec.port])
}`

// TestInventoryBefore holds that data.inventory is as it is before a request:
// what is created is not there, and what is updated is as it was.
func TestInventoryBefore(t *testing.T) {
	t.Parallel()
	objects := parseAll(t, `
{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}, spec: {port: 80}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, namespace: shop}, spec: {port: 81}}
`)
	e, err := New(parseAll(t, templateOf(seesServices)+plainConstraint), Options{Cluster: policy.NewCluster(objects...)})
	rendertest.OK(t, err)
	req := requestOf(t, `{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}, spec: {port: 80}}`)
	rendertest.Equal(t, []string{"fail deny K/c: shop/b 81"}, said(t, e, req))
	old := parseOne(t, `{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}, spec: {port: 70}}`)
	req.Operation, req.OldObject, req.OldAdmitted = policy.Update, old, old.Object
	rendertest.Equal(t, []string{"fail deny K/c: shop/a 70", "fail deny K/c: shop/b 81"}, said(t, e, req))
}

// TestInventoryUnits holds that of an object that several overlays apply each
// sees its own, and nothing of what goes to another cluster.
func TestInventoryUnits(t *testing.T) {
	t.Parallel()
	in := func(unit *render.Unit, text string) *render.Object {
		o := parseOne(t, text)
		o.Unit = unit
		return o
	}
	dev, prod := &render.Unit{Cluster: "dev"}, &render.Unit{Cluster: "prod"}
	dev.Path, prod.Path = "dev", "prod"
	objects := []*render.Object{
		in(dev, `{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}, spec: {port: 1}}`),
		in(prod, `{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}, spec: {port: 2}}`),
		in(prod, `{apiVersion: v1, kind: Service, metadata: {name: b, namespace: shop}, spec: {port: 3}}`),
	}
	e, err := New(parseAll(t, templateOf(seesServices)+plainConstraint), Options{Cluster: policy.NewCluster(objects...)})
	rendertest.OK(t, err)
	for unit, want := range map[*render.Unit][]string{
		dev:  {"fail deny K/c: shop/a 1"},
		prod: {"fail deny K/c: shop/a 2", "fail deny K/c: shop/b 3"},
	} {
		req := requestOf(t, pod)
		req.Object.Unit = unit
		rendertest.Equal(t, want, said(t, e, req))
	}
}

// TestInventoryClusters holds that objects see nothing of another cluster's,
// even where no object goes to both.
func TestInventoryClusters(t *testing.T) {
	t.Parallel()
	unit := func(cluster, path string) *render.Unit {
		u := &render.Unit{Cluster: cluster}
		u.Path = path
		return u
	}
	var objects []*render.Object
	for i, u := range []*render.Unit{unit("dev", "a"), unit("dev", "b"), unit("prod", "c")} {
		o := parseOne(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: s%d, namespace: shop}, spec: {port: %d}}`, i, i))
		o.Unit = u
		objects = append(objects, o)
	}
	e, err := New(parseAll(t, templateOf(seesServices)+plainConstraint), Options{Cluster: policy.NewCluster(objects...)})
	rendertest.OK(t, err)
	dev, prod := []string{"fail deny K/c: shop/s0 0", "fail deny K/c: shop/s1 1"}, []string{"fail deny K/c: shop/s2 2"}
	for _, c := range []struct {
		unit *render.Unit
		want []string
	}{
		{objects[0].Unit, dev},
		{unit("dev", "without any"), dev},
		{objects[2].Unit, prod},
		{unit("stage", ""), []string{"pass deny K/c"}},
		{unit("", "anywhere"), slices.Concat(dev, prod)},
	} {
		req := requestOf(t, pod)
		req.Object.Unit = c.unit
		if diff := cmp.Diff(c.want, said(t, e, req)); diff != "" {
			t.Errorf("%v: %s", c.unit, diff)
		}
	}
}

func TestKindsOfInventory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]inventoryUse{
		`data.inventory.cluster["v1"].Namespace[name]`:              {kinds: map[string]bool{"Namespace": true}},
		`data.inventory.namespace[ns]["v1"]["Service"]`:             {kinds: map[string]bool{"Service": true}},
		`data.inventory.namespace[ns][v][kind]`:                     {all: true},
		`data.inventory[scope]["v1"]["Namespace"]["kube-system"]`:   {all: true},
		`data.inventory[scope][ns]["v1"]["Service"]["kube-system"]`: {all: true},
		`data.inventory`: {all: true},
	} {
		var u inventoryUse
		u.add(ast.MustParseRef(text))
		if diff := cmp.Diff(want, u, cmp.AllowUnexported(inventoryUse{})); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// TestSharedTexts holds that terms which share their texts equal those that do not.
func TestSharedTexts(t *testing.T) {
	t.Parallel()
	shared := terms{floats: true, texts: map[string]*ast.Term{}}
	for _, v := range []any{
		map[string]any{"name": "name", "labels": map[string]any{"name": "a", "a": "name"}, "n": int64(1e6)},
		[]any{"a", "name", map[string]any{"": ""}, nil, true, 1.5, "1.5"},
	} {
		if got, want := shared.term(v), overJSON.term(v); !got.Equal(want) || got.String() != want.String() {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if len(shared.texts) != 6 {
		t.Errorf("%d texts are shared, want 6: %v", len(shared.texts), shared.texts)
	}
}
