// Package crd validates custom resources as the API server does, by the schemas, list
// types and CEL rules of their CustomResourceDefinitions, and the definitions
// themselves.
//
// [New] takes the objects that hold definitions, both of the tree and of its
// context. The chain calls [Engine.Validate] with each completed request.
//
// A definition is validated by the API server's own code
// (definition.go), with the CEL environment of the wanted version
// (gate.go). A custom resource is validated in the order of its strategy in
// k8s.io/apiextensions-apiserver/pkg/registry/customresource: unknown
// fields, metadata, schema, embedded objects, list types (custom.go), then
// x-kubernetes-validations (compile.go, walk.go), with ratcheting and the cost
// budgets. Unknown fields are failures, because `kubectl apply` and Argo CD set
// fieldValidation=Strict, and a server-side apply fails with "field not declared
// in schema".
//
// A result's policy is the definition's name. Its rule is one of these:
//
//	spec.versions[v1].schema.properties[spec].properties[replicas].maximum
//	spec.versions[v1].schema.properties[spec].x-kubernetes-validations[0]
//	unknown-fields   a field that the schema does not have
//	metadata         the object's metadata
//	schema           passes if the object is valid, CEL rules apart
//	validation       the definition outside its schemas; passes if it is valid
//	limits           the object is too large to be checked
//
// Paths leave out openAPIV3Schema and name the version. A CEL rule passes once
// for an object, or fails once for each place. PolicyOrigin is the rule's line in
// the definition.
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
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Options configure an Engine.
type Options struct {
	// KubeVersion is the API server's version, such as "1.31". "" selects the
	// newest one that the libraries know.
	KubeVersion string

	// Reviews keeps results about definitions, which engines can share; nil
	// keeps none.
	Reviews *Reviews
}

// An Engine validates requests by CustomResourceDefinitions. It is safe for
// concurrent use.
type Engine struct {
	version cel.Version
	reviews *Reviews
	rules   []policy.Rule // for each definition those for all its objects, then the CEL rules of its versions
	byKind  map[schema.GroupKind]*definition
}

var _ policy.Validator = (*Engine)(nil)

// New reads the CustomResourceDefinitions among the objects, and ignores other
// objects. If several define one kind, the first is used. Schemas are compiled on
// first use, and their errors are results of the requests for the kind. New fails
// only if KubeVersion is invalid.
func New(objects []*render.Object, options Options) (*Engine, error) {
	v, err := cel.ParseVersion(options.KubeVersion)
	if err != nil {
		return nil, err
	}
	e := &Engine{version: v, reviews: options.Reviews, byKind: map[schema.GroupKind]*definition{}}
	for _, o := range objects {
		if !isDefinition(o) {
			continue
		}
		d := newDefinition(o, v)
		if gk := d.groupKind(); e.byKind[gk] == nil {
			e.byKind[gk] = d
			e.rules = append(e.rules, d.rules()...)
		}
	}
	return e, nil
}

// Validate implements policy.Validator. DELETE requests, and requests for kinds
// without a definition, give no results.
func (e *Engine) Validate(ctx context.Context, req *policy.Request) (results []policy.Result, err error) {
	if req.Object == nil || req.SubResource != "" {
		return nil, nil
	}
	if isDefinition(req.Object) {
		policy.Observed(ctx, policy.EngineCRD, req.Name, func() { results, err = e.reviews.of(ctx, e, req) })
		return results, err
	}
	d := e.byKind[req.Kind.GroupKind()]
	if d == nil {
		return nil, nil
	}
	policy.Observed(ctx, policy.EngineCRD, d.object.GetName(), func() { results, err = e.evaluateCustom(ctx, req, d) })
	return results, err
}

// Rules implements policy.Validator.
func (e *Engine) Rules() []policy.Rule { return e.rules }

func isDefinition(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == "apiextensions.k8s.io" && gvk.Kind == "CustomResourceDefinition"
}

// A collector gathers the results for one object, up to a number of failures.
type collector struct {
	results  []policy.Result
	failures int
}

// maxFailures limits the failures of one object that are reported one by one.
const maxFailures = 100

// full reports whether further failures are only counted.
func (c *collector) full() bool { return c.failures >= maxFailures }

// add adds a result, unless it is a duplicate.
func (c *collector) add(r policy.Result) {
	if r.Outcome != policy.Pass && r.Outcome != policy.Skip {
		if c.failures++; c.failures > maxFailures {
			return
		}
		for i := range c.results {
			if s := &c.results[i]; s.Rule == r.Rule && s.Message == r.Message && slices.Equal(s.Fields, r.Fields) {
				return
			}
		}
	}
	r.Engine = policy.EngineCRD
	r.Message = policy.Shorten(r.Message, policy.MaxMessage)
	c.results = append(c.results, r)
}

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
