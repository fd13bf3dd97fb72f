package kyvernocel

import (
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// Rules implements policy.Validator. There is one rule for each validation.
func (v validator) Rules() []policy.Rule {
	return v.rules(func(p *Policy) []*cel.Expression {
		if p.Kind != Validating && p.Kind != ImageValidating {
			return nil
		}
		return p.main.validations
	})
}

// Rules implements policy.Mutator. There is one rule for each mutation.
func (m mutator) Rules() []policy.Rule {
	return m.rules(func(p *Policy) []*cel.Expression {
		if p.Kind != Mutating {
			return nil
		}
		return p.main.mutations
	})
}

func (e *Engine) rules(of func(*Policy) []*cel.Expression) []policy.Rule {
	var rules []policy.Rule
	for _, p := range e.policies {
		for i, x := range of(p) {
			rules = append(rules, p.rule(x, i))
		}
	}
	return rules
}

func (p *Policy) rule(x *cel.Expression, i int) policy.Rule {
	notes := policy.Notes{p.Object.GetAnnotations()}
	message := ""
	if p.Kind != Mutating {
		message = p.spec.Validations[i].Message
	}
	return policy.Rule{
		Engine: p.engine(), Policy: p.Name, Name: x.Rule, Severity: p.severity, Action: p.action,
		Title:       policy.FirstLine(message, notes.Title(), x.Source),
		Description: notes.Description(), Help: notes.Help(), URL: notes.URL(),
		Expression: x.Source, Origin: x.Origin,
	}
}
