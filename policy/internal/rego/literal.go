package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxLiterals bounds the texts of a definition.
const maxLiterals = 20

// Literals returns the texts in a rule's body, except names of fields and parts of
// messages, the last first: rules select objects before they test them.
func Literals(b ast.Body) []string {
	var found []string
	var look func(*ast.Term) bool
	walk := func(terms []*ast.Term) {
		if len(terms) > 0 && terms[0].Equal(ast.NewTerm(ast.Sprintf.Ref())) {
			return
		}
		for _, t := range terms {
			ast.WalkTerms(t, look)
		}
	}
	look = func(t *ast.Term) bool {
		switch v := t.Value.(type) {
		case ast.Ref:
			return true
		case ast.Call:
			walk(v)
			return true
		case ast.String:
			if len(v) > 1 && !slices.Contains(found, string(v)) {
				found = append(found, string(v))
			}
		}
		return false
	}
	for _, x := range slices.Backward(b) {
		switch terms := x.Terms.(type) {
		case *ast.Term:
			ast.WalkTerms(terms, look)
		case []*ast.Term:
			walk(terms)
		}
	}
	return found[:min(len(found), maxLiterals)]
}
