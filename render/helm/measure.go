package helm

import (
	"reflect"

	"github.com/preadmit/preadmit/render"
)

var errLarge = &exceeded{"value has too many parts"}

// measure refuses a value that contains itself, or that shares parts so often
// that walking it would not end. Printing the former overflows the stack, from
// which Go can't recover.
func (r *run) measure(v reflect.Value) error {
	if !v.IsValid() || !v.CanInterface() {
		return nil
	}
	return r.measureShown(v.Interface())
}

// measureShown is measureAny for a value that becomes text as a whole. If it contains the data of
// the release, the text may differ for an upgrade, which is recorded.
func (r *run) measureShown(v any) error {
	m := meter{left: maxNodes, bytes: maxString}
	err := r.measureBy(&m, v)
	if m.release {
		r.recordQuestion(asked{subject: render.AsksUpgrade})
	}
	return err
}

func (r *run) measureAny(v any) error {
	switch v.(type) {
	case nil, string, bool, int, int64, float64:
		return nil
	}
	return r.measureBy(&meter{left: maxNodes, bytes: maxString}, v)
}

func (r *run) measureBy(m *meter, v any) error {
	err := m.any(v, 0)
	if err == nil {
		err = r.step((maxNodes - m.left) / 64)
	}
	return err
}

type meter struct {
	left, bytes int
	release     bool // it contains the data of the release
}

func (m *meter) any(v any, depth int) error {
	if m.left--; m.left < 0 || m.bytes < 0 {
		return errLarge
	}
	if depth > maxValue {
		return errCyclic
	}
	switch v := v.(type) {
	case nil, bool, int, int64, float64:
		return nil
	case string:
		m.bytes -= len(v)
		return nil
	case map[string]any:
		m.release = m.release || isRelease(v)
		for k, e := range v {
			m.bytes -= len(k)
			if err := m.any(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	case table:
		return m.any(map[string]any(v), depth)
	case []any:
		for _, e := range v {
			if err := m.any(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return m.value(reflect.ValueOf(v), depth)
}

// value walks values of types that YAML does not give.
func (m *meter) value(v reflect.Value, depth int) error {
	if m.left--; m.left < 0 || m.bytes < 0 {
		return errLarge
	}
	if depth > maxValue {
		return errCyclic
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return m.part(v.Elem(), depth+1)
	case reflect.String:
		m.bytes -= v.Len()
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := m.part(it.Value(), depth+1); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Float64 {
			m.bytes -= v.Len()
			return nil
		}
		for i := range v.Len() {
			if err := m.part(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := m.part(v.Field(i), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *meter) part(v reflect.Value, depth int) error {
	if v.Kind() == reflect.Interface && v.CanInterface() && !v.IsNil() {
		return m.any(v.Interface(), depth)
	}
	return m.value(v, depth)
}
