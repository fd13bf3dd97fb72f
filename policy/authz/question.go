package authz

import (
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// maxQuestion limits the names of an expression that are quoted in a message.
const maxQuestion = 1 << 10

// cannotTell returns the answer to a check that can't be decided, with the
// reason.
func cannotTell(a authorizer.Attributes, why string) (authorizer.Decision, string, error) {
	q := question(a)
	if why != "" {
		q += ": " + why
	}
	return authorizer.DecisionNoOpinion, "", &cel.Undecided{Question: policy.Shorten(q, maxQuestion)}
}

// question returns the question whether the user may do what the attributes describe,
// with the selectors of a request for several objects.
func question(a authorizer.Attributes) string {
	q := cel.AuthorizerQuestion(a)
	if s := fieldsOf(a); s != "" {
		q += " where " + s
	}
	if s := labelsOf(a); s != "" {
		q += " labelled " + s
	}
	return q
}

func quote(s string) string { return `"` + s + `"` }
