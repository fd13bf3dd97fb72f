package policy

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// A Mutator changes the objects of requests by policies that it compiled once,
// before the validators see them. It is safe for concurrent use and does not
// change the request.
type Mutator interface {
	// Mutate returns a Step for each rule that matches Request.Admitted, in the
	// order in which they ran. It sets the same fields of results as a
	// Validator; the chain sets the rest. A request without an object has no
	// steps. The error is not nil only if ctx is done or there is a bug.
	Mutate(context.Context, *Request) ([]Step, error)

	// Rules returns the documentation of every rule, in a stable order.
	Rules() []Rule
}

// A Step is the effect of one rule of a Mutator.
type Step struct {
	// Result reports whether the rule could be applied. Its Fields are pointers
	// of the fields that it set, in the object after the step.
	Result Result
	// Admitted is the object after the step, admitted again, or nil if the step
	// changed nothing. It shares no mutable data with the request.
	Admitted map[string]any
	// Secret reports whether the rule has read a Secret, so that fields may hold its values.
	Secret bool
}

// A Reinvoker is a Mutator that the API server calls again if the object changed after its first
// call (k8s.io/apiserver/pkg/admission/reinvocation.go).
type Reinvoker interface {
	Mutator

	// Reinvoke is Mutate for the second call. first has the results of the first call.
	Reinvoke(ctx context.Context, req *Request, first []Result) ([]Step, error)
}

// A secondCall is the second call of a mutator.
type secondCall struct {
	Reinvoker
	first []Result
}

// Mutate implements Mutator.
func (s secondCall) Mutate(ctx context.Context, req *Request) ([]Step, error) {
	return s.Reinvoke(ctx, req, s.first)
}

// mutate runs the mutators in order, each on the result of the previous one, and then again those that
// the API server reinvokes. It returns their results with places.
func (c Chain) mutate(ctx context.Context, req *Request, h *history) ([]Result, error) {
	var results []Result
	changes := make([]int, len(c.Mutators)) // before and by each mutator
	for i, m := range c.Mutators {
		rs, err := c.apply(ctx, m, req, h, nil)
		if err != nil {
			return nil, err
		}
		results, changes[i] = append(results, rs...), len(h.changes)
	}
	for i, m := range c.Mutators {
		r, ok := m.(Reinvoker)
		if !ok || changes[i] == len(h.changes) {
			continue
		}
		first := slices.Clip(results)
		rs, err := c.apply(ctx, secondCall{r, first}, req, h, first)
		if err != nil {
			return nil, err
		}
		results = append(results, rs...)
	}
	return results, nil
}

// apply runs one mutator. It leaves out steps that change nothing and repeat one of the results before.
func (c Chain) apply(ctx context.Context, m Mutator, req *Request, h *history, before []Result) ([]Result, error) {
	steps, err := c.steps(ctx, m, req)
	steps = slices.DeleteFunc(steps, func(s Step) bool {
		return s.Admitted == nil && slices.ContainsFunc(before, func(r Result) bool {
			return r.Engine == s.Result.Engine && r.Policy == s.Result.Policy && r.Rule == s.Result.Rule && r.Outcome == s.Result.Outcome
		})
	})
	results := make([]Result, 0, len(steps))
	for i := range steps {
		s := &steps[i]
		if s.Admitted != nil {
			made := newChange(req.Admitted, s.Admitted, s.Result)
			made.secret = s.Secret
			h.changes = append(h.changes, made)
			req.Admitted, req.Typed = s.Admitted, nil
		}
		if req.Maker == nil {
			locate(&s.Result, req, h.silent())
		}
		h.doubt(&s.Result)
		results = append(results, s.Result)
	}
	return results, err
}

// steps converts a panic in an engine's libraries to a result, as validate
// does.
func steps(ctx context.Context, m Mutator, req *Request) (steps []Step, err error) {
	defer func() {
		if p := recover(); p != nil {
			steps, err = []Step{{Result: panicked(m, p)}}, nil
		}
	}()
	return m.Mutate(ctx, req)
}

// doubt records that the object is evaluated without a mutation whose effect
// could not be determined.
func (h *history) doubt(r *Result) {
	if r.Undecided() && r.Action == Deny {
		h.undecided = append(h.undecided, *r)
		line := fmt.Sprintf("%s %s could not be applied: checked without its changes", r.Engine, r.Policy)
		if !slices.Contains(h.doubts, line) {
			h.doubts = append(h.doubts, line)
		}
	}
}

