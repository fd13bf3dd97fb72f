package gatekeeper

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/cel-go/common/types/ref"
	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/render"
)

// A constraint is a compiled constraint of a template. It is safe for
// concurrent use.
type constraint struct {
	object     *render.Object
	id         string         // name/kind
	tree       map[string]any // the object with the defaults of its template's schema
	template   *template
	match      *document.Match
	actions    []string  // actions at the enforcement point, in order; empty if it is not enforced there
	parameters *ast.Term // of Rego
	severity   policy.Severity
	origin     render.Span
	rule       policy.Rule

	freeze     sync.Once // guards the next fields, which CEL uses
	frozenTree ref.Val

	slow atomic.Int64 // nanoseconds of all slow evaluations
}

// Enforcement points of Gatekeeper.
const (
	// pointAdmission is the validating webhook.
	pointAdmission = "validation.gatekeeper.sh"
	// pointVAP is the ValidatingAdmissionPolicies that Gatekeeper generates.
	pointVAP = "vap.k8s.io"
	// pointAudit is the audit.
	pointAudit = "audit.gatekeeper.sh"
	// PointGator is the gator command.
	PointGator = "gator.gatekeeper.sh"
	// everyPoint means all enforcement points.
	everyPoint = "*"
)

var points = []string{pointAdmission, pointAudit, PointGator, pointVAP}

// The enforcement actions.
const (
	actionDeny   = "deny"
	actionWarn   = "warn"
	actionDryrun = "dryrun"
	actionScoped = "scoped"
)

// A scopedAction is one of scopedEnforcementActions.
type scopedAction struct {
	Action            string `json:"action"`
	EnforcementPoints []struct {
		Name string `json:"name"`
	} `json:"enforcementPoints"`
}

// newConstraint reads a constraint. It returns nil if it can't be used.
func (c *compiler) newConstraint(o *render.Object, all templates) (*constraint, []error) {
	gvk := o.GroupVersionKind()
	if gvk.Version != "v1beta1" && gvk.Version != "v1alpha1" {
		return nil, []error{policy.ErrorAt(o, "/apiVersion", "constraint", fmt.Errorf("Gatekeeper has no constraints in version %s: they are v1beta1", gvk.Version))}
	}
	t := all[strings.ToLower(gvk.Kind)]
	if t == nil {
		return nil, c.withoutTemplate(o)
	}
	if t.kind != gvk.Kind {
		return nil, []error{policy.ErrorAt(o, "/kind", "constraint", fmt.Errorf("kind %s is written %s in its template", gvk.Kind, t.kind))}
	}
	if f := nameFault(o); f != nil {
		return nil, []error{policy.ErrorAt(o, f.pointer, "constraint", f.err)}
	}
	made := &constraint{object: o, id: o.GetName() + "/" + o.GetKind(), template: t, origin: o.Span(""), tree: t.schema.held(o, c.options.Written)}
	given := made.tree
	if c.options.Written {
		given = o.Object
	}
	if fs := t.schema.check(given, c.options.Written); len(fs) > 0 {
		return nil, faultsAt(o, "constraint", fs)
	}
	spec, _ := made.tree["spec"].(map[string]any)
	var errs []error
	if made.match, errs = document.NewMatch(o, "/spec/match", spec["match"]); document.Broken(errs) {
		return nil, errs
	}
	if f := c.enforce(made, spec); f != nil {
		return nil, append(errs, policy.ErrorAt(o, f.pointer, "constraint", f.err))
	}
	if t.rego != nil {
		made.parameters = parametersOf(spec["parameters"])
	}
	made.rule = documentation(made)
	return made, errs
}

// A fault is an error about a field.
type fault struct {
	pointer string
	err     error
}

// nameFault returns the error about a constraint's name, or nil.
func nameFault(o *render.Object) *fault {
	if o.GetName() == "" {
		return &fault{"/metadata", errors.New("the constraint has no name")}
	}
	if wrong := validation.IsDNS1123Subdomain(o.GetName()); len(wrong) > 0 {
		return &fault{"/metadata/name", fmt.Errorf("%q is not a valid name of a constraint: %s", o.GetName(), wrong[0])}
	}
	return nil
}

// withoutTemplate returns the error of a constraint without a template. If the template
// is there but broken it returns none: the template has an error of its own.
func (c *compiler) withoutTemplate(o *render.Object) []error {
	kind := o.GetKind()
	if c.refused[strings.ToLower(kind)] {
		return nil
	}
	return []error{policy.ErrorAt(o, "/kind", "constraint", fmt.Errorf("there is no ConstraintTemplate %s, which this constraint needs", strings.ToLower(kind)))}
}

