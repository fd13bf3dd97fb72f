package kyverno

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// A side is one of the two configurations in which Kyverno lists its webhooks.
type side uint8

const (
	mutating side = iota
	validating
)

// A webhook is one that Kyverno has the API server call (pkg/controllers/webhook of Kyverno 1.19). There is one for
// each failure policy, and one for each policy with match conditions. A webhook registers the kinds that its rules
// name, with their versions and operations. It accepts equivalent versions (matchPolicy: Equivalent).
type webhook struct {
	failurePolicy string
	own           *Policy                 // the policy with match conditions; nil for the shared webhook
	kinds         map[registered][]string // the operations
}

// A registered is a kind that a webhook is called for.
type registered struct {
	document.KindSelector
	namespaced bool // only for objects in namespaces: the rule is of a Policy
}

// newWebhooks returns the webhooks of each side, in the order in which the API server calls them.
func newWebhooks(policies []*Policy) (all [2][]*webhook) {
	for s := range all {
		var own []*webhook
		for _, failure := range []string{"Ignore", "Fail"} {
			shared := &webhook{failurePolicy: failure, kinds: map[registered][]string{}}
			all[s] = append(all[s], shared)
			for _, p := range policies {
				switch w := (&webhook{failure, p, map[registered][]string{}}); {
				case !p.Admission || p.FailurePolicy != failure:
				case len(p.MatchConditions) == 0:
					shared.register(p, side(s))
				default:
					w.register(p, side(s))
					own = append(own, w)
				}
			}
		}
		all[s] = append(all[s], own...)
	}
	return all
}

var (
	writing        = []string{opCreate, opUpdate}
	generated      = []string{opCreate, opUpdate, opDelete}
	everyOperation = []string{opCreate, opUpdate, opDelete, "CONNECT"}
)

// register adds the kinds of a policy's rules.
func (w *webhook) register(p *Policy, s side) {
	changes := func(r *Rule) bool { return patches.concerns(r) || len(r.VerifyImages) > 0 }
	if s == mutating && !slices.ContainsFunc(p.Rules, changes) {
		return
	}
	for _, r := range p.RulesForAll() {
		checks := slices.ContainsFunc(r.VerifyImages, func(v *document.VerifyImages) bool { return v.VerifyDigest || v.Required })
		switch {
		case r.Generate != nil:
			w.add(p, r, everyOperation)
			w.addGenerated(p, r.Generate)
		case s == validating && (r.Validate != nil || targets.concerns(r) || checks):
			w.add(p, r, everyOperation)
		case s == mutating && (changes(r) || r.Validate != nil && r.Validate.Manifests != nil):
			w.add(p, r, writing)
		}
	}
}

// add adds the kinds of a rule, with the operations that it names, or else those of byDefault. Operations that the rule
// excludes for a whole kind are left out.
func (w *webhook) add(p *Policy, r *Rule, byDefault []string) {
	kinds := map[document.KindSelector][]string{}
	for _, f := range r.Match.Filters() {
		operations := f.Operations
		if len(operations) == 0 {
			operations = byDefault
		}
		for _, k := range f.Kinds {
			kinds[k] = append(kinds[k], operations...)
		}
	}
	var excluded []*document.Filter
	if r.Exclude != nil {
		excluded = r.Exclude.Any
	}
	for k, operations := range kinds {
		for _, f := range excluded {
			if f.NamesKindsOnly() && (len(f.Kinds) == 0 || slices.Contains(f.Kinds, k)) {
				operations = slices.DeleteFunc(operations, func(op string) bool { return len(f.Operations) == 0 || slices.Contains(f.Operations, op) })
			}
		}
		w.registerKind(p, k, operations)
	}
}

// addGenerated adds the kinds of the objects that a rule generates.
func (w *webhook) addGenerated(p *Policy, g *document.Generate) {
	specs := []map[string]any{g.Spec}
	for _, f := range g.Foreach {
		specs = append(specs, f.Spec)
	}
	for _, spec := range specs {
		kinds := []any{spec["kind"]}
		if kind, _ := spec["kind"].(string); kind == "" {
			list, _ := render.Lookup(spec, "/cloneList/kinds")
			kinds, _ = list.([]any)
		}
		for _, kind := range kinds {
			if text, ok := kind.(string); ok {
				w.registerKind(p, filters.ParseKindSelector(text), generated)
			}
		}
	}
}

func (w *webhook) registerKind(p *Policy, kind document.KindSelector, operations []string) {
	k := registered{kind, p.Namespace != ""}
	w.kinds[k] = append(w.kinds[k], operations...)
}

