package crd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/operation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A review is the evaluation of one custom object.
type review struct {
	ctx         context.Context
	req         *policy.Request
	definition  *definition
	version     *servedVersion
	compiled    *compiled
	object, old map[string]any // as they would be stored
	ratchets    bool
	correlated  *common.CorrelatedObject // nil without ratcheting
	errs        field.ErrorList
	tooMany     bool // there may be more errors than those found
	out         collector
}

// ratchetingSince: ratcheting is on by default since Kubernetes 1.30 (KEP 4008).
const ratchetingSince cel.Version = 30

func (e *Engine) evaluateCustom(ctx context.Context, req *policy.Request, d *definition) ([]policy.Result, error) {
	r := &review{ctx: ctx, req: req, definition: d, ratchets: e.version >= ratchetingSince}
	if r.version = d.version(req.Kind.Version); r.version == nil {
		r.out.add(policy.Result{
			Policy: d.object.GetName(), Rule: schemaRule, Outcome: policy.Error, Action: policy.Deny, Fields: []string{"/apiVersion"},
			Message: fmt.Sprintf("no matches for kind %q in version %q", req.Kind.Kind, req.Kind.GroupVersion()),
		})
		return r.out.results, nil
	}
	var err error
	if r.compiled, err = r.version.compile(); err != nil {
		r.unusable(err)
		return r.out.results, ctx.Err()
	}
	for _, tree := range []map[string]any{req.Object.Object, req.Admitted, req.OldAdmitted} {
		if err := r.compiled.load.refuse(tree); err != nil {
			r.limit(err)
			return r.out.results, nil
		}
	}
	r.evaluate()
	r.more()
	return r.out.results, ctx.Err()
}

// evaluate performs the checks in the API server's order.
func (r *review) evaluate() {
	r.prepare()
	r.unknownFields()
	r.metadata()
	if err := r.schema(); err != nil {
		r.limit(err)
		return
	}
	r.embedded()
	r.lists()
	if r.out.failures == 0 {
		r.out.add(policy.Result{
			Policy: r.definition.object.GetName(), Rule: schemaRule, Outcome: policy.Pass, Action: policy.Deny,
			PolicyOrigin: r.definition.span(r.version.pointer),
		})
	}
	r.rules()
}

// unusable adds the result that there is no usable schema.
func (r *review) unusable(err error) {
	rule := schemaRule
	if err == errTooMuch {
		rule = limitsRule
	}
	r.out.add(policy.Result{
		Policy: r.definition.object.GetName(), Rule: rule, Outcome: policy.Error, Action: policy.Deny,
		Message:      fmt.Sprintf("CustomResourceDefinition %s can't be used: %v", r.definition.object.GetName(), err),
		PolicyOrigin: r.definition.span(r.version.pointer),
	})
}

// prepare brings the objects into the form that is stored. If there is a status
// subresource, writes to the object do not change status (PrepareForCreate and
// PrepareForUpdate of customResourceStrategy).
func (r *review) prepare() {
	r.object, r.old = r.req.Admitted, r.req.OldAdmitted
	if r.compiled.status {
		r.object, r.old = without(r.object, "status"), without(r.old, "status")
	}
	if r.old != nil && r.ratchets && r.compiled.structural != nil {
		r.correlated = common.NewCorrelatedObject(r.object, r.old, r.compiled.model)
	}
}

func without(m map[string]any, key string) map[string]any {
	if _, ok := m[key]; !ok {
		return m
	}
	m = maps.Clone(m)
	delete(m, key)
	return m
}

