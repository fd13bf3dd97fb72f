package gatekeeper

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/render"
)

// The groups of Gatekeeper's kinds.
const (
	templatesGroup   = "templates.gatekeeper.sh"
	constraintsGroup = "constraints.gatekeeper.sh"
	configGroup      = "config.gatekeeper.sh"
	syncSetGroup     = "syncset.gatekeeper.sh"
)

// targetName is the only target that Gatekeeper has.
const targetName = "admission.k8s.gatekeeper.sh"

// The engines of a template's code, in the order in which Gatekeeper, and
// gator, prefer them.
const (
	engineNative = "K8sNativeValidation"
	engineRego   = "Rego"
)

// A template is a ConstraintTemplate, compiled. It is safe for concurrent use.
type template struct {
	object     *render.Object
	kind       string // of its constraints
	schema     *constraintSchema
	operations []string // operations that it evaluates; empty means all
	rego       *regoCode
	native     *nativeCode // instead of rego
	requires   []requirement
}

// A templateSpec is the spec of a template as written.
type templateSpec struct {
	CRD struct {
		Spec struct {
			Names struct {
				Kind       string   `json:"kind"`
				ShortNames []string `json:"shortNames"`
			} `json:"names"`
			Validation *struct {
				OpenAPIV3Schema *apiextensionsv1.JSONSchemaProps `json:"openAPIV3Schema"`
				LegacySchema    *bool                            `json:"legacySchema"`
			} `json:"validation"`
		} `json:"spec"`
	} `json:"crd"`
	Targets []templateTarget `json:"targets"`
}

type templateTarget struct {
	Target     string         `json:"target"`
	Rego       string         `json:"rego"`
	Libs       []string       `json:"libs"`
	Code       []templateCode `json:"code"`
	Operations []string       `json:"operations"`
}

type templateCode struct {
	Engine string         `json:"engine"`
	Source map[string]any `json:"source"`
}

// parameters returns the schema of the parameters; nil allows none. Without a schema v1
// allows none and earlier versions allow everything.
func (t *templateSpec) parameters(version string) *apiextensionsv1.JSONSchemaProps {
	v := t.CRD.Spec.Validation
	legacy := version != "v1"
	if v == nil {
		if legacy {
			return openSchema(nil)
		}
		return nil
	}
	if v.LegacySchema != nil {
		legacy = *v.LegacySchema
	}
	if legacy {
		return openSchema(v.OpenAPIV3Schema)
	}
	return v.OpenAPIV3Schema
}

// templates holds the templates by the kind of their constraints.
type templates map[string]*template

// newTemplate compiles a template. It returns nil if the template can't be used.
func (c *compiler) newTemplate(o *render.Object) (*template, []error) {
	t := &template{object: o}
	version := o.GroupVersionKind().Version
	if !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, version) {
		return nil, []error{policy.ErrorAt(o, "/apiVersion", "template", fmt.Errorf("Gatekeeper has no ConstraintTemplate in version %s", version))}
	}
	var spec templateSpec
	errs := document.Decode(o, "/spec", o.Object["spec"], &spec, "template")
	if document.Broken(errs) {
		return nil, errs
	}
	if f := spec.fault(o.GetName()); f != nil {
		return nil, append(errs, policy.ErrorAt(o, f.pointer, "template", f.err))
	}
	t.kind = spec.CRD.Spec.Names.Kind
	var fs []fault
	if t.schema, fs = newConstraintSchema(t.kind, spec.parameters(version)); len(fs) > 0 {
		return nil, append(errs, faultsAt(o, "schema", fs)...)
	}
	target := &spec.Targets[0]
	t.operations = target.Operations
	more := c.code(t, target)
	if errs = append(errs, more...); document.Broken(more) {
		return nil, errs
	}
	t.requires, more = requirements(o)
	return t, append(errs, more...)
}

func faultsAt(o *render.Object, rule string, fs []fault) []error {
	var errs []error
	for _, f := range fs {
		errs = append(errs, policy.ErrorAt(o, f.pointer, rule, f.err))
	}
	return errs
}

