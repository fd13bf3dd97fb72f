// Package kyverno evaluates requests against Kyverno's own policies: ClusterPolicy
// and Policy of kyverno.io, with their PolicyExceptions.
//
// [New] takes the objects that hold policies and exceptions and returns an
// [Engine], which compiles them once. The chain calls [Engine.Mutator] and then
// [Engine.Validator], as the API server calls Kyverno's webhooks. Policy tests
// call [Engine.Respond] with their own answers for the cluster ([Mocks]).
//
// Package kyvernodoc reads and checks the policies, and knows which requests
// they apply to. Here engine.go takes a request through the policies and rule.go
// through one rule. context.go and entry.go build what JMESPath sees,
// variables.go substitutes {{ }}, and each kind of rule has a file: validate.go,
// mutate.go, generate.go, verifyimages.go. fields.go finds the fields of the
// object that made a rule fail, and explain*.go describe the evaluation.
package kyverno

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/kyvernodoc"
	"github.com/preadmit/preadmit/render"
)

// Options are what policies are evaluated with.
type Options struct {
	Cluster     *policy.Cluster // what context entries and namespaceSelectors look at
	Kinds       policy.Kinds
	KubeVersion string // of validate.cel's environment; "" is the newest

	// Authorizer answers the authorizer variable of validate.cel; nil does not know
	// anything. AuthorizerAssumed is what its answers rest on.
	Authorizer        Authorizer
	AuthorizerAssumed string

	// Now is the time for JMESPath functions. nil: results that depend on the
	// time are undecided.
	Now func() time.Time

	// Coverage counts the branches that rules take; nil counts nothing.
	Coverage *policy.Coverage

	// CLI gives the verdicts of Kyverno's command line instead of those of its
	// webhooks: request holds but object, oldObject, operation and namespace,
	// labels of namespaces come from mocks alone, and what has no mock is not
	// found. Tests of policies are written for it.
	CLI bool
}

// An Authorizer answers the checks of the authorizer variable, as authorizers
// of k8s.io/apiserver do. An *Undecided error says that it does not know. It is
// safe for concurrent use.
type Authorizer interface {
	Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error)
}

// Undecided is the error of an Authorizer that does not know, with what it would
// need to know: "needs to know whether …".
type Undecided = cel.Undecided

// A Status is the outcome of a rule, in Kyverno's words.
type Status string

// The statuses. StatusUndecided is ours: the result depends on something that is
// not known offline.
const (
	StatusPass      Status = "pass"
	StatusFail      Status = "fail"
	StatusWarn      Status = "warn"
	StatusError     Status = "error"
	StatusSkip      Status = "skip"
	StatusUndecided Status = "unknown"
)

// A Policy is a ClusterPolicy or a Policy of kyverno.io, as read and checked.
type Policy = kyvernodoc.Policy

// A Rule is one rule of a [Policy].
type Rule = kyvernodoc.Rule

// A Response is the outcome of one rule for one request. A rule that does not match
// gives none.
type Response struct {
	Policy    *Policy
	Rule      *Rule
	Name      string // of the rule as reported: autogen- and all
	Status    Status
	Message   string
	Fields    []string         // JSON pointers into the object evaluated, the one at fault first
	Assumed   []string         // what the answer rests on
	Patched   map[string]any   // mutate: the object, or the target, as the rule left it; nil: unchanged
	Target    map[string]any   // mutate: the other object that a rule with targets is about, as it was
	Generated []map[string]any // generate: what it made
}

// Mocks are the cluster responses that a test supplies.
type Mocks struct {
	Variables map[string]any            // by dotted name, such as request.operation or dictionary.data.env
	Rules     map[string]map[string]any // the same, for one rule, by the rule's own name
	Foreach   map[string]map[string]any // of foreach, by the rule's own name

	UserInfo     *policy.UserInfo // nil: not known
	Roles        []string
	ClusterRoles []string

	Namespaces   map[string]map[string]string // labels, by the namespace's name
	APICalls     []APICall
	Global       map[string]any   // GlobalContextEntries, by name or name.projection
	Targets      []*render.Object // that mutate.targets may change
	Resources    []*render.Object // that generate and API calls find; with Simulate
	Simulate     bool             // loaders answer from Resources instead of not at all
	Subresources []Subresource
}

// An APICall is a mocked answer to an apiCall context entry.
type APICall struct {
	Method string // "" is GET
	URL    string // of a service, or the urlPath
	Body   any
	Status int // "0" is 200
}

// A Subresource says about a kind that it is the body of a subresource.
type Subresource struct {
	Kind, Version, Group string // of the body
	Name                 string // such as "pods/exec" or "deployments/scale"
	ParentKind           string
}
