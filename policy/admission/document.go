package admission

import (
	v1 "k8s.io/api/admissionregistration/v1"

	"github.com/preadmit/preadmit/policy"
)

// Rules implements policy.Validator. There is one rule for each validation, in
// the order of the policies.
func (e *Engine) Rules() []policy.Rule {
	var rules []policy.Rule
	for _, b := range e.policies {
		for _, x := range b.validations {
			rules = append(rules, b.rule(x, b.policy.Spec.Validations[x.index]))
		}
	}
	return rules
}

func (b *bound) rule(x *expression, validation v1.Validation) policy.Rule {
	notes := policy.Notes{b.policy.Annotations}
	r := policy.Rule{
		Engine: b.engine(), Policy: b.policy.Name, Name: x.rule,
		Severity: b.severity, Title: policy.FirstLine(validation.Message, notes.Title(), validation.Expression),
		Description: notes.Description("kubernetes.io/description"), Help: notes.Help(), URL: notes.URL(),
		Expression: validation.Expression, Origin: b.object.Span(x.pointer),
	}
	if len(b.bindings) > 0 {
		r.Action = b.strongest()
	}
	return r
}
