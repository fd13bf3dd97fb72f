package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	apiservermutation "k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
	kjson "sigs.k8s.io/json"
	smd "sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/preadmit/preadmit/render"
)

// Mergers know the structure of kinds, by which apply configurations are merged
// into objects. The converter of a kind that is not known is nil.
type Mergers interface {
	TypeConverter(schema.GroupVersionKind) (managedfields.TypeConverter, error)
}

// errRefused is what the API server refuses the request for, whatever the
// failure policy says.
type errRefused struct{ err error }

func (e *errRefused) Error() string { return e.err.Error() }

func refused(format string, args ...any) error { return &errRefused{fmt.Errorf(format, args...)} }

// errUndecided is what can't be told here.
type errUndecided struct{ question string }

func (e *errUndecided) Error() string { return e.question }

// patched applies what a mutation yielded to the object in the version that
// the policy matched, and admits the object again, as the API server converts
// and defaults it after each mutation. It is nil where nothing changed.
func (x *mutation) patched(i invocation, e *expression, value ref.Val) (map[string]any, error) {
	before := x.review().in(i.as.Kind).objectTree
	var after map[string]any
	var err error
	json := i.policy.mutates.mutations[e.index].PatchType == v1.PatchTypeJSONPatch
	if json {
		after, err = x.jsonPatch(i.as.Kind, before, value)
	} else {
		after, err = x.applyConfiguration(i.as.Kind, before, value)
	}
	if err != nil || after == nil || reflect.DeepEqual(before, after) {
		return nil, err
	}
	return x.admit(before, after, json)
}

// admit makes a patched object one as the API server holds it. What a JSON
// patch makes, it decodes anew, which it expects to go well.
func (x *mutation) admit(before, after map[string]any, decoded bool) (map[string]any, error) {
	was, is := unstructured.Unstructured{Object: before}, &unstructured.Unstructured{Object: after}
	if is.GroupVersionKind() != was.GroupVersionKind() {
		return nil, refused("failed to convert object: a mutation may not change apiVersion and kind from %v", was.GroupVersionKind())
	}
	object := &render.Object{Unstructured: is}
	admitted, err := x.engine.options.Kinds.Admit(object, x.req.Namespace)
	switch {
	case err != nil && decoded:
		words := err.Error()
		if _, rest, ok := strings.Cut(words, "cannot be handled as a "+is.GetKind()+": "); ok {
			words = rest
		}
		return nil, refused("Internal error occurred: %s", words)
	case err != nil:
		return nil, err
	}
	is.Object = admitted
	switch {
	case is.GetNamespace() != was.GetNamespace():
		return nil, refused("the namespace of the provided object does not match the namespace sent on the request")
	case x.req.OldAdmitted != nil && is.GetName() != was.GetName():
		return nil, refused("metadata.name: Invalid value: %q: field is immutable", is.GetName())
	case is.GroupVersionKind() == x.req.Kind:
		return admitted, nil
	}
	if admitted, err = x.engine.options.Kinds.Convert(admitted, x.req.Kind); err != nil {
		return nil, refused("failed to convert object: %w", err)
	}
	return admitted, nil
}

// converter is the kind's; nil when the kind is not known.
func (x *mutation) converter(kind schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	if x.engine.options.Mergers == nil {
		return nil, nil
	}
	return x.engine.options.Mergers.TypeConverter(kind)
}

// applyConfiguration merges an object into another
// (k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch, smd.go).
func (x *mutation) applyConfiguration(kind schema.GroupVersionKind, before map[string]any, value ref.Val) (map[string]any, error) {
	object, ok := value.(*dynamic.ObjectVal)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", value.Type())
	}
	if err := object.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	configuration, err := nativeObject(object)
	if err != nil {
		return nil, err
	}
	converter, err := x.converter(kind)
	switch {
	case err != nil:
		return nil, err
	case converter == nil:
		return nil, &errUndecided{fmt.Sprintf("needs to know the schema of %v: give its CustomResourceDefinition with --with", kind)}
	}
	apply := &unstructured.Unstructured{Object: configuration}
	apply.SetGroupVersionKind(kind)
	merged, err := patch.ApplyStructuredMergeDiff(converter, &unstructured.Unstructured{Object: before}, apply)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return merged.(*unstructured.Unstructured).Object, nil
}

// nativeObject is an object literal as a value tree.
func nativeObject(object *dynamic.ObjectVal) (map[string]any, error) {
	fields, err := object.ConvertToNative(reflect.TypeFor[map[string]any]())
	if err != nil {
		return nil, fmt.Errorf("invalid return type: %w", err)
	}
	value, err := native(fields)
	if err != nil {
		return nil, err
	}
	return value.(map[string]any), nil
}

// native makes a value tree of what CEL's values are made of.
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
	case *dynamic.ObjectVal:
		return nativeObject(v)
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

// jsonPatch applies a list of operations
// (k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch, json_patch.go).
// It gives nil where a test among them fails, which is no error.
func (x *mutation) jsonPatch(kind schema.GroupVersionKind, before map[string]any, value ref.Val) (map[string]any, error) {
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
		return nil, refused("Internal error occurred: %w", err)
	}
	return after, x.known(kind, before, after)
}

const undeclared = ": field not declared in schema"

// known refuses fields that a built-in kind does not have.
func (x *mutation) known(kind schema.GroupVersionKind, before, after map[string]any) error {
	if is := (&unstructured.Unstructured{Object: after}); is.GroupVersionKind() != kind {
		return nil // refused for that
	}
	converter, err := x.converter(kind)
	if err != nil || converter == nil {
		return err
	}
	_, err = converter.ObjectToTyped(&unstructured.Unstructured{Object: after}, smd.AllowDuplicates)
	if err == nil || !strings.Contains(err.Error(), undeclared) || x.engine.custom(kind) {
		return nil // what else is wrong with it, decoding finds
	}
	if _, was := converter.ObjectToTyped(&unstructured.Unstructured{Object: before}, smd.AllowDuplicates); was != nil {
		return nil // the schema can't tell
	}
	var unknown []string
	for line := range strings.Lines(err.Error()) {
		if path, ok := strings.CutSuffix(strings.TrimSpace(line), undeclared); ok {
			unknown = append(unknown, fmt.Sprintf("unknown field %q", strings.TrimPrefix(path, ".")))
		}
	}
	return refused("Internal error occurred: strict decoding error: %s", strings.Join(unknown, ", "))
}

// custom says whether a kind is one of a CustomResourceDefinition.
func (e *Engine) custom(kind schema.GroupVersionKind) bool {
	crds := e.options.Cluster.List(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"})
	return slices.ContainsFunc(crds, func(o *render.Object) bool {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		return group == kind.Group && name == kind.Kind
	})
}

// Limits of what a patch may do. A copy can double an object.
const (
	maxOperations = 10_000
	maxCopies     = 256
	maxPatched    = 4 << 20 // bytes of JSON; what the API server takes is 3 MiB
)

// applyOperations applies operations to a JSON document, nil where a test
// among them fails. It stops to measure before copies can have made the
// document too large.
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
	if object, ok := op.Val.(*dynamic.ObjectVal); ok {
		if err := object.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	v, err := jsonValue(op.Val)
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	return operation, set("value", v)
}

// jsonValue is a value as JSON has it: numbers are doubles.
func jsonValue(v ref.Val) (*structpb.Value, error) {
	converted, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, err
	}
	return converted.(*structpb.Value), nil
}
