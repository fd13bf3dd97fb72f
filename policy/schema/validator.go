package schema

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema/internal/apiserver"
	"github.com/preadmit/preadmit/render"
)

// Rules of a Validator. For objects that can't be decoded the chain has a rule
// "decode".
const (
	ruleRequired    = "required"
	ruleInvalid     = "invalid"
	ruleUnsupported = "unsupported-value"
	ruleDuplicate   = "duplicate"
	ruleNotFound    = "not-found"
	ruleForbidden   = "forbidden"
	ruleTooLong     = "too-long"
	ruleImmutable   = "immutable"
	ruleUnknown     = "unknown-field"
	ruleValid       = "valid"
	ruleDeprecated  = policy.DeprecatedVersion
)

// causeRules maps types of causes to rules. All others are of the rule invalid.
var causeRules = map[metav1.CauseType]string{
	metav1.CauseTypeFieldValueRequired: ruleRequired, metav1.CauseTypeFieldValueNotSupported: ruleUnsupported,
	metav1.CauseTypeFieldValueDuplicate: ruleDuplicate, metav1.CauseTypeForbidden: ruleForbidden,
	metav1.CauseTypeFieldValueNotFound: ruleNotFound, metav1.CauseTypeTooLong: ruleTooLong, metav1.CauseTypeTooMany: ruleTooLong,
}

// IsInvalid reports whether a result of a Validator says that the API server answers with the reason Invalid or Conflict,
// for which kubectl apply --force and Flux delete an object and create it again. An object that can't be decoded, or has
// unknown fields, is a bad request; what an admission plugin refuses is forbidden.
func IsInvalid(r *policy.Result) bool {
	return r.Engine == policy.EngineSchema && r.Outcome == policy.Fail && r.Action == policy.Deny && (r.Reason == "Invalid" || r.Reason == "Conflict")
}

// A Validator applies the API server's strict decoding and validation to
// objects of built-in kinds. It is safe for concurrent use.
//
// A result's policy is the kind ("Deployment.apps"). Its rule is unknown-field,
// required, invalid, unsupported-value, duplicate, not-found, forbidden,
// too-long or immutable. Each names its fields, has the server's message, and
// denies. An object without failures has one pass of the rule valid. The
// validation is the server's own code (package apiserver).
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

var _ policy.Preparer = (*Validator)(nil)

// NewValidator returns the validator of an API server that serves the kinds.
// Rules documents the rules of the kinds of the objects; any object may be
// validated.
func NewValidator(kinds *Kinds, objects []*render.Object) *Validator {
	return &Validator{kinds: kinds, objects: objects}
}

// SelectsMade implements policy.MadeEngine: admission plugins may refuse pods and claims.
func (v *Validator) SelectsMade(made, _ schema.GroupVersionKind) bool {
	return v.kinds.limits && (made == policy.PodKind || made.Kind == "PersistentVolumeClaim")
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

// Validate implements policy.Validator. DELETE requests give no results, except of
// Namespaces that may not be deleted.
// Objects of kinds that are not built in are not validated.
func (v *Validator) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	if req.Object == nil || req.SubResource != "" {
		return v.undeletable(req), nil
	}
	refusals := slices.Concat(tooLong(req), versioned(req), unnamable(req), v.kinds.homeless(req))
	b := v.builtin(req.Kind)
	if b == nil {
		refusals = append(refusals, oversized(req, nil)...)
		v.Prepare(req)
		return slices.Concat(refusals, v.kinds.counted(req), v.warnings(req)), nil
	}
	var results []policy.Result
	var err error
	policy.Observed(ctx, policy.EngineSchema, req.Kind.GroupKind().String(), func() {
		results, err = b.validator().validate(req, v.kinds, refusals)
	})
	if err != nil {
		return nil, err
	}
	return append(results, v.warnings(req)...), ctx.Err()
}

// undeletable returns the refusal of the plugin NamespaceLifecycle, if the request deletes a Namespace that the
// server needs.
func (v *Validator) undeletable(req *policy.Request) []policy.Result {
	if req.Operation != policy.Delete || !policy.Undeletable(req.OldObject) || slices.Contains(v.kinds.disabled, "NamespaceLifecycle") {
		return nil
	}
	r := result(req.Kind, ruleForbidden, policy.Fail)
	r.Reason = "Forbidden"
	r.Message, r.Fields = fmt.Sprintf("namespaces %q is forbidden: this namespace may not be deleted", req.Name), []string{"/metadata/name"}
	return []policy.Result{r}
}

// validate returns the results about an object with those that are found already.
func (k *kindValidator) validate(req *policy.Request, kinds *Kinds, found []policy.Result) ([]policy.Result, error) {
	if k.err != nil {
		return nil, k.err
	}
	faults, err := k.faults(req, kinds)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.Kind.Kind, req.Name, err)
	}
	if req.Maker != nil { // all else was found in the template
		return k.results(slices.DeleteFunc(faults, func(f fault) bool { return !f.plugin })), nil
	}
	results := slices.Concat(k.unknownFields(req), k.results(faults), found, oversized(req, k.typ))
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
		r.AsWritten, r.OfKeys = true, true
		if r.Hint = k.strict.when(u, k.release); r.Hint == "" {
			r.Hint = k.strict.suggest(u)
		}
		results = append(results, r)
	}
	return results
}

// A fault is an error of the API server's validation.
type fault struct {
	rule, message string
	fields        []string
	warns, plugin bool
	ofMaker       bool // the fields are those of the workload of the created object
	assumed       []string
}

