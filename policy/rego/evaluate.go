package rego

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
)

const (
	maxViolations = 1000 // of one rule in one input that are reported one by one
)

// A question is an input, with the values that must not be shown.
type question struct {
	opa.Question
	secrets opa.Secrets         // in the input
	values  map[*rule]ast.Value // values of the rules evaluated so far
}

// A finding is the outcome of a rule for an input, before it has fields.
type finding struct {
	policy.Result
	details     map[string]any  // of a violation that is more than a message
	blamed      []opa.Field     // the places of the input that it depends on
	value       ast.Value       // the violation
	ownSeverity policy.Severity // from the violation itself
}

// evaluate evaluates every rule for an input, and calls report with each finding.
func (e *Engine) evaluate(ctx context.Context, q *question, report func(*rule, finding)) error {
	q.values = map[*rule]ast.Value{}
	var err error
	for _, s := range e.sets {
		if policy.IsWatched(ctx) {
			break // each package is evaluated alone
		}
		if policy.Observed(ctx, policy.EngineRego, s.packages(), func() { err = s.ask(ctx, q) }); err != nil {
			return err
		}
	}
	for _, p := range e.packages {
		if policy.Observed(ctx, policy.EngineRego, p.name, func() { err = p.evaluate(ctx, q, report) }); err != nil {
			return err
		}
	}
	return nil
}

