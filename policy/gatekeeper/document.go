package gatekeeper

import (
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
)

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
