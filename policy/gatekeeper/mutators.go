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

// mutators are all of them, in the order in which they are applied. They are
// read-only and safe for concurrent use (gatekeeper/v3/pkg/mutation).
type mutators struct {
	all     []*mutator // even those that are not applied
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
func (s *mutators) insert(m *mutator) []error {
	i := slices.IndexFunc(s.all, func(o *mutator) bool { return compareMutators(m, o) == 0 })
	switch {
	case i < 0:
		s.all = append(s.all, m)
	case !alike(s.all[i].object, m.object):
		return []error{policy.ErrorAt(m.object, "/metadata/name", ruleMutator, otherOf(m.kind, m.name, s.all[i].object))}
	}
	return nil
}

// A mutable is an object to which mutators are applied.
type mutable struct {
	matchable
	kind      schema.GroupVersionKind
	operation policy.Operation // "" of what expansion templates make
}

// A mutated is the change of a mutator to an object that it matches.
type mutated struct {
	by    *mutator
	after map[string]any // nil where it changed nothing
}

// An unsettled is why it is not known whether, or how, a mutator is applied.
type unsettled struct {
	by       *mutator
	question string
	pointers []string // of what it would set
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

func (e *mutatorError) Error() string { return e.err.Error() }

func (e *mutatorError) Unwrap() error { return e.err }

// errNotConverging is in Gatekeeper's words.
var errNotConverging = errors.New("mutation not converging")

// mutate applies the mutators until nothing changes any more. It changes
// nothing that x holds. The error is a *mutatorError, or that of the context.
func (s *mutators) mutate(ctx context.Context, x mutable) (mutation, error) {
	if len(s.applied) == 0 {
		return mutation{object: x.object}, nil
	}
	r := &mutationRun{mutators: s, x: x, bounds: newBounds()}
	err := r.run(ctx)
	if err == nil {
		if asked := r.externals(); len(asked) > 0 {
			// Whatever the providers would answer: without it.
			r = &mutationRun{mutators: s, x: x, bounds: newBounds(), without: asked}
			err = r.run(ctx)
			r.unknowns = append(r.unknowns, asked...)
		}
	}
	return mutation{r.steps, r.unknowns, r.latest()}, err
}

// A mutationRun applies mutators to one object.
type mutationRun struct {
	mutators *mutators
	x        mutable // its object is the one that is changed, once there is a round
	bounds   bounds
	without  []unsettled // mutators that are not applied

	original map[string]any
	said     map[*mutator]bool // there is a step of it
	steps    []mutated
	unknowns []unsettled
}

func (r *mutationRun) run(ctx context.Context) error {
	r.original = r.x.object
	if !r.concerned() {
		return nil
	}
	r.x.object, _ = clone(r.original).(map[string]any)
	if r.x.written { // gator reads all numbers as it does those of values
		r.x.object, _ = numbers(r.original).(map[string]any)
	}
	r.said = map[*mutator]bool{}
	for i := range len(r.mutators.all) + 1 {
		if err := r.bounds.step(weight(r.x.object)); err != nil {
			return &mutatorError{r.last(), err}
		}
		before := any(r.original)
		if i > 0 || r.x.written {
			before = clone(r.x.object)
		}
		made := len(r.steps)
		if err := r.round(ctx); err != nil {
			return err
		}
		if reflect.DeepEqual(before, r.x.object) {
			r.undo(made)
			return nil
		}
	}
	last := r.last()
	return &mutatorError{last, fmt.Errorf("%w: %s still changes the object after %d rounds", errNotConverging, last.label(), len(r.mutators.all)+1)}
}

func (m *mutator) label() string { return m.kind + " " + m.name }

// concerned says whether there is a mutator for the object as it came.
func (r *mutationRun) concerned() bool {
	return slices.ContainsFunc(r.mutators.applied, func(m *mutator) bool {
		concerned, err := m.concerns(&r.x.matchable, r.x.kind, r.x.operation)
		return concerned || err != nil
	})
}

// round applies each mutator that matches the object as it is by then.
func (r *mutationRun) round(ctx context.Context) error {
	r.bounds.added = maxAdded
	for _, m := range r.mutators.applied {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.bounds.step(1); err != nil {
			return &mutatorError{m, err}
		}
		if slices.ContainsFunc(r.without, func(u unsettled) bool { return u.by == m }) {
			continue
		}
		concerned, err := m.concerns(&r.x.matchable, r.x.kind, r.x.operation)
		var undecided *cel.Undecided
		switch {
		case errors.As(err, &undecided):
			r.ask(m, undecided)
		case err != nil:
			return &mutatorError{m, err}
		case concerned:
			if err := r.apply(m); err != nil {
				return &mutatorError{m, err}
			}
		}
	}
	return nil
}

func (r *mutationRun) ask(m *mutator, u *cel.Undecided) {
	if !slices.ContainsFunc(r.unknowns, func(o unsettled) bool { return o.by == m }) {
		r.unknowns = append(r.unknowns, unsettled{by: m, question: u.Question})
	}
}

func (r *mutationRun) apply(m *mutator) error {
	a := application{mutator: m, object: r.x.object, bounds: &r.bounds, written: r.x.written}
	if err := a.apply(); err != nil {
		return err
	}
	switch {
	case a.changed:
		if err := r.bounds.keep(weight(r.x.object)); err != nil {
			return err
		}
		after, _ := settled(r.x.object).(map[string]any)
		r.steps = append(r.steps, mutated{m, after})
	case !r.said[m]:
		r.steps = append(r.steps, mutated{by: m})
	}
	r.said[m] = true
	return nil
}

// latest is the object as the last step that changed it left it.
func (r *mutationRun) latest() map[string]any {
	for _, s := range slices.Backward(r.steps) {
		if s.after != nil {
			return s.after
		}
	}
	return r.original
}

// undo forgets what the steps of a round did that left nothing changed.
func (r *mutationRun) undo(from int) {
	before := map[*mutator]bool{}
	for _, s := range r.steps[:from] {
		before[s.by] = true
	}
	kept := r.steps[:from]
	for _, s := range r.steps[from:] {
		if !before[s.by] {
			kept = append(kept, mutated{by: s.by})
			before[s.by] = true
		}
	}
	r.steps = kept
}

// last is the mutator that changed something last.
func (r *mutationRun) last() *mutator {
	for _, s := range slices.Backward(r.steps) {
		if s.after != nil {
			return s.by
		}
	}
	return r.mutators.applied[len(r.mutators.applied)-1]
}

// externals lists the mutators that left a value in the object which only an
// external data provider knows.
func (r *mutationRun) externals() []unsettled {
	if !slices.ContainsFunc(r.steps, func(s mutated) bool { _, is := s.by.set.(*externalSetter); return is && s.after != nil }) {
		return nil
	}
	found := map[string][]string{}
	findExternals(r.x.object, "", found)
	var all []unsettled
	for _, s := range r.steps {
		e, ok := s.by.set.(*externalSetter)
		if !ok || len(found[e.provider]) == 0 || slices.ContainsFunc(all, func(u unsettled) bool { return u.by == s.by }) {
			continue
		}
		all = append(all, unsettled{s.by, fmt.Sprintf("needs to know what the external data provider %s answers", e.provider), found[e.provider]})
	}
	return all
}

// maxPointers is how many fields a result names.
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
