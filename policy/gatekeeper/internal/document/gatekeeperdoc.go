// Package document reads the common parts of Gatekeeper's constraints, mutators
// and expansion templates: fields, match blocks, and annotations that document them.
package document

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	kjson "sigs.k8s.io/json"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Warning returns a warning about a field. o is evaluated all the same.
func Warning(o *render.Object, pointer, rule string, err error) *render.Error {
	e := policy.ErrorAt(o, pointer, rule, err)
	e.Warning = true
	return e
}

// Decode decodes the value at a pointer of o into a struct. A value of the
// wrong type is an error at its place. An unknown field is a warning, because
// the API server drops it.
func Decode(o *render.Object, pointer string, value, into any, rule string) []error {
	data, err := json.Marshal(value)
	if err != nil {
		return []error{policy.ErrorAt(o, pointer, rule, err)}
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return []error{policy.ErrorAt(o, pointer+decodePointer(err), rule, typeError(err))}
	}
	var errs []error
	for _, e := range strict {
		errs = append(errs, Warning(o, render.KeyOf(pointer+render.FieldPointer(policy.UnknownField(e))), rule, e))
	}
	return errs
}

// typeError returns an error of the decoder without Go's type names.
func typeError(err error) error {
	var e *json.UnmarshalTypeError
	if !errors.As(err, &e) || e.Field == "" {
		return errors.New("a field has the wrong type")
	}
	want := map[reflect.Kind]string{
		reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object", reflect.String: "a string", reflect.Bool: "a boolean",
	}[e.Type.Kind()]
	return fmt.Errorf("%s: is of type %s, and should be %s", e.Field, e.Value, cmp.Or(want, "a number"))
}

func decodePointer(err error) string {
	var e *json.UnmarshalTypeError
	if errors.As(err, &e) {
		return render.FieldPointer(e.Field)
	}
	return ""
}

// Broken reports whether any of the errors is more than a warning.
func Broken(errs []error) bool {
	return len(render.Failures(errors.Join(errs...))) > 0
}

// Equal reports whether two objects are one policy that several overlays render. Their
// labels and annotations may differ.
func Equal(a, b *render.Object) bool {
	return a.GetAPIVersion() == b.GetAPIVersion() && a.GetKind() == b.GetKind() && a.GetName() == b.GetName() &&
		reflect.DeepEqual(a.Object["spec"], b.Object["spec"])
}

// OtherOf returns the error of an object whose name another object already has.
func OtherOf(what, name string, first *render.Object) error {
	where := cmp.Or(first.Span("").String(), "before it")
	return fmt.Errorf("%s %s differs from the one at %s, which is used", what, name, where)
}
