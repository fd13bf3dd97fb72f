package authz

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

func parseLabels(t testing.TB, s string) labels.Requirements {
	t.Helper()
	r, err := labels.ParseToRequirements(s)
	rendertest.OK(t, err)
	return r
}

func TestParseUser(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]policy.UserInfo{
		"username: jane": {Username: "jane", Groups: []string{"system:authenticated"}},
		"username: jane\nuid: '5'\ngroups: [ops, system:authenticated]\nextra: {scopes: [a, b], none: []}": {
			Username: "jane", UID: "5", Groups: []string{"ops", "system:authenticated"}, Extra: map[string][]string{"scopes": {"a", "b"}, "none": nil},
		},
		`{"username": "system:serviceaccount:prod:web"}`: {
			Username: "system:serviceaccount:prod:web", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:prod", "system:authenticated"},
		},
		`{"username": "system:serviceaccount:prod:web", "groups": ["a"]}`: {
			Username: "system:serviceaccount:prod:web", Groups: []string{"a", "system:authenticated"},
		},
		`{"username": "system:serviceaccount:prod:web", "groups": ["system:authenticated"]}`: {
			Username: "system:serviceaccount:prod:web", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:prod", "system:authenticated"},
		},
		"username: system:anonymous":                      {Username: "system:anonymous", Groups: []string{"system:unauthenticated"}},
		"username: joe\ngroups: [system:unauthenticated]": {Username: "joe", Groups: []string{"system:unauthenticated"}},
	} {
		got, err := ParseUser("u.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestCompleteNobody(t *testing.T) {
	t.Parallel()
	rendertest.Equal(t, policy.UserInfo{}, Complete(policy.UserInfo{}))
}

func TestCompleteKeepsItsArgument(t *testing.T) {
	t.Parallel()
	groups := make([]string, 1, 4)
	groups[0] = "ops"
	Complete(policy.UserInfo{Username: "a", Groups: groups})
	if got := groups[:2][1]; got != "" {
		t.Errorf("Complete wrote %q into the caller's groups", got)
	}
}
