package gatekeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// mutators holds all mutators in the order in which they are applied. It is
// read-only and safe for concurrent use (gatekeeper/v3/pkg/mutation).
type mutators struct {
	all     []*mutator // including those that are not applied
	applied []*mutator // those without conflicts
}

// newMutators reads the mutators among the objects. The error joins
// *render.Error; the mutators that it is not about are there all the same.
func newMutators(objects []*render.Object) (*mutators, error) {
	var errs []error
	s := &mutators{}
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
			s.applied = append(s.applied, m)
		}
	}
	return s, errors.Join(errs...)
}

// insert adds a mutator. Of several others with one name the first is used.
func (m *mutators) insert(mut *mutator) []error {
	i := slices.IndexFunc(m.all, func(o *mutator) bool { return compareMutators(mut, o) == 0 })
	switch {
	case i < 0:
		m.all = append(m.all, mut)
	case !alike(m.all[i].object, mut.object):
		return []error{policy.ErrorAt(mut.object, "/metadata/name", ruleMutator, otherOf(mut.kind, mut.name, m.all[i].object))}
	}
	return nil
}

// A mutable is an object to which mutators are applied.
type mutable struct {
	matchable
	kind      schema.GroupVersionKind
	operation policy.Operation // "" of what expansion templates make
}

// A mutated records the change of one mutator to an object.
type mutated struct {
	by    *mutator
	after map[string]any // nil where it changed nothing
}

// An unsettled is why it is not known whether, or how, a mutator is applied.
type unsettled struct {
	by       *mutator
	question string
	pointers []string // pointers of the fields that it would set
}

// A mutation is the outcome of all mutators for one object.
type mutation struct {
	steps    []mutated // in the order in which they were made
	unknowns []unsettled
	object   map[string]any // after all; the object as it was where nothing changed
}

// A mutatorError is an error for which Gatekeeper refuses an object.
type mutatorError struct {
	by  *mutator // the last one that was applied
	err error
}

func (m *mutatorError) Error() string { return m.err.Error() }

func (m *mutatorError) Unwrap() error { return m.err }

// errNotConverging is Gatekeeper's error for mutators that never settle.
var errNotConverging = errors.New("mutation not converging")

// mutate applies the mutators until nothing changes any more. It changes
// nothing that x holds. The error is a *mutatorError, or that of the context.
func (m *mutators) mutate(ctx context.Context, x mutable) (mutation, error) {
	if len(m.applied) == 0 {
		return mutation{object: x.object}, nil
	}
	r := &mutationRun{mutators: m, x: x, bounds: newBounds()}
	err := r.run(ctx)
	if err == nil {
		if asked := r.externals(); len(asked) > 0 {
			// If the mutators don't settle because of values from providers,
			// run them without these values.
			r = &mutationRun{mutators: m, x: x, bounds: newBounds(), without: asked}
			err = r.run(ctx)
			r.unknowns = append(r.unknowns, asked...)
		}
	}
	return mutation{r.steps, r.unknowns, r.latest()}, err
}

// A mutationRun applies mutators to one object.
type mutationRun struct {
	mutators *mutators
	x        mutable // its object is changed from the first round on
	bounds   bounds
	without  []unsettled // mutators that are not applied

	original map[string]any
	said     map[*mutator]bool // mutators that have a step
	steps    []mutated
	unknowns []unsettled
}

func (m *mutationRun) run(ctx context.Context) error {
	m.original = m.x.object
	if !m.concerned() {
		return nil
	}
	m.x.object, _ = clone(m.original).(map[string]any)
	if m.x.written { // gator converts the object's numbers too
		m.x.object, _ = numbers(m.original).(map[string]any)
	}
	m.said = map[*mutator]bool{}
	for i := range len(m.mutators.all) + 1 {
		if err := m.bounds.step(weight(m.x.object)); err != nil {
			return &mutatorError{m.last(), err}
		}
		before := any(m.original)
		if i > 0 || m.x.written {
			before = clone(m.x.object)
		}
		made := len(m.steps)
		if err := m.round(ctx); err != nil {
			return err
		}
		if reflect.DeepEqual(before, m.x.object) {
			m.undo(made)
			return nil
		}
	}
	last := m.last()
	return &mutatorError{last, fmt.Errorf("%w: %s still changes the object after %d rounds", errNotConverging, last.label(), len(m.mutators.all)+1)}
}

