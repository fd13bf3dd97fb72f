package kyvernocel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

const group = "policies.kyverno.io"

// The kinds of policies, without "Namespaced".
const (
	Validating      = "ValidatingPolicy"
	Mutating        = "MutatingPolicy"
	Generating      = "GeneratingPolicy"
	Deleting        = "DeletingPolicy"
	ImageValidating = "ImageValidatingPolicy"
)

var (
	kinds    = []string{Validating, Mutating, Generating, Deleting, ImageValidating}
	versions = []string{"v1", "v1beta1", "v1alpha1"}
)

// kindOf returns the policy's kind, or "" if the object is not a policy.
func kindOf(o *render.Object) string {
	gvk := o.GroupVersionKind()
	kind, namespaced := strings.CutPrefix(gvk.Kind, "Namespaced")
	if gvk.Group != group || !slices.Contains(versions, gvk.Version) || !slices.Contains(kinds, kind) || namespaced && gvk.Version == "v1alpha1" {
		return ""
	}
	return kind
}

// A Policy is one policy, with the copies that Kyverno generates for pod
// controllers.
type Policy struct {
	Object    *render.Object
	Kind      string // without "Namespaced"
	Name      string
	Namespace string // of a namespaced policy

	// Plain marks policies for which Kyverno's command line reports nothing,
	// instead of an empty response, if they do not match.
	Plain bool

	spec       *spec
	main       *compiled
	copies     []*compiled
	exceptions []*exception
	action     policy.Action
	severity   policy.Severity
}

// spec is the spec of all kinds of policies.
type spec struct {
	MatchConstraints *v1.MatchResources    `json:"matchConstraints"`
	MatchConditions  []v1.MatchCondition   `json:"matchConditions"`
	Variables        []v1.Variable         `json:"variables"`
	FailurePolicy    *v1.FailurePolicyType `json:"failurePolicy"`
	AuditAnnotations []v1.AuditAnnotation  `json:"auditAnnotations"`
	Webhook          *struct {
		TimeoutSeconds *int32 `json:"timeoutSeconds"`
	} `json:"webhookConfiguration"`
	Evaluation evaluation `json:"evaluation"`
	Autogen    struct {
		PodControllers *struct {
			Controllers []string `json:"controllers"`
		} `json:"podControllers"`
		ValidatingAdmissionPolicy *enabled `json:"validatingAdmissionPolicy"`
		MutatingAdmissionPolicy   *enabled `json:"mutatingAdmissionPolicy"`
	} `json:"autogen"`

	ValidationActions []v1.ValidationAction `json:"validationActions"`
	Validations       []validation          `json:"validations"`

	Mutations              []v1.Mutation             `json:"mutations"`
	ReinvocationPolicy     v1.ReinvocationPolicyType `json:"reinvocationPolicy"`
	TargetMatchConstraints *targets                  `json:"targetMatchConstraints"`
	TargetMatchConditions  []v1.MatchCondition       `json:"targetMatchConditions"`

	Generate []generation `json:"generate"`

	Conditions                []v1.MatchCondition `json:"conditions"`
	Schedule                  string              `json:"schedule"`
	DeletionPropagationPolicy string              `json:"deletionPropagationPolicy"`

	images
}

// A validation has the fields of an admission policy's validation, and a name.
type validation struct {
	Expression        string               `json:"expression"`
	Message           string               `json:"message"`
	MessageExpression string               `json:"messageExpression"`
	Reason            *metav1.StatusReason `json:"reason"`
	Identifier        string               `json:"identifier"`
}

type enabled struct {
	Enabled *bool `json:"enabled"`
}

// on returns the value, or otherwise if it is not set.
func (e *enabled) on(otherwise bool) bool {
	if e == nil || e.Enabled == nil {
		return otherwise
	}
	return *e.Enabled
}

type evaluation struct {
	Mode               string   `json:"mode"`
	Admission          *enabled `json:"admission"`
	Background         *enabled `json:"background"`
	MutateExisting     *enabled `json:"mutateExisting"`
	GenerateExisting   *enabled `json:"generateExisting"`
	Synchronize        *enabled `json:"synchronize"`
	OrphanDownstream   *enabled `json:"orphanDownstreamOnPolicyDelete"`
	UseServerSideApply *bool    `json:"useServerSideApply"`
}

