package rego

import (
	"cmp"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A Program is modules, compiled together. It is safe for concurrent use.
type Program struct {
	compiler *ast.Compiler
	time     time.Duration
}

// Compile takes modules by name, of v0 and v1 together. It leaves them as they
// are. The error joins an *Error for each place that is wrong.
func Compile(modules map[string]*ast.Module, o Options) (*Program, error) {
	guardBuiltins()
	c := ast.NewCompiler().
		WithCapabilities(capabilities(ast.RegoV1)).
		WithEnablePrintStatements(true).
		SetErrorLimit(maxErrors)
	if o.ExternalData {
		c = c.WithBuiltins(map[string]*ast.Builtin{externalData.Name: externalData})
	}
	c.Compile(modules)
	if c.Failed() {
		refuse(c.Errors, mentions(modules))
		return nil, join(moduleErrors("", c.Errors))
	}
	return &Program{c, cmp.Or(o.Time, maxTime)}, nil
}

// Rules are the rules that make up the document at ref, such as
// data.main.deny: none where no module defines it.
func (p *Program) Rules(ref ast.Ref) []*ast.Rule {
	return p.compiler.GetRulesExact(ref)
}

// Has says whether a module defines the document at ref.
func (p *Program) Has(ref ast.Ref) bool { return len(p.Rules(ref)) > 0 }

// Annotations are what "# METADATA" comments say about a rule, those of its
// document, package and subpackages included, the nearest first.
func (p *Program) Annotations(rule *ast.Rule) ast.FlatAnnotationsRefSet {
	var out ast.FlatAnnotationsRefSet
	for _, a := range p.compiler.GetAnnotationSet().Chain(rule) {
		if a.Annotations != nil {
			out = append(out, a)
		}
	}
	return out
}

// A Query is a reference to a document of a program, prepared. It is safe for
// concurrent use.
type Query struct {
	program  *Program
	ref      ast.Ref
	compiler ast.QueryCompiler
	body     ast.Body
}

// answer is the variable of a query that gets its value.
const answer = ast.Var("answer")

// Prepare readies a query for the document at ref, such as data.main.deny. One
// that no module defines is undefined, unless a question's data has it.
func (p *Program) Prepare(ref ast.Ref) (*Query, error) {
	qc := p.compiler.QueryCompiler()
	body, err := qc.Compile(ast.NewBody(ast.Equality.Expr(ast.NewTerm(ref), ast.VarTerm(string(answer)))))
	if err != nil {
		return nil, join(moduleErrors("", err))
	}
	return &Query{p, ref, qc, body}, nil
}
