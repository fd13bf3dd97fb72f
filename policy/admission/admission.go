// Package admission evaluates requests against ValidatingAdmissionPolicies and
// MutatingAdmissionPolicies as the API server's admission plugins of these
// names do.
//
// [New] and [NewMutating] take the objects that hold policies and bindings and
// return engines, which compile the policies once. The chain calls
// [Mutating.Mutate] and then [Engine.Validate] for each request.
//
// Policies are decoded and compiled as the API server of the given version does
// when they are created (decode.go, compile.go), matched (package match) and
// evaluated with its cost limits (run.go). invoke.go evaluates mutations,
// patch.go applies them. If a result depends on something that only a live
// cluster knows, it is Unknown.
//
// Sources: KEP 3488, KEP 3962 and k8s.io/apiserver/pkg/admission/plugin/policy.
package admission

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// Options configure an [Engine] or a [Mutating].
type Options struct {
	Cluster *policy.Cluster // namespaces and parameters; nil has none
	Kinds   policy.Kinds    // required

	// KubeVersion is the API server's version, such as "1.31". "" selects the
	// newest one that the libraries know.
	KubeVersion string

	// Types describes the fields of kinds. It is needed for the warnings that
	// the API server writes to a policy's status. If it is nil, there are none.
	Types Types

	// Cost sets Result.Cost, which makes evaluation several times slower.
	// Limits apply to the cost of running only: unlike
	// CustomResourceDefinitions, no policy is refused for its estimated cost.
	Cost bool

	// AssumeBound reports whether a policy without a binding is evaluated as if
	// a binding with the action Deny existed. If it is nil, such policies give
	// Skip results.
	AssumeBound func(*render.Object) bool

	// ListParams passes all parameters that a binding selects as one list, as
	// Kyverno's command line does.
	ListParams bool

	// Authorizer answers checks of the `authorizer` variable. If it is nil,
	// results that depend on them are Unknown. AuthorizerAssumed is the
	// assumption for Result.Assumed that its answers rest on.
	Authorizer        Authorizer
	AuthorizerAssumed string

	// Valid leaves out the API server's validation of the policies, which takes long to prepare.
	// Policies of packs are known to be valid.
	Valid bool

	// Coverage counts the branches that expressions take; nil counts nothing.
	Coverage *policy.Coverage

	// Mergers merge apply configurations into objects. If it is nil, Kinds is
	// used if it implements Mergers.
	Mergers Mergers
}

// An Engine evaluates requests by ValidatingAdmissionPolicies. It is safe for
// concurrent use.
type Engine struct {
	options  Options
	family   *family
	policies []*bound
	rules    int  // how many validations they have
	reflects bool // see [cel.FreezeTyped]

	made   sync.Map // by kind of what controllers create: whether a policy selects it
	frozen sync.Map // paramKey to *param
}

// bound is a policy with its bindings.
type bound struct {
	*compiled
	bindings      []*binding
	assumed       bool     // Options.AssumeBound adds a binding
	assumptions   []string // the assumption that says so, for Result.Assumed
	namesake      bool     // another policy has the same name
	brokenBinding bool     // a binding that names it is broken
}

// A family pairs a kind of policies with the kind of their bindings.
type family struct {
	policy, binding string
	compile         func(*compiler, *render.Object) (*compiled, []error)
	// read decodes a binding and returns the name of its policy.
	read func(*render.Object) (b *binding, policyName string, errs []error)
	// changes reports whether they change objects.
	changes bool
}

var validatingFamily = family{policyKind, bindingKind, newPolicy, newBinding, false}

// A binding is a ValidatingAdmissionPolicyBinding or a
// MutatingAdmissionPolicyBinding.
type binding struct {
	object   *render.Object // nil for an assumed binding
	name     string
	criteria *match.Criteria
	paramRef *v1.ParamRef
	action   policy.Action // the strongest of its actions
}

var _ policy.Validator = (*Engine)(nil)

// New compiles the policies among the objects, with their bindings. It ignores
// other objects. The error joins *render.Error values, each with its place in a
// policy or binding. The engine is never nil: it evaluates the policies without
// errors.
func New(objects []*render.Object, options Options) (*Engine, error) {
	return newEngine(&validatingFamily, objects, options)
}

