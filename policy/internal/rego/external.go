package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

// externalData is Gatekeeper's function that queries a provider in the cluster.
var externalData = &ast.Builtin{
	Name: "external_data",
	Decl: types.NewFunction(types.Args(types.A), types.A),
}

// ownBuiltins are functions that OPA does not have.
var ownBuiltins = map[string]*topdown.Builtin{
	externalData.Name: {Decl: externalData, Func: askProvider},
}

// askProvider is undefined, and records the provider that the policy needs.
func askProvider(c topdown.BuiltinContext, operands []*ast.Term, _ func(*ast.Term) error) error {
	b, ok := c.Cancel.(*bound)
	if !ok {
		return nil
	}
	what := "external data"
	if o, ok := operands[0].Value.(ast.Object); ok {
		if t := o.Get(ast.InternedTerm("provider")); t != nil && textOf(t) != "" {
			what = "external data of provider " + textOf(t)
		}
	}
	b.ask(what)
	return nil
}
