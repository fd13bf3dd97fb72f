// Package authz answers the checks of CEL's `authorizer` variable offline, and asks the
// same about requests themselves ([Gate]).
//
// It takes a mode and the objects known of the cluster ([New]), or a file of
// rules ([Parse]). It answers checks of k8s.io/apiserver with decisions, and
// names the assumption behind them ([Authorizer.Assumed]). If an answer is
// unknown, the error names the missing fact, and engines return an Unknown
// result. The modes are
//
//	unknown  nothing is decided
//	allow    every check is assumed to be allowed
//	deny     every check is assumed to be denied
//	rbac     Roles, ClusterRoles and their bindings decide, as they do in the API server
//
// In a file of rules, the first that matches decides:
//
//	default: unknown          # when none matches: unknown (the default), allow or deny
//	rules:
//	- user: jane              # who asks: the user's name,
//	  groups: [admins, ops]   # the groups, of which the user has one,
//	  serviceAccount: prod/web # or namespace/name
//	  verb: [get, list]       # the request, in the terms of CEL's authorizer:
//	  group: apps             # the API group, "" is the core group
//	  resource: deployments   # "pods/log" and "*/scale" are as in RBAC
//	  subresource: scale      # beside a resource, none means the resource itself, unless that is "*"
//	  namespace: team-*       # "" is a check without a namespace
//	  name: web
//	  fieldSelector: spec.nodeName=n1
//	  labelSelector: app=web
//	  decision: allow         # allow, deny, noopinion, error or unknown; required
//	  reason: on call         # the text of reason(), or for an error of error()
//	- path: /healthz/*        # a check of a path; not with the keys from group to labelSelector
//	  verb: get
//	  decision: allow
//
// A key that is left out matches anything. Keys may have a list of values
// instead of one, of which one has to match (but not selectors, decision and
// reason), and a * in a value matches any text. Unknown keys are errors.
package authz

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Modes lists the modes.
var Modes = []string{"unknown", "allow", "deny", "rbac"}

// Options configure an authorizer.
type Options struct {
	// Cluster holds the Roles and bindings for the mode rbac, in addition to
	// those that Kubernetes makes itself; it may be nil.
	Cluster *policy.Cluster

	// Given reports whether an object is on the cluster before the change. An
	// object of the same kind, namespace and name that is not given replaces
	// it. nil means that no object is given.
	Given func(*render.Object) bool

	// KubeVersion is the API server's version, such as "1.31", which the
	// default Roles depend on; "" is the newest known.
	KubeVersion string
}

// An Authorizer answers checks as authorizers of k8s.io/apiserver do. It is
// safe for concurrent use.
type Authorizer struct {
	decider
	// Assumed is the assumption behind its answers, for Result.Assumed.
	Assumed string
}

// A decider decides a check. If it can't, the error wraps a *cel.Undecided.
type decider interface {
	Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error)
}

// New returns the authorizer of a mode, one of [Modes]; "" is the first.
func New(mode string, o Options) (*Authorizer, error) {
	switch mode {
	case "", "unknown":
		return &Authorizer{decider: undecided{}}, nil
	case "allow":
		return &Authorizer{fixed{authorizer.DecisionAllow, ""}, "authorizer: every check assumed to be allowed"}, nil
	case "deny":
		return &Authorizer{fixed{authorizer.DecisionDeny, "every check is assumed to be denied"}, "authorizer: every check assumed to be denied"}, nil
	case "rbac":
		r, err := newRBAC(o)
		if err != nil {
			return nil, err
		}
		return &Authorizer{r, r.assumed()}, nil
	default:
		return nil, fmt.Errorf("%q is none of %s", mode, strings.Join(Modes, ", "))
	}
}

// Parse returns the authorizer that decides by a file of rules. Errors are
// joined *render.Error values with their places in file.
func Parse(file string, data []byte) (*Authorizer, error) {
	rules, err := parseRules(file, data)
	if err != nil {
		return nil, err
	}
	return &Authorizer{rules, "authorizer: decided by the rules of " + file}, nil
}

// undecided decides nothing.
type undecided struct{}

func (undecided) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return cannotTell(a, "")
}

// A fixed makes the same decision for every check.
type fixed struct {
	decision authorizer.Decision
	reason   string
}

func (f fixed) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return f.decision, f.reason, nil
}

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
