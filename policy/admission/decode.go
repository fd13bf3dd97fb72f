package admission

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/util/validation/field"
	serverv1 "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	kjson "sigs.k8s.io/json"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

const (
	group       = "admissionregistration.k8s.io"
	policyKind  = "ValidatingAdmissionPolicy"
	bindingKind = "ValidatingAdmissionPolicyBinding"
)

// isKind reports whether o is of a kind of the group, in a version that has it.
func isKind(o *render.Object, kind string) bool {
	gvk := o.GroupVersionKind()
	if gvk.Group != group || gvk.Kind != kind {
		return false
	}
	return gvk.Version == "v1" || gvk.Version == "v1beta1" || gvk.Version == "v1alpha1"
}

// at returns an error about the field of o at a JSON pointer.
func at(o *render.Object, pointer, rule string, err error) *render.Error {
	return &render.Error{Span: o.Span(pointer), Rule: rule, Err: &policy.NamedError{Policy: policyOf(o), Err: policy.ShortError(err)}}
}

// policyOf returns the name of the policy that o is or binds.
func policyOf(o *render.Object) string {
	if spec, ok := o.Object["spec"].(map[string]any); ok {
		if name, _ := spec["policyName"].(string); name != "" {
			return name
		}
	}
	return o.GetName()
}

// decode reads o into a v1 policy or binding. The beta and alpha versions have
// the same fields. Unknown fields are errors, as for the API server, but the
// other fields are decoded. If ok is false, into is not usable.
func decode(o *render.Object, into any, rule string) (errs []error, ok bool) {
	data, err := json.Marshal(o.Object)
	if err != nil {
		return []error{at(o, "", rule, err)}, false
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return []error{at(o, decodePointer(err), rule, errors.New(strings.TrimPrefix(err.Error(), "json: ")))}, false
	}
	for _, e := range strict {
		path := policy.UnknownField(e)
		wrong := at(o, render.KeyOf(render.FieldPointer(path)), rule, e)
		wrong.Hint = render.DidYouMean(path[strings.LastIndexByte(path, '.')+1:], fieldNames(reflect.TypeOf(into), path))
		errs = append(errs, wrong)
	}
	return errs, true
}

// fieldNames returns the names of all fields next to the one at a path such as
// spec.validations[0].mesage, for suggestions.
func fieldNames(t reflect.Type, path string) []string {
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		name, _, _ := strings.Cut(part, "[")
		if t = jsonField(t, name); t == nil {
			return nil
		}
	}
	var names []string
	for field := range element(t).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func jsonField(t reflect.Type, name string) reflect.Type {
	for field := range element(t).Fields() {
		if n, _, _ := strings.Cut(field.Tag.Get("json"), ","); n == name && element(field.Type).Kind() == reflect.Struct {
			return field.Type
		}
	}
	return nil
}

// element returns the type that pointers and lists contain.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

func decodePointer(err error) string {
	var e *json.UnmarshalTypeError
	if errors.As(err, &e) {
		return render.FieldPointer(e.Field)
	}
	_, field, _ := strings.Cut(err.Error(), "Go struct field ")
	field, _, _ = strings.Cut(field, " ")
	if i := strings.IndexByte(field, '.'); i >= 0 {
		return render.FieldPointer(field[i+1:])
	}
	return ""
}

// defaultPolicy sets the API server's defaults.
func defaultPolicy(p *v1.ValidatingAdmissionPolicy) {
	if p.Spec.FailurePolicy == nil {
		fail := v1.Fail
		p.Spec.FailurePolicy = &fail
	}
	if p.Spec.MatchConstraints != nil {
		match.Default(p.Spec.MatchConstraints)
	}
}

// refusePolicy returns an error for each reason why the API server refuses a
// policy, apart from its expressions, which compile checks by the wanted version.
func refusePolicy(o *render.Object, p *v1.ValidatingAdmissionPolicy) []error {
	p = p.DeepCopy()
	p.ObjectMeta = metav1.ObjectMeta{Name: p.Name}
	withoutExpressions(p.Spec.Variables, p.Spec.MatchConditions)
	for i := range p.Spec.Validations {
		v := &p.Spec.Validations[i]
		if v.Expression = "true"; strings.TrimSpace(v.MessageExpression) != "" {
			v.MessageExpression = "''"
		}
	}
	for i := range p.Spec.AuditAnnotations {
		p.Spec.AuditAnnotations[i].ValueExpression = "''"
	}
	return refusals(o, "policy", p, serverv1.Convert_v1_ValidatingAdmissionPolicy_To_admissionregistration_ValidatingAdmissionPolicy, validation.ValidateValidatingAdmissionPolicy)
}

