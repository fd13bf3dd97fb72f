package gatekeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/render"
)

// Mutating changes requests' objects by Gatekeeper's mutators, as its mutating
// webhook does. It is safe for concurrent use.
type Mutating struct {
	engine   *Engine // holds the webhook's options, Config and namespaces
	mutators *mutators
}

var _ policy.Mutator = (*Mutating)(nil)

// NewMutating reads the mutators among the objects (Assign, AssignImage,
// AssignMetadata and ModifySet of mutations.gatekeeper.sh), and the Config,
// which exempts namespaces. It ignores other objects. The error joins a
// *render.Error for each reason why Gatekeeper or the API server would refuse a
// mutator or not apply it. Mutating is never nil: it applies the valid
// mutators. Of the options it reads Cluster and Kinds.
func NewMutating(objects []*render.Object, o Options) (*Mutating, error) {
	all, err := newMutators(objects)
	config, _ := newConfig(objects) // New reports its errors
	webhook, more := webhookOf(o.Cluster, mutatingKind, mutationWebhook)
	return &Mutating{&Engine{options: o, config: config, webhook: webhook}, all}, errors.Join(append(more, err)...)
}

// Mutate implements policy.Mutator. There is a step for each mutator that
// matches, and one for each time that it changes the object again.
func (m *Mutating) Mutate(ctx context.Context, req *policy.Request) ([]policy.Step, error) {
	if len(m.mutators.applied) == 0 || !asksMutation(req) || !m.engine.webhook.about(req.Operation) {
		return nil, nil
	}
	x := mutable{kind: req.Kind, operation: req.Operation}
	x.matchable = matchable{object: req.Admitted, source: sourceOriginal}
	if req.Resource.Namespaced {
		x.namespace = m.engine.namespaceOf(req.Subject().Unit, req.Namespace)
	}
	if why := m.engine.exempts(processMutation, m.engine.asking(req, x.namespace)); why.why != "" {
		return m.mutators.skip(&x, why), nil
	}
	done, err := m.mutators.mutate(ctx, x)
	var refused *mutatorError
	switch {
	case errors.As(err, &refused):
		return []policy.Step{{Result: refused.result()}}, nil
	case err != nil:
		return nil, err
	}
	return m.steps(req, &done), nil
}

// gatekeeperGroups lists the groups of Gatekeeper's own objects, which it does
// not mutate.
var gatekeeperGroups = []string{
	templatesGroup, constraintsGroup, mutationsGroup, configGroup, expansionGroup,
	"externaldata.gatekeeper.sh", "status.gatekeeper.sh",
}

// asksMutation reports whether the API server calls the mutating webhook for a
// request and the webhook mutates it. It is never called for webhook
// configurations.
func asksMutation(req *policy.Request) bool {
	switch {
	case req.Admitted == nil || req.SubResource != "":
		return false
	case req.Operation != policy.Create && req.Operation != policy.Update:
		return false
	}
	return req.Kind.Group != registrationGroup && !slices.Contains(gatekeeperGroups, req.Kind.Group)
}

// skip returns a result for each mutator that matches an object which the webhook does
// not get.
func (m *mutators) skip(x *mutable, why exemption) []policy.Step {
	var steps []policy.Step
	for _, mut := range m.applied {
		if concerned, err := mut.concerns(&x.matchable, x.kind, x.operation); concerned && err == nil {
			steps = append(steps, policy.Step{Result: mut.result(why.outcome(), why.why)})
		}
	}
	return steps
}

// steps returns the mutators' changes as steps. The object is admitted again
// after each, though in a cluster the API server sees only the last state.
func (m *Mutating) steps(req *policy.Request, done *mutation) []policy.Step {
	if err := m.admit(req, done.steps); err != nil {
		return []policy.Step{{Result: err.result()}}
	}
	steps := make([]policy.Step, 0, len(done.steps)+len(done.unknowns))
	object := req.Admitted
	for i := range done.steps {
		steps = append(steps, done.steps[i].step(&object))
	}
	for i := range done.unknowns {
		steps = append(steps, policy.Step{Result: done.unknowns[i].result()})
	}
	return steps
}

// admit takes each object that the mutators made as the API server would. One
// that it would not take counts as it is where a later one is taken; the error
// is of the mutator after which none is.
func (m *Mutating) admit(req *policy.Request, steps []mutated) *mutatorError {
	var err *mutatorError
	last := true
	for i := range slices.Backward(steps) {
		if steps[i].after == nil {
			continue
		}
		admitted, refused := m.readmit(req, steps[i].after)
		switch {
		case refused == nil && err != nil:
			return err
		case refused == nil:
			steps[i].after = admitted
		case last || err != nil:
			err = &mutatorError{steps[i].by, fmt.Errorf("the API server would not accept the changed object: %w", refused)}
		}
		last = false
	}
	return err
}

func (m *Mutating) readmit(req *policy.Request, object map[string]any) (map[string]any, error) {
	if was, is := kindOf(req.Admitted), kindOf(object); was != is {
		return nil, fmt.Errorf("apiVersion and kind can't be changed from %s %s", was.GroupVersion(), was.Kind)
	}
	if m.engine.options.Kinds == nil {
		return object, nil
	}
	o := &render.Object{Unstructured: &unstructured.Unstructured{Object: object}}
	if req.Object != nil {
		o.Unit = req.Object.Unit
	}
	return m.engine.options.Kinds.Admit(o, req.Namespace)
}

// step returns the step of one mutator from one state of the object to the
// next.
func (m *mutated) step(object *map[string]any) policy.Step {
	result := m.by.result(policy.Pass, "changes nothing")
	if m.after == nil {
		return policy.Step{Result: result}
	}
	fields := patch.Differences(*object, m.after)
	if len(fields) == 0 {
		return policy.Step{Result: result}
	}
	*object = m.after
	result.Fields, result.Message = fields, "sets "+patch.OrList(fields)
	return policy.Step{Result: result, Admitted: m.after}
}

// Rules implements policy.Mutator. There is one rule for each mutator.
func (m *Mutating) Rules() []policy.Rule {
	rules := make([]policy.Rule, len(m.mutators.applied))
	for i, x := range m.mutators.applied {
		rules[i] = x.document()
	}
	return rules
}

// document documents a mutator by its annotations, as constraints are.
func (m *mutator) document() policy.Rule {
	notes := policy.Notes{m.object.GetAnnotations()}
	return policy.Rule{
		Engine: policy.EngineGatekeeper, Policy: m.name, Name: m.kind, Action: policy.Deny,
		Title: policy.FirstLine(notes.Text(titleKeys...)), Description: notes.Text(descriptionKeys...), Help: notes.Help(), URL: notes.Text(urlKeys...),
		Expression: policy.Shorten(m.location.String(), maxDocument), Origin: m.object.Span("/spec/location"),
	}
}
