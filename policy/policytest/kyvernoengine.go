package policytest

import (
	"context"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A KyvernoPolicy evaluates objects by one policy of a suite for Kyverno, as
// Kyverno's command line does. It is compiled once and safe for concurrent use.
type KyvernoPolicy interface {
	// Evaluate returns what the policy says about a request in a phase. The error
	// says why nothing can be told.
	Evaluate(ctx context.Context, phase Phase, req *KyvernoRequest) (KyvernoVerdict, error)
	// Rules are the names of the policy's rules as written; none where the
	// policy has no rules of their own names.
	Rules() []string
}

// A Phase is a stage of Kyverno's work on one object: policies mutate it first, then
// validate it, and generate other objects last.
type Phase string

// The phases.
const (
	Mutating   Phase = "mutate"
	Validating Phase = "validate" // and verifyImages
	Generating Phase = "generate"
	Deleting   Phase = "delete"
)

// A KyvernoRequest is one object to evaluate, with what the test mocks for the
// policy that is asked.
type KyvernoRequest struct {
	*policy.Request
	Payload   string                    // the evaluation mode that the object is for, if it is not of Kubernetes: JSON, Envoy, HTTP
	Variables map[string]any            // by dotted name: global values, and those for the policy and the object
	Rules     map[string]map[string]any // values, by the rule's own name
	Foreach   map[string]map[string]any // foreachValues, by the rule's own name
	Sources   []*render.Object          // cloneSourceResource of the results about the policy
}

// A KyvernoVerdict is the outcome of a policy for a request in a phase.
type KyvernoVerdict struct {
	Rules []KyvernoResponse
	// Silent says that Kyverno's command line gives no response at all, not
	// even an empty one: a test that expects something fails.
	Silent bool
	// Object is the object as the policy left it; nil: unchanged.
	Object map[string]any
}

// A KyvernoResponse is the outcome of one rule.
type KyvernoResponse struct {
	Rule    string // as reported; "" means the policy
	Status  string // pass, fail, warn, error, skip; "unknown" where it can't be decided
	Message string
	Fields  []string // JSON pointers into the object at fault
	Assumed []string

	Target    map[string]any   // that a mutation of existing objects changed
	Generated []map[string]any // what it made
}

// A KyvernoSetup holds the inputs of a suite besides policies and resources.
type KyvernoSetup struct {
	Kinds      policy.Kinds
	Exceptions []*render.Object // PolicyExceptions of either kind
	Bindings   []*render.Object // of ValidatingAdmissionPolicies and MutatingAdmissionPolicies
	Params     []*render.Object // what these name as parameters
	Resources  []*render.Object // all that is evaluated
	Targets    []*render.Object // that mutations of existing objects may change
	Context    []*render.Object // what the Context file has as resources
	Images     []map[string]any // what it has of images
	Cluster    []*render.Object // clusterResources, with their CRDs
	HasCluster bool             // there are clusterResources: lookups are answered from all resources

	NamespaceLabels map[string]map[string]string
	Namespaces      []*render.Object // of the values, whole
	APICalls        []KyvernoCall
	Global          map[string]any // GlobalContextEntries, by name or name.projection
	Subresources    []KyvernoSubresource

	User         *policy.UserInfo // nil: not known
	Roles        []string
	ClusterRoles []string
}

// A KyvernoCall is the answer to a call of an API or a service.
type KyvernoCall struct {
	Method string // "" is GET
	URL    string // of a service, or the path of an API
	Body   any
	Status int // 0 is 200
}

// A KyvernoSubresource says that a kind is the body of a subresource.
type KyvernoSubresource struct {
	Group, Version, Kind string // of the body
	Name                 string // such as pods/exec
	ParentKind           string
}
