package authz

import (
	"strings"

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

// question returns what must be known to decide a check.
func question(a authorizer.Attributes) string {
	var b strings.Builder
	b.WriteString("needs to know whether ")
	b.WriteString(who(a))
	b.WriteString(" may ")
	b.WriteString(quote(a.GetVerb()))
	b.WriteByte(' ')
	if !a.IsResourceRequest() {
		b.WriteString(a.GetPath())
		return b.String()
	}
	b.WriteString(a.GetResource())
	if a.GetAPIGroup() != "" {
		b.WriteString("." + a.GetAPIGroup())
	}
	if a.GetSubresource() != "" {
		b.WriteString("/" + a.GetSubresource())
	}
	if a.GetName() != "" {
		b.WriteString(" " + quote(a.GetName()))
	}
	if a.GetNamespace() != "" {
		b.WriteString(" in namespace " + a.GetNamespace())
	}
	if s := fieldsOf(a); s != "" {
		b.WriteString(" where " + s)
	}
	if s := labelsOf(a); s != "" {
		b.WriteString(" labelled " + s)
	}
	return b.String()
}

func who(a authorizer.Attributes) string {
	if u := a.GetUser(); u != nil && u.GetName() != "" {
		return u.GetName()
	}
	return "the user"
}

func quote(s string) string { return `"` + s + `"` }
