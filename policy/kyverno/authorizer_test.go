package kyverno

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// answering is an authorizer with one answer.
type answering struct {
	decision authorizer.Decision
	err      error
}

func (a answering) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.decision, "", a.err
}

// TestAuthorizer asks about the user by validate.cel.
func TestAuthorizer(t *testing.T) {
	t.Parallel()
	const rule = `validate:
  message: not by you
  cel: {expressions: [{expression: "authorizer.group('').resource('pods').namespace('x').check('create').allowed()"}]}`
	for name, c := range map[string]struct {
		options Options
		want    policy.Result
	}{
		"nobody answers": {Options{}, policy.Result{
			Outcome: policy.Unknown, Message: "needs to know whether the user may create pods in namespace x",
		}},
		"command line": {Options{CLI: true, Authorizer: answering{authorizer.DecisionAllow, nil}}, policy.Result{
			Outcome: policy.Fail, Message: "not by you",
		}},
		"allowed": {Options{Authorizer: answering{authorizer.DecisionAllow, nil}, AuthorizerAssumed: "all are allowed"}, policy.Result{
			Outcome: policy.Pass, Message: "Validation rule 'r' passed.", Assumed: []string{"all are allowed"},
		}},
		"denied": {Options{Authorizer: answering{authorizer.DecisionDeny, nil}, AuthorizerAssumed: "all are denied"}, policy.Result{
			Outcome: policy.Fail, Message: "not by you", Assumed: []string{"all are denied"},
		}},
		"undecided": {Options{Authorizer: answering{authorizer.DecisionNoOpinion, &Undecided{Question: "needs a Role"}}, AuthorizerAssumed: "not this"}, policy.Result{
			Outcome: policy.Unknown, Message: "needs a Role",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := engineOf(t, onPods(rule), c.options).Validator()
			results, err := v.Validate(context.Background(), requestFor(podWith(map[string]any{}, map[string]any{}), policy.Create))
			if err != nil || len(results) != 1 {
				t.Fatal(results, err)
			}
			got := policy.Result{Outcome: results[0].Outcome, Message: results[0].Message, Assumed: results[0].Assumed}
			rendertest.Equal(t, c.want, got)
		})
	}
}
