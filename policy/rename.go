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
	if r.Fix != nil {
		for i := range r.Fix.Edits {
			r.Fix.Edits[i].File = n.Display(r.Fix.Edits[i].File)
		}
	}
}

// Rename names files and units as reports do.
func (e *Explanation) Rename(n Names) {
	eachPart("", reflect.ValueOf(e).Elem(), func(_ string, part any) bool {
		switch x := part.(type) {
		case *render.Span:
			x.File = n.Display(x.File)
		case *render.Key:
			x.Unit = n.Display(x.Unit)
		case *Result:
			x.Origins = slices.Clone(x.Origins)
			x.Rename(n)
		}
		return whole(part)
	})
}

// whole reports whether a part of an explanation is changed as a whole: objects are not changed.
func whole(part any) bool {
	switch part.(type) {
	case *render.Span, *render.Key, *Result, **render.Object:
		return true
	}
	return false
}

// eachPart calls f with a pointer to v, and then with those to its parts, with the names of their
// fields. It passes over the parts of what f returns true for. Lists are copied, since several
// explanations may share them.
func eachPart(field string, v reflect.Value, f func(field string, part any) bool) {
	if f(field, v.Addr().Interface()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachPart(field, v.Elem(), f)
		}
	case reflect.Slice:
		copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		if reflect.Copy(copied, v); !v.IsNil() {
			v.Set(copied)
		}
		for i := range v.Len() {
			eachPart(field, v.Index(i), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if t := v.Type().Field(i); t.IsExported() {
				eachPart(t.Name, v.Field(i), f)
			}
		}
	}
}
