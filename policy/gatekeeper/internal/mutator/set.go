package mutator

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A Set holds all mutators in the order in which they are applied. It is
// read-only and safe for concurrent use (gatekeeper/v3/pkg/mutation).
type Set struct {
	all     []*Mutator // including those that are not applied
	Applied []*Mutator // those without conflicts
}

// New reads the mutators among the objects. The error joins *render.Error values; the
// Set has the mutators without errors.
func New(objects []*render.Object) (*Set, error) {
	var errs []error
	s := &Set{}
	for _, o := range objects {
		if !isMutator(o) {
			continue
		}
		m, found := newMutator(o)
		errs = append(errs, found...)
		if m != nil {
			errs = append(errs, s.insert(m)...)
		}
	}
	slices.SortStableFunc(s.all, compareMutators)
	errs = append(errs, findConflicts(s.all)...)
	for _, m := range s.all {
		if len(m.conflicts) == 0 {
			s.Applied = append(s.Applied, m)
		}
	}
	return s, errors.Join(errs...)
}

// insert adds a mutator. If several have one name, the first is used.
func (m *Set) insert(mut *Mutator) []error {
	i := slices.IndexFunc(m.all, func(o *Mutator) bool { return compareMutators(mut, o) == 0 })
	switch {
	case i < 0:
		m.all = append(m.all, mut)
	case !document.Equal(m.all[i].object, mut.object):
		return []error{policy.ErrorAt(mut.object, "/metadata/name", ruleMutator, document.OtherOf(mut.Kind, mut.Name, m.all[i].object))}
	}
	return nil
}

// A Target is an object to which mutators are applied.
type Target struct {
	document.Matchable
	Kind      schema.GroupVersionKind
	Operation policy.Operation // "" for objects that expansion templates create
}

// A Change records the change of one mutator to an object.
type Change struct {
	By    *Mutator
	After map[string]any // nil if it changed nothing
}

// An Unsettled is a mutator whose application, or its result, is unknown, with the
// reason.
type Unsettled struct {
	by       *Mutator
	question string
	pointers []string // pointers of the fields that it would set
}

// A Mutation is the outcome of all mutators for one object.
type Mutation struct {
	Steps    []Change // in the order in which they were made
	Unknowns []Unsettled
	Object   map[string]any // after all steps
}

// An Error is the reason why Gatekeeper refuses an object.
type Error struct {
	by  *Mutator // the last one that was applied
	err error
}

func (m *Error) Error() string { return m.err.Error() }

func (m *Error) Unwrap() error { return m.err }

// errNotConverging is Gatekeeper's error for mutators that never settle.
var errNotConverging = errors.New("mutation not converging")

// Mutate applies the mutators until nothing changes. It does not modify x. The error
// is an *Error, or the context's.
func (m *Set) Mutate(ctx context.Context, x Target) (Mutation, error) {
	if len(m.Applied) == 0 {
		return Mutation{Object: x.Object}, nil
	}
	r := &mutationRun{Set: m, x: x, bounds: newBounds()}
	err := r.run(ctx)
	if err == nil {
		if asked := r.unsettledExternals(); len(asked) > 0 {
			// If the mutators don't settle because of values from providers,
			// run them without these values.
			r = &mutationRun{Set: m, x: x, bounds: newBounds(), without: asked}
			err = r.run(ctx)
			r.unknowns = append(r.unknowns, asked...)
		}
	}
	return Mutation{r.steps, r.unknowns, r.latest()}, err
}

// A mutationRun applies mutators to one object.
type mutationRun struct {
	Set     *Set
	x       Target // its object is replaced from the first round on
	bounds  bounds
	without []Unsettled // mutators that are not applied

	original map[string]any
	reported map[*Mutator]bool // mutators that have a step
	steps    []Change
	unknowns []Unsettled
}

func (m *mutationRun) run(ctx context.Context) error {
	m.original = m.x.Object
	if !slices.ContainsFunc(m.Set.Applied, func(mut *Mutator) bool {
		concerned, err := mut.concerns(&m.x.Matchable, m.x.Kind, m.x.Operation)
		return concerned || err != nil
	}) {
		return nil
	}
	m.x.Object, _ = render.Copy(m.original).(map[string]any)
	if m.x.Written { // gator converts the object's numbers too
		m.x.Object, _ = numbers(m.original).(map[string]any)
	}
	m.reported = map[*Mutator]bool{}
	for i := range len(m.Set.all) + 1 {
		if err := m.bounds.step(Weight(m.x.Object)); err != nil {
			return &Error{m.last(), err}
		}
		before := any(m.original)
		if i > 0 || m.x.Written {
			before = render.Copy(m.x.Object)
		}
		made := len(m.steps)
		if err := m.round(ctx); err != nil {
			return err
		}
		if reflect.DeepEqual(before, m.x.Object) {
			m.undo(made)
			return nil
		}
	}
	last := m.last()
	return &Error{last, fmt.Errorf("%w: %s still changes the object after %d rounds", errNotConverging, last.label(), len(m.Set.all)+1)}
}

