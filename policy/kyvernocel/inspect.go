package kyvernocel

import (
	"github.com/preadmit/preadmit/policy"
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
		all = append(all, p.main.names.Constants(p.Name, p.main.variables, p.main.conditions, p.main.validations)...)
	}
	return all
}