// parametersOf returns the constraint's parameters as templates see them.
// Without parameters it is an empty object.
func parametersOf(parameters any) *ast.Term {
	if parameters == nil {
		parameters = map[string]any{}
	}
	return exact.term(parameters)
}

// enforce sets the constraint's actions at the engine's enforcement points.
func (c *compiler) enforce(con *constraint, spec map[string]any) *fault {
	action, ok := spec["enforcementAction"].(string)
	switch {
	case !ok || action == "":
		action = actionDeny
		fallthrough
	case action == actionDeny, action == actionWarn, action == actionDryrun:
		con.actions = []string{action}
		return nil
	case action == actionScoped:
		return c.scope(con, spec)
	case c.options.Written:
		con.actions = []string{action}
		return nil
	}
	return &fault{"/spec/enforcementAction", fmt.Errorf("enforcementAction %q is none of deny, dryrun, warn and scoped", action)}
}

// scope sets the actions of a constraint with scopedEnforcementActions.
func (c *compiler) scope(con *constraint, spec map[string]any) *fault {
	const field = "/spec/scopedEnforcementActions"
	if spec["scopedEnforcementActions"] == nil {
		return &fault{"/spec", fmt.Errorf("enforcementAction is scoped, and there are no scopedEnforcementActions")}
	}
	var scoped []scopedAction
	if errs := document.Decode(con.object, field, spec["scopedEnforcementActions"], &scoped, "constraint"); document.Broken(errs) {
		return &fault{field, fmt.Errorf("scopedEnforcementActions are a list of {action, enforcementPoints: [{name}]}")}
	}
	found := map[string]bool{}
	for i, s := range scoped {
		pointer := field + render.Pointer(i)
		if !c.options.Written && s.Action != actionDeny && s.Action != actionWarn && s.Action != actionDryrun {
			return &fault{pointer + "/action", fmt.Errorf("action %q is none of deny, dryrun and warn", s.Action)}
		}
		if !c.options.Written && len(s.EnforcementPoints) == 0 {
			return &fault{pointer, fmt.Errorf("the action has no enforcementPoints")}
		}
		for j, p := range s.EnforcementPoints {
			if !c.options.Written && p.Name != everyPoint && !slices.Contains(points, p.Name) {
				return &fault{pointer + render.Pointer("enforcementPoints", j, "name"), fmt.Errorf("enforcement point %q is none of %s", p.Name, strings.Join(points, ", "))}
			}
			if p.Name == everyPoint || c.enforces(con.template, p.Name) {
				found[s.Action] = true
			}
		}
	}
	con.actions = slices.Sorted(maps.Keys(found))
	return nil
}

// enforces reports whether the engine evaluates at an enforcement point.
// Admission has two: Gatekeeper's webhook, and for templates in CEL the API
// server itself.
func (c *compiler) enforces(t *template, point string) bool {
	if p := c.options.EnforcementPoint; p != "" && p != pointAdmission {
		return p == point
	}
	return point == pointAdmission || point == pointVAP && t.native != nil && t.native.generates
}

// action returns the strongest of the constraint's actions, or "" if it is not
// enforced.
func (c *constraint) action() policy.Action {
	var strongest policy.Action
	for _, a := range c.actions {
		if x := actionOf(a); strongest == "" || x.AtLeast(strongest) {
			strongest = x
		}
	}
	return strongest
}

func actionOf(action string) policy.Action {
	switch action {
	case actionDeny:
		return policy.Deny
	case actionWarn:
		return policy.Warn
	}
	return policy.Audit
}

// documentation returns a constraint's rule, documented by its annotations, and by
// those of its template.
func documentation(c *constraint) policy.Rule {
	notes := policy.Notes{c.object.GetAnnotations(), c.template.object.GetAnnotations()}
	c.severity = document.Severity(notes)
	r := policy.Rule{
		Engine: policy.EngineGatekeeper, Policy: c.object.GetName(), Name: c.object.GetKind(),
		Severity: c.severity, Action: c.action(),
		Expression: policy.Shorten(strings.TrimSpace(c.template.text()), document.MaxDocument), Origin: c.origin,
	}
	document.Describe(&r, notes)
	return r
}

// text returns the template's code.
func (t *template) text() string {
	if t.native != nil {
		return t.native.text
	}
	return t.rego.text
}

// Rules implements policy.Validator. There is one rule for each constraint, in
// the order of evaluation, and one for Gatekeeper's namespace label webhook if
// that is in the tree. A constraint that is not enforced at the engine's
// enforcement points has no action.
func (e *Engine) Rules() []policy.Rule {
	rules := make([]policy.Rule, len(e.constraints), len(e.constraints)+1)
	for i, c := range e.constraints {
		rules[i] = c.rule
	}
	if len(rules) > 0 && e.label.object != nil {
		rules = append(rules, e.ignoreLabelRule())
	}
	return rules
}
