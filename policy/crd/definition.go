package crd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A definitionReview is the evaluation of one CustomResourceDefinition.
type definitionReview struct {
	ctx      context.Context
	target   cel.Version
	written  map[string]any // the object as it was rendered
	now, old *apiextensions.CustomResourceDefinition
	out      collector
	name     string
}

func (e *Engine) evaluateDefinition(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	r := &definitionReview{ctx: ctx, target: e.version, written: req.Object.Object, name: req.Object.GetName()}
	if req.Kind.Version != v1.SchemeGroupVersion.Version {
		return nil, nil // the chain has reported that it is no longer served
	}
	if err := refuseDefinition(r.written); err != nil {
		r.add(policy.Result{Outcome: policy.Error, Rule: limitsRule, Fields: []string{"/spec/versions"}, Message: err.Error()})
		return r.out.results, ctx.Err()
	}
	r.unknownFields()
	if err := r.decode(req); err != nil {
		r.add(policy.Result{Outcome: policy.Fail, Rule: validationRule, Message: err.Error(), Reason: "BadRequest"})
		return r.out.results, ctx.Err()
	}
	r.validate()
	r.gate()
	if len(r.out.results) == 0 {
		r.add(policy.Result{Outcome: policy.Pass, Rule: validationRule})
	}
	r.warn()
	if left := r.out.failures - maxFailures; left > 0 {
		r.out.failures = 0
		r.add(policy.Result{Outcome: policy.Fail, Rule: limitsRule, Message: fmt.Sprintf("%d more failures of this object are not listed", left), Reason: "Invalid"})
	}
	return r.out.results, ctx.Err()
}

func (d *definitionReview) add(result policy.Result) {
	result.Policy = d.name
	result.Action = cmp.Or(result.Action, policy.Deny)
	d.out.add(result)
}

// unknownFields adds failures for unknown fields, as the API server's strict
// decoder does. It does not check inside items and additionalProperties, which
// have decoders of their own.
func (d *definitionReview) unknownFields() {
	data, err := json.Marshal(d.written)
	if err != nil {
		return
	}
	strict, err := kjson.UnmarshalStrict(data, &v1.CustomResourceDefinition{}, kjson.DisallowUnknownFields)
	if err != nil {
		return // the chain has reported that it can't be decoded
	}
	for _, e := range strict {
		path, ok := strings.CutPrefix(e.Error(), `unknown field "`)
		if !ok {
			continue
		}
		d.add(policy.Result{
			Outcome: policy.Fail, Rule: unknownRule, Message: e.Error(), Reason: "BadRequest",
			Fields: []string{find(d.written, strings.TrimSuffix(path, `"`), false)},
		})
	}
}

// decode decodes the definition. Its status is the one that the API server
// sets; on update it is that of a definition in use.
func (d *definitionReview) decode(req *policy.Request) (err error) {
	if d.now, err = decode(req.Admitted); err != nil {
		return err
	}
	d.now.Status = apiextensions.CustomResourceDefinitionStatus{}
	if req.OldAdmitted != nil && !req.OldUnknown {
		if d.old, err = decode(req.OldAdmitted); err != nil {
			return err
		}
		d.old.Status = apiextensions.CustomResourceDefinitionStatus{
			Conditions: []apiextensions.CustomResourceDefinitionCondition{
				{Type: apiextensions.Established, Status: apiextensions.ConditionTrue},
				{Type: apiextensions.NamesAccepted, Status: apiextensions.ConditionTrue},
			},
		}
		store(d.old)
		d.now.Status = *d.old.Status.DeepCopy()
		old, _ := metaOf(req.OldAdmitted)
		copyServerFields(&d.now.ObjectMeta, old)
		d.old.ObjectMeta = *old
	}
	store(d.now)
	return nil
}

// store adds the storage version to status.storedVersions.
func store(d *apiextensions.CustomResourceDefinition) {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			if !apiextensions.IsStoredVersion(d, v.Name) {
				d.Status.StoredVersions = append(d.Status.StoredVersions, v.Name)
			}
			return
		}
	}
}

// contributed is the message for up to four rules that together exceed the cost
// limit of a definition. Which rules of equal cost it names depends on the
// iteration order of a map.
const contributed = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"

func (d *definitionReview) validate() {
	var errs field.ErrorList
	if d.old == nil {
		errs = crdvalidation.ValidateCustomResourceDefinition(d.ctx, d.now)
	} else {
		errs = crdvalidation.ValidateCustomResourceDefinitionUpdate(d.ctx, d.now, d.old)
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Detail, b.Detail))
	})
	for _, e := range errs {
		switch {
		case e.Detail == contributed:
			continue
		case d.out.full():
			d.out.failures++
			continue
		}
		d.report(e)
	}
}

// selfType matches the name of a schema's type, which upstream derives from the
// current time.
var selfType = regexp.MustCompile(`\bselfType[0-9]+`)

func (d *definitionReview) report(e *field.Error) {
	e.Detail = selfType.ReplaceAllString(e.Detail, "selfType")
	result := policy.Result{Outcome: policy.Fail, Message: message(e), Reason: "Invalid"}
	for _, path := range written(e.Field, len(versionNames(d.written))) {
		result.Fields = append(result.Fields, find(d.written, path, false))
	}
	result.Rule = ruleName(d.written, result.Fields[0])
	switch {
	case e.Detail == "field is immutable":
		result.Assumed = []string{"the CustomResourceDefinition of the base is established in the cluster"}
	case d.old != nil && strings.HasPrefix(e.Field, "status.storedVersions"):
		result.Assumed = []string{"the cluster stores objects in the version that the base has as its storage version"}
	case strings.Contains(e.Detail, "estimated rule cost total"):
		result.Hint = d.mostExpensive(result.Fields[0])
	}
	d.add(result)
}

// written returns the paths in the written definition for a path of the
// internal form. The API server stores fields that are equal in all versions
// only once.
func written(path string, versions int) []string {
	path = strings.Replace(path, "JSONPath", "jsonPath", 1)
	for _, move := range []struct{ from, to string }{
		{"spec.conversion.webhookClientConfig", "spec.conversion.webhook.clientConfig"},
		{"spec.conversion.conversionReviewVersions", "spec.conversion.webhook.conversionReviewVersions"},
		{"status.storedVersions", "spec.versions"},
	} {
		if rest, ok := strings.CutPrefix(path, move.from); ok {
			if move.to == "spec.versions" {
				rest = ""
			}
			return []string{move.to + rest}
		}
	}
	if path == "spec.version" {
		return []string{"spec.versions[0].name"}
	}
	for _, move := range []struct{ from, to string }{
		{"spec.validation", "schema"},
		{"spec.schema", "schema"},
		{"spec.subresources", "subresources"},
		{"spec.additionalPrinterColumns", "additionalPrinterColumns"},
		{"spec.selectableFields", "selectableFields"},
	} {
		rest, ok := strings.CutPrefix(path, move.from)
		if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		paths := make([]string, versions)
		for i := range paths {
			paths[i] = fmt.Sprintf("spec.versions[%d].%s%s", i, move.to, rest)
		}
		if len(paths) > 0 {
			return paths
		}
	}
	return []string{path}
}

// versionOf returns the version of a definition that a pointer points into.
func (d *definitionReview) versionOf(pointer string) string {
	names := versionNames(d.written)
	for i, name := range names {
		if within(pointer, render.Pointer("spec", "versions", i)) {
			return name
		}
	}
	return ""
}
