// Package overlay patches JSON objects as Kyverno's mutate rules do:
// patchStrategicMerge, with anchors, and patchesJson6902.
//
// The functions take an object, and a patch whose variables are substituted.
// They return a new object ([Result]) that shares nothing with their arguments.
//
// Kyverno merges with kustomize, whose schema is global to the process, and a
// kustomization may replace it. To be independent of that, the schema here is
// derived from the Go types of the built-in kinds.
package overlay

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/render"
)

// A Result is the object after a patch.
type Result struct {
	Object   map[string]any
	Applied  bool     // its anchors did not skip the patch, which may still change nothing
	Pointers []string // changed and removed fields
}

// StrategicMerge applies a patchStrategicMerge. It fails if the patch does not
// fit the object.
func StrategicMerge(object map[string]any, patch any) (Result, error) {
	p, err := clone(patch, 0)
	if err != nil {
		return Result{}, err
	}
	overlay, ok := p.(map[string]any)
	if !ok {
		return Result{}, fmt.Errorf("the patch is %s, and an object is a map", render.TypeName(p))
	}
	switch overlay, err = preprocess(overlay, object); {
	case errors.As(err, new(*unmet)):
		return Result{Object: object}, nil
	case err != nil:
		return Result{}, err
	}
	after, err := cloneObject(object)
	if err != nil {
		return Result{}, err
	}
	var m merger
	merged, err := m.merge(after, overlay, shape{}, "")
	if err != nil {
		return Result{}, err
	}
	after, ok = merged.(map[string]any)
	if !ok {
		return Result{}, errors.New("the patch deletes the whole object")
	}
	return Result{Object: after, Applied: true, Pointers: m.pointers}, nil
}

// differences returns the pointers at which the object changed.
func differences(before, after map[string]any) []string { return patch.Differences(before, after) }

// maxDepth bounds the depth of objects and patches.
const maxDepth = 256

func cloneObject(object map[string]any) (map[string]any, error) {
	c, err := clone(object, 0)
	if err != nil {
		return nil, err
	}
	return c.(map[string]any), nil
}

// clone copies a JSON value.
func clone(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			c, err := clone(e, depth+1)
			if err != nil {
				return nil, err
			}
			m[k] = c
		}
		return m, nil
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			c, err := clone(e, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = c
		}
		return list, nil
	}
	return v, nil
}

var errMissing = errors.New("the object has nothing there")

// split splits a JSON pointer.
func split(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, errors.New("a path starts with /")
	}
	parts := strings.Split(pointer[1:], "/")
	if len(parts) > maxDepth {
		return nil, errors.New("the path is too long")
	}
	for i, p := range parts {
		parts[i] = unescape.Replace(p)
	}
	return parts, nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func walk(v any, parts []string) (any, error) {
	for _, part := range parts {
		switch t := v.(type) {
		case map[string]any:
			e, ok := t[part]
			if !ok {
				return nil, errMissing
			}
			v = e
		case []any:
			i, err := index(part, len(t), len(t))
			if err != nil {
				return nil, err
			}
			v = t[i]
		default:
			return nil, errMissing
		}
	}
	return v, nil
}

// index reads an index of a list below a limit. Negative ones count back from end.
func index(part string, limit, end int) (int, error) {
	i, err := strconv.Atoi(part)
	if err != nil || part[0] == '+' {
		return 0, fmt.Errorf("%.32q is not an index of a list", part)
	}
	if i < 0 {
		i += end
	}
	if i < 0 || i >= limit {
		return 0, errMissing
	}
	return i, nil
}

// maxPadding bounds a list that is extended to have an element at an index.
const maxPadding = 1 << 10

// ensure creates the missing parents of a path: lists before indices, and maps.
func ensure(v any, parts []string) (any, error) {
	if len(parts) == 1 {
		return v, nil
	}
	child, err := walk(v, parts[:1])
	if err != nil && !errors.Is(err, errMissing) && parts[0] != "-" {
		return nil, err
	}
	if child != nil {
		after, err := ensure(child, parts[1:])
		return putAt(v, parts[0], after, err)
	}
	made, err := container(parts[1])
	if err != nil {
		return nil, err
	}
	after, err := ensure(made, parts[1:])
	return putAt(v, parts[0], after, err)
}

