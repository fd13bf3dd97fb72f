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
// functions that Kyverno adds to CEL (the files lib_* and
// policy/internal/kyvernolib). review.go holds the variables of a request;
// run.go evaluates one policy for it: exceptions, match conditions, then
// validations, mutations or generation, in a file each.
//
// A result that depends on a cluster, a registry or a service is Unknown and
// names the missing data. Time and randomness are stubs, and results that depend
// on them say so.
package kyvernocel

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/render"
)

// Options configure an [Engine].
type Options struct {
	Cluster *policy.Cluster // objects that expressions look up, and Namespaces; nil is empty
	Kinds   policy.Kinds    // required

	// Mergers merge apply configurations into objects. If it is nil, Kinds is
	// used if it implements Mergers. For unknown kinds the structure is deduced
	// from the object.
	Mergers patch.Mergers

	// Now is the value of time.now, and decides which exceptions have expired.
	// The zero time selects a fixed time at which no exception has expired.
	Now time.Time

	// Coverage counts the branches that expressions take; nil counts nothing.
	Coverage *policy.Coverage

	// CLI gives the verdicts of Kyverno's command line instead of its webhooks:
	// objects are evaluated as written, and lookups find only mocks.
	CLI bool
}

// An Engine evaluates requests by policies. It is safe for concurrent use.
type Engine struct {
	options    Options
	policies   []*Policy
	exceptions []*exception
	filters    *filters.Filters
	resources  func() map[schema.GroupResource]schema.GroupKind // resources of the cluster's objects
	frozen     sync.Map                                         // lookedUp to ref.Val
	candidates sync.Map                                         // candidateKey to []*Policy
	cached     atomic.Int32                                     // number of candidates
}

// New compiles the policies among the objects, with their exceptions; other
// objects are ignored. The error joins *render.Error values, each at the place
// in the policy or exception that it is about. Policies that Kyverno would
// refuse are left out; the others work, so the engine is never nil.
func New(objects []*render.Object, o Options) (*Engine, error) {
	if o.Mergers == nil {
		o.Mergers, _ = o.Kinds.(patch.Mergers)
	}
	e := &Engine{options: o, filters: filters.New(objects)}
	e.resources = sync.OnceValue(e.resourcesOfCluster)
	all := make([]*Policy, len(objects))
	faults := make([][]error, len(objects))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, obj := range objects {
		if kindOf(obj) != "" {
			group.Go(func() error {
				all[i], faults[i] = readPolicy(obj)
				return nil
			})
		}
	}
	_ = group.Wait() // the functions return no errors
	var errs []error
	for i, obj := range objects {
		if isException(obj) {
			x, xs := readException(obj)
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

// bind attaches to each policy the exceptions that name it, and sorts policies
// by name, the order in which they run.
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

// resourcesOfCluster returns the kinds of the resources in the cluster.
func (e *Engine) resourcesOfCluster() map[schema.GroupResource]schema.GroupKind {
	resources := map[schema.GroupResource]schema.GroupKind{}
	for _, gvk := range e.options.Cluster.Versions() {
		resources[e.options.Kinds.Resource(gvk).GroupResource()] = gvk.GroupKind()
	}
	return resources
}

// A Status is the outcome of a policy, by Kyverno's names.
type Status string

// The statuses. StatusUndecided is not Kyverno's: the result depends on
// something unknown.
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
	// Matched reports whether the policy matches the request. If not, Status is
	// empty.
	Matched bool

	Fields    []string         // JSON pointers into the object evaluated, the one at fault first
	Assumed   []string         // assumptions that the response rests on
	Target    *render.Object   // the existing object to change; nil means the evaluated object
	Patched   map[string]any   // the object or target after a MutatingPolicy; nil if unchanged
	Generated []map[string]any // objects that a GeneratingPolicy generated
}

// Mocks are the cluster responses that a test supplies.
type Mocks struct {
	Resources  []*render.Object // of the Context file
	Images     []map[string]any // likewise of the Context file: metadata, by "image"
	Cluster    []*render.Object // more objects for lookups
	HasCluster bool             // lookups of missing objects find nothing instead of failing

	Namespaces map[string]*render.Object // whole objects, by name
	Labels     map[string]map[string]string
	UserInfo   *policy.UserInfo // nil: unknown, and empty for expressions
	HTTP       []HTTPCall
	Global     map[string]any   // GlobalContextEntries, by name or name.projection
	Targets    []*render.Object // existing objects that MutatingPolicies may change

	JSON bool // the request's object is JSON for policies of evaluation mode JSON, not a Kubernetes object
}

// An HTTPCall is a mocked answer to http.Get, Post, Put or Patch.
type HTTPCall struct {
	Method string // "" is GET
	URL    string
	Body   any
	Status int // 0 means 200
}

var (
	_ policy.Inspector = validator{}
	_ policy.Inspector = mutator{}
)

// Inspect implements policy.Inspector. It finds expressions that have the same
// value for every object.
func (v validator) Inspect() []policy.Result {
	return v.inspect(func(p *Policy) bool { return p.Kind == Validating || p.Kind == ImageValidating })
}

// Inspect implements policy.Inspector.
func (m mutator) Inspect() []policy.Result {
	return m.inspect(func(p *Policy) bool { return p.Kind == Mutating })
}

func (e *Engine) inspect(concerns func(*Policy) bool) []policy.Result {
	var all []policy.Result
	for _, p := range e.policies {
		if !concerns(p) || p.Object.Span("").File == "" || p.main == nil {
			continue
		}
		all = append(all, p.main.names.Constants(p.Name, p.main.variables, p.main.conditions, p.main.validations)...)
	}
	return all
}

// Rules implements policy.Validator. There is one rule for each validation.
func (v validator) Rules() []policy.Rule {
	return v.rules(func(p *Policy) []*cel.Expression {
		if p.Kind != Validating && p.Kind != ImageValidating {
			return nil
		}
		return p.main.validations
	})
}

// Rules implements policy.Mutator. There is one rule for each mutation.
func (m mutator) Rules() []policy.Rule {
	return m.rules(func(p *Policy) []*cel.Expression {
		if p.Kind != Mutating {
			return nil
		}
		return p.main.mutations
	})
}

func (e *Engine) rules(of func(*Policy) []*cel.Expression) []policy.Rule {
	var rules []policy.Rule
	for _, p := range e.policies {
		for i, x := range of(p) {
			rules = append(rules, p.rule(x, i))
		}
	}
	return rules
}

func (p *Policy) rule(x *cel.Expression, i int) policy.Rule {
	notes := policy.Notes{p.Object.GetAnnotations()}
	message := ""
	if p.Kind != Mutating {
		message = p.spec.Validations[i].Message
	}
	return policy.Rule{
		Engine: p.engine(), Policy: p.Name, Name: x.Rule, Severity: p.severity, Action: p.action,
		Title:       policy.FirstLine(message, notes.Title(), x.Source),
		Description: notes.Description(), Help: notes.Help(), URL: notes.URL(),
		Expression: x.Source, Origin: x.Origin,
	}
}
