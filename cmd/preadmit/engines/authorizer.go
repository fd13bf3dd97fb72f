package engines

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/render"
)

// newAuthorizer returns the authorizer that --authorizer selects. Objects of --with exist on the
// cluster before the change.
func newAuthorizer(in *load.Input, s *Settings, cluster *policy.Cluster) (*authz.Authorizer, error) {
	given := make(map[*render.Object]bool)
	for _, object := range render.Objects(in.Context) {
		given[object] = true
	}
	if s.AuthorizerFile == "" {
		return authz.New(s.Authorizer, authz.Options{
			Cluster: cluster, KubeVersion: s.KubeVersion,
			Given: func(object *render.Object) bool { return given[object] },
		})
	}
	a, err := authz.Parse(s.AuthorizerFile, s.AuthorizerData)
	if err != nil {
		return nil, fmt.Errorf("--authorizer: %w", load.Places(nil, err))
	}
	return a, nil
}

// asked returns the authorizer that policies use. Authorizers that decide by the user return
// undecided if the user is unknown.
func asked(s *Settings, a *authz.Authorizer) admission.Authorizer {
	if slices.Contains([]string{"unknown", "allow", "deny"}, s.Authorizer) {
		return a
	}
	return someone{a}
}

// someone is an authorizer that answers for known users only.
type someone struct{ admission.Authorizer }

func (s someone) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	if u := attrs.GetUser(); u == nil || u.GetName() == "" && len(u.GetGroups()) == 0 {
		return authorizer.DecisionNoOpinion, "", &admission.Undecided{Question: "needs to know who makes the request: give the user with --as"}
	}
	return s.Authorizer.Authorize(ctx, attrs)
}
