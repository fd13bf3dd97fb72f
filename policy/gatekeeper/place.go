package gatekeeper

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// maxMessage is how long a message may be.
const maxMessage = 4 << 10

// at is an error about the field of o at a JSON pointer. A field that is not
// there is where it would stand.
func at(o *render.Object, pointer, rule string, err error) *render.Error {
	return &render.Error{Span: o.Span(pointer), Rule: rule, Err: &policy.NamedError{Policy: o.GetName(), Err: shorten(err)}}
}

// warning is at, of what does not keep o from being used.
func warning(o *render.Object, pointer, rule string, err error) *render.Error {
	e := at(o, pointer, rule, err)
	e.Warning = true
	return e
}

func shorten(err error) error {
	if s := err.Error(); len(s) > maxMessage {
		return errors.New(policy.Shorten(s, maxMessage))
	}
	return err
}

// decode reads the value at a pointer of o into a struct. What is of another
// type is an error at its place, a field that the struct does not have a
// warning: the API server drops it.
func decode(o *render.Object, pointer string, value, into any, rule string) []error {
	data, err := json.Marshal(value)
	if err != nil {
		return []error{at(o, pointer, rule, err)}
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return []error{at(o, pointer+decodePointer(err), rule, typeError(err))}
	}
	var errs []error
	for _, e := range strict {
		errs = append(errs, warning(o, pointer+render.FieldPointer(quoted(e.Error())), rule, e))
	}
	return errs
}

// typeError words an error of the decoder without the types of Go.
func typeError(err error) error {
	var e *json.UnmarshalTypeError
	if !errors.As(err, &e) || e.Field == "" {
		return errors.New("its fields are not of the types that they should be of")
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

// quoted is the field path in `unknown field "spec.foo"`.
func quoted(s string) string {
	_, rest, _ := strings.Cut(s, `"`)
	path, _, _ := strings.Cut(rest, `"`)
	return path
}

// broken says whether any of the errors is more than a warning.
func broken(errs []error) bool {
	return len(render.Failures(errors.Join(errs...))) > 0
}
