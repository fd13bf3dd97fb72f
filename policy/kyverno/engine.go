package kyverno

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// An Engine holds compiled policies and exceptions. It is safe for concurrent
// use.
type Engine struct {
	options    Options
	policies   []*Policy
	exceptions []*exemption
	index      *document.Index
	webhooks   [2][]*webhook    // by side
	called     sync.Map         // by callKey: []call
	filters    *filters.Filters // nil for the command line
	programs   map[*Rule]*program
	conditions map[*Policy]*celProgram // webhookConfiguration.matchConditions
	celEnvs    *celEnvs
	candidates sync.Map          // by candidateKey: []candidate
	made       sync.Map          // by madeKey: what selectsMade returns
	held       sync.Map          // by *render.Object: the cluster's other objects as the API server holds them
	listed     sync.Map          // by listing: the cluster's objects in it
	selected   sync.Map          // by selection: the *items in an answer
	picked     picks[picked]     // results of queries over such lists
	parted     picks[partedPick] // these results by object
	covered    *covered          // nil without Options.Coverage
	granted    sync.Map          // by user, groups and namespace: the roles that bindings grant, see roles
}

// New compiles the policies and exceptions among the objects. The error joins a
// *render.Error for each reason why Kyverno would refuse one. The Engine has the
// valid ones.
func New(objects []*render.Object, o Options) (*Engine, error) {
	policies, exceptions, err := document.Read(objects, document.Options{CLI: o.CLI})
	e := &Engine{
		options: o, policies: policies, index: document.NewIndex(policies), webhooks: newWebhooks(policies),
		programs: map[*Rule]*program{}, conditions: map[*Policy]*celProgram{},
	}
	if !o.CLI {
		e.filters = filters.New(objects)
	}
	if o.Coverage != nil {
		e.covered = newCovered(o.Coverage)
	}
	if e.celEnvs, err = newCELEnvs(o.KubeVersion, err); e.celEnvs == nil {
		return nil, err
	}
	for _, x := range exceptions {
		e.exceptions = append(e.exceptions, &exemption{x, newBlock(x.Conditions)})
	}
	for _, p := range policies {
		for _, rule := range p.AllRules() {
			e.programs[rule] = e.newProgram(p, rule)
			e.covered.declare(p, rule)
			e.coverCEL(p, rule)
		}
		if len(p.MatchConditions) > 0 {
			e.conditions[p] = e.newMatchConditions(p)
		}
		if !o.CLI {
			err = errors.Join(err, e.brokenRules(p))
		}
	}
	return e, err
}

// Policies returns the compiled policies in the order of the objects.
func (e *Engine) Policies() []*Policy { return e.policies }

// resource returns the resource name of a kind, as in the API server's paths.
func (e *Engine) resource(gvk schema.GroupVersionKind) string {
	if e.options.Kinds != nil {
		return e.options.Kinds.Resource(gvk).Resource
	}
	return strings.ToLower(gvk.Kind) + "s"
}

// targetOf returns the request as match and exclude see it.
func (r *review) targetOf() *document.Target {
	roles, clusterRoles := r.roles()
	t := &document.Target{
		Object: r.subject(), Kind: r.req.Kind, Subresource: r.req.SubResource, Operation: r.operation,
		NamespaceLabels: r.namespaceLabels,
		UserKnown:       r.matchesUsers(), User: r.user(), Roles: roles, ClusterRoles: clusterRoles,
	}
	if r.engine.options.CLI {
		r.mocks.subresource(t)
	}
	return t
}

// matchesUsers reports whether subjects and roles of match blocks are compared
// with a user.
func (r *review) matchesUsers() bool {
	if r.engine.options.CLI {
		return r.mocks.UserInfo != nil || len(r.mocks.Roles)+len(r.mocks.ClusterRoles) > 0
	}
	return r.userKnown()
}

// roles returns the roles of the user in the request's namespace. It caches
// them by user and namespace, since there may be thousands of bindings and
// requests but few users.
func (r *review) roles() (roles, clusterRoles []string) {
	if r.engine.options.CLI {
		return r.mocks.Roles, r.mocks.ClusterRoles
	}
	if !r.userKnown() {
		return nil, nil
	}
	u := r.user()
	if u == nil {
		return nil, nil
	}
	key := strings.Join(append([]string{r.req.Namespace, u.Username}, u.Groups...), "\x00")
	known, ok := r.engine.granted.Load(key)
	if !ok {
		roles, clusterRoles := document.RolesOf(r.engine.options.Cluster, u, r.req.Namespace)
		known, _ = r.engine.granted.LoadOrStore(key, [2][]string{slices.Clip(roles), slices.Clip(clusterRoles)})
	}
	given := known.([2][]string)
	return given[0], given[1]
}

