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
	"math"
	"reflect"
	"strings"
	"unicode/utf8"

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

	"github.com/preadmit/preadmit/render"
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
	if after, done := patchedInPart(before, operations); done {
		return after, nil
	}
	return patched(before, operations, maxPatched)
}

// patchedInPart writes only those parts of the object as JSON that the operations concern, most
// often its metadata, and copies the others. The result is that of patched; if it would be an
// error, or may be another, done is false.
func patchedInPart(before map[string]any, operations jsonpatch.Patch) (after map[string]any, done bool) {
	keys, bounded := keysOf(operations)
	if !bounded {
		return nil, false
	}
	part, room := make(map[string]any, len(keys)), maxPatched
	for key, v := range before {
		if !utf8.ValidString(key) {
			return nil, false
		}
		if size, settled := sizeOf(v); settled && !keys[key] {
			room -= size + len(key)*6 + len(`"":,`)
		} else {
			part[key] = v
		}
	}
	after, err := patched(part, operations, room)
	if err != nil || after == nil {
		return nil, err == nil
	}
	for key, v := range before {
		if _, ok := part[key]; !ok {
			after[key] = render.Copy(v)
		}
	}
	return after, true
}

// patched applies operations to an object in JSON, of at most so many bytes. It returns nil
// without an error if a test among them fails.
func patched(object map[string]any, operations jsonpatch.Patch, most int) (map[string]any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	if data, err = applyOperations(operations, data, most); data == nil || err != nil {
		return nil, err
	}
	var after map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &after); err != nil {
		return nil, Refuse("Internal error occurred: %w", err)
	}
	return after, nil
}

// keysOf returns the keys of the object that operations can read or change, such as metadata. It
// is not bounded to them if an operation concerns the whole object, or makes copies, for which
// the size of the object counts.
func keysOf(operations jsonpatch.Patch) (keys map[string]bool, bounded bool) {
	keys = make(map[string]bool)
	for _, o := range operations {
		path, err := o.Path()
		paths := []string{path}
		switch {
		case err != nil || o.Kind() == "copy":
			return nil, false
		case o.Kind() == "move":
			from, err := o.From()
			if err != nil {
				return nil, false
			}
			paths = append(paths, from)
		}
		for _, p := range paths {
			if !strings.HasPrefix(p, "/") {
				return nil, false
			}
			keys[render.Path(p)[0]] = true
		}
	}
	return keys, true
}

// sizeOf returns a size that a value's JSON does not exceed. settled is false if the value may be
// another one after it was written as JSON and read again.
func sizeOf(v any) (size int, settled bool) {
	switch v := v.(type) {
	case nil, bool, int64:
		return 24, true
	case string:
		return len(v)*6 + 2, utf8.ValidString(v)
	case float64:
		return 32, math.Abs(v-math.Trunc(v)) > 0 // an integral one is read as an integer
	case []any:
		for _, e := range v {
			n, ok := sizeOf(e)
			if !ok {
				return 0, false
			}
			size += n + 1
		}
		return size + 2, v != nil
	case map[string]any:
		for key, e := range v {
			n, ok := sizeOf(e)
			if !ok || !utf8.ValidString(key) {
				return 0, false
			}
			size += n + len(key)*6 + 4
		}
		return size + 2, v != nil
	}
	return 0, false
}

// Limits of a patch. A copy can double an object.
const (
	maxOperations = 10_000
	maxCopies     = 256
	maxPatched    = 4 << 20 // bytes of JSON; the API server accepts 3 MiB
)

// applyOperations applies operations to a JSON document; nil if a test among them
// fails. It measures the document before copies could have made it too large.
func applyOperations(operations jsonpatch.Patch, data []byte, most int) ([]byte, error) {
	if len(operations) > maxOperations || copies(operations) > maxCopies {
		return nil, fmt.Errorf("JSON Patch: %d operations refused, of which %d are copies", len(operations), copies(operations))
	}
	for len(operations) > 0 {
		n, size := 0, len(data)
		for n < len(operations) && (size <= most || n == 0) {
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
		case len(data) > most:
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
