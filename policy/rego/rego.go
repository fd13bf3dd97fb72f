// Package rego evaluates objects against packages of Rego as conftest does: with
// their deny, violation and warn rules, on the object as it is written.
//
// It takes the texts of modules and of data, and returns a result for each
// violation. It decides as conftest does, except that what conftest counts as a
// pass although no rule decided it is an error:
//
//   - a rule that finds nothing while a built-in function in it fails, which
//     conftest tells with --show-builtin-errors alone,
//   - a rule whose value is neither a set nor a list, and an element of it that
//     is no string, or an object without a msg that is one,
//   - a package without such rules that no other uses, as with dney for deny.
//
// A broken module loses itself and what cannot do without it, and not all. All
// packages are used, and not main alone; Rego v0 and v1 stand side by side.
package rego

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// A Module is a file of Rego, of v0 or v1: which it is is found out.
type Module struct {
	File string // its path in the tree, which results name
	Text string
}

// Options say which packages are used, and what they know.
type Options struct {
	// Namespaces are the packages in use, by name or pattern, as conftest's
	// --namespace. None: every package that has a rule to ask.
	Namespaces []string

	Data []Document // what stands under data besides rules: see [LoadData]
	Now  time.Time  // what time.now_ns says; zero: what asks for the time is undecided

	// Coverage counts the outcomes of expressions; nil counts nothing.
	Coverage *policy.Coverage

	// Time limits one rule on one input; zero is five seconds.
	Time time.Duration

	// Print gets what print() says in a policy, one call at a time, in no
	// certain order. It is text from a policy, of many bytes and any. nil:
	// nobody listens.
	Print func(file string, line int, text string)
}

// An Engine is modules, compiled once, for each object by itself. It is
// safe for concurrent use. For `conftest --combine`, see [Engine.Combine].
type Engine struct {
	packages []*namespace
	sets     []*set
	count    int // of rules
	data     *data
	options  Options
	notes    []string

	printing sync.Mutex
}

// An Engine evaluates also what no API server serves: conftest does.
var _ policy.WrittenValidator = (*Engine)(nil)

// New compiles modules. The error joins a *[render.Error] for each that can't
// evaluate, with its place, and for data that can't be read; the engine has the
// others.
func New(modules []Module, o Options) (*Engine, error) {
	e := &Engine{options: o}
	var errs []error
	e.data, errs = newData(o.Data)
	s := readSources(modules)
	e.packages, e.sets = s.compile(o)
	for _, p := range e.packages {
		e.count += len(p.rules)
	}
	e.data.names = s.mentions("conftest")
	e.notes = s.notes
	return e, errors.Join(append(errs, s.errs...)...)
}

// Notes are sentences about what was given and is not used, and need not be.
func (e *Engine) Notes() []string { return e.notes }

// EvaluatesWritten implements [policy.WrittenValidator].
func (e *Engine) EvaluatesWritten() {}

// Rules documents the rules that are asked, by package and name.
func (e *Engine) Rules() []policy.Rule {
	var rules []policy.Rule
	for _, p := range e.packages {
		for _, r := range p.rules {
			rules = append(rules, r.doc)
		}
	}
	return rules
}

// Validate asks every rule about the object as it is written. Nothing is asked
// about a DELETE.
func (e *Engine) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	if req.Object == nil {
		return nil, nil
	}
	object := req.Object.Object
	q := question{
		Question: opa.Question{Input: opa.Value(object), Data: e.data.about(req.Object), Now: e.now(), Inside: new(opa.Inside)},
		secrets:  secrets(req.Object),
	}
	q.Print = e.print(q.secrets)
	results := make([]policy.Result, 0, e.count)
	err := e.evaluate(ctx, &q, func(_ *rule, f finding) { results = append(results, f.about(object, q.secrets)) })
	if err != nil {
		return nil, err
	}
	return results, nil
}

// now is the time that policies see, which is never the clock's.
func (e *Engine) now() time.Time { return e.options.Now }

// print is what listens to print(), or nil.
func (e *Engine) print(secrets opa.Secrets) func(string, int, string) {
	if e.options.Print == nil {
		return nil
	}
	return func(file string, line int, text string) {
		text = secrets.Hide(text)
		e.printing.Lock()
		defer e.printing.Unlock()
		e.options.Print(file, line, text)
	}
}

// secrets are those of the objects whose values must not be shown.
func secrets(objects ...*render.Object) opa.Secrets {
	var found opa.Secrets
	for _, o := range objects {
		if o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" {
			found = append(found, o.Object)
		}
	}
	return found
}

// byPlace orders places in files.
func byPlace(a, b render.Span) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}
