package schema

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestSchemaIsPublished holds every built-in kind's schema against what the
// API server's own resolver makes of the same documents.
func TestSchemaIsPublished(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.29", ""} {
		k, err := New(nil, Options{KubeVersion: version})
		rendertest.OK(t, err)
		raw, err := k.Components()
		rendertest.OK(t, err)
		n := 0
		for gvk, b := range k.builtins {
			name, _ := k.ComponentOf(gvk)
			if name == "" && b.served == newest.bit() {
				continue // its schema is not out yet
			}
			if name == "" {
				t.Errorf("%v has no schema", gvk)
				continue
			}
			want, err := resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
				s := &spec.Schema{}
				err := json.Unmarshal(raw[strings.TrimPrefix(ref, refPrefix)], s)
				return s, err == nil
			}, refPrefix+name)
			rendertest.OK(t, err)
			got, ok := k.Schema(gvk)
			if !ok {
				t.Errorf("%v is not there", gvk)
				continue
			}
			if a, b := typeOfSchema(got), typeOfSchema(want); a != b {
				t.Errorf("%v: %s", gvk, cmp.Diff(b, a))
			}
			n++
		}
		if n < 60 {
			t.Errorf("only %d kinds", n)
		}
	}
}

// typeOfSchema writes the CEL type of a schema, its fields in order.
func typeOfSchema(s *spec.Schema) string {
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              port: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              labels: {type: object, additionalProperties: {type: string}}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              many: {type: array, items: {type: object, properties: {when: {type: string, format: date-time}}}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - {name: v3, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
`

// TestCustomSchema says what fields custom objects have: those of their
// definition, and the metadata of every object.
func TestCustomSchema(t *testing.T) {
	t.Parallel()
	k, err := New([]*render.Object{parse(t, widgetCRD)}, Options{})
	rendertest.OK(t, err)
	meta := []string{".metadata.labels object", ".metadata.labels{} string", ".metadata.creationTimestamp string date-time", ".apiVersion string", ".kind string"}
	for version, want := range map[string][]string{
		"v1": append([]string{
			".spec object", ".spec.size integer", ".spec.port", ".spec.free object", ".spec.labels object", ".spec.labels{} string",
			".spec.many array", ".spec.many[] object", ".spec.many[].when string date-time",
			".spec.template object", ".spec.template.apiVersion string", ".spec.template.metadata.name string",
		}, meta...),
		"v2": meta,
	} {
		s, ok := k.Schema(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"})
		if !ok {
			t.Fatal("no schema")
		}
		got := fields(s)
		for _, f := range want {
			if !slices.Contains(got, f) {
				t.Errorf("%s: no %q in %q", version, f, got)
			}
		}
		own := slices.DeleteFunc(got, func(f string) bool { return strings.Contains(f, "metadata") })
		if n := map[string]int{"v1": 15, "v2": 3}[version]; len(own) != n {
			t.Errorf("%s: %q", version, own)
		}
	}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "example.com", Version: "v3", Kind: "Widget"}, {Group: "example.com", Version: "v1", Kind: "Gadget"}, {Group: "apps", Version: "v2", Kind: "Deployment"},
	} {
		if _, ok := k.Schema(gvk); ok {
			t.Errorf("%v is not served", gvk)
		}
	}
}

// fields lists what can be read of a schema's type: its fields and theirs.
func fields(s *spec.Schema) []string {
	var all []string
	var walk func(path string, s common.Schema)
	walk = func(path string, s common.Schema) {
		if s == nil {
			return
		}
		all = append(all, path+strings.TrimRight(" "+s.Type()+" "+s.Format(), " "))
		for name, p := range s.Properties() {
			walk(path+"."+name, p)
		}
		walk(path+"[]", s.Items())
		if more := s.AdditionalProperties(); more != nil {
			walk(path+"{}", more.Schema())
		}
	}
	walk("", &openapi.Schema{Schema: s})
	slices.Sort(all)
	return all
}

func TestResources(t *testing.T) {
	t.Parallel()
	k, err := New([]*render.Object{parse(t, widgetCRD)}, Options{KubeVersion: "1.31"})
	rendertest.OK(t, err)
	var got []string
	for _, r := range k.Resources() {
		if r.Kind == "Widget" || r.Kind == "Deployment" {
			got = append(got, r.Group+"/"+r.Version+" "+r.Name+" "+r.Kind)
		}
	}
	want := []string{
		"apps/v1 deployments Deployment", "apps/v1 deployments/scale Deployment", "apps/v1 deployments/status Deployment",
		"example.com/v1 widgets Widget", "example.com/v1 widgets/status Widget", "example.com/v2 widgets Widget",
	}
	rendertest.Equal(t, want, got)
	if !k.BuiltinGroup("") || !k.BuiltinGroup("apps") || k.BuiltinGroup("example.com") {
		t.Error("groups that are built in")
	}
	for gvr, want := range map[schema.GroupVersionResource]bool{
		{Group: "apps", Version: "v1", Resource: "deployments"}:                false,
		{Group: "policy", Version: "v1beta1", Resource: "podsecuritypolicies"}: true,
		{Group: "networking.k8s.io", Version: "v1", Resource: "servicecidrs"}:  true,
		{Group: "networking.k8s.io", Version: "v1", Resource: "service-cidrs"}: false,
		{Group: "example.com", Version: "v1", Resource: "widgets"}:             false,
	} {
		if k.OtherRelease(gvr) != want {
			t.Errorf("%v: want %v", gvr, want)
		}
	}
}
