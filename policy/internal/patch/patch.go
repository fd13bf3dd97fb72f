// Package patch applies the values of mutations written in CEL to objects:
// apply configurations, made from Object literals, and JSON patches, made from
// JSONPatch literals. It also finds the fields that changed ([Differences]).
//
// Sources: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch and
// k8s.io/apiserver/pkg/cel/mutation.
package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	apiservermutation "k8s.io/apiserver/pkg/cel/mutation"
	kjson "sigs.k8s.io/json"
	smd "sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Mergers return the converter of a kind, by whose structure apply configurations are
// merged into objects; nil for an unknown kind.
type Mergers interface {
	TypeConverter(schema.GroupVersionKind) (managedfields.TypeConverter, error)
}

// A Refused is an error for which the API server denies the request whatever the
// failure policy.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }

// Refuse returns a Refused error.
func Refuse(format string, args ...any) error { return &Refused{fmt.Errorf(format, args...)} }

// Configuration converts the value of an expression to an apply configuration.
func Configuration(value ref.Val) (map[string]any, error) {
	l, ok := value.(*literal)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", value.Type())
	}
	if err := l.checkTypeNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	return object(l)
}

// Merge merges an apply configuration into an object, by the structure that the
// converter has for its kind. The result shares nothing with before.
func Merge(converter managedfields.TypeConverter, kind schema.GroupVersionKind, before, configuration map[string]any) (map[string]any, error) {
	apply := &unstructured.Unstructured{Object: configuration}
	apply.SetGroupVersionKind(kind)
	merged, err := patch.ApplyStructuredMergeDiff(converter, &unstructured.Unstructured{Object: before}, apply)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return merged.(*unstructured.Unstructured).Object, nil
}

// MergeAtomics is Merge that also replaces lists and maps that are
// atomic in the kind's structure, which Merge refuses.
func MergeAtomics(converter managedfields.TypeConverter, kind schema.GroupVersionKind, before, configuration map[string]any) (map[string]any, error) {
	apply := &unstructured.Unstructured{Object: configuration}
	apply.SetGroupVersionKind(kind)
	was, err := converter.ObjectToTyped(&unstructured.Unstructured{Object: before}, smd.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	with, err := converter.ObjectToTyped(apply)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	is, err := was.Merge(with)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	merged, err := converter.TypedToObject(is)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return merged.(*unstructured.Unstructured).Object, nil
}

// object converts an object literal to a JSON object.
func object(l *literal) (map[string]any, error) {
	fields, err := l.native()
	if err != nil {
		return nil, fmt.Errorf("invalid return type: %w", err)
	}
	value, err := native(fields)
	if err != nil {
		return nil, err
	}
	return value.(map[string]any), nil
}

// native converts the elements of CEL values to JSON values.
func native(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case structpb.NullValue:
		return nil, errors.New("null can't be a part of an apply configuration")
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, child := range v {
			c, err := native(child)
			if err != nil {
				return nil, err
			}
			m[key] = c
		}
		return m, nil
	case map[ref.Val]ref.Val:
		return nativeMap(v)
	case []any:
		return nativeList(v)
	case []ref.Val:
		return nativeList(v)
	case *literal:
		return object(v)
	case ref.Val:
		return nativeValue(v)
	default:
		return nil, fmt.Errorf("a value of type %T can't be a part of an object", value)
	}
}

func nativeValue(v ref.Val) (any, error) {
	switch t := v.(type) {
	case traits.Lister:
		var list []ref.Val
		for it := t.Iterator(); it.HasNext() == types.True; {
			list = append(list, it.Next())
		}
		return nativeList(list)
	case traits.Mapper:
		m := map[ref.Val]ref.Val{}
		for it := t.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			m[key] = t.Get(key)
		}
		return nativeMap(m)
	}
	if err, ok := v.Value().(error); ok {
		return nil, err
	}
	if again, ok := v.Value().(ref.Val); ok {
		return nil, fmt.Errorf("a value of type %v can't be a part of an object", again.Type())
	}
	return native(v.Value())
}

func nativeList[T any](list []T) ([]any, error) {
	out := make([]any, len(list))
	for i, e := range list {
		v, err := native(e)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func nativeMap(m map[ref.Val]ref.Val) (map[string]any, error) {
	out := make(map[string]any, len(m))
	for key, child := range m {
		s, ok := key.Value().(string)
		if !ok {
			return nil, fmt.Errorf("map key %v is of type %v, not string", key.Value(), key.Type())
		}
		v, err := native(child)
		if err != nil {
			return nil, err
		}
		out[s] = v
	}
	return out, nil
}

// JSON applies the list of operations that an expression returned. It returns nil
// without an error if a test among them fails.
func JSON(before map[string]any, value ref.Val) (map[string]any, error) {
	operations, err := jsonOperations(value)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	if data, err = applyOperations(operations, data); data == nil || err != nil {
		return nil, err
	}
	var after map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &after); err != nil {
		return nil, Refuse("Internal error occurred: %w", err)
	}
	return after, nil
}

// Limits of a patch. A copy can double an object.
const (
	maxOperations = 10_000
	maxCopies     = 256
	maxPatched    = 4 << 20 // bytes of JSON; the API server accepts 3 MiB
)

// applyOperations applies operations to a JSON document; nil if a test among them
// fails. It measures the document before copies could have made it too large.
func applyOperations(operations jsonpatch.Patch, data []byte) ([]byte, error) {
	if len(operations) > maxOperations || copies(operations) > maxCopies {
		return nil, fmt.Errorf("JSON Patch: %d operations refused, of which %d are copies", len(operations), copies(operations))
	}
	for len(operations) > 0 {
		n, size := 0, len(data)
		for n < len(operations) && (size <= maxPatched || n == 0) {
			if operations[n].Kind() == "copy" {
				size *= 2
			}
			n++
		}
		var err error
		switch data, err = operations[:n].Apply(data); {
		case errors.Is(err, jsonpatch.ErrTestFailed):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("JSON Patch: %w", err)
		case len(data) > maxPatched:
			return nil, errors.New("JSON Patch: copies refused that make the object too large")
		}
		operations = operations[n:]
	}
	return data, nil
}

func copies(operations jsonpatch.Patch) (n int) {
	for _, o := range operations {
		if o.Kind() == "copy" {
			n++
		}
	}
	return n
}

// jsonOperations reads a list of JSONPatch literals.
func jsonOperations(value ref.Val) (jsonpatch.Patch, error) {
	list, ok := value.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	operations := jsonpatch.Patch{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		op, ok := it.Next().(*apiservermutation.JSONPatchVal)
		if !ok {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
		}
		operation, err := jsonOperation(op)
		if err != nil {
			return nil, err
		}
		operations = append(operations, operation)
	}
	return operations, nil
}

func jsonOperation(op *apiservermutation.JSONPatchVal) (jsonpatch.Operation, error) {
	operation := jsonpatch.Operation{}
	set := func(key string, v any) error {
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
		}
		raw := json.RawMessage(data)
		operation[key] = &raw
		return nil
	}
	err := errors.Join(set("op", op.Op), set("path", op.Path))
	if op.From != "" {
		err = errors.Join(err, set("from", op.From))
	}
	if err != nil || op.Val == nil {
		return operation, err
	}
	if l, ok := op.Val.(*literal); ok {
		if err := l.checkTypeNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	v, err := jsonValue(op.Val)
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	return operation, set("value", v)
}

// jsonValue converts a value to JSON, in which numbers are doubles.
func jsonValue(v ref.Val) (*structpb.Value, error) {
	converted, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, err
	}
	return converted.(*structpb.Value), nil
}
