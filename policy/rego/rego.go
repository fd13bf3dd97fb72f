// Package rego evaluates objects against packages of Rego as conftest does: with
// their deny, violation and warn rules, on the object as it is written.
//
// It takes the texts of modules and of data, and returns a result for each
// violation. It decides as conftest does, but reports an error where conftest
// passes an object although no rule decided so:
//
//   - A rule has no violations, but a built-in function in it failed. Conftest
//     reports this only with --show-builtin-errors.
//   - The value of a rule is neither a set nor a list, or an element of it is
//     neither a string nor an object with a string msg.
//   - A package has no such rules and no other package uses it, for example
//     because deny is spelled dney.
//
// A broken module disables only the modules that need it. All packages are
// evaluated, not only main, and modules of Rego v0 and v1 can be mixed.
package rego

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// A Module is a file of Rego. Its version, v0 or v1, is detected.
type Module struct {
	File string // its path in the tree, which results name
	Text string
}

// Options configure an [Engine].
type Options struct {
	// Namespaces are the names or patterns of the packages to evaluate, as in
	// conftest's --namespace. Empty means every package with such rules.
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

// An Engine evaluates compiled modules for each object by itself. It is safe for
// concurrent use. For `conftest --combine`, see [Engine.Combine].
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

// New compiles modules. The error joins a *[render.Error] for each module that
// can't be compiled and for data that can't be read, with the place. The engine
// evaluates the other modules.
func New(modules []Module, o Options) (*Engine, error) {
	e := &Engine{options: o}
	var errs []error
	e.data, errs = newData(o.Data)
	s := readSources(modules)
	e.packages, e.sets = s.compile(o)
	for _, p := range e.packages {
		e.count += len(p.rules)
	}
	e.data.names = slices.ContainsFunc(s.all, func(src *source) bool { return strings.Contains(src.text, "conftest") })
	e.notes = s.notes
	return e, errors.Join(append(errs, s.errs...)...)
}

// Notes returns notes about modules that are rightly not evaluated.
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
		Question: opa.Question{Input: opa.Value(object), Data: e.data.forObject(req.Object), Now: e.options.Now, Inside: new(opa.Inside)},
		secrets:  secrets(req.Object),
	}
	q.Print = e.print(q.secrets)
	results := make([]policy.Result, 0, e.count)
	err := e.evaluate(ctx, &q, func(_ *rule, f finding) { results = append(results, f.result(object, q.secrets)) })
	if err != nil {
		return nil, err
	}
	return results, nil
}

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

// Limits on the documentation of a rule, in bytes.
const (
	maxTitle = 200
	maxDoc   = 16 << 10
)

// document returns the documentation of a rule from the "# METADATA" comments
// of its definitions, and its text. If several definitions have comments, they
// are listed.
func document(program *opa.Program, rules []*ast.Rule) policy.Rule {
	rules = slices.Clone(rules)
	slices.SortFunc(rules, func(a, b *ast.Rule) int { return byPlace(locationSpan(a.Location), locationSpan(b.Location)) })
	var doc policy.Rule
	var helps, texts []string
	for _, r := range rules {
		notes := program.Annotations(r)
		helps = appendNew(helps, nearest(notes, (*annotations).help))
		texts = appendNew(texts, string(r.Location.Text))
		if s := severity(notes); worse(s, doc.Severity) {
			doc.Severity = s
		}
		if doc.URL == "" {
			doc.URL = nearest(notes, (*annotations).url)
		}
	}
	doc.Title, doc.Description = titleOf(program, rules)
	doc.Title = policy.Shorten(strings.Join(strings.Fields(doc.Title), " "), maxTitle)
	doc.Description = policy.Shorten(doc.Description, maxDoc)
	doc.Help = policy.Shorten(strings.Join(helps, "\n\n"), maxDoc)
	doc.Expression = policy.Shorten(strings.Join(texts, "\n\n"), maxDoc)
	return doc
}

// titleOf returns the common title and description of a rule's definitions, or
// a list if they differ.
func titleOf(program *opa.Program, rules []*ast.Rule) (title, description string) {
	var titles, descriptions, listed []string
	for _, r := range rules {
		notes := program.Annotations(r)
		t, d := nearest(notes, (*annotations).title), strings.TrimSpace(nearest(notes, (*annotations).description))
		if !slices.Contains(titles, t) {
			titles = append(titles, t)
		}
		descriptions = appendNew(descriptions, d)
		if line := strings.Trim(t+": "+strings.ReplaceAll(d, "\n", "\n  "), ": "); line != "" {
			listed = appendNew(listed, "- "+line)
		}
	}
	if len(titles) == 1 {
		return titles[0], strings.Join(descriptions, "\n\n")
	}
	return "", strings.Join(listed, "\n")
}

// appendNew appends text to list, unless it is empty or in the list.
func appendNew(list []string, text string) []string {
	if text = strings.TrimSpace(text); text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// annotations are the METADATA comments of one scope.
type annotations ast.Annotations

func (a *annotations) title() string       { return a.own(a.Title) }
func (a *annotations) description() string { return a.own(a.Description) }
func (a *annotations) severity() string    { return a.custom("severity") }

// own returns text unless the comments are about a whole package.
func (a *annotations) own(text string) string {
	if a.Scope == "package" || a.Scope == "subpackages" {
		return ""
	}
	return text
}

// help returns how to fix a violation, from a custom field, because OPA has no
// standard one.
func (a *annotations) help() string {
	for _, key := range []string{"help", "remediation", "fix", "recommendation", "recommended_actions", "recommended_action"} {
		if text := a.custom(key); text != "" {
			return text
		}
	}
	return ""
}

func (a *annotations) custom(key string) string {
	text, _ := a.Custom[key].(string)
	return text
}

// url returns the first related resource on the web.
func (a *annotations) url() string {
	for _, r := range a.RelatedResources {
		if r.Ref.Scheme == "https" || r.Ref.Scheme == "http" {
			return r.Ref.String()
		}
	}
	return a.custom("url")
}

// nearest returns the value of the nearest scope.
func nearest(chain ast.FlatAnnotationsRefSet, what func(*annotations) string) string {
	for _, ref := range chain {
		if text := what((*annotations)(ref.Annotations)); text != "" {
			return text
		}
	}
	return ""
}

func severity(chain ast.FlatAnnotationsRefSet) policy.Severity {
	return severityOf(nearest(chain, (*annotations).severity))
}

// severityOf parses a severity in any case. It returns "" for other text.
func severityOf(text string) policy.Severity {
	return policy.SeverityOf(strings.ToLower(text))
}

// worse reports whether a is a severity that is worse than b.
func worse(a, b policy.Severity) bool {
	if a == "" || b == "" {
		return a != ""
	}
	return slices.Index(policy.Severities, a) < slices.Index(policy.Severities, b)
}