// faults runs the validation of the kind.
func (k *kindValidator) faults(req *policy.Request, kinds *Kinds) ([]fault, error) {
	if k.typ == nil {
		return nil, nil
	}
	r := apiserver.Request{Kind: k.gvk, Resource: req.Resource.GroupResource(), Namespace: req.Namespace, Replaces: req.Method == policy.Replace, Plugins: kinds.plugins(k.gvk.Kind, req.Subject().Unit), Others: kinds.others(req.Subject()), Source: req.Subject(), Name: req.Name, Count: 1}
	var made policy.Made
	if req.Maker != nil && kinds.quotas {
		made = req.Made()
		kinds.scale(&made, req.Maker.Subject())
		r.Source, r.Name, r.Count = made.Source, made.Name, made.Count
	}
	var err error
	if typed, ok := req.Typed.(runtime.Object); ok {
		r.Object = typed
	} else if r.Object, err = k.typ.fromTree(req.Admitted); err != nil {
		return nil, err
	}
	if req.OldAdmitted != nil && !req.OldUnknown {
		if r.Old, err = k.typ.fromTree(req.OldAdmitted); err != nil {
			return nil, err
		}
	}
	answer, err := apiserver.Store(int(k.release), r)
	if err != nil {
		return nil, err
	}
	if err := k.prepare(req, &answer); err != nil {
		return nil, err
	}
	at := placer{object: req.Admitted, old: req.OldAdmitted}
	if k.strict != nil {
		at.fields = k.strict.now
	}
	var faults []fault
	for i := range answer.Causes {
		c := &answer.Causes[i]
		f := fault{rule: causeRules[c.Type], warns: c.Warns, plugin: c.Plugin}
		if f.fields, f.message = at.place(c); c.Assumed != "" {
			f.assumed = []string{c.Assumed}
		}
		if c.Several && made.Field != "" {
			f.fields, f.ofMaker = []string{made.Field}, true
		}
		if c.Changed {
			f.rule = ruleImmutable
		}
		f.rule = cmp.Or(f.rule, ruleInvalid)
		faults = append(faults, f)
	}
	// The server goes through maps in any order.
	slices.SortStableFunc(faults, func(a, b fault) int { return strings.Compare(a.message, b.message) })
	return faults, nil
}

// prepare gives later validators the object of an answer.
func (k *kindValidator) prepare(req *policy.Request, answer *apiserver.Answer) error {
	if !answer.Known {
		return nil
	}
	p, err := k.held(answer)
	if err != nil {
		return err
	}
	if answer.Other != nil {
		if p.Other, err = k.held(answer.Other); err != nil {
			return err
		}
		p.Differs = "depends on an address or port that the cluster allocates"
	}
	req.Prepare(p)
	return nil
}

// held returns the objects of an answer as admission sees them.
func (k *kindValidator) held(answer *apiserver.Answer) (p *policy.Prepared, err error) {
	p = &policy.Prepared{Typed: answer.Object}
	if p.Admitted, err = runtime.DefaultUnstructuredConverter.ToUnstructured(answer.Object); err != nil {
		return nil, err
	}
	if answer.Old != nil {
		if p.OldAdmitted, err = runtime.DefaultUnstructuredConverter.ToUnstructured(answer.Old); err != nil {
			return nil, err
		}
	}
	if k.typ.older != nil {
		k.typ.older.adapt(p.Admitted)
		if p.OldAdmitted != nil {
			k.typ.older.adapt(p.OldAdmitted)
		}
		p.Typed = nil
	}
	return p, nil
}

// Prepare implements policy.Preparer.
func (v *Validator) Prepare(req *policy.Request) {
	b := v.builtin(req.Kind)
	switch {
	case req.Object == nil || req.SubResource != "":
	case b != nil && b.validator().err == nil:
		_, _ = b.validator().faults(req, v.kinds) // what it finds is the result of Validate
	case b == nil:
		v.kinds.prepareCustom(req)
	}
}

// results joins the faults of each field and rule into one result.
func (k *kindValidator) results(faults []fault) []policy.Result {
	var results []policy.Result
	index := map[[2]string]int{}
	for _, f := range faults {
		r := k.result(f.rule, policy.Fail)
		r.Message, r.Fields, r.Reason, r.Assumed = policy.Shorten(f.message, policy.MaxMessage), f.fields, "Invalid", f.assumed
		r.AsWritten = f.ofMaker
		if f.plugin {
			r.Reason = "Forbidden"
		}
		if f.warns {
			r.Action = policy.Warn
		}
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
		if _, made := policy.PodTemplate(gvk.GroupKind()); made && v.kinds.limits {
			seen["Pod"], seen["PersistentVolumeClaim"] = true, true
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
	{ruleDuplicate, "Names and keys are unique", "A value that must be unique in its list occurs twice.", "", ""},
	{ruleForbidden, "No forbidden field is set", "The API server forbids this field here, for example next to another one.", "", ""},
	{ruleImmutable, "Immutable fields keep their values", "An update changes an immutable field. Delete the object and create it again.", "", ""},
	{ruleInvalid, "Values are valid", "The API server's validation refuses a value.", "", ""},
	{ruleNotFound, "References within the object exist", "A name refers to a missing part of the object: a volume mount, for example, to a volume.", "", ""},
	{ruleRequired, "Required fields are set", "A field that the API server requires is missing.", "", ""},
	{ruleTooLong, "Values are not too long", "A value or list is longer than the API server allows.", "", ""},
	{
		ruleUnknown, "Fields are known to Kubernetes",
		"The API server does not know the field. With strict field validation, which kubectl asks for, and with server-side apply it refuses the object. Otherwise it drops the field silently.",
		"Check the spelling, the letter case, the indentation, and which Kubernetes version introduced the field.", conventions,
	},
	{ruleUnsupported, "Values are supported", "The API server supports only certain values here, and this is none of them.", "", ""},
	{ruleValid, "The object passes strict decoding and validation", "Passes if no other rule fails.", "", ""},
}
