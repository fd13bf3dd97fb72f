package admission

import (
	v1 "k8s.io/api/admissionregistration/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// Rules implements policy.Validator. There is one rule for each validation, in
// the order of the policies.
func (e *Engine) Rules() []policy.Rule {
	var rules []policy.Rule
	for _, b := range e.policies {
		for _, x := range b.validations {
			rules = append(rules, b.rule(x, b.policy.Spec.Validations[x.Index]))
		}
	}
	return rules
}

func (b *bound) rule(x *cel.Expression, validation v1.Validation) policy.Rule {
	notes := policy.Notes{b.policy.Annotations}
	r := policy.Rule{
		Engine: b.engine(), Policy: b.policy.Name, Name: x.Rule,
		Severity: b.severity, Title: policy.FirstLine(validation.Message, notes.Title(), validation.Expression),
		Description: notes.Description("kubernetes.io/description"), Help: notes.Help(), URL: notes.URL(),
		Expression: validation.Expression, Origin: b.object.Span(x.Pointer),
	}
	if len(b.bindings) > 0 {
		r.Action = b.strongest()
	}
	return r
}
