package schema

import (
	"errors"
	"fmt"
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
