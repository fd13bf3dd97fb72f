package gatekeeper

import (
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// The annotations that document a constraint, or its template, the first that
// says something:
//
//	metadata.gatekeeper.sh/title   one line
//	description                    what it is about, and why
//	metadata.gatekeeper.sh/severity, and those of preadmit.dev
var (
	titleKeys       = []string{"preadmit.dev/title", "metadata.gatekeeper.sh/title"}
	severityKeys    = []string{"preadmit.dev/severity", "metadata.gatekeeper.sh/severity", "severity"}
	descriptionKeys = []string{"preadmit.dev/description", "description", "metadata.gatekeeper.sh/description"}
	urlKeys         = []string{"preadmit.dev/url", "metadata.gatekeeper.sh/url"}
)

// maxDocument is the most bytes of a template's code that are kept.
const maxDocument = 16 << 10

// documentation returns a constraint's rule, documented by its annotations, and by
// those of its template.
func documentation(c *constraint) policy.Rule {
	notes := policy.Notes{c.object.GetAnnotations(), c.template.object.GetAnnotations()}
	c.severity = policy.SeverityOf(strings.ToLower(notes.Text(severityKeys...)))
	return policy.Rule{
		Engine: policy.EngineGatekeeper, Policy: c.object.GetName(), Name: c.object.GetKind(),
		Severity: c.severity, Action: c.action(), Title: policy.FirstLine(notes.Text(titleKeys...)), Description: notes.Text(descriptionKeys...),
		Expression: policy.Shorten(strings.TrimSpace(c.template.text()), maxDocument),
		Help:       notes.Help(), URL: notes.Text(urlKeys...), Origin: c.origin,
	}
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
