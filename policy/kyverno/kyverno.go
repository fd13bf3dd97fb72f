// Package kyverno evaluates requests against Kyverno's own policies: ClusterPolicy
// and Policy of kyverno.io, with their PolicyExceptions.
//
// [New] takes the objects that hold policies and exceptions and returns an
// [Engine], which compiles them once. The chain calls [Engine.Mutator] and then
// [Engine.Validator], as the API server calls Kyverno's webhooks. Policy tests
// call [Engine.Respond] with their own answers for the cluster ([Mocks]).
//
// Package document reads and checks the policies, and decides which requests
// they apply to. Here engine.go evaluates a request by the policies and rule.go
// by one rule. context.go and contextentry.go build the data of JMESPath, variables.go
// substitutes {{ }}, and each kind of rule has a file: validate.go, mutate.go,
// generate.go, images.go. fields.go finds the fields of the object that
// made a rule fail, and explain*.go describe the evaluation.
package kyverno

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// Options configure an [Engine].
type Options struct {
	Cluster     *policy.Cluster // the objects that context entries and namespaceSelectors look up
	Kinds       policy.Kinds
	KubeVersion string // of validate.cel's environment; "" is the newest

	// Authorizer answers checks of validate.cel's authorizer variable. If it is
	// nil, results that depend on them are undecided. AuthorizerAssumed is the
	// assumption that its answers rest on.
	Authorizer        Authorizer
	AuthorizerAssumed string

	// Now returns the time for JMESPath functions. If it is nil, results that
	// depend on the time are undecided.
	Now func() time.Time

	// Coverage counts the branches that rules take, if it is not nil.
	Coverage *policy.Coverage

	// CLI gives the verdicts of Kyverno's command line instead of its webhooks,
	// for tests that are written for it: request holds only object, oldObject,
	// operation and namespace, labels of namespaces come from mocks alone, and
	// a lookup without a mock finds nothing.
	CLI bool
}

// An Authorizer answers checks of the authorizer variable, as authorizers of
// k8s.io/apiserver do. It returns an *Undecided error if it does not know the
// answer. It must be safe for concurrent use.
type Authorizer interface {
	Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error)
}

// Undecided is the error of an Authorizer that does not know the answer. Its
// text completes the sentence "needs to know whether …".
type Undecided = cel.Undecided

// A Status is the outcome of a rule, by Kyverno's names.
type Status string

// The statuses. StatusUndecided is not Kyverno's: the result depends on
// something that is not known offline.
const (
	StatusPass      Status = "pass"
	StatusFail      Status = "fail"
	StatusWarn      Status = "warn"
	StatusError     Status = "error"
	StatusSkip      Status = "skip"
	StatusUndecided Status = "unknown"
)

// A Policy is a ClusterPolicy or a Policy of kyverno.io, as read and checked.
type Policy = document.Policy

// A Rule is one rule of a [Policy].
type Rule = document.Rule

// A Response is the outcome of one rule for one request. A rule that does not
// match gives no response.
type Response struct {
	Policy    *Policy
	Rule      *Rule
	Name      string // the rule's name in reports, with a prefix autogen-
	Status    Status
	Message   string
	Fields    []string         // JSON pointers into the evaluated object, the field at fault first
	Literals  []string         // texts in these fields that the rule does not allow
	Assumed   []string         // assumptions that the response rests on
	Patched   map[string]any   // mutate: the patched object or target; nil if unchanged
	Target    map[string]any   // mutate: for a rule with targets, the target before the patch
	Generated []map[string]any // generate: the generated objects
}

// Mocks are the cluster responses that a test supplies.
type Mocks struct {
	Variables map[string]any            // by dotted name, such as request.operation or dictionary.data.env
	Rules     map[string]map[string]any // variables of one rule, by the rule's name as written
	Foreach   map[string]map[string]any // variables of foreach, by the rule's name as written

	UserInfo     *policy.UserInfo // nil: unknown
	Roles        []string
	ClusterRoles []string

	Namespaces   map[string]map[string]string // labels by namespace name
	APICalls     []APICall
	Global       map[string]any   // GlobalContextEntries, by name or name.projection
	Targets      []*render.Object // objects that mutate.targets may change
	Resources    []*render.Object // with Simulate: objects that generate and API calls find
	Simulate     bool             // context entries are loaded from Resources; otherwise they find nothing
	Subresources []Subresource
}

// An APICall is a mocked response to an apiCall context entry.
type APICall struct {
	Method string // "" is GET
	URL    string // URL of a service, or the urlPath
	Body   any
	Status int // "0" is 200
}

// A Subresource declares that a kind is the body of a subresource.
type Subresource struct {
	Kind, Version, Group string // kind of the body
	Name                 string // such as "pods/exec" or "deployments/scale"
	ParentKind           string
}
