package mutator

import (
	"errors"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/internal/patch"
)

// result returns a result of a mutator. Its failures and errors deny: the webhook refuses
// such a request.
func (m *Mutator) result(outcome policy.Outcome, message string) policy.Result {
	return policy.Result{
		Engine: policy.EngineGatekeeper, Policy: m.Name, Rule: m.Kind, Outcome: outcome, Action: policy.Deny,
		Message: message, PolicyOrigin: m.object.Span("/spec/location"),
	}
}

// Refused returns the error for an object that can't be admitted after the change.
func (m *Change) Refused(err error) *Error { return &Error{m.By, err} }

// Result returns the result for a refused object.
func (m *Error) Result() policy.Result {
	message := "mutation failed: " + m.err.Error()
	if errors.Is(m.err, errNotConverging) {
		message = m.err.Error()
	}
	return m.by.result(policy.Error, policy.ShortError(errors.New(message)).Error())
}

// Result returns the undecided result.
func (u *Unsettled) Result() policy.Result {
	r := u.by.result(policy.Unknown, u.question)
	r.Fields = u.pointers
	return r
}

// Skip returns a result for each mutator that matches an object which the webhook does
// not get.
func (m *Set) Skip(x *Target, outcome policy.Outcome, why string) []policy.Step {
	var steps []policy.Step
	for _, mut := range m.Applied {
		if concerned, err := mut.concerns(&x.Matchable, x.Kind, x.Operation); concerned && err == nil {
			steps = append(steps, policy.Step{Result: mut.result(outcome, why)})
		}
	}
	return steps
}

// Step returns the step of one mutator from one state of the object to the
// next.
func (m *Change) Step(object *map[string]any) policy.Step {
	result := m.By.result(policy.Pass, "changes nothing")
	if m.After == nil {
		return policy.Step{Result: result}
	}
	fields := patch.Differences(*object, m.After)
	if len(fields) == 0 {
		return policy.Step{Result: result}
	}
	*object = m.After
	result.Fields, result.Message = fields, "sets "+patch.OrList(fields)
	return policy.Step{Result: result, Admitted: m.After}
}

// Rule returns the rule of a mutator, documented by its annotations, as constraints are.
func (m *Mutator) Rule() policy.Rule {
	r := policy.Rule{
		Engine: policy.EngineGatekeeper, Policy: m.Name, Name: m.Kind, Action: policy.Deny,
		Expression: policy.Shorten(m.location.String(), document.MaxDocument), Origin: m.object.Span("/spec/location"),
	}
	document.Describe(&r, policy.Notes{m.object.GetAnnotations()})
	return r
}
