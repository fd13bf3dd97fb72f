package kyvernocel

import (
	"cmp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// The annotations that document a policy, ours first.
var (
	titleKeys       = []string{"preadmit.dev/title", "policies.kyverno.io/title"}
	severityKeys    = []string{"preadmit.dev/severity", "policies.kyverno.io/severity"}
	descriptionKeys = []string{"preadmit.dev/description", "policies.kyverno.io/description"}
	helpKeys        = []string{"preadmit.dev/help"}
	urlKeys         = []string{"preadmit.dev/url"}
)

// maxDocument is how much of an annotation is kept.
const maxDocument = 16 << 10

// Rules implements policy.Validator: one rule a validation.
func (e validator) Rules() []policy.Rule {
	return e.rules(func(p *Policy) []*expression {
		if p.Kind != Validating && p.Kind != ImageValidating {
			return nil
		}
		return p.main.validations
	})
}

// Rules implements policy.Mutator: one rule a mutation.
func (e mutator) Rules() []policy.Rule {
	return e.rules(func(p *Policy) []*expression {
		if p.Kind != Mutating {
			return nil
		}
		return p.main.mutations
	})
}

func (e *Engine) rules(of func(*Policy) []*expression) []policy.Rule {
	var rules []policy.Rule
	for _, p := range e.policies {
		for i, x := range of(p) {
			rules = append(rules, p.rule(x, i))
		}
	}
	return rules
}

func (p *Policy) rule(x *expression, i int) policy.Rule {
	a := p.Object.GetAnnotations()
	message := ""
	if p.Kind != Mutating {
		message = p.spec.Validations[i].Message
	}
	return policy.Rule{
		Engine: p.engine(), Policy: p.Name, Name: x.rule, Severity: p.severity, Action: p.action,
		Title:       cmp.Or(firstLine(message), firstLine(annotation(a, titleKeys)), firstLine(x.source)),
		Description: annotation(a, descriptionKeys), Help: annotation(a, helpKeys), URL: annotation(a, urlKeys),
		Expression: x.source, Origin: x.origin,
	}
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
