package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/kindcheck"
	"github.com/preadmit/preadmit/render"
)

// Rules of a Validator besides those of package kindcheck. For objects that
// can't be decoded the chain has a rule "decode".
const (
	ruleUnknown    = "unknown-field"
	ruleValid      = "valid"
	ruleDeprecated = policy.DeprecatedVersion
)

// A Validator applies the API server's strict decoding and validation to
// objects of built-in kinds. It is safe for concurrent use.
//
// A result's policy is the kind ("Deployment.apps"). Its rule is unknown-field,
// required, invalid, unsupported-value, duplicate, not-found, forbidden,
// too-long or immutable. Each names its fields, has the server's message, and
// denies. An object without failures has one pass of the rule valid. The
// validation is not complete: an object that passes here may still be refused
// by the server.
//
// A deprecated version gives a warning as well.
//
// An unknown field is refused by kubectl and Argo CD, which set
// fieldValidation=Strict, and by server-side apply ("field not declared in
// schema"). Other clients lose it silently.
type Validator struct {
	kinds   *Kinds
	objects []*render.Object
}

var _ policy.Validator = (*Validator)(nil)

// NewValidator returns the validator of an API server that serves the kinds.
// Rules documents the rules of the kinds of the objects; any object may be
// validated.
func NewValidator(kinds *Kinds, objects []*render.Object) *Validator {
	return &Validator{kinds: kinds, objects: objects}
}

// builtin returns the kind if its objects are validated here.
// CustomResourceDefinitions are validated by policy/crd.
func (v *Validator) builtin(gvk schema.GroupVersionKind) *builtin {
	if gvk.Group == "apiextensions.k8s.io" {
		return nil
	}
	return v.kinds.builtins[gvk]
}

// A kindValidator validates objects of one kind.
type kindValidator struct {
	*builtin
	release release
	typ     *goType // nil if client-go has none
	strict  *strict // nil if the kind's fields are unknown
	err     error
}

func newKindValidator(b *builtin, r release) *kindValidator {
	k := &kindValidator{builtin: b, release: r, typ: b.goType()}
	k.strict, k.err = newStrict(b.gvk, r)
	return k
}

// Validate implements policy.Validator. DELETE requests give no results.
// Requests for kinds that are not built in give only the warning about a
// deprecated version.
func (v *Validator) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	if req.Object == nil || req.SubResource != "" {
		return nil, nil
	}
	warnings := v.warnings(req)
	b := v.builtin(req.Kind)
	if b == nil {
		return warnings, nil
	}
	var results []policy.Result
	var err error
	policy.Observed(ctx, policy.EngineSchema, req.Kind.GroupKind().String(), func() { results, err = b.validator().validate(req) })
	if err != nil {
		return nil, err
	}
	return append(results, warnings...), ctx.Err()
}

func (k *kindValidator) validate(req *policy.Request) ([]policy.Result, error) {
	if k.err != nil {
		return nil, k.err
	}
	results := k.unknownFields(req)
	faults, err := k.faults(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.Kind.Kind, req.Name, err)
	}
	results = append(results, k.results(faults)...)
	if len(results) == 0 {
		results = append(results, k.result(ruleValid, policy.Pass))
	}
	return results, nil
}

// warnings returns the API server's warning if it serves the object's version but
// deprecates it.
func (v *Validator) warnings(req *policy.Request) []policy.Result {
	text := v.kinds.Deprecated(req.Kind)
	if text == "" {
		return nil
	}
	r := result(req.Kind, ruleDeprecated, policy.Fail)
	r.Action, r.Message, r.Fields = policy.Warn, policy.Shorten(text, policy.MaxMessage), []string{"/apiVersion"}
	return []policy.Result{r}
}

func (k *kindValidator) result(rule string, outcome policy.Outcome) policy.Result {
	return result(k.gvk, rule, outcome)
}

func result(gvk schema.GroupVersionKind, rule string, outcome policy.Outcome) policy.Result {
	return policy.Result{Engine: policy.EngineSchema, Policy: gvk.GroupKind().String(), Rule: rule, Outcome: outcome, Action: policy.Deny}
}

// strictly is the assumption behind the failure of an unknown field.
const strictly = "applied server-side or with fieldValidation=Strict, as kubectl, Argo CD and Flux do; otherwise the field is dropped"

func (k *kindValidator) unknownFields(req *policy.Request) []policy.Result {
	if k.strict == nil {
		return nil
	}
	var results []policy.Result
	for _, u := range k.strict.now.unknown(req.Object.Object) {
		r := k.result(ruleUnknown, policy.Fail)
		r.Message = policy.Shorten("strict decoding error: unknown field "+strconv.Quote(u.path), policy.MaxMessage)
		r.Fields, r.Reason, r.Assumed = []string{u.pointer}, "BadRequest", []string{strictly}
		r.AsWritten = true
		if r.Hint = k.strict.when(u, k.release); r.Hint == "" {
			r.Hint = k.strict.suggest(u)
		}
		results = append(results, r)
	}
	return results
}

