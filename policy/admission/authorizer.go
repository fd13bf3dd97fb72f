package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// An Authorizer answers the checks of the `authorizer` variable, as
// authorizers of k8s.io/apiserver do. An *Undecided error says that it can't
// tell; a policy whose verdict depends on that gives Unknown. It is safe for
// concurrent use.
type Authorizer interface {
	Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error)
}

// Undecided is the error of an Authorizer that does not know, with what it would
// need to know: "needs to know whether …".
type Undecided = cel.Undecided

// asking records the questions of an authorizer that does not know.
type asking struct {
	review *review
	inner  Authorizer // nil can tell nothing
}

func (a *asking) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	u := &Undecided{Question: question(attrs)}
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

// question puts a check in words.
func question(a authorizer.Attributes) string {
	who := "the user"
	if u := a.GetUser(); u != nil && u.GetName() != "" {
		who = u.GetName()
	}
	if !a.IsResourceRequest() {
		return fmt.Sprintf("needs to know whether %s may %s %s", who, a.GetVerb(), a.GetPath())
	}
	what := a.GetResource()
	if a.GetAPIGroup() != "" {
		what += "." + a.GetAPIGroup()
	}
	if a.GetSubresource() != "" {
		what += "/" + a.GetSubresource()
	}
	if a.GetName() != "" {
		what += fmt.Sprintf(" %q", a.GetName())
	}
	where := ""
	if a.GetNamespace() != "" {
		where = " in namespace " + a.GetNamespace()
	}
	return strings.TrimSpace(fmt.Sprintf("needs to know whether %s may %s %s%s", who, a.GetVerb(), cmp.Or(what, "resources"), where))
}
