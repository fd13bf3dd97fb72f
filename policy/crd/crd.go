// Package crd validates custom resources as the API server does, by the schemas, list
// types and CEL rules of their CustomResourceDefinitions, and the definitions
// themselves.
//
// In go the objects of the tree and of its context ([New]), then requests as a
// policy.Chain completes them; out come results.
//
// A definition is validated by the API server's own code
// (definition.go, written.go), with the CEL environment of the wanted version
// (gate.go). A custom resource is validated as by its strategy in
// k8s.io/apiextensions-apiserver/pkg/registry/customresource: unknown
// fields, metadata, schema, embedded objects, list types (custom.go), then
// x-kubernetes-validations (compile.go, walk.go), with ratcheting and the cost
// budgets. Unknown fields are refused, as by `kubectl apply` and Argo CD, which ask for
// fieldValidation=Strict; a server-side apply is refused, too, with "field not declared
// in schema".
//
// The results' policy is the definition's name, and their rule one of
//
//	spec.versions[v1].schema.properties[spec].properties[replicas].maximum
//	spec.versions[v1].schema.properties[spec].x-kubernetes-validations[0]
//	unknown-fields   the schema knows no such field
//	metadata         of the object
//	schema           passes once all of the schema but its CEL rules holds
//	validation       of a definition, outside its schemas; passes once all holds
//	limits           too large to be checked
//
// in which openAPIV3Schema is left out and the version is named. Each CEL rule that was
// evaluated passes once for an object, or fails once for each place. PolicyOrigin is the rule's line in the definition.
package crd

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Options configure an Engine.
type Options struct {
	// KubeVersion is the API server's version, such as "1.31"; "" is the
	// newest that the libraries know.
	KubeVersion string

	// Reviews keeps results about definitions, which engines can share; nil
	// keeps none.
	Reviews *Reviews
}

// An Engine validates requests by CustomResourceDefinitions. It is safe for
// concurrent use.
type Engine struct {
	version     cel.Version
	reviews     *Reviews
	definitions []*definition
	byKind      map[schema.GroupKind]*definition
}

var _ policy.Validator = (*Engine)(nil)

// New takes the CustomResourceDefinitions among the objects; others are
// passed over. Of two for one kind the first counts. Schemas are compiled when
// they are first needed, and what is wrong with them is said to the requests
// that it concerns. The error is for a KubeVersion that is none.
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
			e.definitions = append(e.definitions, d)
		}
	}
	return e, nil
}

// Validate implements policy.Validator. Requests that delete, and those for
// kinds that no definition defines, give no results.
func (e *Engine) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	if req.Object == nil || req.SubResource != "" {
		return nil, nil
	}
	if isDefinition(req.Object) {
		return e.reviews.of(ctx, e, req)
	}
	d := e.byKind[req.Kind.GroupKind()]
	if d == nil {
		return nil, nil
	}
	return e.evaluateCustom(ctx, req, d)
}

// Rules implements policy.Validator: for each definition what holds for all
// objects, then the CEL rules of its versions.
func (e *Engine) Rules() []policy.Rule {
	var rules []policy.Rule
	for _, d := range e.definitions {
		rules = append(rules, d.rules()...)
	}
	return rules
}

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

// full says that further failures are only counted.
func (c *collector) full() bool { return c.failures >= maxFailures }

// add takes a result, unless the same has been said already.
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
