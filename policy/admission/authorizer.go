package admission

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// An Authorizer answers checks of the `authorizer` variable, as authorizers of
// k8s.io/apiserver do. It returns an *Undecided error if it does not know the
// answer; a policy whose verdict depends on it gives an Unknown result. It must
// be safe for concurrent use.
type Authorizer interface {
	Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error)
}

// Undecided is the error of an Authorizer that does not know the answer. Its
// text completes the sentence "needs to know whether …".
type Undecided = cel.Undecided

// A questioner is an authorizer that records the checks to which its inner
// Authorizer has no answer.
type questioner struct {
	review *review
	inner  Authorizer // nil answers nothing
}

func (a *questioner) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	u := &Undecided{Question: cel.AuthorizerQuestion(attrs)}
	if a.inner != nil {
		decision, reason, err := a.inner.Authorize(ctx, attrs)
		if !errors.As(err, &u) {
			a.review.assume = a.review.engine.options.AuthorizerAssumed
			return decision, reason, err
		}
	}
	a.review.questions.Add(u.Question)
	return authorizer.DecisionNoOpinion, "", u
}