// The evaluation modes. Envoy and HTTP are for requests of a proxy (kyverno-authz), not for objects.
const (
	modeKubernetes = "Kubernetes"
	modeJSON       = "JSON"
	modeEnvoy      = "Envoy"
	modeHTTP       = "HTTP"
)

type targets struct {
	v1.MatchResources `json:",inline"`
	Expression        string `json:"expression"`
}

// A generation is an entry of generate. One of its fields is set.
type generation struct {
	Expression string    `json:"expression"`
	Template   *template `json:"template"`
}

type template struct {
	Value       string `json:"value"`
	Interpolate string `json:"interpolate"`
}

// images holds the fields that only an ImageValidatingPolicy has.
type images struct {
	MatchImageReferences []struct {
		Glob       string `json:"glob"`
		Expression string `json:"expression"`
	} `json:"matchImageReferences"`
	Credentials map[string]any `json:"credentials"`
	Images      []struct {
		Name       string `json:"name"`
		Expression string `json:"expression"`
	} `json:"images"`
	Attestors                []map[string]any `json:"attestors"`
	Attestations             []map[string]any `json:"attestations"`
	ValidationConfigurations struct {
		MutateDigest *bool `json:"mutateDigest"`
		VerifyDigest *bool `json:"verifyDigest"`
		Required     *bool `json:"required"`
	} `json:"validationConfigurations"`
}

// ownFields lists the fields of spec that only some kinds have, by kind.
var ownFields = map[string][]string{
	Validating:      {"matchConditions", "auditAnnotations", "failurePolicy", "webhookConfiguration", "evaluation", "autogen", "validationActions", "validations"},
	Mutating:        {"matchConditions", "auditAnnotations", "failurePolicy", "webhookConfiguration", "evaluation", "autogen", "mutations", "reinvocationPolicy", "targetMatchConstraints", "targetMatchConditions"},
	Generating:      {"matchConditions", "webhookConfiguration", "evaluation", "generate", "failurePolicy"},
	Deleting:        {"conditions", "schedule", "deletionPropagationPolicy"},
	ImageValidating: {"matchConditions", "auditAnnotations", "failurePolicy", "webhookConfiguration", "evaluation", "autogen", "validationActions", "validations", "matchImageReferences", "credentials", "images", "attestors", "attestations", "validationConfigurations"},
}

var commonFields = []string{"matchConstraints", "variables"}

// document is a policy object.
type document struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       spec              `json:"spec"`
	Status     any               `json:"status"`
}

// decode reads an object. A field that its type does not have is an error, as
// it is for Kyverno.
func decode(o *render.Object, into any, rule string) []error {
	data, err := json.Marshal(o.Object)
	if err != nil {
		return []error{policy.ErrorAt(o, "", rule, err)}
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return []error{mistyped(o, rule, err)}
	}
	var errs []error
	for _, e := range strict {
		errs = append(errs, policy.ErrorAt(o, render.KeyOf(render.FieldPointer(policy.UnknownField(e))), rule, e))
	}
	return errs
}

// mistyped returns the error for a value of the wrong JSON type.
func mistyped(o *render.Object, rule string, err error) *render.Error {
	var e *json.UnmarshalTypeError
	if !errors.As(err, &e) {
		return policy.ErrorAt(o, "", rule, errors.New(strings.TrimPrefix(err.Error(), "json: ")))
	}
	is, _, _ := strings.Cut(e.Value, " ") // e.Value of a number is "number 1.5"
	pointer, ok := find(o.Object, strings.Split(e.Field, "."), is)
	if !ok {
		pointer = render.FieldPointer(e.Field)
	}
	return policy.ErrorAt(o, pointer, rule, fmt.Errorf("%s is %s, not %s", render.FieldPath(pointer), kindWords[is], wordOf(e.Type)))
}

// kindWords names the JSON types in messages.
var kindWords = map[string]string{
	"bool": "a boolean", "string": "a string", "number": "a number", "array": "a list", "object": "a map",
}

func wordOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return kindWords["bool"]
	case reflect.String:
		return kindWords["string"]
	case reflect.Slice, reflect.Array:
		return kindWords["array"]
	case reflect.Struct, reflect.Map:
		return kindWords["object"]
	default:
		return "a whole number"
	}
}

// find returns the pointer of the first value of a JSON type at a path. A name
// in the path applies to every item of a list.
func find(v any, path []string, kind string) (string, bool) {
	if list, ok := v.([]any); ok && (len(path) > 0 || kind != "array") {
		for i, item := range list {
			if at, ok := find(item, path, kind); ok {
				return render.Pointer(i) + at, true
			}
		}
		return "", false
	}
	if len(path) == 0 {
		return "", kindOfValue(v) == kind
	}
	m, _ := v.(map[string]any)
	inner, ok := m[path[0]]
	if !ok {
		return "", false
	}
	at, ok := find(inner, path[1:], kind)
	return render.Pointer(path[0]) + at, ok
}

func kindOfValue(v any) string {
	switch v.(type) {
	case bool:
		return "bool"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case nil:
		return ""
	default:
		return "number"
	}
}

// read decodes and checks a policy.
func read(o *render.Object) (*Policy, []error) {
	var d document
	if errs := decode(o, &d, "policy"); len(errs) > 0 {
		return nil, errs
	}
	p := &Policy{Object: o, Kind: kindOf(o), Name: o.GetName(), spec: &d.Spec, severity: policy.Notes{o.GetAnnotations()}.Severity()}
	if strings.HasPrefix(o.GetKind(), "Namespaced") {
		if p.Namespace = o.GetNamespace(); p.Namespace == "" {
			p.Namespace = "default"
		}
	}
	c := &checker{policy: p}
	c.fields()
	c.check()
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	p.spec.defaults()
	p.action = p.spec.action()
	p.Plain = plain(p)
	return p, nil
}

// defaults sets Kyverno's defaults.
func (s *spec) defaults() {
	if s.MatchConstraints != nil {
		match.Default(s.MatchConstraints)
		anyOperation(s.MatchConstraints)
	}
	if s.TargetMatchConstraints != nil {
		match.Default(&s.TargetMatchConstraints.MatchResources)
		anyOperation(&s.TargetMatchConstraints.MatchResources)
	}
	s.Evaluation.Mode = cmp.Or(s.Evaluation.Mode, modeKubernetes)
}

// anyOperation sets all operations in rules that name none.
func anyOperation(m *v1.MatchResources) {
	for _, rules := range [][]v1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			if len(rules[i].Operations) == 0 {
				rules[i].Operations = []v1.OperationType{v1.OperationAll}
			}
		}
	}
}

// ignores reports whether failurePolicy is Ignore: errors do not deny.
func (s *spec) ignores() bool { return s.FailurePolicy != nil && *s.FailurePolicy == v1.Ignore }

// action returns the strongest of the policy's actions. A policy that only the
// background scan evaluates denies nothing.
func (s *spec) action() policy.Action {
	if !s.Evaluation.Admission.on(true) {
		return policy.Audit
	}
	action := policy.Deny
	for i, a := range s.ValidationActions {
		is := map[v1.ValidationAction]policy.Action{v1.Deny: policy.Deny, v1.Warn: policy.Warn, v1.Audit: policy.Audit}[a]
		if i == 0 || is.AtLeast(action) {
			action = is
		}
	}
	return action
}

// plain reports whether the policy matches by a single rule, without resource
// names, exclusions and selectors.
func plain(p *Policy) bool {
	m := p.spec.MatchConstraints
	if m == nil || p.Kind != Validating && p.Kind != Mutating {
		return false
	}
	return len(m.ResourceRules) == 1 && len(m.ResourceRules[0].ResourceNames) == 0 && len(m.ExcludeResourceRules) == 0 &&
		empty(m.NamespaceSelector) && empty(m.ObjectSelector)
}

func empty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// String names the policy as Kyverno's reports do.
func (p *Policy) String() string {
	if p.Namespace != "" {
		return fmt.Sprintf("%s/%s", p.Namespace, p.Name)
	}
	return p.Name
}
