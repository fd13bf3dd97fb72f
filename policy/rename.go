package policy

import (
	"reflect"
	"slices"

	"github.com/preadmit/preadmit/render"
)

// Names are the names of files and units in reports, which differ from those in the
// tree.
type Names interface {
	Display(name string) string
	DisplayIn(text string) string // with the names in a text
}

// Rename names files and units as reports do.
func (r *Result) Rename(n Names) {
	r.Object.Unit = n.Display(r.Object.Unit)
	r.PolicyOrigin.File = n.Display(r.PolicyOrigin.File)
	r.Message = render.WithoutAddresses(n.DisplayIn(r.Message))
	for i := range r.Origins {
		r.Origins[i].File = n.Display(r.Origins[i].File)
	}
}

// Rename names files and units as reports do.
func (e *Explanation) Rename(n Names) { rename(n, reflect.ValueOf(e).Elem()) }

// rename names the files and units in v and its fields, except those of whole objects. Lists are copied,
// since several explanations may share them.
func rename(n Names, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *render.Span:
		x.File = n.Display(x.File)
		return
	case *render.Key:
		x.Unit = n.Display(x.Unit)
		return
	case *Result:
		x.Origins = slices.Clone(x.Origins)
		x.Rename(n)
		return
	case **render.Object:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			rename(n, v.Elem())
		}
	case reflect.Slice:
		copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		if reflect.Copy(copied, v); !v.IsNil() {
			v.Set(copied)
		}
		for i := range v.Len() {
			rename(n, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				rename(n, v.Field(i))
			}
		}
	}
}
