package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// PrepareAll prepares one query for several documents. Its answer is the array of
// their values, in order, and rules that they share are evaluated once. If one is
// undefined, so is the answer; therefore each must be defined for every input, like a
// partial set.
func (p *Program) PrepareAll(refs []ast.Ref) (*Query, error) {
	terms := make([]*ast.Term, len(refs))
	for i, ref := range refs {
		terms[i] = ast.NewTerm(ref)
	}
	return p.prepare(ast.ArrayTerm(terms...), refs)
}
