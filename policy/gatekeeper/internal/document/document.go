// Package document reads the common parts of Gatekeeper's constraints, mutators
// and expansion templates: fields, match blocks, and annotations that document them.
package document

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The annotations that document a constraint, its template or a mutator. Of those in a
// list, the first that has a text counts:
//
//	metadata.gatekeeper.sh/title   one line
//	description                    what it is about, and why
//	metadata.gatekeeper.sh/severity, and those of preadmit.dev
var (
	titleKeys       = []string{"preadmit.dev/title", "metadata.gatekeeper.sh/title"}
	severityKeys    = []string{"preadmit.dev/severity", "metadata.gatekeeper.sh/severity", "severity"}
	descriptionKeys = []string{"preadmit.dev/description", "description", "metadata.gatekeeper.sh/description"}
	urlKeys         = []string{"preadmit.dev/url", "metadata.gatekeeper.sh/url"}
)

// MaxDocument is the most bytes of a template's code that are kept.
const MaxDocument = 16 << 10

// Describe sets a rule's title, description, help and URL by annotations.
func Describe(r *policy.Rule, notes policy.Notes) {
	r.Title, r.Description = policy.FirstLine(notes.Text(titleKeys...)), notes.Text(descriptionKeys...)
	r.Help, r.URL = notes.Help(), notes.Text(urlKeys...)
}

// Severity returns the severity that annotations give.
func Severity(notes policy.Notes) policy.Severity {
	return policy.SeverityOf(strings.ToLower(notes.Text(severityKeys...)))
}

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
		errs = append(errs, Warning(o, pointer+render.FieldPointer(policy.UnknownField(e)), rule, e))
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

// ApplyTo is an entry of applyTo: kinds and operations.
type ApplyTo struct {
	Groups     []string `json:"groups,omitempty"`
	Kinds      []string `json:"kinds,omitempty"`
	Versions   []string `json:"versions,omitempty"`
	Operations []string `json:"operations,omitempty"` // of mutators
}

// HasKind reports whether the entry lists a kind.
func (a *ApplyTo) HasKind(gvk schema.GroupVersionKind) bool {
	return slices.Contains(a.Kinds, gvk.Kind) && slices.Contains(a.Groups, gvk.Group) && slices.Contains(a.Versions, gvk.Version)
}

// HasOperation reports whether the entry lists an operation. Objects from an
// expansion template have no operation, so only a mutator for all operations applies
// to them.
func (a *ApplyTo) HasOperation(op policy.Operation) bool {
	if len(a.Operations) == 0 || slices.Contains(a.Operations, "*") {
		return true
	}
	if op == "" {
		return slices.Contains(a.Operations, string(policy.Create)) && slices.Contains(a.Operations, string(policy.Update))
	}
	return slices.Contains(a.Operations, string(op))
}

// Meets reports whether both entries list a common kind and a common operation.
func (a *ApplyTo) Meets(b *ApplyTo) bool {
	both := func(x, y []string) bool {
		return slices.ContainsFunc(x, func(s string) bool { return slices.Contains(y, s) })
	}
	return both(a.Kinds, b.Kinds) && both(a.Groups, b.Groups) && both(a.Versions, b.Versions) &&
		(a.HasOperation(policy.Create) && b.HasOperation(policy.Create) || a.HasOperation(policy.Update) && b.HasOperation(policy.Update))
}

// MaxName is the longest name of a mutator or an expansion template that Gatekeeper accepts.
const MaxName = 63