func (m *Mutator) label() string { return m.Kind + " " + m.Name }

// round applies each mutator that matches the current object.
func (m *mutationRun) round(ctx context.Context) error {
	m.bounds.added = maxAdded
	for _, mut := range m.Set.Applied {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		policy.Observed(ctx, policy.EngineGatekeeper, mut.ID, func() { err = m.applyIfMatches(mut) })
		if err != nil {
			return &Error{mut, err}
		}
	}
	return nil
}

// applyIfMatches applies a mutator if it matches the current object.
func (m *mutationRun) applyIfMatches(mut *Mutator) error {
	if err := m.bounds.step(1); err != nil {
		return err
	}
	if slices.ContainsFunc(m.without, func(u Unsettled) bool { return u.by == mut }) {
		return nil
	}
	concerned, err := mut.concerns(&m.x.Matchable, m.x.Kind, m.x.Operation)
	var undecided *cel.Undecided
	switch {
	case errors.As(err, &undecided):
		m.addUnknown(mut, undecided)
		return nil
	case err != nil || !concerned:
		return err
	}
	a := application{Mutator: mut, object: m.x.Object, bounds: &m.bounds, written: m.x.Written}
	if err := a.apply(); err != nil {
		return err
	}
	switch {
	case a.changed:
		if err := m.bounds.keep(Weight(m.x.Object)); err != nil {
			return err
		}
		after, _ := withoutExternals(m.x.Object).(map[string]any)
		m.steps = append(m.steps, Change{mut, after})
	case !m.reported[mut]:
		m.steps = append(m.steps, Change{By: mut})
	}
	m.reported[mut] = true
	return nil
}

func (m *mutationRun) addUnknown(mut *Mutator, u *cel.Undecided) {
	if !slices.ContainsFunc(m.unknowns, func(o Unsettled) bool { return o.by == mut }) {
		m.unknowns = append(m.unknowns, Unsettled{by: mut, question: u.Question})
	}
}

// latest returns the object after the last change.
func (m *mutationRun) latest() map[string]any {
	for _, s := range slices.Backward(m.steps) {
		if s.After != nil {
			return s.After
		}
	}
	return m.original
}

// undo drops the steps of a round that in the end changed nothing.
func (m *mutationRun) undo(from int) {
	before := map[*Mutator]bool{}
	for _, s := range m.steps[:from] {
		before[s.By] = true
	}
	kept := m.steps[:from]
	for _, s := range m.steps[from:] {
		if !before[s.By] {
			kept = append(kept, Change{By: s.By})
			before[s.By] = true
		}
	}
	m.steps = kept
}

// last returns the mutator that made the last change.
func (m *mutationRun) last() *Mutator {
	for _, s := range slices.Backward(m.steps) {
		if s.After != nil {
			return s.By
		}
	}
	return m.Set.Applied[len(m.Set.Applied)-1]
}

// unsettledExternals returns the mutators whose values only an external data provider knows.
func (m *mutationRun) unsettledExternals() []Unsettled {
	if !slices.ContainsFunc(m.steps, func(s Change) bool { _, is := s.By.set.(*externalSetter); return is && s.After != nil }) {
		return nil
	}
	found := map[string][]string{}
	for pointer, v := range render.Fields(m.x.Object, "") {
		if x, ok := v.(*external); ok && len(found[x.provider]) < maxPointers {
			found[x.provider] = append(found[x.provider], pointer)
		}
	}
	var all []Unsettled
	for _, s := range m.steps {
		e, ok := s.By.set.(*externalSetter)
		if !ok || len(found[e.provider]) == 0 || slices.ContainsFunc(all, func(u Unsettled) bool { return u.by == s.By }) {
			continue
		}
		all = append(all, Unsettled{s.By, fmt.Sprintf("needs the answer of the external data provider %s", e.provider), found[e.provider]})
	}
	return all
}

// maxPointers bounds the fields that a result names.
const maxPointers = 64