// container returns an empty list or map for a part of a path: an index or a key.
func container(part string) (any, error) {
	n, err := strconv.Atoi(part)
	if part == "-" {
		return []any{}, nil
	}
	if err != nil {
		return map[string]any{}, nil
	}
	if n < -1 || n > maxPadding {
		return nil, errMissing
	}
	return make([]any, max(0, n)), nil
}

// putAt puts a value at a part of its list or map.
func putAt(v any, part string, value any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	switch t := v.(type) {
	case map[string]any:
		t[part] = value
		return t, nil
	case []any:
		if i, err := index(part, len(t), len(t)); err == nil {
			t[i] = value
			return t, nil
		}
		return insert(t, part, value)
	}
	return nil, errMissing
}

func insert(list []any, at string, value any) (any, error) {
	if at == "-" {
		return append(list, value), nil
	}
	i, err := index(at, len(list)+1, len(list)+1)
	if err != nil {
		return nil, err
	}
	list = append(list, nil)
	copy(list[i+1:], list[i:])
	list[i] = value
	return list, nil
}

// A shape is the Go type of the Kubernetes API for the values at a place, and how a
// list there is merged. The zero shape is unknown.
type shape struct {
	t     reflect.Type
	merge bool     // a list whose elements are merged
	keys  []string // merge keys; none for lists of scalars
}

// known reports whether the schema has the place.
func (s shape) known() bool { return s.t != nil }

// shapeOf returns the shape of a built-in kind's objects.
func shapeOf(object map[string]any) shape {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	gv, err := schema.ParseGroupVersion(version)
	if version == "" || kind == "" || err != nil {
		return shape{}
	}
	o, err := scheme.Scheme.New(gv.WithKind(kind))
	if err != nil {
		return shape{}
	}
	return shape{t: reflect.TypeOf(o).Elem()}
}

// elements returns the shape of a list's elements.
func (s shape) elements() shape {
	if s.t != nil && s.t.Kind() == reflect.Slice {
		return shape{t: indirect(s.t.Elem())}
	}
	return shape{}
}

// field returns the shape of a map's value.
func (s shape) field(name string) shape {
	if s.t == nil {
		return shape{}
	}
	switch s.t.Kind() {
	case reflect.Map:
		return shape{t: indirect(s.t.Elem())}
	case reflect.Struct:
		return structField(s.t, name)
	}
	return shape{}
}

func structField(t reflect.Type, name string) shape {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			if s := structField(indirect(f.Type), name); s.known() {
				return s
			}
		}
		if tag == name && name != "" {
			return fieldShape(t, f)
		}
	}
	return shape{}
}

func fieldShape(owner reflect.Type, f reflect.StructField) shape {
	s := shape{t: indirect(f.Type)}
	strategies := strings.Split(f.Tag.Get("patchStrategy"), ",")
	if !slices.Contains(strategies, "merge") {
		return s
	}
	name := owner.Name() + "." + f.Name
	if slices.Contains(replaced, name) {
		return s
	}
	s.merge = true
	if key := f.Tag.Get("patchMergeKey"); key != "" {
		s.keys = []string{key}
	}
	if second, ok := secondKeys[name]; ok {
		s.keys = append(s.keys, second)
	}
	return s
}

// secondKeys are the second keys of lists whose elements one key does not identify.
var secondKeys = map[string]string{
	"Container.Ports":                   "protocol",
	"EphemeralContainerCommon.Ports":    "protocol",
	"ServiceSpec.Ports":                 "protocol",
	"PodSpec.TopologySpreadConstraints": "whenUnsatisfiable",
}

// replaced are lists that the API merges but kustomize, whose schema is that of
// Kubernetes 1.21, replaces.
var replaced = []string{"PodSpec.SchedulingGates", "PodSpec.ResourceClaims"}

func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
