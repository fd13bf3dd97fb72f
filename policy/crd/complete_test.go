package crd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestComplete has names offered in rules at each depth of a schema.
func TestComplete(t *testing.T) {
	t.Parallel()
	o := rendertest.Parse(t, "crd.yaml", []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v0, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations: [{rule: self}]
        properties:
          spec:
            type: object
            x-kubernetes-validations: [{rule: self, messageExpression: self}]
            properties:
              namespace: {type: string}
              "properties": {type: object, properties: {x-y: {type: string, x-kubernetes-validations: [{rule: self}]}}, x-kubernetes-validations: [{rule: self}]}
              list: {type: array, items: {type: object, properties: {int: {type: integer}}, x-kubernetes-validations: [{rule: self}]}}
              map: {type: object, additionalProperties: {type: object, properties: {b: {type: boolean}}, x-kubernetes-validations: [{rule: self}]}}
`))[0]
	const schema = "/spec/versions/1/schema/openAPIV3Schema"
	const rule = "/x-kubernetes-validations/0/rule"
	for _, c := range []struct{ pointer, before, want string }{
		{schema + rule, "self.", "apiVersion kind metadata spec"},
		{schema + rule, "self.metadata.", "generateName name"},
		{schema + rule, "self.spec.list.all(x, x.", "int"},
		{schema + "/properties/spec" + rule, "self.", "list map namespace properties"},
		{schema + "/properties/spec" + rule, "oldSelf.p", "list map namespace properties"},
		{schema + "/properties/spec/x-kubernetes-validations/0/messageExpression", "'a' + self.map['x'].", "b"},
		{schema + "/properties/spec/properties/properties" + rule, "self.", "x__dash__y"},
		{schema + "/properties/spec/properties/list/items" + rule, "self.", "int"},
		{schema + "/properties/spec/properties/map/additionalProperties" + rule, "self.", "b"},
		{schema + "/properties/none" + rule, "self.", ""},
		{schema + "/properties/spec/items" + rule, "self.", ""},
		{schema + "/properties/spec/properties/namespace/type", "self.", ""},
		{"/spec/group", "self.", ""},
	} {
		if diff := cmp.Diff(c.want, namesOf(Complete("", o, c.pointer, c.before))); diff != "" {
			t.Errorf("%s: %s: %s", c.pointer, c.before, diff)
		}
	}
	if got := namesOf(Complete("", o, schema+rule, "")); !strings.Contains(got, " self ") || !strings.Contains(got, " oldSelf ") || strings.Contains(got, "object") {
		t.Error(got)
	}
	// A string has methods only.
	for _, c := range Complete("", o, schema+"/properties/spec"+rule, "self.namespace.") {
		if c.Kind != policy.NameFunction {
			t.Errorf("%+v", c)
		}
	}
	if got := Complete("", rendertest.Parse(t, "c.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"))[0], "/metadata/name", "self."); got != nil {
		t.Error(got)
	}
}

func namesOf(all []policy.Completion) string {
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}
