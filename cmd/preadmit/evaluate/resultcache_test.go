package evaluate

import (
	"reflect"
	"testing"

	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestEverySettingIsInTheCacheKey gives each field of what engines are made of
// another value, one at a time: the key must differ from all others.
func TestEverySettingIsInTheCacheKey(t *testing.T) {
	t.Parallel()
	seen := map[string]string{encoded(t, engineInputs{}): "no field"}
	var in engineInputs
	for path, field := range leaves(reflect.ValueOf(&in).Elem(), "engineInputs") {
		setNonZero(field, 1)
		k := encoded(t, in)
		if other, ok := seen[k]; ok {
			t.Errorf("the key with %s is that with %s", path, other)
		}
		seen[k] = path
		field.SetZero()
	}
	if len(seen) < 12 {
		t.Errorf("only %d fields were found", len(seen))
	}
}

func encoded(t *testing.T, in engineInputs) string {
	t.Helper()
	var e cache.Encoder
	e.Plain(in)
	data, err := e.Data()
	rendertest.OK(t, err)
	return string(data)
}

// leaves goes through the fields of a struct and of the structs in it.
func leaves(v reflect.Value, path string) func(func(string, reflect.Value) bool) {
	return func(yield func(string, reflect.Value) bool) {
		for i := range v.NumField() {
			field, name := v.Field(i), path+"."+v.Type().Field(i).Name
			if field.Kind() != reflect.Struct {
				yield(name, field)
				continue
			}
			for p, f := range leaves(field, name) {
				yield(p, f)
			}
		}
	}
}

// setNonZero gives a value another one than zero, down to its elements.
func setNonZero(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("changed")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			setNonZero(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		setNonZero(value, n)
		v.SetMapIndex(reflect.ValueOf("changed"), value)
	case reflect.Struct:
		for i := range v.NumField() {
			setNonZero(v.Field(i), n)
		}
	default:
		panic("a setting of kind " + v.Kind().String())
	}
}
