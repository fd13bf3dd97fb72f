package gatekeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/render"
)

// ErrSchema is joined to the error of a constraint that breaks the schema of
// its template. gator's suites call a constraint invalid for this reason alone.
var ErrSchema = errors.New("schema validation failed")

// schemaPointer points to the schema of the parameters in a template.
const schemaPointer = "/spec/crd/spec/validation/openAPIV3Schema"

// A constraintSchema validates constraints by the schema of the CRD that
// Gatekeeper generates from a template
// (frameworks/constraint/pkg/client/crds). It is safe for concurrent use.
type constraintSchema struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *schemacel.Validator // x-kubernetes-validations; nil: none
}

// newConstraintSchema makes the schema of a template's constraints. The faults
// point into the template.
func newConstraintSchema(kind string, parameters *apiextensionsv1.JSONSchemaProps) (*constraintSchema, []fault) {
	props, err := internalSchema(parameters)
	if err != nil {
		return nil, []fault{{schemaPointer, err}}
	}
	root := schemaOfConstraint(props)
	if fs := checkDefinition(kind, root); len(fs) > 0 {
		return nil, fs
	}
	s := &constraintSchema{}
	if s.structural, err = schema.NewStructural(root); err != nil {
		return nil, []fault{{schemaPointer, err}}
	}
	if s.validator, _, err = validation.NewSchemaValidator(root); err != nil {
		return nil, []fault{{schemaPointer, err}}
	}
	s.rules = schemacel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	return s, nil
}

// internalSchema converts the schema to the internal types that validation
// needs.
func internalSchema(in *apiextensionsv1.JSONSchemaProps) (*apiextensions.JSONSchemaProps, error) {
	if in == nil {
		return nil, nil
	}
	out := &apiextensions.JSONSchemaProps{}
	return out, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, out, nil)
}

// openSchema allows unknown fields in a schema, as legacySchema does. It
// changes and returns in, or returns a new schema if in is nil.
func openSchema(in *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if in == nil {
		in = &apiextensionsv1.JSONSchemaProps{}
	}
	yes := true
	switch in.Type {
	case "", "object":
		in.XPreserveUnknownFields = &yes
	case "array":
		if in.Items == nil || in.Items.Schema == nil {
			in.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{}}
		}
	}
	for name, p := range in.Properties {
		in.Properties[name] = *openSchema(&p)
	}
	if in.Items != nil && in.Items.Schema != nil {
		openSchema(in.Items.Schema)
	}
	if in.AdditionalProperties != nil && in.AdditionalProperties.Schema != nil {
		openSchema(in.AdditionalProperties.Schema)
	}
	return in
}

type props = map[string]apiextensions.JSONSchemaProps

func object(p props) apiextensions.JSONSchemaProps {
	return apiextensions.JSONSchemaProps{Type: "object", Properties: p}
}

func list(of apiextensions.JSONSchemaProps) apiextensions.JSONSchemaProps {
	return apiextensions.JSONSchemaProps{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &of}}
}

var (
	text     = apiextensions.JSONSchemaProps{Type: "string"}
	wildName = apiextensions.JSONSchemaProps{Type: "string", Pattern: document.WildcardPattern.String()}
)

// matchSchema returns the schema of a match block
// (gatekeeper/v3/pkg/mutation/match/match_types.go).
var matchSchema = sync.OnceValue(func() apiextensions.JSONSchemaProps {
	requirement := object(props{"key": text, "operator": text, "values": list(text)})
	requirement.Required = []string{"key", "operator"}
	labels := apiextensions.JSONSchemaProps{
		Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &text},
	}
	selector := object(props{"matchLabels": labels, "matchExpressions": list(requirement)})
	sources := text
	for _, s := range []document.Source{document.SourceAll, document.SourceGenerated, document.SourceOriginal} {
		sources.Enum = append(sources.Enum, string(s))
	}
	return object(props{
		"source":     sources,
		"kinds":      list(object(props{"apiGroups": list(text), "kinds": list(text)})),
		"scope":      text,
		"namespaces": list(wildName), "excludedNamespaces": list(wildName),
		"labelSelector": selector, "namespaceSelector": selector,
		"name": wildName,
	})
})

