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
	qc := p.compiler.QueryCompiler()
	body, err := qc.Compile(ast.NewBody(ast.Equality.Expr(ast.ArrayTerm(terms...), ast.VarTerm(string(answer)))))
	if err != nil {
		return nil, join(moduleErrors("", err))
	}
	return &Query{p, refs[0], qc, body}, nil
}
