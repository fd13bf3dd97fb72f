package schema

import (
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgetry.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: widgetry, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 3}
              mode: {type: string, nullable: true}
              parts: {type: array, items: {type: object, properties: {kind: {type: string, default: bolt}}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v3, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
`

func TestAdmitCustom(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "", widgets)
	held, err := kinds.Admit(parse(t, `
apiVersion: example.com/v1
kind: Widget
metadata: {name: a, unknown: 1, labels: {a: b}, creationTimestamp: null}
spec: {mode: null, parts: [{}, {kind: nut, bogus: 1}], free: {a: {b: 1}}, bogus: true}
status: {bogus: true}
`), "team")
	rendertest.OK(t, err)
	want := parse(t, `
apiVersion: example.com/v1
kind: Widget
metadata: {name: a, labels: {a: b}}
spec: {mode: null, size: 3, parts: [{kind: bolt}, {kind: nut}], free: {a: {b: 1}}}
`)
	rendertest.Equal(t, want.Object, held)
}

func TestAdmitCustomErrors(t *testing.T) {
	t.Parallel()
	broken := strings.NewReplacer("Widget", "Gadget", "widgetry", "gadgets", "size: {type: integer", "size: {type: [integer]").Replace(widgets)
	bomb := strings.NewReplacer("Widget", "Bomb", "widgetry", "bombs", "kind: {type: string, default: bolt}",
		"bits: {type: array, items: {type: integer}, default: ["+strings.Repeat("1,", 1000)+"1]}").Replace(widgets)
	kinds := newKinds(t, "", widgets, broken, bomb)
	for _, c := range []struct{ object, want string }{
		{"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a, labels: {a: 1}}", "labels"},
		{"apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}", "the schema of example.com/v1 Gadget can't be read"},
		{"apiVersion: example.com/v1\nkind: Bomb\nmetadata: {name: a}\nspec: {parts: [" + strings.Repeat("{},", 10_000) + "{}]}", "too large"},
	} {
		if _, err := kinds.Admit(parse(t, c.object), ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: error %v, want %q", c.object, err, c.want)
		}
	}
}

// A definition that can't be read is an error at its place, and hides no other.
func TestNewErrors(t *testing.T) {
	t.Parallel()
	place := render.Span{File: "crds.yaml", Line: 3}
	for _, c := range []struct{ old, new, want string }{
		{"  group: example.com\n", "", "spec.group: Required value"},
		{"kind: Widget}", "}", "spec.names.kind: Required value"},
		{"scope: Cluster", "scope: Galaxy", "spec.scope: Unsupported value"},
		{"served: true", "served: false", "no version is served"},
		{"spec:", "spice:", "has no spec"},
	} {
		bad := parse(t, strings.ReplaceAll(widgets, c.old, c.new))
		bad.Provenance = render.File{Span: place}
		good := parse(t, strings.NewReplacer("Widget", "Gadget", "widgetry", "gadgets").Replace(widgets))
		kinds, err := New([]*render.Object{bad, good, object("v1", "ConfigMap")}, Options{})
		errs := render.Errors(err)
		if len(errs) != 1 || errs[0].Span != place || errs[0].Rule != "invalid-crd" || !strings.Contains(errs[0].Err.Error(), c.want) {
			t.Errorf("%q: %v", c.want, err)
		}
		if kinds == nil || !kinds.Resource(gvk("example.com/v1 Gadget")).Known {
			t.Errorf("%q hides another definition", c.want)
		}
	}
}

func TestV1beta1Definition(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "", `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: olds.example.com}
spec: {group: example.com, version: v1, scope: Namespaced, names: {plural: oldies, kind: Old}}
`)
	if r := kinds.Resource(gvk("example.com/v1 Old")); !r.Known || !r.Namespaced || r.Resource != "oldies" {
		t.Errorf("%+v", r)
	}
}
