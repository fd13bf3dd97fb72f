// Package kyvernocel evaluates requests against Kyverno's policies written in
// CEL: ValidatingPolicy, MutatingPolicy, GeneratingPolicy, DeletingPolicy and
// ImageValidatingPolicy of policies.kyverno.io, their namespaced twins, and
// the PolicyExceptions of that group.
//
// [New] takes the objects that hold policies and exceptions and returns an
// [Engine], which compiles them once. The chain calls [Engine.Mutator] and then
// [Engine.Validator], as the API server calls Kyverno's webhooks. Policy tests
// call [Engine.Respond] with their own answers for the cluster ([Mocks]).
//
// A policy is read and checked in document.go, copied for pod controllers in
// autogen.go, and compiled in compile.go, in an environment (env.go) with the
// functions that Kyverno adds to CEL (the files lib_*). review.go is what
// policies read of a request; run.go evaluates by one policy: exceptions, match
// conditions, then what it does, a file each.
//
// What depends on a cluster, a registry or a service is an Unknown result that
// says what would have to be known; time and randomness are stubs, and results
// that rest on them say so.
package kyvernocel

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/render"
)

// Options are what policies are evaluated with.
type Options struct {
	Cluster *policy.Cluster // what expressions look up, and Namespaces; nil has none
	Kinds   policy.Kinds    // required

	// Mergers merge apply configurations into objects; nil are those of
	// Kinds, if it has them. The structure of a kind that they do not know is
	// deduced from the object.
	Mergers patch.Mergers

	// Now is what time.now gives, and by which exceptions expire. The zero
	// time stands for a fixed one, and no exception has expired by then.
	Now time.Time

	// Coverage counts the branches that expressions take; nil counts nothing.
	Coverage *policy.Coverage

	// CLI gives the verdicts of Kyverno's command line instead of those of its
	// webhooks: objects are evaluated as they are written, and whatever a policy
	// asks for comes from mocks alone.
	CLI bool
}

// An Engine evaluates requests by policies. It is safe for concurrent use.
type Engine struct {
	options    Options
	policies   []*Policy
	exceptions []*exception
	resources  map[schema.GroupResource]schema.GroupKind // of what the cluster holds
	frozen     sync.Map                                  // lookedUp to ref.Val
}

// New compiles the policies among the objects, with their exceptions; other
// objects are ignored. The error joins *render.Error values, each at the place
// in the policy or exception that it is about. Policies that Kyverno would
// refuse are left out; the others work, so the engine is never nil.
func New(objects []*render.Object, o Options) (*Engine, error) {
	if o.Mergers == nil {
		o.Mergers, _ = o.Kinds.(patch.Mergers)
	}
	e := &Engine{options: o, resources: resourcesOf(o)}
	all := make([]*Policy, len(objects))
	faults := make([][]error, len(objects))
	k := &compiler{proxies: o.CLI}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, obj := range objects {
		if kindOf(obj) != "" {
			group.Go(func() error {
				all[i], faults[i] = k.policy(obj)
				return nil
			})
		}
	}
	_ = group.Wait() // its functions give no errors
	var errs []error
	for i, obj := range objects {
		if isException(obj) {
			x, xs := k.exception(obj)
			if faults[i] = xs; x != nil {
				e.exceptions = append(e.exceptions, x)
			}
		}
		if all[i] != nil {
			all[i].cover(o.Coverage)
			e.policies = append(e.policies, all[i])
		}
		errs = append(errs, faults[i]...)
	}
	e.bind()
	return e, errors.Join(errs...)
}

// bind gives each policy the exceptions that name it, and brings policies into
// the order in which they run, that of their names.
func (e *Engine) bind() {
	for _, p := range e.policies {
		for _, x := range e.exceptions {
			if x.names(p) {
				p.exceptions = append(p.exceptions, x)
			}
		}
	}
	slices.SortStableFunc(e.policies, func(a, b *Policy) int { return strings.Compare(a.Name, b.Name) })
}

// resourcesOf says about which kind the resources are that the cluster holds.
func resourcesOf(o Options) map[schema.GroupResource]schema.GroupKind {
	resources := map[schema.GroupResource]schema.GroupKind{}
	for _, gvk := range o.Cluster.Versions() {
		resources[o.Kinds.Resource(gvk).GroupResource()] = gvk.GroupKind()
	}
	return resources
}

// A Status is the outcome of a policy, in Kyverno's words.
type Status string

// The statuses. StatusUndecided is ours: what depends on something that is not
// here.
const (
	StatusPass      Status = "pass"
	StatusFail      Status = "fail"
	StatusError     Status = "error"
	StatusSkip      Status = "skip"
	StatusUndecided Status = "unknown"
)

// A Response is the outcome of one policy for one request.
type Response struct {
	Policy  *Policy
	Status  Status
	Message string
	// Matched says that the policy is about the request. Where it is not,
	// there is no Status.
	Matched bool

	Fields    []string         // JSON pointers into the object evaluated, the one at fault first
	Assumed   []string         // what the answer rests on
	Target    *render.Object   // the existing object that was to be changed; nil: the one evaluated
	Patched   map[string]any   // the object, or the target, as a MutatingPolicy left it; nil: unchanged
	Generated []map[string]any // what a GeneratingPolicy made
}

// Mocks are the cluster responses that a test supplies.
type Mocks struct {
	Resources  []*render.Object // of the Context file
	Images     []map[string]any // likewise: metadata, by "image"
	Cluster    []*render.Object // what else lookups find
	HasCluster bool             // lookups of what is not there find nothing, instead of failing

	Namespaces map[string]*render.Object // whole
	Labels     map[string]map[string]string
	UserInfo   *policy.UserInfo // nil: not known, and empty for expressions
	HTTP       []HTTPCall
	Global     map[string]any   // GlobalContextEntries, by name or name.projection
	Targets    []*render.Object // that MutatingPolicies may change

	// Payload is the evaluation mode of the policies that the request is for,
	// if its object is not one of Kubernetes: JSON, Envoy or HTTP.
	Payload string
}

// An HTTPCall is a mocked answer to http.Get and its like.
type HTTPCall struct {
	Method string // "" is GET
	URL    string
	Body   any
	Status int // 0 is 200
}
