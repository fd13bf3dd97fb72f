package policytest

import (
	"context"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A KyvernoPolicy evaluates objects by one policy of a suite for Kyverno, as
// Kyverno's command line does. It is compiled once and safe for concurrent use.
type KyvernoPolicy interface {
	// Evaluate evaluates the policy for a request in a phase. It fails if the
	// policy can't be evaluated.
	Evaluate(ctx context.Context, phase Phase, req *KyvernoRequest) (KyvernoVerdict, error)
	// Rules returns the names of the policy's rules as written, or none if its
	// rules have no names.
	Rules() []string
}

// A Phase is one of the steps in which Kyverno processes an object: policies
// mutate it, then validate it, and then generate other objects.
type Phase string

// The phases.
const (
	Mutating   Phase = "mutate"
	Validating Phase = "validate" // and verifyImages
	Generating Phase = "generate"
	Deleting   Phase = "delete"
)

// A KyvernoRequest is one object to evaluate, with the mocks for the policy.
type KyvernoRequest struct {
	*policy.Request
	JSON      bool                      // the object is JSON of a jsonPayload, not a Kubernetes object
	Variables map[string]any            // by dotted name: global values, and values for the policy and the object
	Rules     map[string]map[string]any // values, by the rule's own name
	Foreach   map[string]map[string]any // foreachValues, by the rule's own name
	Sources   []*render.Object          // cloneSourceResource of the results about the policy
}

// A KyvernoVerdict is the outcome of a policy for a request in a phase.
type KyvernoVerdict struct {
	Rules []KyvernoResponse
	// Silent reports that Kyverno's command line gives no response at all, not
	// even an empty one. A test that expects a status then fails.
	Silent bool
	// Object is the object after the policy changed it, or nil if it did not.
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
	Generated []map[string]any // generated objects
}

// A KyvernoSetup holds the inputs of a suite besides policies and resources.
type KyvernoSetup struct {
	Kinds      policy.Kinds
	Exceptions []*render.Object // PolicyExceptions of either kind
	Bindings   []*render.Object // of ValidatingAdmissionPolicies and MutatingAdmissionPolicies
	Params     []*render.Object // parameters that bindings name
	Resources  []*render.Object // all that is evaluated
	Targets    []*render.Object // that mutations of existing objects may change
	Context    []*render.Object // resources of the Context file
	Images     []map[string]any // images of the Context file
	Cluster    []*render.Object // clusterResources, with their CRDs
	HasCluster bool             // clusterResources are given, so lookups search all resources

	NamespaceLabels map[string]map[string]string
	Namespaces      []*render.Object // of the values, whole
	APICalls        []KyvernoCall
	Global          map[string]any // GlobalContextEntries, by name or name.projection
	Subresources    []KyvernoSubresource

	User         *policy.UserInfo // nil: unknown
	Roles        []string
	ClusterRoles []string
}

// A KyvernoCall is the answer to a call of an API or a service.
type KyvernoCall struct {
	Method string // "" is GET
	URL    string // of a service, or the path of an API
	Body   any
	Status int // 0 means 200
}

// A KyvernoSubresource declares that a kind is the body of a subresource.
type KyvernoSubresource struct {
	Group, Version, Kind string // of the body
	Name                 string // such as pods/exec
	ParentKind           string
}
