package crd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCatalogued turns schemas as catalogues write them back into those of
// definitions, and says why others are of no use.
func TestCatalogued(t *testing.T) {
	t.Parallel()
	kind := schema.GroupKind{Group: "example.org", Kind: "Policy"}
	for name, c := range map[string]struct{ spec, want string }{
		"closed":             {`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"open":               {`{"type":"object"}`, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`},
		"open by name":       {`{"type":"object","additionalProperties":true}`, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`},
		"a map":              {`{"type":"object","additionalProperties":{"type":"integer"}}`, `{"type":"object","additionalProperties":{"type":"integer"}}`},
		"anything":           {`{"description":"x"}`, `{"description":"x","x-kubernetes-preserve-unknown-fields":true}`},
		"a number or string": {`{"oneOf":[{"type":"string"},{"type":"integer"}]}`, `{"x-kubernetes-int-or-string":true}`},
		"or null":            {`{"type":["string","null"]}`, `{"type":"string","nullable":true}`},
		"in a list":          {`{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"a":{}}}}`, `{"type":"array","items":{"type":"object","properties":{"a":{"x-kubernetes-preserve-unknown-fields":true}}}}`},
		"without a type":     {`{"properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
	} {
		d, err := Catalogued(kind, map[string][]byte{"v1": []byte(`{"$schema":"x","properties":{"metadata":{"type":"object"},"spec":` + c.spec + `}}`)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		data, err := json.Marshal(d)
		rendertest.OK(t, err)
		var got struct {
			Metadata struct{ Name string }
			Spec     struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema struct{ Properties map[string]any }
					}
				}
			}
		}
		var want any
		if json.Unmarshal(data, &got) != nil || json.Unmarshal([]byte(c.want), &want) != nil {
			t.Fatal(string(data))
		}
		if diff := cmp.Diff(want, got.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]); diff != "" || got.Metadata.Name != "policies.example.org" {
			t.Errorf("%s: %s -want +got:\n%s", name, got.Metadata.Name, diff)
		}
	}
	for text, want := range map[string]string{
		`[]`: "not a JSON Schema", `{"properties":{"a":1}}`: "has no schema", `{"properties":{"a":{"$ref":"https://example.org/x.json"}}}`: "refers to another schema",
		`{"type":"object","properties":{"a":{"type":"string","anyOf":[{"type":"integer"}]}}}`: "is not that of a CustomResourceDefinition",
		`{"type":"object","properties":{"a":{"type":7}}}`:                                     "fields of another type",
	} {
		if _, err := Catalogued(kind, map[string][]byte{"v1": []byte(text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
