package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Schema returns the OpenAPI schema of a served kind as the API server
// publishes it, with references replaced. A schema that contains itself ends in
// an empty object. Quantities are int-or-string, unlike in the published
// schemas, because type checking would not know fields of that type otherwise.
// The schema is shared: the caller must not change it.
func (k *Kinds) Schema(gvk schema.GroupVersionKind) (s *spec.Schema, ok bool) {
	if k.builtins[gvk] != nil {
		name, err := k.ComponentOf(gvk)
		if err != nil || name == "" {
			return nil, false
		}
		return k.resolved.component(k, name)
	}
	c := k.customs[gvk.GroupKind()]
	if c == nil || !slices.Contains(c.served, gvk.Version) || c.schemas[gvk.Version] == nil {
		return nil, false
	}
	return k.customSchema(c.schemas[gvk.Version])
}

// customSchema returns the schema of a custom kind as it is published, with the
// metadata of objects and of embedded objects (buildKubeNative of
// k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder).
func (k *Kinds) customSchema(compile func() (*customSchema, error)) (*spec.Schema, bool) {
	c, err := compile()
	if err != nil {
		return nil, false
	}
	s := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	if c == nil {
		return s, true
	}
	meta, ok := k.resolved.component(k, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
	if !ok || !exposable(c.Structural) {
		return nil, false
	}
	s = c.ToKubeOpenAPI()
	nameEmbedded(s, meta) // before nameObject, which adds shared schemas
	nameObject(s, meta)
	return s, true
}

// exposable reports whether the schema can be published. That of a hostile
// definition may not be.
func exposable(s *structural.Structural) bool {
	return len(structural.ValidateStructural(nil, s)) == 0
}

func nameObject(s, meta *spec.Schema) {
	s.SetProperty("apiVersion", *spec.StringProperty())
	s.SetProperty("kind", *spec.StringProperty())
	s.SetProperty("metadata", *meta)
}

func nameEmbedded(s, meta *spec.Schema) {
	if s == nil {
		return
	}
	for name, p := range s.Properties {
		nameEmbedded(&p, meta)
		s.Properties[name] = p
	}
	if s.Items != nil {
		nameEmbedded(s.Items.Schema, meta)
	}
	if s.AdditionalProperties != nil {
		nameEmbedded(s.AdditionalProperties.Schema, meta)
	}
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
		nameObject(s, meta)
	}
}

// resolved caches component schemas with references replaced. It is safe for
// concurrent use.
type resolved struct {
	mu    sync.Mutex
	raw   map[string]json.RawMessage
	ready map[string]*spec.Schema
	open  map[string]bool // being resolved
}

func (r *resolved) component(k *Kinds, name string) (*spec.Schema, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.raw == nil {
		raw, err := k.Components()
		if err != nil {
			return nil, false
		}
		r.raw, r.ready, r.open = raw, map[string]*spec.Schema{}, map[string]bool{}
	}
	s := r.resolve(name)
	return s, s != nil
}

// resolve returns a component's schema, or nil if there is none.
func (r *resolved) resolve(name string) *spec.Schema {
	if s, ok := r.ready[name]; ok {
		return s
	}
	if r.open[name] {
		return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	}
	raw, ok := r.raw[name]
	s := &spec.Schema{}
	if !ok || json.Unmarshal(raw, s) != nil {
		return nil
	}
	r.open[name] = true
	s = r.replace(s)
	delete(r.open, name)
	r.ready[name] = s
	return s
}

// replace replaces the references in a schema, which must not be shared.
func (r *resolved) replace(s *spec.Schema) *spec.Schema {
	if ref := reference(s); ref != "" {
		if target := r.resolve(strings.TrimPrefix(ref, refPrefix)); target != nil {
			return target
		}
		return s
	}
	for name, p := range s.Properties {
		s.Properties[name] = *r.replace(&p)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		s.AdditionalProperties.Schema = r.replace(s.AdditionalProperties.Schema)
	}
	if s.Items != nil && s.Items.Schema != nil {
		s.Items.Schema = r.replace(s.Items.Schema)
	}
	return s
}

// reference returns the reference of a schema, which may be wrapped in allOf
// beside a default.
func reference(s *spec.Schema) string {
	if ref := s.Ref.String(); ref != "" {
		return ref
	}
	for i := range s.AllOf {
		if ref := reference(&s.AllOf[i]); ref != "" {
			return ref
		}
	}
	return ""
}

// Resources returns the served resources in order, as the API server's
// discovery does: resources by plural name, and subresources as
// "resource/subresource" with the kind of their resource.
func (k *Kinds) Resources() []metav1.APIResource {
	var all []metav1.APIResource
	for _, b := range k.sortedKinds(func(*builtin) bool { return true }) {
		all = addResource(all, b.gvr(), b.gvk.Kind, b.namespaced, b.subresources)
	}
	for _, gk := range slices.SortedFunc(maps.Keys(k.customs), compareKinds) {
		c := k.customs[gk]
		for _, v := range c.served {
			all = addResource(all, c.gvr(v), gk.Kind, c.namespaced, c.subresources[v])
		}
	}
	return all
}

func addResource(all []metav1.APIResource, gvr schema.GroupVersionResource, kind string, namespaced bool, subs []string) []metav1.APIResource {
	r := metav1.APIResource{Name: gvr.Resource, Group: gvr.Group, Version: gvr.Version, Kind: kind, Namespaced: namespaced}
	all = append(all, r)
	for _, sub := range subs {
		r.Name = gvr.Resource + "/" + sub
		all = append(all, r)
	}
	return all
}

// BuiltinGroup reports whether a group is built in. Resources lists everything
// that is served in it.
func (k *Kinds) BuiltinGroup(group string) bool { return k.groups[group] }

// OtherRelease reports whether another release of Kubernetes serves a built-in
// resource, or did, that this one does not.
func (k *Kinds) OtherRelease(gvr schema.GroupVersionResource) bool {
	if k.byName[gvr] != nil {
		return false
	}
	for _, r := range rows() {
		if r.gvr() == gvr {
			return true
		}
	}
	for _, r := range removed() {
		if r.gvr() == gvr {
			return true
		}
	}
	return false
}
