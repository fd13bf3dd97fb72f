package crd

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Reviews caches the results of creating CustomResourceDefinitions, and of updates that
// leave them as they are, because units and clusters often have the same ones. The zero
// value is empty. It is safe for concurrent use.
type Reviews struct {
	mu    sync.Mutex
	known map[reviewKey][]policy.Result
}

type reviewKey struct {
	version           cel.Version
	operation         policy.Operation
	written, admitted [sha256.Size]byte
}

// of returns the results for a definition.
func (r *Reviews) of(ctx context.Context, e *Engine, req *policy.Request) ([]policy.Result, error) {
	if r == nil || req.OldObject != nil && !render.Equal(req.OldAdmitted, req.Admitted) {
		return e.evaluateDefinition(ctx, req)
	}
	key, ok := e.reviewKey(req)
	if !ok {
		return e.evaluateDefinition(ctx, req)
	}
	r.mu.Lock()
	results, known := r.known[key]
	r.mu.Unlock()
	if known {
		return copied(results), nil
	}
	results, err := e.evaluateDefinition(ctx, req)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.known == nil {
			r.known = make(map[reviewKey][]policy.Result)
		}
		r.known[key] = copied(results)
	}
	return results, err
}

// reviewKey returns the key of a request; ok is false if the definition is no JSON.
func (e *Engine) reviewKey(req *policy.Request) (key reviewKey, ok bool) {
	written, err := digest(req.Object.Object)
	if err != nil {
		return reviewKey{}, false
	}
	admitted, err := digest(req.Admitted)
	return reviewKey{e.version, req.Operation, written, admitted}, err == nil
}

// digest returns a hash of all that the results for a definition depend on: its labels matter
// only if one of them is invalid.
func digest(definition map[string]any) (sum [sha256.Size]byte, err error) {
	if labels, ok, err := unstructured.NestedStringMap(definition, "metadata", "labels"); ok && err == nil && len(validation.ValidateLabels(labels, nil)) == 0 {
		meta := maps.Clone(definition["metadata"].(map[string]any))
		delete(meta, "labels")
		definition = maps.Clone(definition)
		definition["metadata"] = meta
	}
	data, err := json.Marshal(definition)
	return sha256.Sum256(data), err
}

// copied returns a copy of results, because the chain changes them.
func copied(results []policy.Result) []policy.Result {
	results = slices.Clone(results)
	for i := range results {
		results[i].Fields = slices.Clone(results[i].Fields)
	}
	return results
}