// unknownFields adds failures for fields that the schema does not have, as the
// API server does with fieldValidation=Strict (unstructuredSchemaCoercer of
// k8s.io/apiextensions-apiserver).
func (r *review) unknownFields() {
	s := r.compiled.structural
	tree := runtime.DeepCopyJSON(r.req.Object.Object)
	_, _, unknown, err := objectmeta.GetObjectMetaWithOptions(tree, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return // the chain has reported that it can't be decoded
	}
	if !r.compiled.keepUnknown {
		unknown = append(unknown, pruning.PruneWithOptions(tree, s, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	}
	_, more := objectmeta.CoerceWithOptions(nil, tree, s, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	for _, path := range append(unknown, more...) {
		if r.out.full() {
			r.out.failures++
			continue
		}
		pointer := find(r.req.Object.Object, path, false)
		result := policy.Result{
			Policy: r.definition.object.GetName(), Rule: unknownRule, Outcome: policy.Fail, Action: policy.Deny, Reason: "BadRequest",
			Message: fmt.Sprintf("unknown field %q", path), Fields: []string{pointer}, AsWritten: true, OfKeys: true,
			PolicyOrigin: r.definition.span(r.version.pointer),
		}
		if r.req.Method == policy.ApplyServerSide && takesAny(s, render.Path(pointer)) {
			result.Action, result.Message = policy.Warn, result.Message+": server-side apply drops it"
		}
		r.out.add(result)
	}
}

// takesAny reports whether server-side apply takes a field that the schema does not have: below
// x-kubernetes-preserve-unknown-fields, and in a map for which the schema lists no fields (ToSchemaFromOpenAPI of
// k8s.io/kube-openapi/pkg/schemaconv). Metadata always has the fields of ObjectMeta.
func takesAny(s *schema.Structural, path []string) bool {
	preserved := false
	for i, key := range path {
		if s == nil {
			return true
		}
		preserved = preserved || s.XPreserveUnknownFields
		next, known := s.Properties[key]
		switch {
		case key == "metadata" && (i == 0 || s.XEmbeddedResource):
			return false
		case s.Items != nil:
			s = s.Items
		case known:
			s = &next
		case s.AdditionalProperties != nil:
			s = s.AdditionalProperties.Structural
		default:
			return preserved || i > 0 && len(s.Properties) == 0 && !s.XEmbeddedResource
		}
	}
	return preserved
}

// metadata validates the object's metadata, name and namespace included.
func (r *review) metadata() {
	path := field.NewPath("metadata")
	now, err := metaOf(r.object)
	if err != nil {
		r.report(metadataRule, "", field.Invalid(path, field.OmitValueType{}, err.Error()))
		return
	}
	if now.Name == "" && now.GenerateName != "" {
		now.Name = now.GenerateName + "xxxxx"
	}
	var errs field.ErrorList
	if r.old == nil {
		errs = metavalidation.ValidateObjectMetaDeclaratively(r.ctx, operation.Create, now, nil, r.req.Resource.Namespaced, metavalidation.NameIsDNSSubdomain, path, true)
	} else if was, err := metaOf(r.old); err == nil {
		copyServerFields(now, was)
		errs = metavalidation.ValidateObjectMetaDeclaratively(r.ctx, operation.Update, now, was, r.req.Resource.Namespaced, nil, path, true)
	}
	for _, e := range errs {
		r.reportAt(metadataRule, "", e.Field+culprit(now, e), e)
	}
}

// culprit returns the rest of the path of an error about a key or a value of the labels or annotations.
func culprit(meta *metav1.ObjectMeta, e *field.Error) string {
	bad, _ := e.BadValue.(string)
	texts := map[string]map[string]string{"metadata.labels": meta.Labels, "metadata.annotations": meta.Annotations}[e.Field]
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if key == bad || texts[key] == bad {
			return "." + key
		}
	}
	return ""
}

// copyServerFields copies the fields that the API server sets from one object's
// metadata to the other's.
func copyServerFields(now, was *metav1.ObjectMeta) {
	was.ResourceVersion, was.UID = "1", types.UID("1")
	now.ResourceVersion, now.UID = was.ResourceVersion, was.UID
	now.CreationTimestamp, now.Generation = was.CreationTimestamp, was.Generation
	now.DeletionTimestamp, now.DeletionGracePeriodSeconds = was.DeletionTimestamp, was.DeletionGracePeriodSeconds
	now.ManagedFields, was.ManagedFields = nil, nil
}

func metaOf(object map[string]any) (*metav1.ObjectMeta, error) {
	meta := &metav1.ObjectMeta{}
	tree, _ := object["metadata"].(map[string]any)
	return meta, runtime.DefaultUnstructuredConverter.FromUnstructured(tree, meta)
}

// schema validates the object by the OpenAPI schema. If an update is invalid, it
// is validated again without its unchanged values. The error is that a limit
// stopped the validation.
func (r *review) schema() error {
	if r.compiled.validator == nil {
		return nil
	}
	c := &counter{schema: r.compiled.openAPI}
	errs := validation.ValidateCustomResource(nil, r.object, c)
	found := c.errors
	switch {
	case r.correlated == nil || len(errs) == 0:
		r.tooMany = c.exceeded()
	case c.exceeded():
		return errTooManyErrors
	default:
		again := &capture{SchemaValidator: r.compiled.validator}
		errs = validation.ValidateCustomResourceUpdate(nil, r.object, r.old, again, validation.WithRatcheting(r.correlated))
		found = again.errors
	}
	order := make([]int, len(errs)) // the validator goes through maps in any order
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(strings.Compare(errs[i].Field, errs[j].Field), strings.Compare(errs[i].Detail, errs[j].Detail))
	})
	for _, i := range order {
		e := errs[i]
		word, path := keyword(found[i])
		r.reportAt("", word, cmp.Or(path, e.Field), e)
	}
	return nil
}

