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
	// Mutate returns what each rule that matches did to Request.Admitted, in
	// the order in which they ran. It sets of results what a Validator does;
	// the chain sets the rest. A request without an object has no steps. The
	// error is for cancellation and bugs.
	Mutate(context.Context, *Request) ([]Step, error)

	// Rules documents every rule it would apply, in stable order.
	Rules() []Rule
}

// A Step is what one rule of a Mutator said, and did.
type Step struct {
	// Result says whether it could be applied; its Fields are the pointers of
	// what it set, into the object as the step left it.
	Result Result
	// Admitted is the object as the step left it, admitted again; nil where
	// it changed nothing. It shares nothing that changes with the request.
	Admitted map[string]any
}

// mutate runs the mutators one after the other, each on what the one before
// left, and returns their results, located.
func (c Chain) mutate(ctx context.Context, req *Request, h *history) ([]Result, error) {
	var results []Result
	for _, m := range c.Mutators {
		steps, err := c.steps(ctx, m, req)
		if err != nil {
			return nil, err
		}
		for i := range steps {
			s := &steps[i]
			if s.Admitted != nil {
				h.changes = append(h.changes, change{req.Admitted, s.Admitted, s.Result})
				req.Admitted = s.Admitted
			}
			locate(&s.Result, req, h.silent())
			h.doubt(&s.Result)
			results = append(results, s.Result)
		}
	}
	return results, nil
}

// steps turns a panic in an engine's libraries into a result, as validate does.
func steps(ctx context.Context, m Mutator, req *Request) (steps []Step, err error) {
	defer func() {
		if p := recover(); p != nil {
			steps, err = []Step{{Result: panicked(m, p)}}, nil
		}
	}()
	return m.Mutate(ctx, req)
}

// doubt notes that the object is judged as it is without what a mutation would
// have done, which could not be told.
func (h *history) doubt(r *Result) {
	if r.Undecided() && r.Action == Deny {
		line := fmt.Sprintf("%s %s could not be applied: checked without what it would change", r.Engine, r.Policy)
		if !slices.Contains(h.doubts, line) {
			h.doubts = append(h.doubts, line)
		}
	}
}

// Stored returns the objects of the requests as the API server would store
// them if it let them pass, typed, defaulted and mutated, with what the
// mutators said; nil stands for that of a DELETE. An object that can't be
// decoded is as it was rendered. The objects' provenance is that of the
// rendered ones, and knows the policies that set fields. The error is for
// cancellation and bugs.
func (c Chain) Stored(ctx context.Context, reqs []Request) ([]*render.Object, []Result, error) {
	objects := make([]*render.Object, len(reqs))
	results, err := inParallel(ctx, len(reqs), func(ctx context.Context, i int) ([]Result, error) {
		req := reqs[i]
		objects[i] = req.Object
		return c.watchedRequest(&req, func() (found []Result, err error) {
			objects[i], found, err = c.stored(ctx, &req)
			return found, err
		})
	})
	return objects, sorted(results), err
}

// stored is Stored of one request. Where it panics the object is as it was
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
	results, admitted := c.admit(req)
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
	h.traced = nil // several goroutines may ask for the object's places
	return &render.Object{
		Unstructured: &unstructured.Unstructured{Object: req.Admitted},
		Unit:         req.Object.Unit,
		Provenance:   mutated{req.Object, h},
		Assumed:      slices.Concat(req.Object.Assumed, h.doubts),
	}, results, nil
}

// mutated is the provenance of an object after its history.
type mutated struct {
	rendered *render.Object
	history  *history
}

// At implements render.Provenance.
func (m mutated) At(pointer string) []render.Origin {
	origins, _ := m.history.at(m.rendered, pointer)
	return origins
}