// faults runs the validation of the kind.
func (k *kindValidator) faults(req *policy.Request) ([]*kindcheck.Fault, error) {
	if k.typ == nil {
		return nil, nil
	}
	object, err := req.Typed, error(nil)
	if object == nil {
		if object, err = k.typ.fromTree(req.Admitted); err != nil {
			return nil, err
		}
	}
	var old any
	if req.OldAdmitted != nil {
		if old, err = k.typ.fromTree(req.OldAdmitted); err != nil {
			return nil, err
		}
	}
	o := kindcheck.Object{Kind: k.gvk, Namespaced: k.namespaced, Now: object, Old: old}
	if v1, ok := object.(*autoscalingv1.HorizontalPodAutoscaler); ok {
		o.Autoscaler = hpaV2(v1)
	}
	faults := kindcheck.Check(o, int(k.release))
	if _, ok := object.(*corev1.Secret); ok {
		asWritten(faults, req.Object.Object)
	}
	return faults, nil
}

// asWritten moves faults in a Secret's data to stringData if that is where the
// value is written.
func asWritten(faults []*kindcheck.Fault, written map[string]any) {
	text, _ := written["stringData"].(map[string]any)
	if text == nil {
		return
	}
	for _, f := range faults {
		for i, pointer := range f.Fields {
			path := render.Path(pointer)
			if len(path) == 0 || path[0] != "data" {
				continue
			}
			_, there := render.Lookup(written, pointer)
			if !there {
				f.Fields[i] = "/stringData" + strings.TrimPrefix(pointer, "/data")
			}
		}
	}
}

// results joins the faults of each field and rule into one result.
func (k *kindValidator) results(faults []*kindcheck.Fault) []policy.Result {
	var results []policy.Result
	index := map[[2]string]int{}
	for _, f := range faults {
		r := k.result(f.Rule(), policy.Fail)
		r.Message, r.Fields, r.Reason = policy.Shorten(f.Err.Error(), policy.MaxMessage), f.Fields, "Invalid"
		r.Action, r.Assumed, r.Hint = f.Action(), f.Assumed, f.Hint
		key := [2]string{r.Rule, r.Fields[0]}
		i, ok := index[key]
		if !ok {
			index[key] = len(results)
			results = append(results, r)
			continue
		}
		if old := &results[i]; !strings.Contains(old.Message, r.Message) {
			old.Message = policy.Shorten(old.Message+", "+r.Message, policy.MaxMessage)
		}
	}
	return results
}

// Rules implements policy.Validator.
func (v *Validator) Rules() []policy.Rule {
	seen, deprecated := map[string]bool{}, map[string]bool{}
	for _, o := range v.objects {
		gvk := o.GroupVersionKind()
		kind := gvk.GroupKind().String()
		if v.builtin(gvk) != nil {
			seen[kind] = true
		}
		if v.kinds.Deprecated(gvk) != "" {
			deprecated[kind] = true
		}
	}
	var rules []policy.Rule
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		for _, d := range documentation {
			rules = append(rules, v.document(kind, d))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(deprecated)) {
		r := v.document(kind, deprecation)
		r.Action = policy.Warn
		rules = append(rules, r)
	}
	return rules
}

func (v *Validator) document(kind string, d ruleText) policy.Rule {
	return policy.Rule{
		Engine: policy.EngineSchema, Policy: kind, Name: d.rule, Action: policy.Deny, Title: d.title,
		Description: fmt.Sprintf("%s\n\nChecked for Kubernetes %s. Versions %s to %s are known.", d.text, v.kinds.release, oldest, newest),
		Help:        d.help, URL: d.url,
	}
}

type ruleText struct{ rule, title, text, help, url string }

var deprecation = ruleText{
	ruleDeprecated, "API versions are not deprecated",
	"The API server serves the version, with a warning, until the release that removes it. Removed versions are errors.",
	"Write the object in the version that the message names.", "https://kubernetes.io/docs/reference/using-api/deprecation-guide/",
}

const conventions = "https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation"

// documentation describes each rule.
var documentation = []ruleText{
	{kindcheck.RuleDuplicate, "Names and keys are unique", "A value that must be unique in its list occurs twice.", "", ""},
	{kindcheck.RuleForbidden, "No forbidden field is set", "The API server forbids this field here, for example next to another one.", "", ""},
	{kindcheck.RuleImmutable, "Immutable fields keep their values", "An update changes an immutable field. Delete the object and create it again.", "", ""},
	{kindcheck.RuleInvalid, "Values are valid", "The API server's validation refuses a value.", "", ""},
	{kindcheck.RuleNotFound, "References within the object exist", "A name refers to a missing part of the object: a volume mount, for example, to a volume.", "", ""},
	{kindcheck.RuleRequired, "Required fields are set", "A field that the API server requires is missing.", "", ""},
	{kindcheck.RuleTooLong, "Values are not too long", "A value or list is longer than the API server allows.", "", ""},
	{
		ruleUnknown, "Fields are known to Kubernetes",
		"The API server does not know the field. With strict field validation, which kubectl asks for, and with server-side apply it refuses the object. Otherwise it drops the field silently.",
		"Check the spelling, the letter case, the indentation, and which Kubernetes version introduced the field.", conventions,
	},
	{kindcheck.RuleUnsupported, "Values are supported", "The API server supports only certain values here, and this is none of them.", "", ""},
	{ruleValid, "The object passes strict decoding and validation", "Passes if no other rule fails. Only part of the API server's validation is reproduced here.", "", ""},
}