// schemaOfConstraint puts the schema of parameters, which may be nil, into that
// of a constraint.
func schemaOfConstraint(parameters *apiextensions.JSONSchemaProps) *apiextensions.JSONSchemaProps {
	deny := apiextensions.JSON("deny")
	action := text
	action.Default = &deny
	points := list(object(props{"name": text}))
	spec := props{
		"match":                    matchSchema(),
		"enforcementAction":        action,
		"scopedEnforcementActions": list(object(props{"action": text, "enforcementPoints": points})),
	}
	if parameters != nil {
		spec["parameters"] = *parameters
	}
	name, limit, yes := text, int64(63), true
	name.MaxLength = &limit
	root := object(props{
		"metadata": object(props{"name": name}),
		"spec":     object(spec),
		"status":   {XPreserveUnknownFields: &yes},
	})
	return &root
}

// checkDefinition validates the CRD as the API server does.
func checkDefinition(kind string, root *apiextensions.JSONSchemaProps) []fault {
	lower, no := strings.ToLower(kind), false
	names := apiextensions.CustomResourceDefinitionNames{
		Plural: lower, Singular: lower, Kind: kind, ListKind: kind + "List", Categories: []string{"constraint", "constraints"},
	}
	crd := &apiextensions.CustomResourceDefinition{}
	crd.Name = lower + "." + constraintsGroup
	crd.Spec = apiextensions.CustomResourceDefinitionSpec{
		Group: constraintsGroup, Version: "v1beta1", Names: names, Scope: apiextensions.ClusterScoped,
		Validation:            &apiextensions.CustomResourceValidation{OpenAPIV3Schema: root},
		Subresources:          &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
		Versions:              []apiextensions.CustomResourceDefinitionVersion{{Name: "v1beta1", Storage: true, Served: true}, {Name: "v1alpha1", Served: true}},
		Conversion:            &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
		PreserveUnknownFields: &no,
	}
	crd.Status.StoredVersions = []string{"v1beta1"}
	var fs []fault
	for _, err := range crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd) {
		fs = append(fs, definitionFault(err))
	}
	return fs
}

// definitionFault places an error about the CRD in the template.
func definitionFault(err *field.Error) fault {
	const parameters = "spec.validation.openAPIV3Schema.properties[spec].properties[parameters]"
	rest, ok := strings.CutPrefix(err.Field, parameters)
	if !ok {
		return fault{"/spec/crd/spec/names/kind", fmt.Errorf("%s", err.ErrorBody())}
	}
	rest = strings.TrimPrefix(rest, ".")
	where := "openAPIV3Schema"
	if rest != "" {
		where += "." + rest
	}
	return fault{schemaPointer + render.FieldPointer(rest), fmt.Errorf("%s: %s", where, err.ErrorBody())}
}

// held returns a constraint as the API server holds it: with the schema's
// defaults, and without nulls that the schema does not allow. For gator
// (written) nulls stay.
func (c *constraintSchema) held(o *render.Object, written bool) map[string]any {
	tree := o.DeepCopy().Object
	defaulting.Default(tree, c.structural)
	if !written {
		defaulting.PruneNonNullableNullsWithoutDefaults(tree, c.structural)
	}
	return tree
}

// check validates a constraint by the schema and its rules, and if it is valid
// looks for unknown fields. The faults point into the constraint.
func (c *constraintSchema) check(tree map[string]any, written bool) (fs []fault) {
	errs := validation.ValidateCustomResource(nil, tree, c.validator)
	if len(errs) == 0 && c.rules != nil && !written {
		errs, _ = c.rules.Validate(context.Background(), nil, c.structural, tree, nil, celconfig.RuntimeCELCostBudget)
	}
	for _, err := range errs {
		fs = append(fs, fault{render.FieldPointer(err.Field), fmt.Errorf("%w: %s: %s", ErrSchema, err.Field, err.ErrorBody())})
	}
	if len(fs) > 0 {
		return fs
	}
	unknown := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	copied, _ := render.Copy(tree).(map[string]any)
	for _, path := range pruning.PruneWithOptions(copied, c.structural, true, unknown) {
		fs = append(fs, fault{render.KeyOf(render.FieldPointer(path)), fmt.Errorf("unknown field %q: the template's schema does not have it", path)})
	}
	return fs
}
