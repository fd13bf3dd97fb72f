package gatekeeper

import (
	"errors"

	"github.com/preadmit/preadmit/policy"
)

// result returns a result of a mutator. Its failures and errors deny: the webhook refuses
// such a request.
func (m *mutator) result(outcome policy.Outcome, message string) policy.Result {
	return policy.Result{
		Engine: policy.EngineGatekeeper, Policy: m.name, Rule: m.kind, Outcome: outcome, Action: policy.Deny,
		Message: message, PolicyOrigin: m.object.Span("/spec/location"),
	}
}

func (m *mutatorError) result() policy.Result {
	message := "mutation failed: " + m.err.Error()
	if errors.Is(m.err, errNotConverging) {
		message = m.err.Error()
	}
	return m.by.result(policy.Error, policy.ShortError(errors.New(message)).Error())
}

func (u *unsettled) result() policy.Result {
	r := u.by.result(policy.Unknown, u.question)
	r.Fields = u.pointers
	return r
}
