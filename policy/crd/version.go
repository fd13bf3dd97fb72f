package crd

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A definition is a CustomResourceDefinition with which objects are checked.
type definition struct {
	object      *render.Object
	target      cel.Version
	group, kind string
	decoded     func() (*apiextensions.CustomResourceDefinition, error)
	versions    []*servedVersion
	spans       map[string]render.Span // places of the definition, its schemas and rules
}

// A servedVersion is a served version of a definition with its schema.
type servedVersion struct {
	name    string
	pointer string // of the schema in the definition as it is written
	written map[string]any
	compile func() (*compiled, error)
}

// compiled holds the forms of a version's schema that validation needs. It is
// read-only and safe for concurrent use.
type compiled struct {
	structural  *schema.Structural
	model       *model.Structural
	validator   validation.SchemaValidator
	openAPI     *spec.Schema
	keepUnknown bool // spec.preserveUnknownFields
	status      bool // has the subresource
	load        load
	cel         *node
	rules       []*rule
	ignored     []string // that the API server ignores
}

func newDefinition(o *render.Object, target cel.Version) *definition {
	d := &definition{object: o, target: target, spans: make(map[string]render.Span)}
	d.group, _, _ = unstructured.NestedString(o.Object, "spec", "group")
	d.kind, _, _ = unstructured.NestedString(o.Object, "spec", "names", "kind")
	d.decoded = sync.OnceValues(func() (*apiextensions.CustomResourceDefinition, error) { return decode(o.Object) })
	for i, name := range versionNames(o.Object) {
		pointer := schemaPointer(o.Object, i)
		written, _ := render.Lookup(o.Object, pointer)
		s := &servedVersion{name: name, pointer: pointer}
		s.written, _ = written.(map[string]any)
		s.compile = sync.OnceValues(func() (*compiled, error) { return d.compile(s) })
		d.versions = append(d.versions, s)
	}
	return d
}

func (d *definition) groupKind() apischema.GroupKind {
	return apischema.GroupKind{Group: d.group, Kind: d.kind}
}

func (d *definition) version(name string) *servedVersion {
	i := slices.IndexFunc(d.versions, func(s *servedVersion) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return d.versions[i]
}

// span returns the place of a field of the definition.
func (d *definition) span(pointer string) render.Span {
	if known, ok := d.spans[pointer]; ok {
		return known
	}
	if places := d.object.At(pointer); len(places) > 0 {
		return places[0].Span
	}
	return render.Span{}
}

// versionNames lists the versions of a definition as it is written; the
// spec.version of v1beta1 means a list of one.
func versionNames(object map[string]any) []string {
	list, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "versions")
	var names []string
	versions, _ := list.([]any)
	for _, v := range versions {
		v, _ := v.(map[string]any)
		name, _ := v["name"].(string)
		names = append(names, name)
	}
	if single, _, _ := unstructured.NestedString(object, "spec", "version"); single != "" && len(names) == 0 {
		names = append(names, single)
	}
	return names
}

// schemaPointer returns the pointer of the i-th version's schema, whether it
// exists or not. In v1beta1 all versions may share one.
func schemaPointer(object map[string]any, i int) string {
	own := render.Pointer("spec", "versions", i, "schema", "openAPIV3Schema")
	const shared = "/spec/validation/openAPIV3Schema"
	if _, ok := render.Lookup(object, own); ok {
		return own
	}
	if _, ok := render.Lookup(object, shared); ok && object["apiVersion"] == v1beta1.SchemeGroupVersion.String() {
		return shared
	}
	return own
}

// decode reads a definition in the internal form that the API server
// validates, with defaults.
func decode(object map[string]any) (*apiextensions.CustomResourceDefinition, error) {
	internal := &apiextensions.CustomResourceDefinition{}
	switch object["apiVersion"] {
	case v1.SchemeGroupVersion.String():
		d := &v1.CustomResourceDefinition{}
		if err := fromTree(object, d); err != nil {
			return nil, err
		}
		v1.SetObjectDefaults_CustomResourceDefinition(d)
		return internal, v1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, internal, nil)
	case v1beta1.SchemeGroupVersion.String():
		d := &v1beta1.CustomResourceDefinition{}
		if err := fromTree(object, d); err != nil {
			return nil, err
		}
		v1beta1.SetObjectDefaults_CustomResourceDefinition(d)
		return internal, v1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, internal, nil)
	}
	return nil, fmt.Errorf("no matches for kind \"CustomResourceDefinition\" in version %q", object["apiVersion"])
}

// fromTree decodes as the API server does, and with its error messages.
func fromTree(tree map[string]any, into any) error {
	if runtime.DefaultUnstructuredConverter.FromUnstructured(tree, into) == nil {
		return nil
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return serverjson.Unmarshal(data, into)
}

// compile compiles a version's schema as the API server does when it begins to
// serve the resource
// (k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go).
func (d *definition) compile(s *servedVersion) (*compiled, error) {
	internal, err := d.decoded()
	if err != nil {
		return nil, err
	}
	if tooManyRules(d.object.Object) {
		return nil, errTooMuch
	}
	c := &compiled{load: loadOf(s.written)}
	c.keepUnknown = internal.Spec.PreserveUnknownFields != nil && *internal.Spec.PreserveUnknownFields
	if sub, err := apiextensions.GetSubresourcesForVersion(internal, s.name); err == nil && sub != nil {
		c.status = sub.Status != nil
	}
	custom, err := apiextensions.GetSchemaForVersion(internal, s.name)
	if err != nil || custom == nil || custom.OpenAPIV3Schema == nil {
		return c, err
	}
	if c.structural, err = schema.NewStructural(custom.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(c.structural); err != nil {
		return nil, err
	}
	c.model = &model.Structural{Structural: c.structural}
	c.openAPI = new(spec.Schema)
	if err := validation.ConvertJSONSchemaPropsWithPostProcess(custom.OpenAPIV3Schema, c.openAPI, d.ignoreFormats()); err != nil {
		return nil, err
	}
	c.validator = validation.NewSchemaValidatorFromOpenAPI(c.openAPI)
	if hasRules(c.structural) {
		k := &compiler{env: storedEnv}
		c.cel = k.root(c.structural, s.pointer)
		c.rules = k.rules
		for _, r := range c.rules {
			r.name, r.origin = ruleName(d.object.Object, r.pointer), d.span(r.pointer+"/rule")
		}
	} else {
		s.eachRule(func(pointer string, _ map[string]any) { c.ignored = append(c.ignored, pointer) })
	}
	return c, nil
}

// numberFormats is the minor version from which the API server validates formats of numbers
// (StripUnsupportedFormatsPostProcessorForVersion of k8s.io/apiextensions-apiserver).
const numberFormats = 36

// ignoreFormats returns a function that removes the format of a schema if the API server does not validate it.
func (d *definition) ignoreFormats() func(*spec.Schema) error {
	ignore := validation.StripUnsupportedFormatsPostProcessorForVersion(version.MajorMinor(1, uint(d.target)-1))
	return func(s *spec.Schema) error {
		if d.target < numberFormats && (s.Type.Contains("integer") || s.Type.Contains("number")) {
			s.Format = ""
		}
		return ignore(s)
	}
}
