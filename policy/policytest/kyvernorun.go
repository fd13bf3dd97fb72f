package policytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// verdicts holds the outcomes of a test's policies for one object.
type verdicts struct {
	t       *kyvernoTest
	subject *render.Object
	json    bool   // the subject is of a jsonPayload
	given   string // operation of the expected result, or ""

	object *render.Object // as mutations left it
	ones   []*verdict
}

// A verdict is the outcome of one policy in one phase.
type verdict struct {
	policy *kyvernoPolicy
	phase  Phase
	KyvernoVerdict
	given   *render.Object // that it evaluated
	patched map[string]any // the object as the policy left it
	err     error
}

// A stage is a phase for some kinds of policies.
type stage struct {
	phase Phase
	kinds []string
	first bool // they see the object as it was given
}

// stages lists the steps in which Kyverno's command line processes an object:
// its own mutations and validations precede those of policies in CEL.
var stages = []stage{
	{Mutating, []string{"ClusterPolicy", "Policy"}, false},
	{Validating, []string{"ClusterPolicy", "Policy"}, false},
	{Mutating, []string{"MutatingAdmissionPolicy"}, false},
	{Mutating, []string{"MutatingPolicy"}, false},
	{Validating, []string{"ValidatingAdmissionPolicy", "ValidatingPolicy"}, false},
	{Generating, []string{"GeneratingPolicy"}, false},
	{Generating, []string{"ClusterPolicy", "Policy"}, false},
	{Validating, []string{"ImageValidatingPolicy"}, true},
	{Deleting, []string{"DeletingPolicy", "ClusterCleanupPolicy", "CleanupPolicy"}, true},
}

func (s stage) has(kind string) bool {
	return slices.ContainsFunc(s.kinds, func(k string) bool { return k == kind || "Namespaced"+k == kind })
}

// evaluate returns the policies' outcomes for an object and operation. It
// evaluates them once.
func (k *kyvernoTest) evaluate(o *render.Object, op string, json bool) *verdicts {
	key := op + "\x00" + fmt.Sprintf("%p", o)
	v := k.verdicts[key]
	if v == nil {
		v = &verdicts{t: k, subject: o, object: o, json: json, given: op}
		for _, s := range stages {
			v.run(s)
		}
		k.verdicts[key] = v
	}
	return v
}

func (v *verdicts) run(s stage) {
	for _, p := range v.t.policies {
		if p.engine == nil || !s.has(p.kind) {
			continue
		}
		one := &verdict{policy: p, phase: s.phase, given: v.seen(p, s)}
		one.KyvernoVerdict, one.err = p.engine.Evaluate(v.t.ctx, s.phase, v.request(p, one.given))
		if one.Object != nil {
			v.object = &render.Object{Unstructured: &unstructured.Unstructured{Object: one.Object}, Provenance: v.subject.Provenance, Unit: v.subject.Unit}
		}
		one.patched = v.object.Object
		v.ones = append(v.ones, one)
	}
	if s.phase == Mutating && s.has("MutatingPolicy") {
		v.shareObject()
	}
}

// shareObject sets the object after the last MutatingPolicy as the result of
// all MutatingPolicies, because Kyverno compares that one.
func (v *verdicts) shareObject() {
	for _, one := range v.ones {
		if strings.HasSuffix(one.policy.kind, "MutatingPolicy") {
			one.patched = v.object.Object
		}
	}
}

// seen returns the object on which a policy is evaluated. A policy that has
// changed the object continues with its own result.
func (v *verdicts) seen(p *kyvernoPolicy, s stage) *render.Object {
	if s.first {
		return v.subject
	}
	for _, one := range v.of(p) {
		if one.Object != nil {
			return one.given
		}
	}
	return v.object
}

func (v *verdicts) request(p *kyvernoPolicy, o *render.Object) *KyvernoRequest {
	policyName := p.object.GetName()
	req := &KyvernoRequest{JSON: v.json, Variables: v.t.variables(policyName, v.subject.GetName()), Sources: v.t.sources[p]}
	req.Rules, req.Foreach = v.t.rules(policyName)
	op := operation(v.given, req.Variables)
	if v.given != "" {
		req.Variables = withKey(req.Variables, "request.operation", v.given)
	}
	req.Request = v.t.requestOf(o, op)
	return req
}

// of returns the verdicts of a policy.
func (v *verdicts) of(p *kyvernoPolicy) []*verdict {
	return slices.DeleteFunc(slices.Clone(v.ones), func(one *verdict) bool { return one.policy != p })
}

// tested returns the kind and name of the object of a case.
func tested(o *render.Object, file string) (kind, called string) {
	if o.GetKind() == "" {
		return "", cmp.Or(file, o.GetName())
	}
	return o.GetKind(), cmp.Or(name(o), o.GetGenerateName()+"*")
}

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
