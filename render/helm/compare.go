package helm

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"text/template"

	"helm.sh/helm/v3/pkg/chartutil"
)

// scalarFunctions are functions of single values. Their errors print a map that
// they are given, so the map is measured first.
func (r *run) scalarFunctions() template.FuncMap {
	fns := template.FuncMap{"typeOf": typeOf, "typeIs": typeIs, "typeIsLike": typeIsLike}
	for _, name := range []string{
		"add1", "add", "sub", "div", "mod", "mul", "add1f", "addf", "subf", "divf", "mulf",
		"biggest", "max", "min", "maxf", "minf", "ceil", "floor", "round", "toDecimal", "dict", "slice", "mustSlice", "sortAlpha",
	} {
		fns[name] = r.measured(library()[name])
	}
	maps.Copy(fns, template.FuncMap{
		"int":     converts(r, library()["int"].(func(any) int)),
		"int64":   converts(r, library()["int64"].(func(any) int64)),
		"float64": converts(r, library()["float64"].(func(any) float64)),
	})
	return fns
}

// converts limits a conversion, and records the value that its result was made
// from.
func converts[V any](r *run, f func(any) V) func(any) (any, error) {
	return func(v any) (any, error) {
		if err := r.measureAny(v); err != nil {
			return nil, err
		}
		return r.converted(f(v), v), nil
	}
}

var errorType = reflect.TypeFor[error]()

// measured adds to a sprig function an error result, for arguments that are too
// large to print.
func (r *run) measured(f any) any {
	fn := reflect.ValueOf(f)
	typ := fn.Type()
	in := make([]reflect.Type, typ.NumIn())
	for i := range in {
		in[i] = typ.In(i)
	}
	out := []reflect.Type{typ.Out(0), errorType}
	call := fn.Call
	if typ.IsVariadic() {
		call = fn.CallSlice
	}
	return reflect.MakeFunc(reflect.FuncOf(in, out, typ.IsVariadic()), func(args []reflect.Value) []reflect.Value {
		for _, arg := range args {
			if err := r.measureArgument(arg); err != nil {
				return []reflect.Value{reflect.Zero(out[0]), reflect.ValueOf(&err).Elem()}
			}
		}
		if results := call(args); len(results) == 2 {
			return results
		} else {
			return append(results, reflect.Zero(errorType))
		}
	}).Interface()
}

func (r *run) measureArgument(arg reflect.Value) error {
	if arg.Kind() != reflect.Slice || arg.Type().Elem().Kind() != reflect.Interface {
		return r.measure(arg)
	}
	for i := range arg.Len() {
		if err := r.measure(arg.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// equal implements eq: it reports whether the first value equals one of the
// others. Numbers of different signedness compare by value; other kinds can't
// be compared with each other. Its errors do not print values, which may be large.
func equal(first reflect.Value, others ...reflect.Value) (bool, error) {
	if len(others) == 0 {
		return false, errors.New("missing argument for comparison")
	}
	for _, other := range others {
		if same, err := equalValues(concrete(first), concrete(other)); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func concrete(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		return v.Elem()
	}
	return v
}

func equalValues(a, b reflect.Value) (bool, error) {
	switch {
	case a.CanInt() && b.CanInt():
		return a.Int() == b.Int(), nil
	case a.CanUint() && b.CanUint():
		return a.Uint() == b.Uint(), nil
	case a.CanInt() && b.CanUint():
		return a.Int() >= 0 && uint64(a.Int()) == b.Uint(), nil
	case a.CanUint() && b.CanInt():
		return equalValues(b, a)
	case a.CanFloat() && b.CanFloat():
		return a.Float() == b.Float(), nil
	case a.CanComplex() && b.CanComplex():
		return a.Complex() == b.Complex(), nil
	case a.Kind() == b.Kind() && a.Kind() == reflect.String:
		return a.String() == b.String(), nil
	case a.Kind() == b.Kind() && a.Kind() == reflect.Bool:
		return a.Bool() == b.Bool(), nil
	}
	switch {
	case basic(a) != basic(b) && a.IsValid() && b.IsValid(), basic(a):
		if !a.IsValid() || !b.IsValid() {
			return false, nil
		}
		return false, fmt.Errorf("incompatible types for comparison: %v and %v", a.Type(), b.Type())
	case basic(b):
		return false, nil
	case a.IsValid() && b.IsValid() && a.Kind() != b.Kind():
		return false, fmt.Errorf("non-comparable types: %v and %v", a.Type(), b.Type())
	case isNil(a) || isNil(b):
		return isNil(a) == isNil(b), nil
	case !b.Type().Comparable():
		return false, fmt.Errorf("non-comparable type: %v", b.Type())
	}
	return a.Interface() == b.Interface(), nil
}

func basic(v reflect.Value) bool {
	return v.CanInt() || v.CanUint() || v.CanFloat() || v.CanComplex() || v.Kind() == reflect.String || v.Kind() == reflect.Bool
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice:
		return v.IsNil()
	}
	return false
}

// A table is a map whose methods templates can call, as on Helm's maps. It has
// Helm's methods, except for those that may not end.
type table map[string]any

// YAML is the map as YAML.
func (t table) YAML() (string, error) {
	m := meter{left: maxNodes, bytes: maxString}
	if err := m.any(map[string]any(t), 0); err != nil {
		return "", err
	}
	return chartutil.Values(t).YAML()
}

// Table returns the map at a path of keys with dots between them.
func (t table) Table(path string) (table, error) {
	for _, key := range strings.Split(path, ".") {
		switch next := t[key].(type) {
		case map[string]any:
			t = next
		case table:
			t = next
		default:
			return table{}, chartutil.ErrNoTable{Key: key}
		}
	}
	return t, nil
}

// AsMap returns the map itself, never nil.
func (t table) AsMap() map[string]any {
	if len(t) == 0 {
		return map[string]any{}
	}
	return t
}

// PathValue returns the value at a path of keys, unless it is a map.
func (t table) PathValue(path string) (any, error) {
	parent := ""
	key := path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, key = path[:i], path[i+1:]
	}
	if parent != "" {
		below, err := t.Table(parent)
		if err != nil {
			return nil, chartutil.ErrNoValue{Key: key}
		}
		t = below
	}
	v, ok := t[key]
	if _, isMap := v.(map[string]any); !ok || isMap {
		return nil, chartutil.ErrNoValue{Key: key}
	}
	return v, nil
}

// typeOf returns the Go type of a value, under the names of Helm's own types.
func typeOf(v any) string {
	return strings.ReplaceAll(fmt.Sprintf("%T", v), "helm.table", "chartutil.Values")
}

func typeIs(want string, v any) bool { return want == typeOf(v) }

func typeIsLike(want string, v any) bool {
	is := typeOf(v)
	return want == is || "*"+want == is
}
