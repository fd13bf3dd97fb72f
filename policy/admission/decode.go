package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
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

// A fault is the API server's error about a field.
type fault struct {
	pointer, rule string
	err           error
}

// checker collects the faults of one object.
type checker struct{ faults []fault }

func (c *checker) add(pointer, rule, format string, args ...any) {
	c.faults = append(c.faults, fault{pointer, rule, fmt.Errorf(format, args...)})
}

func (c *checker) errors(o *render.Object) []error {
	var errs []error
	for _, f := range c.faults {
		errs = append(errs, at(o, f.pointer, f.rule, f.err))
	}
	return errs
}

// checkPolicy performs the API server's validation of a policy, except for
// compiling its expressions
// (k8s.io/kubernetes/pkg/apis/admissionregistration/validation).
func checkPolicy(p *v1.ValidatingAdmissionPolicy) *checker {
	c := &checker{}
	c.policy(p)
	if len(p.Spec.Validations) == 0 && len(p.Spec.AuditAnnotations) == 0 {
		c.add("/spec", "policy", "spec.validations: validations or auditAnnotations must be specified")
	}
	c.validations(p.Spec.Validations)
	return c
}

// policy checks the fields that both kinds of policies have.
func (c *checker) policy(p *v1.ValidatingAdmissionPolicy) {
	if p.Name == "" {
		c.add("/metadata", "policy", "metadata.name: required")
	}
	switch f := *p.Spec.FailurePolicy; f {
	case v1.Fail, v1.Ignore:
	default:
		c.add("/spec/failurePolicy", "policy", "spec.failurePolicy: unsupported value %q: must be Fail or Ignore", f)
	}
	if k := p.Spec.ParamKind; k != nil && (k.APIVersion == "" || k.Kind == "") {
		c.add("/spec/paramKind", "policy", "spec.paramKind: apiVersion and kind are required")
	}
	if p.Spec.MatchConstraints == nil {
		c.add("/spec", "policy", "spec.matchConstraints: required")
	} else {
		if len(p.Spec.MatchConstraints.ResourceRules) == 0 {
			c.add("/spec/matchConstraints", "policy", "spec.matchConstraints.resourceRules: required")
		}
		c.match("/spec/matchConstraints", "policy", p.Spec.MatchConstraints)
	}
	c.names(p)
}

const maxMatchConditions = 64

func (c *checker) names(p *v1.ValidatingAdmissionPolicy) {
	if len(p.Spec.MatchConditions) > maxMatchConditions {
		c.add("/spec/matchConditions", "policy", "spec.matchConditions: must have at most %d items", maxMatchConditions)
	}
	unique := map[string]bool{}
	named := func(list, field string, i int, name string) {
		pointer := render.Pointer("spec", list, i, field)
		switch key := list + "/" + name; {
		case name == "":
			c.add(render.Pointer("spec", list, i), "policy", "spec.%s[%d].%s: required", list, i, field)
		case unique[key]:
			c.add(pointer, fmt.Sprintf("%s[%s]", list, name), "spec.%s[%d].%s: duplicate value %q", list, i, field, name)
		default:
			unique[key] = true
		}
	}
	for i, m := range p.Spec.MatchConditions {
		named("matchConditions", "name", i, m.Name)
	}
	for i, v := range p.Spec.Variables {
		named("variables", "name", i, v.Name)
		if v.Name != "" && !identifier(v.Name) {
			c.add(render.Pointer("spec", "variables", i, "name"), "variables["+v.Name+"]", "spec.variables[%d].name: %q is not a valid CEL identifier", i, v.Name)
		}
	}
	for i, a := range p.Spec.AuditAnnotations {
		named("auditAnnotations", "key", i, a.Key)
		if text := validation.IsQualifiedName(p.Name + "/" + a.Key); a.Key != "" && len(text) > 0 {
			c.add(render.Pointer("spec", "auditAnnotations", i, "key"), "auditAnnotations["+a.Key+"]", "spec.auditAnnotations[%d].key: %s", i, text[0])
		}
	}
}

// identifier reports whether name is a CEL identifier, so that expressions can
// read the variable.
func identifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return !reserved[name]
}

var reserved = map[string]bool{
	"true": true, "false": true, "null": true, "in": true, "as": true, "break": true, "const": true,
	"continue": true, "else": true, "for": true, "function": true, "if": true, "import": true, "let": true,
	"loop": true, "package": true, "namespace": true, "return": true, "var": true, "void": true, "while": true,
}

// reasons are those that the API server takes, which its documentation says of
// Unauthorized, too.
var reasons = []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge}

func (c *checker) validations(validations []v1.Validation) {
	for i, v := range validations {
		rule := fmt.Sprintf("validations[%d]", i)
		add := func(field, format string, args ...any) {
			c.add(render.Pointer("spec", "validations", i, field), rule, "spec."+rule+"."+field+": "+format, args...)
		}
		if v.Message != "" && strings.TrimSpace(v.Message) == "" {
			add("message", "message must be non-empty if specified")
		}
		if strings.ContainsAny(strings.TrimSpace(v.Message), "\n\r") {
			add("message", "message must not contain line breaks")
		}
		if v.MessageExpression != "" && strings.TrimSpace(v.MessageExpression) == "" {
			add("messageExpression", "must be non-empty if specified")
		}
		if v.Reason != nil && !slices.Contains(reasons, *v.Reason) {
			add("reason", "unsupported value %q: must be Forbidden, Invalid or RequestEntityTooLarge", *v.Reason)
		}
	}
}

