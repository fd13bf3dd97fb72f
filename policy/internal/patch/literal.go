package patch

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/preadmit/preadmit/render"
)

// A Resolver resolves the types of Object and JSONPatch literals, as the API server's
// does. Its object literals are converted in one walk; the API server's convert each
// part three times for every level above it.
type Resolver struct{ mutation.DynamicTypeResolver }

// Resolve implements common.TypeResolver.
func (r *Resolver) Resolve(name string) (common.ResolvedType, bool) {
	t, ok := r.DynamicTypeResolver.Resolve(name)
	if object, is := t.(*dynamic.ObjectType); is {
		return &literalType{object}, true
	}
	return t, ok
}

// A literalType is the type of an object literal.
type literalType struct{ *dynamic.ObjectType }

// Val implements common.ResolvedType.
func (l *literalType) Val(fields map[string]ref.Val) ref.Val {
	return &literal{dynamic.NewObjectVal(l.Type(), fields), l.TypeName(), fields}
}

// A literal is the value of an object literal.
type literal struct {
	*dynamic.ObjectVal
	typeName string
	fields   map[string]ref.Val
}

// Equal implements ref.Val.
func (l *literal) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*literal); ok {
		return l.ObjectVal.Equal(o.ObjectVal)
	}
	return types.False
}

// ConvertToType implements ref.Val.
func (l *literal) ConvertToType(t ref.Type) ref.Val {
	if l.typeName == t.TypeName() {
		return l
	}
	return l.ObjectVal.ConvertToType(t)
}

// Value implements ref.Val.
func (l *literal) Value() any {
	m, err := l.native()
	if err != nil {
		return types.WrapErr(err)
	}
	return m
}

// ConvertToNative implements ref.Val.
func (l *literal) ConvertToNative(t reflect.Type) (any, error) {
	m, err := l.native()
	if err != nil {
		return nil, err
	}
	switch t {
	case reflect.TypeFor[map[string]any]():
		return m, nil
	case reflect.TypeFor[*structpb.Struct]():
		return structpb.NewStruct(m)
	case reflect.TypeFor[*structpb.Value]():
		return structpb.NewValue(m)
	}
	return nil, fmt.Errorf("unable to convert to %v", t)
}

func (l *literal) native() (map[string]any, error) {
	m := make(map[string]any, len(l.fields))
	for k, v := range l.fields {
		converted, err := fieldValue(v)
		if err != nil {
			return nil, fmt.Errorf("fail to convert field %q: %w", k, err)
		}
		m[k] = converted
	}
	return m, nil
}

// fieldValue is convertField of k8s.io/apiserver/pkg/cel/mutation/dynamic.
func fieldValue(v ref.Val) (any, error) {
	value := v.Value()
	switch x := value.(type) {
	case []ref.Val:
		var list []any
		for _, e := range x {
			list = append(list, e.Value())
		}
		return list, nil
	case map[ref.Val]ref.Val:
		m := make(map[string]any, len(x))
		for k, e := range x {
			key, err := keyOf(k)
			if err != nil {
				return nil, err
			}
			m[key] = e.Value()
		}
		return m, nil
	}
	switch x := v.(type) {
	case traits.Lister:
		var list []any
		for it := x.Iterator(); it.HasNext() == types.True; {
			converted, err := fieldValue(it.Next())
			if err != nil {
				return nil, err
			}
			list = append(list, converted)
		}
		return list, nil
	case traits.Mapper:
		m := make(map[string]any)
		for it := x.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			key, err := keyOf(k)
			if err != nil {
				return nil, err
			}
			if m[key], err = fieldValue(x.Get(k)); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return value, nil
}

func keyOf(k ref.Val) (string, error) {
	key, ok := k.Value().(string)
	if !ok {
		return "", fmt.Errorf("map key %q is of type %T, not string", k, k)
	}
	return key, nil
}

// checkTypeNames returns an error for each literal in l whose type name is not that of
// the fields above it.
func (l *literal) checkTypeNames() error {
	return errors.Join(typeNames(l, l.typeName)...)
}

func typeNames(v ref.Val, want string) (errs []error) {
	if l, ok := v.(*literal); ok {
		if l.typeName != want {
			errs = append(errs, fmt.Errorf("unexpected type name %q, expected %q, which matches field name path from root Object type", l.typeName, want))
		}
		for _, k := range slices.Sorted(maps.Keys(l.fields)) {
			errs = append(errs, typeNames(l.fields[k], want+"."+k)...)
		}
		return errs
	}
	switch x := v.Value().(type) {
	case []ref.Val:
		for _, e := range x {
			errs = append(errs, typeNames(e, want)...)
		}
	case map[ref.Val]ref.Val:
		for _, e := range x {
			errs = append(errs, typeNames(e, want)...)
		}
	}
	return errs
}

// maxDifferences bounds the fields that a result names.
const maxDifferences = 64

// Differences returns the pointers at which after differs from before, in the order
// of the keys: those of the largest new values, and those of removed ones.
func Differences(before, after any) []string {
	var d diff
	d.compare("", before, after)
	return d.pointers
}

type diff struct{ pointers []string }

func (d *diff) add(pointer string) {
	if len(d.pointers) < maxDifferences {
		d.pointers = append(d.pointers, pointer)
	}
}

func (d *diff) compare(pointer string, before, after any) {
	if len(d.pointers) >= maxDifferences || render.Equal(before, after) {
		return
	}
	b, ok := before.(map[string]any)
	a, too := after.(map[string]any)
	if ok && too {
		d.objects(pointer, b, a)
		return
	}
	x, ok := before.([]any)
	y, too := after.([]any)
	if ok && too {
		d.lists(pointer, x, y)
		return
	}
	d.add(pointer)
}

func (d *diff) objects(pointer string, before, after map[string]any) {
	for _, key := range render.Keys(before, after) {
		b, was := before[key]
		a, is := after[key]
		if was && is {
			d.compare(pointer+render.Pointer(key), b, a)
		} else {
			d.add(pointer + render.Pointer(key))
		}
	}
}

// lists adds the elements that only the longer list has, or the list itself if
// elements were only removed.
func (d *diff) lists(pointer string, before, after []any) {
	if len(before) == len(after) {
		for i := range after {
			d.compare(pointer+render.Pointer(i), before[i], after[i])
		}
		return
	}
	named := len(d.pointers)
	rest := before
	for i, e := range after {
		j := slices.IndexFunc(rest, func(o any) bool { return render.Equal(o, e) })
		if j < 0 {
			d.element(pointer+render.Pointer(i), before, e)
			continue
		}
		rest = rest[j+1:]
	}
	if len(d.pointers) == named {
		d.add(pointer)
	}
}

// element adds the differences inside an element that has a name, or else the
// whole element.
func (d *diff) element(pointer string, before []any, e any) {
	for _, o := range before {
		was, ok := o.(map[string]any)
		is, too := e.(map[string]any)
		if ok && too && is["name"] != nil && render.Equal(was["name"], is["name"]) {
			d.objects(pointer, was, is)
			return
		}
	}
	d.add(pointer)
}

// OrList formats a list of pointers as text.
func OrList(pointers []string) string {
	const shown = 4
	if len(pointers) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(pointers[:shown], ", "), len(pointers)-shown)
	}
	return strings.Join(pointers, ", ")
}