func (m *mutator) label() string { return m.kind + " " + m.name }

// concerned reports whether any mutator matches the original object.
func (m *mutationRun) concerned() bool {
	return slices.ContainsFunc(m.mutators.applied, func(mut *mutator) bool {
		concerned, err := mut.concerns(&m.x.matchable, m.x.kind, m.x.operation)
		return concerned || err != nil
	})
}

// round applies each mutator that matches the object as it is by then.
func (m *mutationRun) round(ctx context.Context) error {
	m.bounds.added = maxAdded
	for _, mut := range m.mutators.applied {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.bounds.step(1); err != nil {
			return &mutatorError{mut, err}
		}
		if slices.ContainsFunc(m.without, func(u unsettled) bool { return u.by == mut }) {
			continue
		}
		concerned, err := mut.concerns(&m.x.matchable, m.x.kind, m.x.operation)
		var undecided *cel.Undecided
		switch {
		case errors.As(err, &undecided):
			m.ask(mut, undecided)
		case err != nil:
			return &mutatorError{mut, err}
		case concerned:
			if err := m.apply(mut); err != nil {
				return &mutatorError{mut, err}
			}
		}
	}
	return nil
}

func (m *mutationRun) ask(mut *mutator, u *cel.Undecided) {
	if !slices.ContainsFunc(m.unknowns, func(o unsettled) bool { return o.by == mut }) {
		m.unknowns = append(m.unknowns, unsettled{by: mut, question: u.Question})
	}
}

func (m *mutationRun) apply(mut *mutator) error {
	a := application{mutator: mut, object: m.x.object, bounds: &m.bounds, written: m.x.written}
	if err := a.apply(); err != nil {
		return err
	}
	switch {
	case a.changed:
		if err := m.bounds.keep(weight(m.x.object)); err != nil {
			return err
		}
		after, _ := settled(m.x.object).(map[string]any)
		m.steps = append(m.steps, mutated{mut, after})
	case !m.said[mut]:
		m.steps = append(m.steps, mutated{by: mut})
	}
	m.said[mut] = true
	return nil
}

// latest returns the object after the last change.
func (m *mutationRun) latest() map[string]any {
	for _, s := range slices.Backward(m.steps) {
		if s.after != nil {
			return s.after
		}
	}
	return m.original
}

// undo drops the steps of a round that in the end changed nothing.
func (m *mutationRun) undo(from int) {
	before := map[*mutator]bool{}
	for _, s := range m.steps[:from] {
		before[s.by] = true
	}
	kept := m.steps[:from]
	for _, s := range m.steps[from:] {
		if !before[s.by] {
			kept = append(kept, mutated{by: s.by})
			before[s.by] = true
		}
	}
	m.steps = kept
}

// last returns the mutator that made the last change.
func (m *mutationRun) last() *mutator {
	for _, s := range slices.Backward(m.steps) {
		if s.after != nil {
			return s.by
		}
	}
	return m.mutators.applied[len(m.mutators.applied)-1]
}

// externals returns the mutators that set values which only an external data
// provider knows.
func (m *mutationRun) externals() []unsettled {
	if !slices.ContainsFunc(m.steps, func(s mutated) bool { _, is := s.by.set.(*externalSetter); return is && s.after != nil }) {
		return nil
	}
	found := map[string][]string{}
	findExternals(m.x.object, "", found)
	var all []unsettled
	for _, s := range m.steps {
		e, ok := s.by.set.(*externalSetter)
		if !ok || len(found[e.provider]) == 0 || slices.ContainsFunc(all, func(u unsettled) bool { return u.by == s.by }) {
			continue
		}
		all = append(all, unsettled{s.by, fmt.Sprintf("needs to know what the external data provider %s answers", e.provider), found[e.provider]})
	}
	return all
}

// maxPointers is the most fields that a result names.
const maxPointers = 64

func findExternals(v any, pointer string, found map[string][]string) {
	switch v := v.(type) {
	case *external:
		if len(found[v.provider]) < maxPointers {
			found[v.provider] = append(found[v.provider], pointer)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			findExternals(v[k], pointer+render.Pointer(k), found)
		}
	case []any:
		for i, e := range v {
			findExternals(e, pointer+render.Pointer(i), found)
		}
	}
}
