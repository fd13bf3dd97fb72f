package rego

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A Program is modules, compiled together. It is safe for concurrent use.
type Program struct {
	compiler *ast.Compiler
	time     time.Duration
	seen     sync.Map // of *ast.Rule: see tracer.definitions
	covered  coverage // nil: not counted
}

// Compile compiles modules by name, v0 and v1 together, without changing them. The
// error joins an *Error for each wrong place.
func Compile(modules map[string]*ast.Module, o Options) (*Program, error) {
	guardBuiltins()
	limit := cmp.Or(o.Time, maxTime)
	c, err := compile(modules, o, max(limit, maxTime))
	if err != nil {
		return nil, err
	}
	if c.Failed() {
		refuse(c.Errors, mentions(modules))
		return nil, join(moduleErrors("", c.Errors))
	}
	return &Program{compiler: c, time: limit, covered: newCoverage(modules, o.Cover)}, nil
}

// compile limits the compiler's time, since some stages take the cube of the length
// of a chain of rules. A compiler that exceeds it runs on in the background until its
// stage ends.
func compile(modules map[string]*ast.Module, o Options, limit time.Duration) (*ast.Compiler, error) {
	end := time.Now().Add(limit)
	late := func(*ast.Compiler) *ast.Error {
		if time.Now().After(end) {
			return ast.NewError(ast.CompileErr, nil, "too late")
		}
		return nil
	}
	c := ast.NewCompiler().
		WithCapabilities(capabilities(ast.RegoV1)).
		WithEnablePrintStatements(true).
		SetErrorLimit(maxErrors)
	for _, s := range ast.AllStages() {
		c = c.WithStageAfterID(s, ast.CompilerStageDefinition{Name: "Time", MetricName: "time", Stage: late})
	}
	if o.ExternalData {
		c = c.WithBuiltins(map[string]*ast.Builtin{externalData.Name: externalData})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Compile(modules)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		if !c.Failed() || time.Now().Before(end) {
			return c, nil
		}
	case <-timer.C:
	}
	return nil, &Error{Name: firstName(modules), Line: 1, Column: 1, Text: fmt.Sprintf("the modules take more than %v to compile", limit)}
}

// firstName returns the first name of modules, in order.
func firstName(modules map[string]*ast.Module) string {
	names := slices.Sorted(maps.Keys(modules))
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// Rules returns the rules that define the document at ref, such as data.main.deny;
// none if no module defines it.
func (p *Program) Rules(ref ast.Ref) []*ast.Rule {
	return p.compiler.GetRulesExact(ref)
}

// Annotations returns the "# METADATA" comments that apply to a rule, the nearest
// first: its own, its document's, package's and parent packages'.
func (p *Program) Annotations(rule *ast.Rule) ast.FlatAnnotationsRefSet {
	var out ast.FlatAnnotationsRefSet
	for _, a := range p.compiler.GetAnnotationSet().Chain(rule) {
		if a.Annotations != nil {
			out = append(out, a)
		}
	}
	return out
}

// A Query is a prepared reference to a document of a program. It is safe for
// concurrent use.
type Query struct {
	program  *Program
	ref      ast.Ref
	compiler ast.QueryCompiler
	body     ast.Body
	ended    *atomic.Int32 // how often a bound ended it
	plan     *plan         // nil: OPA's evaluator is needed
	usage    *usage
	machines *sync.Pool // of idle *machine
}

// answer is the variable that holds a query's value.
const answer = ast.Var("answer")

// Prepare readies a query for the document at ref, such as data.main.deny. A document
// that no module defines is undefined, unless a question's data has it.
func (p *Program) Prepare(ref ast.Ref) (*Query, error) {
	return p.prepare(ast.NewTerm(ref), []ast.Ref{ref})
}

// prepare readies a query for a term of the documents at refs; errors name the first.
func (p *Program) prepare(term *ast.Term, refs []ast.Ref) (*Query, error) {
	qc := p.compiler.QueryCompiler()
	body, err := qc.Compile(ast.NewBody(ast.Equality.Expr(term, ast.VarTerm(string(answer)))))
	if err != nil {
		return nil, join(moduleErrors("", err))
	}
	_, isOne := term.Value.(ast.Ref)
	return &Query{p, refs[0], qc, body, new(atomic.Int32), newPlan(p.compiler, refs, !isOne), new(usage), new(sync.Pool)}, nil
}

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
