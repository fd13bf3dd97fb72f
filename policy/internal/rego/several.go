package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// PrepareAll readies one query for the documents at several refs: its answer
// is the array of their values, in order, and what they share is evaluated
// once. Each has to be defined whatever the input is, as a set is that rules
// add to; where one is not, the answer is undefined.
func (p *Program) PrepareAll(refs []ast.Ref) (*Query, error) {
	terms := make([]*ast.Term, len(refs))
	for i, ref := range refs {
		terms[i] = ast.NewTerm(ref)
	}
	return p.prepare(ast.ArrayTerm(terms...), refs)
}