// takes reports whether the webhook registers a version of a kind for a request.
func (w *webhook) takes(gvk schema.GroupVersionKind, key *callKey) bool {
	for k, operations := range w.kinds {
		if k.Matches(gvk, key.subresource) && slices.Contains(operations, key.operation) && (key.namespaced || !k.namespaced) {
			return true
		}
	}
	return false
}

// A call is the call of webhooks for a request, in one version of the object.
type call struct {
	evaluates map[*Policy]bool // nil: all policies
	as        policy.Version
	unnamed   bool // no rule names the version
}

// A callKey is what the calls for a request depend on.
type callKey struct {
	side                   side
	kind                   schema.GroupVersionKind
	subresource, operation string
	namespaced             bool
}

// calls returns the calls of a side's webhooks for a request, in order. If rules name the object's kind in other
// versions alone, the API server converts the object to the first of these.
func (e *Engine) calls(req *policy.Request, s side) []call {
	if e.options.CLI || e.options.Kinds == nil {
		return []call{{as: req.Version()}}
	}
	key := callKey{s, req.Kind, req.SubResource, string(req.Operation), req.Namespace != ""}
	if known, ok := e.called.Load(key); ok {
		return known.([]call)
	}
	versions := append([]policy.Version{req.Version()}, e.options.Kinds.Equivalent(req.Resource.GroupVersionResource)...)
	candidates := e.index.For(req.Kind.Kind)
	var all []call
	for _, w := range e.webhooks[s] {
		c := call{map[*Policy]bool{}, versions[0], true}
		if i := slices.IndexFunc(versions, func(v policy.Version) bool { return w.takes(v.Kind, &key) }); i >= 0 {
			c.as, c.unnamed = versions[i], false
		}
		for _, p := range candidates {
			// The shared webhook evaluates all policies of its failure policy once it is called.
			mine := p == w.own || w.own == nil && p.FailurePolicy == w.failurePolicy && (len(p.MatchConditions) == 0 || !c.unnamed)
			if mine && !slices.ContainsFunc(all, func(before call) bool { return before.as == c.as && before.evaluates[p] }) {
				c.evaluates[p] = true
			}
		}
		if len(c.evaluates) > 0 {
			all = append(all, c)
		}
	}
	known, _ := e.called.LoadOrStore(key, all)
	return known.([]call)
}

// A stage is the phases for which webhooks of a side are called. A rule that has responded in one is left out of those after
// it: images are verified by the first webhook that gets the object.
type stage struct {
	side   side
	phases []*phase
}

// review evaluates the rules of stages as Kyverno's webhooks do, and calls respond for each response. Each webhook gets
// the object as those before have left it. It returns the last review.
func (e *Engine) review(ctx context.Context, req *policy.Request, t *explainer, stages []stage, respond func(*review, *Response)) (r *review, err error) {
	now, done := *req, map[*Rule]bool(nil)
	for i, s := range stages {
		var responded []*Rule
		for _, c := range e.calls(&now, s.side) {
			r = e.newReview(ctx, &now, nil, c)
			r.explainer, r.done = t, done
			for _, p := range s.phases {
				if err := r.each(p, func(resp Response) {
					responded = append(responded, resp.Rule)
					respond(r, &resp)
				}); err != nil {
					return nil, err
				}
			}
			if !r.changed {
				continue
			}
			changed := r.object
			if r.converted {
				if changed, err = e.options.Kinds.Convert(r.object, req.Kind); err != nil {
					continue // respond has said so
				}
			}
			now.Admitted, now.Typed = changed, nil
		}
		if i < len(stages)-1 && len(responded) > 0 {
			done = make(map[*Rule]bool, len(responded))
			for _, rule := range responded {
				done[rule] = true
			}
		}
	}
	if r == nil {
		r = e.newReview(ctx, req, nil, call{as: req.Version()})
	}
	return r, ctx.Err()
}

// in returns the request as a webhook receives it in a version. If the objects can't be converted here, they are
// returned as they are, with an error.
func (e *Engine) in(req *policy.Request, as policy.Version) (*policy.Request, error) {
	if as == req.Version() {
		return req, nil
	}
	seen := *req
	seen.Kind, seen.Resource.GroupVersionResource, seen.Typed = as.Kind, as.Resource, nil
	for _, tree := range []*map[string]any{&seen.Admitted, &seen.OldAdmitted} {
		if *tree == nil {
			continue
		}
		converted, err := e.options.Kinds.Convert(*tree, seen.Kind)
		if err != nil {
			return &seen, err
		}
		*tree = converted
	}
	return &seen, nil
}

// versionsUnknown reports whether a call's version is named by no rule, and it is unknown which others the kind has.
func (c call) versionsUnknown(req *policy.Request) bool {
	return c.unnamed && match.VersionsUnknown(req.Resource)
}