// limit adds the result that the object, or a part of it, is not checked because
// of a limit.
func (r *review) limit(err error) {
	r.out.add(policy.Result{
		Policy: r.definition.object.GetName(), Rule: limitsRule, Outcome: policy.Error, Action: policy.Deny, Message: err.Error(),
		PolicyOrigin: r.definition.span(r.version.pointer),
	})
}

// embedded validates the metadata of objects within the object.
func (r *review) embedded() {
	for _, e := range objectmeta.Validate(r.ctx, nil, r.object, r.compiled.structural, false) {
		r.report("", "x-kubernetes-embedded-resource", e)
	}
}

// lists validates that lists of type set or map have no duplicates, unless the
// old object has some.
func (r *review) lists() {
	s := r.compiled.structural
	if r.old != nil && len(listtype.ValidateListSetsAndMaps(nil, s, r.old)) > 0 {
		return
	}
	for _, e := range listtype.ValidateListSetsAndMaps(nil, s, r.object) {
		r.report("", "x-kubernetes-list-type", e)
	}
}

// report adds an error of the API server. rule is the result's rule, or "" for
// the place of the keyword word in the schema.
func (r *review) report(rule, word string, e *field.Error) { r.reportAt(rule, word, e.Field, e) }

func (r *review) reportAt(rule, word, path string, e *field.Error) {
	r.errs = append(r.errs, e)
	if r.out.full() {
		r.out.failures++
		return
	}
	pointer := find(r.object, path, word == "required")
	result := r.failure(e)
	result.Fields = []string{pointer}
	if result.Rule = rule; rule == "" {
		at := r.version.pointer + r.spot(pointer, word)
		result.Rule = ruleName(r.definition.object.Object, at)
		result.PolicyOrigin = r.definition.span(at)
	}
	r.out.add(result)
}

func (r *review) spot(pointer, word string) string {
	if word == "x-kubernetes-list-type" { // errors of an element belong to its list
		pointer = pointer[:max(0, strings.LastIndexByte(pointer, '/'))]
	}
	return spotOf(r.version.written, r.object, pointer, word)
}

