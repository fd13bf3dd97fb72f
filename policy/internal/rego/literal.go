package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxLiterals is how many texts of a definition are looked for.
const maxLiterals = 20

// Literals are the texts in a rule's body besides the names of fields and what
// messages are made of, the last ones first: rules look whom they are about
// before they look what is wrong.
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