// undecidedBefore returns the results of mutators whose effect on the creation of the old object could not be
// determined: an update keeps what they set. It leaves out those that are undecided now, too. It returns none if
// no policy in judged may deny the request.
func (req *Request) undecidedBefore(now, judged []Result) (results []Result) {
	denies := func(r Result) bool { return r.Action == Deny && r.Engine != EngineSchema && r.Engine != EngineCRD }
	if req.OldObject == nil || req.Operation == Update && req.Method == Replace || !slices.ContainsFunc(judged, denies) {
		return nil
	}
	was, _ := req.OldObject.Provenance.(mutated)
	if was.history == nil || was.rendered == req.Object { // which the base applies again
		return nil
	}
	for _, r := range was.history.undecided {
		if slices.ContainsFunc(now, func(n Result) bool { return n.Undecided() && n.Engine == r.Engine && n.Policy == r.Policy }) {
			continue
		}
		r.Message = "an update keeps what this policy has set when the object was created, if it matched then: " + r.Message
		locate(&r, req, (&history{}).silent())
		results = append(results, r)
	}
	return results
}

// Stored returns the objects as the API server would store them if it accepted
// the requests: typed, defaulted and mutated, with the results of the mutators.
// The object of a DELETE is nil. An object that can't be decoded is returned as
// rendered. The objects keep their provenance, extended by the policies that
// set fields. The error is not nil only if ctx is done or there is a bug.
func (c Chain) Stored(ctx context.Context, reqs []Request) ([]*render.Object, []Result, error) {
	objects := make([]*render.Object, len(reqs))
	results, err := inParallel(ctx, len(reqs), new(Compact), func(ctx context.Context, i int) ([]Result, error) {
		req := reqs[i]
		objects[i] = req.Object
		return c.watchedRequest(ctx, &req, func() (found []Result, err error) {
			objects[i], found, err = c.stored(ctx, &req)
			return found, err
		})
	})
	return objects, results.sorted(), err
}

// stored is Stored for one request. If it panics, the object is returned as
// rendered.
func (c Chain) stored(ctx context.Context, req *Request) (object *render.Object, results []Result, err error) {
	if req.Object == nil {
		return nil, nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			object, results, err = req.Object, []Result{brokenDown(req, p)}, nil
		}
	}()
	return c.storedUnguarded(ctx, req)
}

func (c Chain) storedUnguarded(ctx context.Context, req *Request) (*render.Object, []Result, error) {
	h := newHistory()
	results, admitted := c.admit(req, h)
	if !admitted {
		for i := range results {
			locate(&results[i], req, h)
		}
		return req.Object, results, nil
	}
	results, err := c.mutate(ctx, req, h)
	if err != nil {
		return nil, nil, err
	}
	if c.storing {
		c.prepareOld(req, h)
	}
	h.traced = nil // several goroutines may ask for the object's places
	held := req.Admitted
	if c.scopeUnknown(req) {
		held = req.withoutNamespace()
	}
	return &render.Object{
		Unstructured: &unstructured.Unstructured{Object: held},
		Unit:         req.Object.Unit,
		Provenance:   mutated{req.Object, h},
		Assumed:      slices.Concat(req.Object.Assumed, h.doubts),
	}, results, nil
}

// prepareOld prepares an object as the API server stores it, but for the values that the cluster allocates,
// and sets defaults again, as the server does when it reads the object.
func (c Chain) prepareOld(req *Request, h *history) {
	for _, v := range c.Validators {
		p, ok := v.(Preparer)
		if !ok {
			continue
		}
		if p.Prepare(req); req.prepared == nil {
			continue
		}
		stored := *req.prepared
		if stored.Other != nil {
			stored.Admitted, _ = common(stored.Admitted, stored.Other.Admitted).(map[string]any)
		}
		read := &render.Object{Unstructured: &unstructured.Unstructured{Object: stored.Admitted}, Unit: req.Object.Unit}
		if held, err := c.Kinds.Admit(read, req.Namespace); err == nil {
			stored.Admitted = held
		}
		stored.Typed, req.prepared = nil, &stored
		req.prepare(h)
	}
}

// common returns the parts of two values that are the same in both, or nil. Of lists all or nothing is, unless
// they hold as many objects.
func common(a, b any) any {
	switch x := a.(type) {
	case map[string]any:
		y, _ := b.(map[string]any)
		both := make(map[string]any, len(x))
		for key, value := range x {
			if same := common(value, y[key]); same != nil {
				both[key] = same
			}
		}
		return both
	case []any:
		if y, _ := b.([]any); len(x) == len(y) && len(x) > 0 && isObject(x[0]) {
			both := make([]any, len(x))
			for i := range x {
				both[i] = common(x[i], y[i])
			}
			return both
		}
	}
	if render.Equal(a, b) {
		return a
	}
	return nil
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// mutated is the provenance of an object with a history.
type mutated struct {
	rendered *render.Object
	history  *history
}

// At implements render.Provenance.
func (m mutated) At(pointer string) []render.Origin {
	origins, _ := m.history.at(m.rendered, pointer)
	return origins
}