// subresource makes t the body of a subresource if the test declares the
// object's kind as one.
func (m *Mocks) subresource(t *document.Target) {
	for _, s := range m.Subresources {
		if s.Kind == t.Kind.Kind && s.Group == t.Kind.Group && (s.Version == "" || s.Version == t.Kind.Version) {
			_, name, ok := strings.Cut(s.Name, "/")
			if !ok {
				continue
			}
			t.Subresource = name
			if s.ParentKind != "" {
				t.Kind.Kind = s.ParentKind
			}
			return
		}
	}
}

// assumeUser records the assumption made about an unknown user.
func (r *review) assumeUser() {
	if !r.engine.options.CLI {
		r.assume("user unknown: assumed to be matched by the rule and exempt from nothing; set it with --as")
	}
}

// namespaceLabels returns the labels of the object's namespace. With
// Options.CLI they are those that the test supplies.
func (r *review) namespaceLabels() map[string]string {
	name := r.req.Namespace
	if r.engine.options.CLI {
		return r.mocks.Namespaces[name]
	}
	o := r.engine.options.Cluster.Namespace(r.unit(), name)
	if o == nil {
		if name != "" {
			_ = r.ask(fmt.Sprintf("labels of namespace %s are unknown: give the Namespace with --with", name))
		}
		return map[string]string{corev1.LabelMetadataName: name}
	}
	labels := make(map[string]string)
	maps.Copy(labels, o.GetLabels())
	labels[corev1.LabelMetadataName] = name // the API server overwrites the manifest's value
	return labels
}

// A phase evaluates the rules of one kind.
type phase struct {
	concerns func(*Rule) bool
	// run returns the rule's responses. It may change the review's object for
	// later rules.
	run func(*run) []Response
	// byKind evaluates only rules that autogen generates for the object's kind.
	byKind bool
}

// each evaluates the rules of a phase that match the request and calls respond
// for each response. As in Kyverno, a policy with applyRules: One stops at its
// first rule that passes or fails.
func (r *review) each(p *phase, respond func(Response)) error {
	t, timed := r.targetOf(), policy.IsObserved(r.ctx)
	for _, c := range r.candidates(p, t.Kind) {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if r.evaluates != nil && !r.evaluates[c.policy] || !c.policy.InScope(t) || !c.policy.Admission && !r.engine.options.CLI || r.explainer.skips(c.policy) {
			continue
		}
		for _, g := range c.programs {
			if r.done[g.rule] || r.req.Maker != nil && r.req.Kind != policy.PodKind && g.rule.Base != nil {
				continue // the latter is a rule about pods, which are asked about themselves
			}
			if r.timedRule(timed, p, c.policy, g, t, respond) {
				break
			}
		}
	}
	return nil
}

// A candidate is a policy with its rules that may match objects of a kind.
type candidate struct {
	policy   *Policy
	programs []*program
}

// A candidateKey identifies the candidates of a phase.
type candidateKey struct {
	phase *phase
	kind  string
	every bool // even those rules that name other kinds, to explain them or to count their branches
}

// candidates returns the policies that may have responses in a phase, in order.
func (r *review) candidates(p *phase, gvk schema.GroupVersionKind) (all []candidate) {
	e := r.engine
	named := e.index.Names(gvk.Kind)
	key := candidateKey{p, gvk.Kind, !named || r.explainer != nil || e.covered != nil}
	if known, ok := e.candidates.Load(key); ok {
		return known.([]candidate)
	}
	for _, pol := range e.index.For(gvk.Kind) {
		c := candidate{policy: pol}
		rules := pol.RulesForAll()
		if p.byKind {
			rules = pol.RulesFor(gvk)
		}
		for _, rule := range rules {
			if g := e.programs[rule]; p.concerns(rule) && !g.broken && (key.every || rule.Match.MayMatch(gvk.Kind)) {
				c.programs = append(c.programs, g)
			}
		}
		if len(c.programs) > 0 {
			all = append(all, c)
		}
	}
	if named { // an object may be of any other kind
		e.candidates.Store(key, all)
	}
	return all
}

