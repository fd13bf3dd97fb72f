package admission

import (
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// The annotations that document a policy, those of others second:
//
//	preadmit.dev/title        one line
//	preadmit.dev/severity     critical, high, medium, low or info
//	preadmit.dev/description  what it is about, and why
//	preadmit.dev/help         how to fix a failure, Markdown
//	preadmit.dev/url          where there is more to read
var (
	titleKeys       = []string{"preadmit.dev/title", "policies.kyverno.io/title"}
	severityKeys    = []string{"preadmit.dev/severity", "policies.kyverno.io/severity"}
	descriptionKeys = []string{"preadmit.dev/description", "policies.kyverno.io/description", "kubernetes.io/description"}
	helpKeys        = []string{"preadmit.dev/help"}
	urlKeys         = []string{"preadmit.dev/url"}
)

// maxDocument is how much of an annotation is kept.
const maxDocument = 16 << 10

// Rules implements policy.Validator: one rule a validation, in the order in
// which the policies were given.
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
	a := b.policy.Annotations
	r := policy.Rule{
		Engine: b.engine(), Policy: b.policy.Name, Name: x.rule,
		Severity: b.severity, Title: title(a, validation),
		Description: annotation(a, descriptionKeys), Help: annotation(a, helpKeys), URL: annotation(a, urlKeys),
		Expression: validation.Expression, Origin: span(b.object, x.pointer),
	}
	if len(b.bindings) > 0 {
		r.Action = b.strongest()
	}
	return r
}

// title is that of the validation, if it has one, else that of its policy.
func title(annotations map[string]string, validation v1.Validation) string {
	for _, t := range []string{validation.Message, annotation(annotations, titleKeys), validation.Expression} {
		if t = firstLine(t); t != "" {
			return t
		}
	}
	return ""
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// severityOf reads the annotation that policies state their severity in.
func severityOf(annotations map[string]string) policy.Severity {
	for _, key := range severityKeys {
		if s := policy.Severity(annotations[key]); slices.Contains(policy.Severities, s) {
			return s
		}
	}
	return ""
}

// annotation is the first that says something.
func annotation(annotations map[string]string, keys []string) string {
	for _, key := range keys {
		if s := strings.TrimSpace(annotations[key]); s != "" {
			return cel.Shorten(s, maxDocument)
		}
	}
	return ""
}
