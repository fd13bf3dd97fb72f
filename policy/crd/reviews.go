package crd

import (
	"context"
	"slices"
	"sync"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Reviews caches the results of creating CustomResourceDefinitions, because
// units and clusters often have the same ones. The zero value is empty. It is
// safe for concurrent use.
type Reviews struct {
	mu    sync.Mutex
	known map[reviewKey][]reviewed
}

type reviewKey struct {
	name    string
	version cel.Version
}

// reviewed holds the results for one definition.
type reviewed struct {
	written, admitted map[string]any
	results           []policy.Result
}

// of returns the results for a definition.
func (r *Reviews) of(ctx context.Context, e *Engine, req *policy.Request) ([]policy.Result, error) {
	if r == nil || req.OldObject != nil {
		return e.evaluateDefinition(ctx, req)
	}
	key := reviewKey{req.Object.GetName(), e.version}
	if results, ok := r.get(key, req); ok {
		return results, nil
	}
	results, err := e.evaluateDefinition(ctx, req)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.known == nil {
			r.known = make(map[reviewKey][]reviewed)
		}
		r.known[key] = append(r.known[key], reviewed{req.Object.Object, req.Admitted, copied(results)})
	}
	return results, err
}

// get returns a copy of cached results, because the chain changes them.
func (r *Reviews) get(key reviewKey, req *policy.Request) ([]policy.Result, bool) {
	r.mu.Lock()
	known := r.known[key]
	r.mu.Unlock()
	for _, k := range known {
		if render.Equal(k.written, req.Object.Object) && render.Equal(k.admitted, req.Admitted) {
			return copied(k.results), true
		}
	}
	return nil, false
}

func copied(results []policy.Result) []policy.Result {
	results = slices.Clone(results)
	for i := range results {
		results[i].Fields = slices.Clone(results[i].Fields)
	}
	return results
}