func newEngine(f *family, objects []*render.Object, options Options) (*Engine, error) {
	e := &Engine{options: options, family: f}
	v, err := cel.ParseVersion(options.KubeVersion)
	if err != nil {
		return e, err
	}
	e.reflects = v >= 37
	policies := slices.DeleteFunc(slices.Clone(objects), func(o *render.Object) bool { return !isKind(o, f.policy) })
	k := &compiler{version: v, envs: map[cel.Version]*environments{}, valid: options.Valid}
	k.types = newTypeChecker(v, options.Types)
	compiled, errs := compileAll(k, policies, f.compile)
	for _, c := range compiled {
		if c != nil {
			c.cover(options.Coverage)
			e.policies = append(e.policies, &bound{compiled: c})
		}
	}
	for _, o := range objects {
		if isKind(o, f.binding) {
			errs = append(errs, e.bind(o, policies)...)
		}
	}
	for _, b := range e.policies {
		e.assume(b)
		b.namesake = len(e.named(b.policy.Name, nil)) > 1
		e.rules += len(b.validations)
	}
	return e, errors.Join(errs...)
}

// compileAll compiles policies in parallel.
func compileAll(k *compiler, policies []*render.Object, compile func(*compiler, *render.Object) (*compiled, []error)) ([]*compiled, []error) {
	all, faults := make([]*compiled, len(policies)), make([][]error, len(policies))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, o := range policies {
		group.Go(func() error {
			all[i], faults[i] = compile(k, o)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	var errs []error
	for _, f := range faults {
		errs = append(errs, f...)
	}
	return all, errs
}

func newPolicy(k *compiler, o *render.Object) (*compiled, []error) {
	p := &v1.ValidatingAdmissionPolicy{}
	errs, ok := decode(o, p, "policy")
	if !ok {
		return nil, errs
	}
	defaultPolicy(p)
	errs = append(errs, anyOperation(p, o)...)
	var refused []error
	if !k.valid {
		refused = refusePolicy(o, p)
	}
	c, faults := k.compile(o, p, nil)
	errs = append(append(errs, refused...), faults...)
	if len(refused) > 0 {
		return nil, errs
	}
	if c != nil {
		errs = append(errs, k.types.check(c)...)
	}
	return c, errs
}

// meantPolicy suggests the policy that a binding may mean, as a question, or
// returns "".
func meantPolicy(name string, policies []*render.Object) string {
	var names []string
	for _, p := range policies {
		names = append(names, p.GetName())
	}
	if meant := render.DidYouMean(name, names); meant != "" {
		return "; " + meant
	}
	return ""
}

// bind attaches a binding to the policy that it names, preferably one of its
// own unit. policies holds all policies, including broken ones.
func (e *Engine) bind(o *render.Object, policies []*render.Object) []error {
	b, name, errs := e.family.read(o)
	named := e.named(name, o.Unit)
	for _, p := range named {
		if len(errs) > 0 {
			p.brokenBinding = true
			continue
		}
		p.bindings = append(p.bindings, b)
	}
	if len(errs) == 0 && len(named) == 0 && !exists(name, policies) {
		errs = append(errs, at(o, "/spec/policyName", "binding", fmt.Errorf("binding %s: there is no %s %s%s", b.name, e.family.policy, name, meantPolicy(name, policies))))
	}
	return errs
}

func newBinding(o *render.Object) (*binding, string, []error) {
	b := &v1.ValidatingAdmissionPolicyBinding{}
	errs, ok := decode(o, b, "binding")
	if ok {
		if b.Spec.MatchResources != nil {
			match.Default(b.Spec.MatchResources)
		}
		errs = append(errs, refuseBinding(o, b)...)
	}
	if len(errs) > 0 {
		return nil, b.Spec.PolicyName, errs
	}
	return &binding{
		object: o, name: b.Name, criteria: match.New(b.Spec.MatchResources), paramRef: b.Spec.ParamRef,
		action: strongest(b.Spec.ValidationActions),
	}, b.Spec.PolicyName, nil
}

func (e *Engine) named(name string, unit *render.Unit) []*bound {
	var all, own []*bound
	for _, p := range e.policies {
		if p.policy.Name != name {
			continue
		}
		all = append(all, p)
		if unit != nil && p.object.Unit == unit {
			own = append(own, p)
		}
	}
	if len(own) > 0 {
		return own
	}
	return all
}

func exists(name string, policies []*render.Object) bool {
	return slices.ContainsFunc(policies, func(o *render.Object) bool { return o.GetName() == name })
}

func strongest(actions []v1.ValidationAction) policy.Action {
	action := policy.Audit
	for _, a := range actions {
		switch {
		case a == v1.Deny:
			return policy.Deny
		case a == v1.Warn:
			action = policy.Warn
		}
	}
	return action
}

// assume adds a denying binding to a policy without bindings, if AssumeBound
// says so.
func (e *Engine) assume(b *bound) {
	if len(b.bindings) > 0 || b.brokenBinding || e.options.AssumeBound == nil || !e.options.AssumeBound(b.object) {
		return
	}
	b.assumed, b.assumptions = true, slices.Clip([]string{b.assumption()})
	b.bindings = []*binding{{action: policy.Deny}}
}

// Validate implements policy.Validator.
func (e *Engine) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	if len(e.policies) == 0 || exempt(req.Resource.GroupVersionResource) {
		return nil, ctx.Err()
	}
	r := newReview(ctx, e, req)
	all := results{list: req.Room(), expected: e.rules}
	var maker *review // of the workload that makes the pod
	if req.Maker != nil {
		maker = newReview(ctx, e, req.Maker)
	}
	for _, p := range e.policies {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if maker != nil && p.judgesTemplates(maker) {
			continue
		}
		if all.since = len(all.list); p.namesake {
			all.since = 0
		}
		policy.Observed(ctx, policy.EngineAdmission, p.object.GetName(), func() { e.evaluate(r, p, &all) })
	}
	return all.list, ctx.Err()
}

// packed reports whether a policy is of a pack. These say the same of a workload that they match and of what
// its controller creates.
func (b *bound) packed() bool { return b.object.Span("").File == "" }

// judgesTemplates reports whether a policy has judged what a controller creates in its workload.
func (b *bound) judgesTemplates(workload *review) bool {
	if !b.packed() {
		return false
	}
	matches, _ := b.criteria.Match(&workload.subject)
	return matches == match.Yes
}

// SelectsMade implements policy.MadeEngine.
func (e *Engine) SelectsMade(made, maker schema.GroupVersionKind) bool {
	key := [2]schema.GroupVersionKind{made, maker}
	if known, ok := e.made.Load(key); ok {
		return known.(bool)
	}
	ask := policy.MadeRequest(made)
	of := newReview(context.Background(), e, ask)
	byMaker := *ask
	byMaker.Kind, byMaker.Resource = maker, e.options.Kinds.Resource(maker)
	by := newReview(context.Background(), e, &byMaker)
	selects := slices.ContainsFunc(e.policies, func(b *bound) bool {
		return len(b.bindings) > 0 && b.criteria.MayMatch(&of.subject) && !(b.packed() && b.criteria.MayMatch(&by.subject))
	})
	e.made.Store(key, selects)
	return selects
}

// Rules implements policy.Validator. There is one rule for each validation, in
// the order of the policies.
func (e *Engine) Rules() []policy.Rule {
	var rules []policy.Rule
	for _, b := range e.policies {
		for _, x := range b.validations {
			rules = append(rules, b.rule(x, b.policy.Spec.Validations[x.Index]))
		}
	}
	return rules
}

func (b *bound) rule(x *cel.Expression, validation v1.Validation) policy.Rule {
	notes := policy.Notes{b.policy.Annotations}
	r := policy.Rule{
		Engine: b.engine(), Policy: b.policy.Name, Name: x.Rule,
		Severity: b.severity, Title: policy.FirstLine(validation.Message, notes.Title(), validation.Expression),
		Description: notes.Description("kubernetes.io/description"), Help: notes.Help(), URL: notes.URL(),
		Expression: validation.Expression, Origin: b.object.Span(x.Pointer),
	}
	if len(b.bindings) > 0 {
		r.Action = b.strongest()
	}
	return r
}