func (r *review) failure(e *field.Error) policy.Result {
	return policy.Result{
		Policy: r.definition.object.GetName(), Outcome: policy.Fail, Action: policy.Deny,
		Message: message(e), Reason: "Invalid",
	}
}

// message returns the API server's message, which has no field for the object itself. If
// the message is too long because it quotes a long value, the value is left out, so that
// the reason is shown.
func message(e *field.Error) string {
	if e.Field == "<nil>" {
		return e.ErrorBody()
	}
	if text := e.Error(); len(text) <= policy.MaxMessage {
		return text
	}
	short := *e
	short.BadValue = field.OmitValueType{}
	return short.Error()
}

// blocking lists the errors after which the API server does not evaluate CEL
// rules (hasBlockingErr of customResourceStrategy).
var blocking = []field.ErrorType{
	field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
}

const notChecked = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

// rules evaluates x-kubernetes-validations.
func (r *review) rules() {
	for _, pointer := range r.compiled.ignored {
		r.out.add(policy.Result{
			Policy: r.definition.object.GetName(), Rule: ruleName(r.definition.object.Object, pointer), Outcome: policy.Skip, Action: policy.Deny,
			Message:      "the API server does not evaluate rules in allOf when the schema has none outside",
			PolicyOrigin: r.definition.span(pointer + "/rule"),
		})
	}
	if r.compiled.cel == nil {
		return
	}
	if i := slices.IndexFunc(r.errs, func(e *field.Error) bool { return r.tooMany || slices.Contains(blocking, e.Type) }); i >= 0 {
		result := r.failure(r.errs[i])
		result.Message = notChecked
		result.Rule, result.Fields = schemaRule, []string{find(r.object, r.errs[i].Field, true)}
		r.out.add(result)
		return
	}
	w := &walk{
		ctx: r.ctx, budget: celconfig.RuntimeCELCostBudget, ratchets: r.ratchets, report: r.violation,
		held: make([]bool, len(r.compiled.rules)), broken: make([]bool, len(r.compiled.rules)),
	}
	var old any
	if r.old != nil {
		old = r.old
	}
	w.node(r.compiled.cel, nil, r.object, old, correlation{current: r.correlated})
	for i, rule := range r.compiled.rules {
		if w.held[i] && !w.broken[i] {
			r.out.add(r.definition.ofRule(rule, policy.Result{Outcome: policy.Pass, Action: policy.Deny}))
		}
	}
}

func (d *definition) ofRule(r *rule, result policy.Result) policy.Result {
	result.Policy, result.Rule, result.PolicyOrigin = d.object.GetName(), r.name, r.origin
	return result
}

func (r *review) violation(v violation) {
	if r.out.full() {
		r.out.failures++
		return
	}
	result := r.failure(v.err)
	result.Fields = v.blame(r.ctx)
	switch {
	case v.undecided:
		result.Outcome, result.Reason = policy.Error, ""
	case v.ratchet:
		result.Action, result.Reason = policy.Warn, ""
		result.Message += " (a warning, because the value is unchanged)"
	}
	if v.rule == nil {
		result.Rule = schemaRule
	} else {
		result = r.definition.ofRule(v.rule, result)
	}
	r.out.add(result)
}

// more adds the number of failures that were only counted.
func (r *review) more() {
	if left := r.out.failures - maxFailures; left > 0 {
		atLeast := ""
		if r.tooMany {
			atLeast = "at least "
		}
		r.out.results = append(r.out.results, policy.Result{
			Engine: policy.EngineCRD, Policy: r.definition.object.GetName(), Rule: limitsRule,
			Outcome: policy.Fail, Action: policy.Deny, Reason: "Invalid",
			Message: fmt.Sprintf("%s%d more failures of this object are not listed", atLeast, left),
		})
	}
}

// within reports whether a pointer leads to another's value or below it.
func within(pointer, outer string) bool {
	rest, ok := strings.CutPrefix(pointer, outer)
	return ok && (rest == "" || rest[0] == '/')
}