// fault returns the reason why Gatekeeper would refuse a template before it
// parses the code, or nil.
func (t *templateSpec) fault(name string) *fault {
	kind := t.CRD.Spec.Names.Kind
	switch {
	case len(t.Targets) != 1:
		return &fault{"/spec/targets", fmt.Errorf("a template has exactly one target, and this one has %d", len(t.Targets))}
	case t.Targets[0].Target == "":
		return &fault{"/spec/targets/0/target", errors.New("the target has no name")}
	case kind == "":
		return &fault{"/spec/crd/spec/names/kind", fmt.Errorf("template %q does not say the kind of its constraints", name)}
	case !strings.EqualFold(name, kind):
		return &fault{"/metadata/name", fmt.Errorf("the template's name %q is not that of its kind in lower case, %q", name, strings.ToLower(kind))}
	case t.Targets[0].Target != targetName:
		return &fault{"/spec/targets/0/target", fmt.Errorf("target %q is not known: the only one is %s", t.Targets[0].Target, targetName)}
	}
	return t.Targets[0].operationsFault()
}

var operations = []string{"*", "CREATE", "UPDATE", "DELETE", "CONNECT"}

func (t *templateTarget) operationsFault() *fault {
	for i, op := range t.Operations {
		pointer := render.Pointer("spec", "targets", 0, "operations", i)
		switch {
		case !slices.Contains(operations, op):
			return &fault{pointer, fmt.Errorf("operation %q is none of %s", op, strings.Join(operations, ", "))}
		case op == "*" && len(t.Operations) > 1:
			return &fault{pointer, errors.New("* must be the only operation")}
		}
	}
	return nil
}

// concerns reports whether the template evaluates requests of an operation.
func (t *template) concerns(operation string) bool {
	return len(t.operations) == 0 || slices.Contains(t.operations, operation) || slices.Contains(t.operations, "*")
}

// code compiles the code of a template by the engine that Gatekeeper prefers.
func (c *compiler) code(t *template, target *templateTarget) []error {
	native := target.codeOf(engineNative)
	switch {
	case native >= 0:
		var errs []error
		base := render.Pointer("spec", "targets", 0, "code", native, "source")
		t.native, errs = c.newNative(t.object, base, target.Code[native].Source)
		t.cover(c.options.Coverage)
		return errs
	case target.Rego != "" || target.codeOf(engineRego) >= 0:
		var errs []error
		t.rego, errs = newRegoCode(t.object, target, c.options.Coverage)
		return errs
	}
	return []error{policy.ErrorAt(t.object, "/spec/targets/0", "template", fmt.Errorf("the target has no code of an engine that is known: %s or %s", engineRego, engineNative))}
}

// codeOf returns the index of the target's code for an engine, or -1.
func (t *templateTarget) codeOf(engine string) int {
	return slices.IndexFunc(t.Code, func(c templateCode) bool { return c.Engine == engine })
}

// Compiled keeps the templates that were compiled last, so that engines of the
// same template and different constraints compile it once. It is safe for
// concurrent use.
type Compiled struct {
	mu   sync.Mutex
	last []*compiledTemplate
}

type compiledTemplate struct {
	object *render.Object
	once   sync.Once
	made   *template
	errs   []error
}

// mostCompiled limits how many templates are kept.
const mostCompiled = 16

// template compiles a template, or returns the earlier result if an equal
// object at the same place was compiled before.
func (c *Compiled) template(o *render.Object, compile func(*render.Object) (*template, []error)) (*template, []error) {
	if c == nil {
		return compile(o)
	}
	t := c.entry(o)
	t.once.Do(func() { t.made, t.errs = compile(t.object) })
	return t.made, t.errs
}

func (c *Compiled) entry(o *render.Object) *compiledTemplate {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.last {
		if t.object.Span("") == o.Span("") && reflect.DeepEqual(t.object.Object, o.Object) {
			return t
		}
	}
	t := &compiledTemplate{object: o}
	c.last = append(c.last[max(0, len(c.last)+1-mostCompiled):], t)
	return t
}