// evaluate evaluates every rule of the package for an input.
func (n *namespace) evaluate(ctx context.Context, q *question, report func(*rule, finding)) error {
	exempt, err := n.exempt(ctx, q)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	for _, r := range n.rules {
		switch {
		case err != nil:
			report(r, r.failed(q, "the exceptions of package "+n.name, err))
		case exempt.names[r.suffix]:
			f := r.finding(policy.Skip)
			f.Message = "exempted by " + strings.Join(n.exempting, ", ")
			report(r, f)
		default:
			err := r.evaluate(ctx, q, func(r *rule, f finding) {
				f.Assumed = append(f.Assumed, exempt.assumptions...)
				report(r, f)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// exemption holds the rules that a package's exceptions leave out for an input.
type exemption struct {
	names       map[string]bool // suffixes of exempt rules
	assumptions []string
}

// exempt asks for data.package.exception[_][_], as conftest does.
func (n *namespace) exempt(ctx context.Context, q *question) (exemption, error) {
	var x exemption
	if n.exceptions == nil {
		return x, nil
	}
	answer, err := n.exceptions.Ask(ctx, q.Question)
	if err != nil {
		return x, err
	}
	if len(answer.Unknown) > 0 {
		x.assumptions = append(x.assumptions, "there may be an exception, which needs "+strings.Join(answer.Unknown, "; "))
	}
	x.names = map[string]bool{}
	for _, list := range elements(answer.Value) {
		for _, v := range elements(list) {
			if name, ok := v.(ast.String); ok {
				x.names[string(name)] = true
			}
		}
	}
	if len(answer.Errors) > 0 {
		x.assumptions = append(x.assumptions, q.secrets.Hide("there may be an exception: "+swallowed(answer.Errors)))
	}
	return x, nil
}

// elements returns the values of v[_].
func elements(v ast.Value) []ast.Value {
	var all []ast.Value
	add := func(t *ast.Term) { all = append(all, t.Value) }
	switch v := v.(type) {
	case *ast.Array:
		v.Foreach(add)
	case ast.Set:
		v.Foreach(add)
	case ast.Object:
		v.Foreach(func(_, t *ast.Term) { add(t) })
	}
	return all
}

// maxSlow is how often a rule may be slow before it is not evaluated again.
const maxSlow = 3

// tooLong is the time after which an evaluation that ends in an error counts as
// slow.
const tooLong = 100 * time.Millisecond

// ask returns the rule's value, from the cache if it is known.
func (r *rule) ask(ctx context.Context, q *question) (opa.Answer, error) {
	if value := q.values[r]; value != nil {
		return opa.Answer{Value: value}, nil
	}
	if r.slow.Load() >= maxSlow {
		return opa.Answer{}, errors.New("it took too long on other objects, and is not evaluated again")
	}
	start := time.Now()
	answer, err := r.query.Ask(ctx, q.Question)
	if err != nil && time.Since(start) > tooLong {
		r.slow.Add(1)
	}
	return answer, err
}

// evaluate evaluates one rule.
func (r *rule) evaluate(ctx context.Context, q *question, report func(*rule, finding)) error {
	answer, err := r.ask(ctx, q)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		report(r, r.failed(q, r.name(), err))
		return nil
	}
	if len(answer.Unknown) > 0 {
		f := r.finding(policy.Unknown)
		f.Message = "needs " + strings.Join(answer.Unknown, "; ")
		report(r, f)
		return nil
	}
	found, err := r.violations(ctx, q, answer.Value)
	if err != nil {
		return err
	}
	switch {
	case len(found) == 0 && len(answer.Errors) == 0:
		report(r, r.finding(policy.Pass))
	case len(found) == 0:
		report(r, r.undecided(q, answer.Errors))
	}
	for _, f := range found {
		if len(answer.Errors) > 0 {
			f.Assumed = append(f.Assumed, q.secrets.Hide("there may be more: "+swallowed(answer.Errors)))
		}
		report(r, f)
	}
	return nil
}

// violations converts a rule's value to findings: strings, and objects with a
// msg.
func (r *rule) violations(ctx context.Context, q *question, value ast.Value) ([]finding, error) {
	var violations []ast.Value
	switch v := value.(type) {
	case *ast.Array, ast.Set:
		violations = elements(v)
	case nil, ast.Null:
	case ast.Boolean:
		if v {
			return []finding{r.shapeless("is true")}, nil
		}
	case ast.Object:
		if v.Len() > 0 {
			return []finding{r.shapeless("is an object")}, nil
		}
	default:
		return []finding{r.shapeless("is " + article(v))}, nil
	}
	if len(violations) == 0 {
		return nil, nil
	}
	more := max(0, len(violations)-maxViolations)
	violations = violations[:len(violations)-more]
	found := make([]finding, len(violations))
	for i, v := range violations {
		found[i] = r.violation(q, v)
	}
	if err := r.blame(ctx, q, found); err != nil {
		return nil, err
	}
	if more > 0 {
		f := r.finding(policy.Fail)
		f.Message = fmt.Sprintf("%d more violations of %s", more, r.name())
		found = append(found, f)
	}
	return found, nil
}

// blame finds the fields that the violations depend on, and the definition that
// produced each.
func (r *rule) blame(ctx context.Context, q *question, found []finding) error {
	values := make([]ast.Value, len(found))
	for i := range found {
		values[i] = found[i].value
	}
	causes, err := r.query.Causes(ctx, q.Question, values)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return nil // the rule was evaluated before; the violation is reported without fields
	}
	for i, c := range causes {
		found[i].blamed = c.Fields
		found[i].attribute(r, c.Rule)
	}
	return nil
}

// attribute sets a violation's place, literals and severity from the definition
// that produced it.
func (f *finding) attribute(r *rule, by *ast.Rule) {
	if by == nil {
		return
	}
	at := locationSpan(by.Location)
	for _, b := range r.bodies {
		if b.origin == at {
			f.PolicyOrigin, f.Literals = at, b.literals
			f.Severity = cmp.Or(f.ownSeverity, b.severity)
		}
	}
}

// violation converts an element of a rule's value to a finding.
func (r *rule) violation(q *question, v ast.Value) finding {
	f := r.finding(policy.Fail)
	f.value = v
	switch v := v.(type) {
	case ast.String:
		f.Message = string(v)
	case ast.Object:
		f.details, _ = opa.Plain(v).(map[string]any)
		f.Message, _ = f.details["msg"].(string)
		if s, _ := f.details["severity"].(string); severityOf(s) != "" {
			f.ownSeverity = severityOf(s)
			f.Severity = f.ownSeverity
		}
	}
	if f.Message == "" {
		f.Outcome, f.Message = policy.Error, r.name()+" gives "+whyNoMessage(v)
	}
	f.Message = policy.Shorten(q.secrets.Hide(f.Message), policy.MaxMessage)
	return f
}

// whyNoMessage returns why a violation has no message.
func whyNoMessage(v ast.Value) string {
	if o, ok := v.(ast.Object); ok {
		if msg := o.Get(ast.StringTerm("msg")); msg == nil {
			return "a violation without msg"
		} else if _, ok := msg.Value.(ast.String); !ok {
			return "a violation whose msg is not a string"
		}
		return "a violation whose msg is empty, which conftest treats as a pass"
	}
	if _, ok := v.(ast.String); ok {
		return "an empty message, which conftest treats as a pass"
	}
	return article(v) + " for a violation, which conftest ignores: it expects strings, or objects with a msg"
}

// article names a type of value, with its article.
func article(v ast.Value) string {
	switch v.(type) {
	case ast.Object:
		return "an object"
	case *ast.Array:
		return "an array"
	case ast.Null:
		return "null"
	}
	return "a " + strings.TrimPrefix(ast.ValueName(v), "a ")
}

// shapeless returns the finding for a rule whose value is neither a set nor a
// list.
func (r *rule) shapeless(what string) finding {
	f := r.finding(policy.Error)
	f.Message = fmt.Sprintf("%s %s and not a set of messages, which conftest treats as a pass", r.name(), what)
	return f
}

// undecided returns the finding for a rule without violations in which functions
// failed.
func (r *rule) undecided(q *question, errs []*opa.Error) finding {
	f := r.finding(policy.Error)
	f.Message = policy.Shorten(q.secrets.Hide(r.name()+" found nothing, but could not look at everything: "+swallowed(errs)), policy.MaxMessage)
	f.place(errs[0])
	return f
}

// swallowed describes functions that failed. In Rego their value is undefined.
func swallowed(errs []*opa.Error) string {
	e := errs[0]
	text := fmt.Sprintf("%s (%s)", e.Text, spanOf(e, ""))
	if n := len(errs) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

// failed returns the finding for a rule whose evaluation was stopped.
func (r *rule) failed(q *question, what string, err error) finding {
	f := r.finding(policy.Error)
	f.Message = policy.Shorten(q.secrets.Hide(fmt.Sprintf("%s can't be evaluated: %v", what, err)), policy.MaxMessage)
	if e := (*opa.Error)(nil); errors.As(err, &e) {
		f.place(e)
	}
	return f
}

func (f *finding) place(e *opa.Error) {
	if e.Name != "" && e.Line > 0 {
		f.PolicyOrigin = spanOf(e, "")
	}
}

func (r *rule) name() string { return r.doc.Policy + "." + r.doc.Name }

// finding returns a finding without a message.
func (r *rule) finding(outcome policy.Outcome) finding {
	return finding{Result: policy.Result{
		Engine: policy.EngineRego, Policy: r.doc.Policy, Rule: r.doc.Name,
		Outcome: outcome, Action: r.action, Severity: r.bodies[0].severity, PolicyOrigin: r.doc.Origin,
		Assumed: slices.Clone(r.assumptions),
	}}
}

// result returns the result for the object that was the input, with its fields.
func (f finding) result(object map[string]any, secrets opa.Secrets) policy.Result {
	if f.value == nil {
		return f.Result
	}
	f.Fields = secrets.Fields(object, opa.Hinted(f.details, object))
	if len(f.Fields) > 0 {
		return f.Result
	}
	fields, sure := opa.Pointers(f.blamed, nil)
	if f.Fields = secrets.Fields(object, fields); len(f.Fields) > 0 && !sure {
		f.Assumed = append(f.Assumed, opa.Unsure)
	}
	return f.Result
}
