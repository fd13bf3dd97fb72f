package rego

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
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

// Bounds of a module's text. OPA reads brackets a hundred thousand deep, and
// compiles long ones in the square of their length.
const (
	maxSource = 1 << 20
	maxNested = 250
)

// Parse parses a module. The error joins an *Error for each wrong place. If the
// version is undefined and neither version parses, they are the errors of the version
// that the text looks like.
func Parse(s Source) (*ast.Module, error) {
	if err := readable(s); err != nil {
		return nil, err
	}
	if s.Version != ast.RegoUndefined {
		m, errs := parseAs(s, s.Version)
		return m, join(errs)
	}
	v1, errs1 := parseAs(s, ast.RegoV1)
	if errs1 == nil && !callsDeprecated(v1) {
		return v1, nil
	}
	v0, errs0 := parseAs(s, ast.RegoV0)
	switch {
	case errs0 == nil:
		return v0, nil
	case errs1 == nil:
		return v1, nil // the compiler reports functions that v1 lacks
	case looksV1(s.Text, errs1, errs0):
		return nil, join(errs1)
	}
	return nil, join(errs0)
}

// callsDeprecated reports whether a module calls a function that v1 refuses: a v0
// module that imports its keywords may also parse as v1.
func callsDeprecated(m *ast.Module) bool {
	found := false
	ast.WalkRefs(m, func(r ast.Ref) bool {
		b, ok := ast.BuiltinMap[r.String()]
		found = found || ok && b.IsDeprecated()
		return found
	})
	return found
}

// readable returns an error for a text that is too long or too deeply nested.
func readable(s Source) error {
	if len(s.Text) > maxSource {
		return &Error{Name: s.Name, Line: 1, Column: 1, Text: fmt.Sprintf("the module is longer than %d bytes", maxSource)}
	}
	if line, column := nested(s.Text); line > 0 {
		return &Error{Name: s.Name, Line: line, Column: column, Text: fmt.Sprintf("brackets nest deeper than %d", maxNested)}
	}
	return nil
}

// nested returns the place where brackets nest too deep, or 0. Texts and comments are
// left out.
func nested(text string) (line, column int) {
	depth, start := 0, 0
	line = 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			line, start = line+1, i+1
		case '(', '[', '{':
			if depth++; depth > maxNested {
				return line, i - start + 1
			}
		case ')', ']', '}':
			depth--
		case '#':
			i += max(strings.IndexByte(text[i:], '\n'), 1) - 1
		case '"', '`':
			n := textEnd(text[i+1:], c)
			line += strings.Count(text[i:i+1+n], "\n")
			i += n
		}
	}
	return 0, 0
}

// textEnd returns the length of a quoted text, to its closing quote.
func textEnd(s string, quote byte) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote == '"':
			i++
		case s[i] == quote, s[i] == '\n' && quote == '"':
			return i + 1
		}
	}
	return len(s)
}

func parseAs(s Source, v ast.RegoVersion) (*ast.Module, []*Error) {
	m, err := ast.ParseModuleWithOpts(s.Name, s.Text, ast.ParserOptions{
		Capabilities:      capabilities(v),
		ProcessAnnotation: !s.NoMetadata,
		RegoVersion:       v,
	})
	if err != nil {
		return nil, moduleErrors(s.Name, err)
	}
	return m, nil
}

// v1Syntax matches syntax that only v1 allows.
var v1Syntax = regexp.MustCompile(`(?m)^\s*import\s+rego\.v1\b|^[^#"\n]*\b(if|contains)\b`)

// looksV1 reports which version the author meant, if neither parses: the one that
// parses further, since the mistake is where it ends.
func looksV1(text string, errs1, errs0 []*Error) bool {
	if v1Syntax.MatchString(text) {
		return true
	}
	a, b := errs1[0], errs0[0]
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) > 0
}

// An Error is an error of a module, at its place in the text.
type Error struct {
	Name         string // of the source; empty if unknown
	Line, Column int    // from 1; 0 if unknown
	Text         string // at most maxText bytes
}

func (e *Error) Error() string { return e.Text }

// byZero reports whether a division failed because it has no value for any number,
// which no policy does on purpose. to_number of a text without a number, in contrast,
// is left undefined by many.
func (e *Error) byZero() bool {
	return e.Text == "div: divide by zero" || e.Text == "rem: modulo by zero"
}

// maxText bounds an error's text: OPA quotes the input that it could not read.
const maxText = 2 << 10

// newError returns an error at a place of a module, which may be nil.
func newError(at *ast.Location, text string) *Error {
	e := &Error{Text: shorten(text)}
	if at != nil {
		e.Name, e.Line, e.Column = at.File, at.Row, at.Col
	}
	return e
}

// shorten cuts a long text, between characters.
func shorten(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxText {
		return text
	}
	cut := maxText - len(" ...")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + " ..."
}

// maxErrors bounds the reported errors of one program.
const maxErrors = 50

// moduleErrors returns the errors of the parser or the compiler, sorted by place.
func moduleErrors(name string, err error) []*Error {
	var many ast.Errors
	var one *ast.Error
	var out []*Error
	switch {
	case errors.As(err, &many):
		for _, e := range many {
			out = append(out, moduleError(e))
		}
	case errors.As(err, &one):
		out = append(out, moduleError(one))
	default:
		out = append(out, newError(nil, err.Error()))
	}
	for _, e := range out {
		e.Name = cmp.Or(e.Name, name)
	}
	return tidy(out)
}

// tidy sorts errors by place, drops duplicates and bounds their number.
func tidy(errs []*Error) []*Error {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	errs = slices.CompactFunc(errs, func(a, b *Error) bool { return *a == *b })
	return errs[:min(len(errs), maxErrors)]
}

// moduleError converts an error of the parser or the compiler. It drops OPA's code,
// which repeats the sentence.
func moduleError(e *ast.Error) *Error {
	return newError(e.Location, e.Message)
}

// join joins errors; nil for none.
func join(errs []*Error) error {
	if len(errs) == 0 {
		return nil
	}
	out := make([]error, len(errs))
	for i, e := range errs {
		out[i] = e
	}
	return errors.Join(out...)
}

// evalError converts an error of the evaluator. It leaves out the values that a
// conflict lists, which may be secrets.
func evalError(e *topdown.Error) *Error {
	text := e.Message
	if e.Code == topdown.ConflictErr {
		text, _, _ = strings.Cut(text, "\n")
		text = strings.TrimSuffix(text, ":")
	}
	return newError(e.Location, text)
}
