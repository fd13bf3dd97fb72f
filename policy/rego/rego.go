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

// Options configure an [Engine].
type Options struct {
	// Namespaces are the packages in use, by name or pattern, as conftest's
	// --namespace. None: every package that has a rule to ask.
	Namespaces []string

	Data []Document // documents below data, see [LoadData]
	Now  time.Time  // value of time.now_ns; if zero, results that depend on the time are undecided

	// Coverage counts the outcomes of expressions; nil counts nothing.
	Coverage *policy.Coverage

	// Time limits one rule on one input; zero is five seconds.
	Time time.Duration

	// Print is called with the output of print(), one call at a time and in no
	// particular order, if it is not nil. The text comes from a policy and may
	// contain any bytes.
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

// An Engine also evaluates objects that no API server serves, as conftest does.
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

// Notes returns notes about inputs that are not used and need not be.
func (e *Engine) Notes() []string { return e.notes }

// EvaluatesWritten implements [policy.WrittenValidator].
func (e *Engine) EvaluatesWritten() {}

// Rules returns the documentation of the evaluated rules, by package and name.
func (e *Engine) Rules() []policy.Rule {
	var rules []policy.Rule
	for _, p := range e.packages {
		for _, r := range p.rules {
			rules = append(rules, r.doc)
		}
	}
	return rules
}

// Validate evaluates every rule for the object as written. A DELETE has no
// results.
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

// now returns the time for policies, which is never the clock's.
func (e *Engine) now() time.Time { return e.options.Now }

// print returns the receiver of print()'s output, or nil.
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

// secrets returns the Secrets among objects, whose values must not be shown.
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