// withoutExpressions replaces the expressions by ones that compile.
func withoutExpressions(variables []v1.Variable, conditions []v1.MatchCondition) {
	for i := range variables {
		variables[i].Expression = "true"
	}
	for i := range conditions {
		conditions[i].Expression = "true"
	}
}

// refuseBinding is refusePolicy for a binding.
func refuseBinding(o *render.Object, b *v1.ValidatingAdmissionPolicyBinding) []error {
	b = &v1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: b.Name}, Spec: b.Spec}
	return refusals(o, "binding", b, serverv1.Convert_v1_ValidatingAdmissionPolicyBinding_To_admissionregistration_ValidatingAdmissionPolicyBinding, validation.ValidateValidatingAdmissionPolicyBinding)
}

// refusals returns the errors of the API server's validation, each at its field. An error
// about a validation, a variable or another rule of a policy gets the name of that rule, any
// other error gets rule. An invalid name is left to the validator of built-in kinds, because
// tests of policies have such names.
func refusals[T, Internal any](o *render.Object, rule string, given *T, convert func(*T, *Internal, conversion.Scope) error, validate func(*Internal) field.ErrorList) []error {
	var internal Internal
	if err := convert(given, &internal, nil); err != nil {
		return []error{at(o, "", rule, err)}
	}
	var errs []error
	taken := make(map[string]bool)
	for _, e := range validate(&internal) {
		if e.Field == "metadata.name" && o.GetName() != "" {
			continue
		}
		pointer := placeIn(o.Object, render.FieldPointer(e.Field), e.BadValue, taken)
		errs = append(errs, at(o, pointer, cmp.Or(ruleAt(o, render.Path(pointer)), rule), e))
	}
	return errs
}

// placeIn returns the pointer of a field. Some errors of the API server leave out the index in a
// list. Of the fields with that name in the elements of the list, placeIn returns the first that
// has the value, or an element with the value, and is not taken by an earlier error.
func placeIn(object map[string]any, pointer string, value any, taken map[string]bool) string {
	if _, ok := render.Lookup(object, pointer); ok || pointer == "" {
		return pointer
	}
	cut := strings.LastIndexByte(pointer, '/')
	elements, _ := render.Lookup(object, pointer[:cut])
	list, _ := elements.([]any)
	for i := range list {
		field := pointer[:cut] + render.Pointer(i) + pointer[cut:]
		found, _ := render.Lookup(object, field)
		for at, v := range render.Fields(found, field) {
			if text, ok := v.(string); ok && text == fmt.Sprint(value) && !taken[at] {
				taken[at] = true
				return at
			}
		}
	}
	return pointer
}

// ruleAt returns the rule of a policy to which the field at a path belongs, or "".
func ruleAt(o *render.Object, path []string) string {
	if len(path) < 3 || path[0] != "spec" {
		return ""
	}
	list, id := path[1], path[2]
	switch list {
	case "validations", "mutations":
	case "variables", "matchConditions":
		id = textAt(o, list, id, "name")
	case "auditAnnotations":
		id = textAt(o, list, id, "key")
	default:
		return ""
	}
	if id == "" {
		return ""
	}
	return list + "[" + id + "]"
}

func textAt(o *render.Object, list, index, field string) string {
	v, _ := render.Lookup(o.Object, render.PathPointer([]string{"spec", list, index, field}))
	text, _ := v.(string)
	return text
}

// anyOperation sets all operations in rules without operations, which the API
// server refuses, and returns an error for each. Tests of policies are written
// with such rules.
func anyOperation(p *v1.ValidatingAdmissionPolicy, o *render.Object) []error {
	if p.Spec.MatchConstraints == nil {
		return nil
	}
	var errs []error
	for i := range p.Spec.MatchConstraints.ResourceRules {
		rule := &p.Spec.MatchConstraints.ResourceRules[i]
		if len(rule.Operations) > 0 {
			continue
		}
		rule.Operations = []v1.OperationType{v1.OperationAll}
		errs = append(errs, at(o, render.Pointer("spec", "matchConstraints", "resourceRules", i), "policy",
			fmt.Errorf("spec.matchConstraints.resourceRules[%d].operations: required; checked as if it were [\"*\"]", i)))
	}
	return errs
}
