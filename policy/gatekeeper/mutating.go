package gatekeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/mutator"
	"github.com/preadmit/preadmit/render"
)

// Mutating changes requests' objects by Gatekeeper's mutators, as its mutating
// webhook does. It is safe for concurrent use.
type Mutating struct {
	engine   *Engine // holds the webhook's options, Config and namespaces
	mutators *mutator.Set
}

var _ policy.Mutator = (*Mutating)(nil)

// NewMutating reads the mutators among the objects (Assign, AssignImage,
// AssignMetadata and ModifySet of mutations.gatekeeper.sh), and the Config,
// which exempts namespaces. It ignores other objects. The error joins a
// *render.Error for each reason why Gatekeeper or the API server would refuse a
// mutator or not apply it. Mutating is never nil: it applies the valid
// mutators. Of the options it reads Cluster and Kinds.
func NewMutating(objects []*render.Object, o Options) (*Mutating, error) {
	all, err := mutator.New(objects)
	config, _ := newConfig(objects) // New reports its errors
	webhook, more := webhookOf(o.Cluster, mutatingKind, mutationWebhook)
	return &Mutating{&Engine{options: o, config: config, webhook: webhook}, all}, errors.Join(append(more, err)...)
}

// Mutate implements policy.Mutator. There is a step for each mutator that
// matches, and one for each time that it changes the object again.
func (m *Mutating) Mutate(ctx context.Context, req *policy.Request) ([]policy.Step, error) {
	if len(m.mutators.Applied) == 0 || !asksMutation(req) || !m.engine.webhook.hasOperation(req.Operation) {
		return nil, nil
	}
	x := mutator.Target{Kind: req.Kind, Operation: req.Operation}
	x.Matchable = document.Matchable{Object: req.Admitted, Source: document.SourceOriginal}
	if req.Resource.Namespaced {
		x.Namespace = m.engine.namespaceOf(req.Subject().Unit, req.Namespace)
	}
	if why := m.engine.exempts(processMutation, m.engine.webhookRequest(req, x.Namespace)); why.why != "" {
		return m.mutators.Skip(&x, why.outcome(), why.why), nil
	}
	done, err := m.mutators.Mutate(ctx, x)
	var refused *mutator.Error
	switch {
	case errors.As(err, &refused):
		return []policy.Step{{Result: refused.Result()}}, nil
	case err != nil:
		return nil, err
	}
	return m.steps(ctx, req, &done), nil
}

// gatekeeperGroups lists the groups of Gatekeeper's own objects, which it does
// not mutate.
var gatekeeperGroups = []string{
	templatesGroup, constraintsGroup, mutator.Group, configGroup, expansionGroup,
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

// steps returns the mutators' changes as steps. The object is admitted again
// after each, though in a cluster the API server sees only the last state.
func (m *Mutating) steps(ctx context.Context, req *policy.Request, done *mutator.Mutation) []policy.Step {
	if err := m.admit(ctx, req, done.Steps); err != nil {
		return []policy.Step{{Result: err.Result()}}
	}
	steps := make([]policy.Step, 0, len(done.Steps)+len(done.Unknowns))
	object := req.Admitted
	for i := range done.Steps {
		policy.Observed(ctx, policy.EngineGatekeeper, done.Steps[i].By.ID, func() { steps = append(steps, done.Steps[i].Step(&object)) })
	}
	for i := range done.Unknowns {
		steps = append(steps, policy.Step{Result: done.Unknowns[i].Result()})
	}
	return steps
}

// admit replaces the object of each step by the one that the API server would
// hold. It need not accept the objects before the last one: these stay as they
// are. The error names the first mutator after which it accepts none.
func (m *Mutating) admit(ctx context.Context, req *policy.Request, steps []mutator.Change) *mutator.Error {
	var err *mutator.Error
	last := true
	for i := range slices.Backward(steps) {
		if steps[i].After == nil {
			continue
		}
		var admitted map[string]any
		var refused error
		policy.Observed(ctx, policy.EngineGatekeeper, steps[i].By.ID, func() { admitted, refused = m.readmit(req, steps[i].After) })
		switch {
		case refused == nil && err != nil:
			return err
		case refused == nil:
			steps[i].After = admitted
		case last || err != nil:
			err = steps[i].Refused(fmt.Errorf("the API server would not accept the changed object: %w", refused))
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
	return req.Admit(m.engine.options.Kinds, o)
}

// Rules implements policy.Mutator. There is one rule for each mutator.
func (m *Mutating) Rules() []policy.Rule {
	rules := make([]policy.Rule, len(m.mutators.Applied))
	for i, x := range m.mutators.Applied {
		rules[i] = x.Rule()
	}
	return rules
}
