package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/render"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
)

// A customSchema prunes and defaults the custom objects of one version. A nil
// *customSchema does nothing.
type customSchema struct {
	*structural.Structural
	keepUnknown  bool // spec.preserveUnknownFields
	defaultNodes int  // in all its defaults together
}

// maxDefaulted is the most values that defaults may add to an object. Each
// value in it may get each default.
const maxDefaulted = 5_000_000

// compileSchema reads a schema when it is first needed.
func compileSchema(schema map[string]any, keepUnknown bool) func() (*customSchema, error) {
	return sync.OnceValues(func() (*customSchema, error) {
		if schema == nil {
			return nil, nil
		}
		var v1 apiextensionsv1.JSONSchemaProps
		var internal apiextensions.JSONSchemaProps
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(schema, &v1); err != nil {
			return nil, err
		}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &internal, nil); err != nil {
			return nil, err
		}
		s, err := structural.NewStructural(&internal)
		if err != nil {
			return nil, err
		}
		if err := defaulting.PruneDefaults(s); err != nil {
			return nil, err
		}
		return &customSchema{s, keepUnknown, defaultNodes(s)}, nil
	})
}

// defaultNodes counts the values in the defaults of a schema.
func defaultNodes(s *structural.Structural) int {
	if s == nil {
		return 0
	}
	n := 0
	if s.Default.Object != nil {
		n += nodes(s.Default.Object)
	}
	for name := range s.Properties {
		child := s.Properties[name]
		n += defaultNodes(&child)
	}
	n += defaultNodes(s.Items)
	if s.AdditionalProperties != nil {
		n += defaultNodes(s.AdditionalProperties.Structural)
	}
	return n
}

func nodes(value any) int {
	n := 0
	for range render.Values(value) {
		n++
	}
	return n
}

// refuseNulls returns the errors about nulls in a merged object that the schema of its version does not allow. A server-side
// merge makes null of a map that loses all its keys. Decoding prunes nulls, but a merged object is not decoded:
// https://github.com/kubernetes/kubernetes/issues/104694.
func (c *custom) refuseNulls(object map[string]any, version string) error {
	compile := c.schemas[version]
	if compile == nil {
		return nil
	}
	s, err := compile()
	if s == nil {
		return err
	}
	var all refusals
	for name, value := range object {
		child := s.Properties[name]
		if name != "metadata" && (name != "status" || !slices.Contains(c.subresources[version], "status")) {
			nulls(value, &child, render.Pointer(name), func(err error) { all = append(all, err) })
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return all[:min(len(all), maxRefusals)]
}

// nulls calls refuse for each null in a value that its schema does not allow.
func nulls(value any, s *structural.Structural, pointer string, refuse func(error)) {
	if s == nil {
		return
	}
	switch v := value.(type) {
	case nil:
		if s.Type != "" && !s.Nullable && s.Default.Object == nil {
			refuse(fieldError(fmt.Errorf(`%s: Invalid value: "null": must be of type %s: server-side apply keeps null, and makes null of a map that loses all its keys`, strings.ReplaceAll(pointer[1:], "/", "."), s.Type), pointer))
		}
	case map[string]any:
		for key, value := range v {
			if child, ok := s.Properties[key]; ok {
				nulls(value, &child, pointer+render.Pointer(key), refuse)
			} else if s.AdditionalProperties != nil {
				nulls(value, s.AdditionalProperties.Structural, pointer+render.Pointer(key), refuse)
			}
		}
	case []any:
		for i, value := range v {
			nulls(value, s.Items, pointer+render.Pointer(i), refuse)
		}
	}
}

// complete prunes unknown fields and sets defaults, as the API server does on
// decoding (unstructuredSchemaCoercer and unstructuredDefaulter of
// k8s.io/apiextensions-apiserver).
func (c *customSchema) complete(held map[string]any) error {
	meta, found, err := objectmeta.GetObjectMeta(held, false)
	if err != nil {
		return fieldError(err, "/metadata")
	}
	if c == nil {
		return nil
	}
	if c.defaultNodes > 0 && nodes(held)*c.defaultNodes > maxDefaulted {
		return errors.New("the defaults of its schema would make the object too large")
	}
	if !c.keepUnknown {
		pruning.Prune(held, c.Structural, true)
		defaulting.PruneNonNullableNullsWithoutDefaults(held, c.Structural)
	}
	if err := objectmeta.Coerce(nil, held, c.Structural, false, false); err != nil {
		return fmt.Errorf("%s: %s", err.Field, err.ErrorBody())
	}
	defaulting.Default(held, c.Structural)
	if found {
		return objectmeta.SetObjectMeta(held, meta)
	}
	return nil
}