func (c *checker) match(pointer, rule string, m *v1.MatchResources) {
	switch *m.MatchPolicy {
	case v1.Exact, v1.Equivalent:
	default:
		c.add(pointer+"/matchPolicy", rule, "matchPolicy: unsupported value %q: must be Exact or Equivalent", *m.MatchPolicy)
	}
	if _, err := metav1.LabelSelectorAsSelector(m.NamespaceSelector); err != nil {
		c.add(pointer+"/namespaceSelector", rule, "namespaceSelector: %w", err)
	}
	if _, err := metav1.LabelSelectorAsSelector(m.ObjectSelector); err != nil {
		c.add(pointer+"/objectSelector", rule, "objectSelector: %w", err)
	}
	c.rules(pointer+"/resourceRules", rule, m.ResourceRules)
	c.rules(pointer+"/excludeResourceRules", rule, m.ExcludeResourceRules)
}

func (c *checker) rules(pointer, rule string, rules []v1.NamedRuleWithOperations) {
	for i, r := range rules {
		p := pointer + render.Pointer(i)
		c.required(p, rule, "operations", len(r.Operations))
		c.required(p, rule, "apiGroups", len(r.APIGroups))
		c.required(p, rule, "apiVersions", len(r.APIVersions))
		c.required(p, rule, "resources", len(r.Resources))
		if j := slices.Index(r.APIVersions, ""); j >= 0 {
			c.required(p, rule, fmt.Sprintf("apiVersions[%d]", j), 0)
		}
		if j := slices.Index(r.Resources, ""); j >= 0 {
			c.required(p, rule, fmt.Sprintf("resources[%d]", j), 0)
		}
		for j, op := range r.Operations {
			switch op {
			case v1.Create, v1.Update, v1.Delete, v1.Connect, v1.OperationAll:
			default:
				c.add(p+render.Pointer("operations", j), rule, "unsupported operation %q", op)
			}
		}
		if r.Scope != nil && *r.Scope != v1.AllScopes && *r.Scope != v1.ClusterScope && *r.Scope != v1.NamespacedScope {
			c.add(p+"/scope", rule, "unsupported scope %q: must be Cluster, Namespaced or *", *r.Scope)
		}
	}
}

func (c *checker) required(pointer, rule, field string, n int) {
	if n == 0 {
		c.add(pointer, rule, "%s.%s: required", strings.Join(render.Path(pointer), "."), field)
	}
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

// checkBinding performs the API server's validation of a binding.
func checkBinding(b *v1.ValidatingAdmissionPolicyBinding) *checker {
	c := &checker{}
	c.binding(b.Name, b.Spec.PolicyName, b.Spec.MatchResources, b.Spec.ParamRef)
	c.actions(b.Spec.ValidationActions)
	return c
}

// binding checks the fields that bindings of both kinds have.
func (c *checker) binding(name, policyName string, m *v1.MatchResources, p *v1.ParamRef) {
	const rule = "binding"
	if name == "" {
		c.add("/metadata", rule, "metadata.name: required")
	}
	if policyName == "" {
		c.add("/spec", rule, "spec.policyName: required")
	}
	if m != nil {
		c.match("/spec/matchResources", rule, m)
	}
	if p != nil {
		c.paramRef(p)
	}
}

func (c *checker) paramRef(p *v1.ParamRef) {
	switch {
	case p.Name != "" && p.Selector != nil:
		c.add("/spec/paramRef", "binding", "spec.paramRef: name and selector are mutually exclusive")
	case p.Name == "" && p.Selector == nil:
		c.add("/spec/paramRef", "binding", "spec.paramRef: one of name or selector must be specified")
	}
	if _, err := metav1.LabelSelectorAsSelector(p.Selector); err != nil {
		c.add("/spec/paramRef/selector", "binding", "spec.paramRef.selector: %w", err)
	}
	switch {
	case p.ParameterNotFoundAction == nil:
		c.add("/spec/paramRef", "binding", "spec.paramRef.parameterNotFoundAction: required")
	case *p.ParameterNotFoundAction != v1.AllowAction && *p.ParameterNotFoundAction != v1.DenyAction:
		c.add("/spec/paramRef/parameterNotFoundAction", "binding", "spec.paramRef.parameterNotFoundAction: unsupported value %q: must be Allow or Deny", *p.ParameterNotFoundAction)
	}
}

func (c *checker) actions(actions []v1.ValidationAction) {
	const pointer = "/spec/validationActions"
	if len(actions) == 0 {
		c.add("/spec", "binding", "spec.validationActions: required")
	}
	seen := map[v1.ValidationAction]bool{}
	for i, a := range actions {
		switch {
		case a != v1.Deny && a != v1.Warn && a != v1.Audit:
			c.add(pointer+render.Pointer(i), "binding", "spec.validationActions[%d]: unsupported value %q: must be Audit, Deny or Warn", i, a)
		case seen[a]:
			c.add(pointer+render.Pointer(i), "binding", "spec.validationActions[%d]: duplicate value %q", i, a)
		}
		seen[a] = true
	}
	if seen[v1.Deny] && seen[v1.Warn] {
		c.add(pointer, "binding", "spec.validationActions: Deny and Warn may not be used together")
	}
}
