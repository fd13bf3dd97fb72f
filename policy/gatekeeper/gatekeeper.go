// Package gatekeeper evaluates requests against Gatekeeper's policies:
// ConstraintTemplates, in Rego or in CEL, with their constraints.
//
// [New] takes the objects that hold templates, constraints, Config and SyncSets
// and returns an [Engine], which compiles them once. The chain calls
// [Engine.Validate], as the API server calls Gatekeeper's validating webhook.
// Policy tests call [Engine.Review], as gator does.
//
// The files, in the order in which a request meets them:
//
//   - template.go reads a template; regocode.go and native.go compile its code,
//     schema.go its parameters
//   - constraint.go reads constraints; policy/internal/document decides which
//     objects they match
//   - webhook.go decides whether Gatekeeper gets the request, and evaluates its second
//     validating webhook
//   - evaluate.go evaluates the constraints for a request, and finds the fields that
//     made one fail; review.go builds the input of their policies and returns undecided
//     results where data is missing, inventory.go has the other objects that they can see
//
// [NewMutating] evaluates mutators, as Gatekeeper's mutating webhook does. They
// are read and applied in policy/internal/mutator. expand.go creates the objects
// that controllers would create, by expansion templates; expandreview.go
// evaluates these, too.
//
// The behaviour is that of Gatekeeper v3.23.1 as its chart installs it: the webhook
// gets CREATE and UPDATE, except in namespaces with the label
// admission.gatekeeper.sh/ignore. If the webhook's configuration is in the tree, it
// decides instead. A namespace that is not in the tree is taken to have no label
// that exempts it. If a policy needs its labels, the result is undecided.
package gatekeeper

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/render"
)

// Options configure an [Engine].
type Options struct {
	// Cluster holds the Namespaces for namespaceSelectors, and the objects of
	// data.inventory. nil holds none.
	Cluster *policy.Cluster

	// Kinds returns the form in which the API server holds the Cluster's
	// objects. If it is nil, they are used as written.
	Kinds policy.Kinds

	// EnforcementPoint is where constraints are enforced; scoped actions depend
	// on it. Tests for gator use PointGator. "" means admission: Gatekeeper's
	// webhook, and vap.k8s.io for templates that Gatekeeper converts to
	// ValidatingAdmissionPolicies.
	EnforcementPoint string

	// Written evaluates as gator does: objects are used as written, Config and
	// SyncSet are ignored, and every operation is evaluated.
	Written bool

	// Coverage counts the branches that templates take; nil counts nothing.
	Coverage *policy.Coverage

	// Compiled keeps templates for later engines with the same options; nil
	// keeps none. Coverage must be nil then.
	Compiled *Compiled

	// Now returns the time for policies. If it is nil, results that depend on
	// the time are undecided.
	Now func() time.Time

	// Print is called with the output of print in policies and the place in the
	// template, if it is not nil. It must be safe for concurrent use.
	Print func(policy string, at render.Span, text string)
}

// An Engine evaluates requests by compiled templates and constraints. It is safe
// for concurrent use.
type Engine struct {
	options     Options
	constraints []*constraint // by kind and name, and then as given
	config      *config
	webhook     webhook
	label       webhook // that refuses the label by which namespaces are ignored
	inventory   *inventory
	expansions  *expansions

	index sync.Map // by schema.GroupKind: the constraints that may match it
}

var _ policy.WrittenValidator = (*Engine)(nil)

// A compiler compiles the policies of an engine.
type compiler struct {
	options Options
	refused map[string]bool // names of templates that can't be used
	cel     func() (*nativeEnvs, error)
}

// New compiles the templates and constraints among the objects, and ignores
// other objects. The error joins a *render.Error for each reason why Gatekeeper
// or the API server would refuse one, and for each field that the API server
// would drop. The engine is never nil: it evaluates the valid constraints.
func New(objects []*render.Object, o Options) (*Engine, error) {
	k := &compiler{options: o, refused: map[string]bool{}, cel: sync.OnceValues(newNativeEnvs)}
	e := &Engine{options: o}
	all, errs := k.templates(objects)
	constraints, more := k.constraints(objects, all)
	e.constraints, errs = constraints, append(errs, more...)
	if !o.Written {
		e.config, more = newConfig(objects)
		errs = append(errs, more...)
		errs = append(errs, e.config.unsynced(all)...)
		e.webhook, more = webhookOf(o.Cluster, validatingKind, pointAdmission)
		errs = append(errs, more...)
		e.label, _ = webhookOf(o.Cluster, validatingKind, labelWebhook)
	}
	e.inventory = newInventory(o, e.config, all)
	errs = append(errs, e.readExpansions(objects)...)
	return e, errors.Join(errs...)
}

