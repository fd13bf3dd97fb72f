package kyvernocel

import (
	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

var (
	_ policy.Inspector = validator{}
	_ policy.Inspector = mutator{}
)

// Inspect implements policy.Inspector. It finds expressions that have the same
// value for every object.
func (v validator) Inspect() []policy.Result {
	return v.inspect(func(p *Policy) bool { return p.Kind == Validating || p.Kind == ImageValidating })
}

// Inspect implements policy.Inspector.
func (m mutator) Inspect() []policy.Result {
	return m.inspect(func(p *Policy) bool { return p.Kind == Mutating })
}

func (e *Engine) inspect(concerns func(*Policy) bool) []policy.Result {
	var all []policy.Result
	for _, p := range e.policies {
		if !concerns(p) || p.Object.Span("").File == "" || p.main == nil {
			continue
		}
		in := cel.Inspected{Policy: p.Name, Variables: make(map[string]*celgo.Ast)}
		for i, v := range p.main.variables {
			in.Variables[p.spec.Variables[i].Name] = v.ast
		}
		for _, x := range p.main.conditions {
			in.Conditions = append(in.Conditions, inspected(x))
		}
		for _, x := range p.main.validations {
			in.Validations = append(in.Validations, inspected(x))
		}
		all = append(all, in.Findings()...)
	}
	return all
}

func inspected(x *expression) cel.InspectedExpression {
	return cel.InspectedExpression{Rule: x.rule, Source: x.source, Origin: x.origin, AST: x.ast}
}