// timedRule evaluates one rule and calls respond for each response. It reports whether the
// policy stops there.
func (r *review) timedRule(timed bool, p *phase, pol *Policy, g *program, t *document.Target, respond func(Response)) (stop bool) {
	if timed {
		policy.Observed(r.ctx, policy.EngineKyverno, g.name, func() { stop = r.timedRule(false, p, pol, g, t, respond) })
		return stop
	}
	for _, resp := range r.runRule(p, pol, g.rule, t) {
		respond(resp)
		stop = stop || pol.ApplyOne && (resp.Status == StatusPass || resp.Status == StatusFail || resp.Status == StatusWarn)
	}
	return stop
}

// runRule evaluates one rule. If it is being explained, the explainer evaluates
// it.
func (r *review) runRule(p *phase, pol *Policy, rule *Rule, t *document.Target) []Response {
	if r.explainer != nil {
		return r.explainer.run(r, p, pol, rule, t)
	}
	return r.evaluate(p, pol, rule, t)
}

// newRun returns a run of a rule. Rules that are not explained use the same one in turn.
func (r *review) newRun(rule *Rule, t *document.Target) *run {
	x := r.run
	if x == nil || r.explainer != nil {
		x = new(run)
		r.run = x
	}
	*x = run{review: r, program: r.engine.programs[rule], target: t}
	return x
}

// evaluate evaluates one rule. The responses are valid until the next one is evaluated,
// unless rules are explained.
func (r *review) evaluate(p *phase, pol *Policy, rule *Rule, t *document.Target) []Response {
	r.questions, r.assumed = r.questions[:0:0], r.assumed[:0:0]
	if t.Object = r.subject(); t.Object == nil {
		return nil
	}
	t.RolesAsked, r.work, r.secrets = false, 0, nil
	matched, byUser := rule.Matches(t)
	r.engine.covered.match(rule, matched)
	x := r.newRun(rule, t)
	switch {
	case len(r.questions) > 0 && !rule.SelectsByNameOnly(): // the match depends on unknown labels of a namespace
		return x.only(&verdict{})
	case !matched && r.mayMatch(rule, t):
		_ = r.ask(match.UnknownResource(r.req))
		return x.only(&verdict{})
	case !matched:
		return nil
	case r.noVersion != nil:
		_ = r.ask(r.noVersion.Error())
		return x.only(&verdict{})
	case byUser:
		r.assumeUser()
	case t.RolesAsked:
		if !r.engine.options.CLI {
			r.assume("the user is assumed to have only the roles that bindings in the tree grant")
		}
	}
	r.questions = nil
	if c := r.engine.conditions[pol]; c != nil {
		if v := newCELRun(c, x, nil).conditionsHold(); v != nil {
			if v.status == StatusSkip {
				return nil
			}
			return x.only(v)
		}
	}
	responses := p.run(x)
	r.engine.covered.outcomes(rule, responses)
	return responses
}

// validates is the phase of validate rules.
var validates = phase{
	concerns: func(r *Rule) bool { return r.Validate != nil },
	run:      (*run).validated,
	byKind:   true,
}

// A Phase is one of the steps in which Kyverno processes a request.
type Phase uint8

// The phases, in the order in which Kyverno's command line runs them.
const (
	Mutating Phase = iota
	VerifyingImages
	Validating
	Generating
)

var phases = [...]*phase{Mutating: &mutates, VerifyingImages: &verifies, Validating: &validates, Generating: &generates}

// Respond returns the response of every rule of the given phases, or of all
// phases if none is given. Mutate rules run first. Each sees the object as the
// rules before it left it, and so do the other phases. mocks may be nil. The
// caller must set the request's Kind, Resource, Namespace and admitted objects.
// Respond does not change them. It fails only if ctx ends.
func (e *Engine) Respond(ctx context.Context, req *policy.Request, mocks *Mocks, in ...Phase) ([]Response, error) {
	r := e.newReview(ctx, req, mocks, call{as: req.Version()})
	var all []Response
	for i, p := range phases {
		if len(in) > 0 && !slices.Contains(in, Phase(i)) {
			continue
		}
		if err := r.each(p, func(resp Response) { all = append(all, resp) }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func excludesOf(list []document.PodSecurityExclude) []podsecurity.Exclude {
	var all []podsecurity.Exclude
	for _, x := range list {
		all = append(all, podsecurity.Exclude(x))
	}
	return all
}