// With returns the engine with another cluster. Both engines share the compiled
// policies.
func (e *Engine) With(cluster *policy.Cluster) *Engine {
	o := e.options
	o.Cluster = cluster
	return &Engine{options: o, constraints: e.constraints, config: e.config, webhook: e.webhook, label: e.label, inventory: e.inventory.with(o), expansions: e.expansions}
}

func isTemplate(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == templatesGroup && gvk.Kind == "ConstraintTemplate"
}

// templates compiles the templates, in parallel. Equal templates count once. If
// templates with one name differ, the first is used.
func (c *compiler) templates(objects []*render.Object) (templates, []error) {
	var given []*render.Object
	var errs []error
	for _, o := range objects {
		if !isTemplate(o) {
			continue
		}
		switch same := slices.IndexFunc(given, func(g *render.Object) bool { return g.GetName() == o.GetName() }); {
		case same < 0:
			given = append(given, o)
		case !document.Equal(given[same], o):
			errs = append(errs, policy.ErrorAt(o, "/metadata/name", "template", document.OtherOf("template", o.GetName(), given[same])))
		}
	}
	made, faults := make([]*template, len(given)), make([][]error, len(given))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, o := range given {
		group.Go(func() error {
			made[i], faults[i] = c.options.Compiled.template(o, c.newTemplate)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	all := templates{}
	for i, t := range made {
		errs = append(errs, faults[i]...)
		if t == nil {
			c.refused[strings.ToLower(given[i].GetName())] = true
			continue
		}
		all[strings.ToLower(t.kind)] = t
	}
	return all, errs
}

// constraints reads the constraints. If several units have different
// constraints of one name, each is evaluated. Equal ones count once.
func (c *compiler) constraints(objects []*render.Object, all templates) (made []*constraint, errs []error) {
	seen := map[string][]*render.Object{}
	for _, o := range objects {
		if o.GroupVersionKind().Group != constraintsGroup {
			continue
		}
		id := o.GetKind() + "/" + o.GetName()
		if slices.ContainsFunc(seen[id], func(s *render.Object) bool { return document.Equal(s, o) }) {
			continue
		}
		seen[id] = append(seen[id], o)
		con, more := c.newConstraint(o, all)
		errs = append(errs, more...)
		if con != nil {
			made = append(made, con)
		}
	}
	slices.SortStableFunc(made, func(a, b *constraint) int {
		return strings.Compare(a.object.GetKind()+"\x00"+a.object.GetName(), b.object.GetKind()+"\x00"+b.object.GetName())
	})
	return made, errs
}

// of returns the constraints that may match objects of a kind.
func (e *Engine) of(kind schema.GroupKind) []*constraint {
	if found, ok := e.index.Load(kind); ok {
		return found.([]*constraint)
	}
	var found []*constraint
	for _, c := range e.constraints {
		if len(c.actions) > 0 && c.match.Concerns(kind) {
			found = append(found, c)
		}
	}
	e.index.Store(kind, found)
	return found
}

// Validate implements policy.Validator.
func (e *Engine) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	if len(e.constraints) == 0 && e.expansions.none() || !e.called(req.Operation) {
		return nil, nil
	}
	r := e.reviewOf(ctx, req)
	responses, err := e.respond(r)
	if err != nil {
		return nil, err
	}
	implied, err := e.validateImplied(r, responses)
	if err != nil || len(responses)+len(implied) == 0 {
		return e.refuseLabel(r), err
	}
	results := req.Room()
	for i := range responses {
		results = append(results, responses[i].result())
	}
	return append(append(results, implied...), e.refuseLabel(r)...), nil
}

// SelectsMade implements policy.MadeEngine.
func (e *Engine) SelectsMade(made, _ schema.GroupVersionKind) bool {
	return e.called(policy.Create) && len(e.of(made.GroupKind())) > 0
}

// EvaluatesWritten implements policy.WrittenValidator, because there are
// templates about versions that are no longer served.
func (e *Engine) EvaluatesWritten() {}

// called reports whether the API server calls the webhook for an operation.
func (e *Engine) called(op policy.Operation) bool {
	return e.options.Written || e.webhook.hasOperation(op)
}

// result converts a response to a result.
func (r *Response) result() policy.Result {
	c := r.constraint
	action := c.action()
	if r.ignored {
		action = policy.Warn
	}
	return policy.Result{
		Engine: policy.EngineGatekeeper, Policy: c.object.GetName(), Rule: c.object.GetKind(),
		Outcome: r.Outcome, Action: action, Severity: c.severity,
		Message: policy.Shorten(r.Message, policy.MaxMessage), Fields: r.Fields, Literals: r.literals, Assumed: r.Assumed,
		PolicyOrigin: c.origin,
	}
}
