package cel

import (
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Types describes the resources that the API server serves, and their fields.
// It must be safe for concurrent use.
type Types interface {
	// Resources returns the served resources as discovery does: plural names,
	// and subresources as "resource/subresource".
	Resources() []metav1.APIResource
	// Schema returns the published schema of a kind, with references replaced.
	Schema(schema.GroupVersionKind) (*spec.Schema, bool)
}

// KindTypes holds the CEL types of kinds, each made on first use. It is safe for concurrent use.
type KindTypes struct {
	Served func() []metav1.APIResource

	types Types
	mu    sync.Mutex
	decls map[string]func() *apiservercel.DeclType
}

// NewKindTypes returns the types of the kinds that are served.
func NewKindTypes(types Types) *KindTypes {
	return &KindTypes{Served: sync.OnceValue(types.Resources), types: types, decls: map[string]func() *apiservercel.DeclType{}}
}

// maxTypes is the most kinds of one rule that are checked.
const maxTypes = 10

// Of returns the kinds with which a policy is checked, in order.
func (k *KindTypes) Of(rules []v1.NamedRuleWithOperations) []schema.GroupVersionKind {
	found := map[schema.GroupVersionKind]bool{}
	for i := range rules {
		if !k.kindsOf(&rules[i].Rule, found) {
			break
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b schema.GroupVersionKind) int {
		return slices.Compare([]string{a.Group, a.Version, a.Kind}, []string{b.Group, b.Version, b.Kind})
	})
}

// kindsOf adds a rule's kinds. At the limit it stops, and later rules are not
// checked either.
func (k *KindTypes) kindsOf(r *v1.Rule, found map[schema.GroupVersionKind]bool) (more bool) {
	star := func(s string) bool { return strings.Contains(s, "*") }
	if slices.ContainsFunc(r.APIGroups, star) || slices.ContainsFunc(r.APIVersions, star) {
		return true
	}
	n := 0
	for _, group := range slices.Sorted(slices.Values(r.APIGroups)) {
		for _, version := range slices.Sorted(slices.Values(r.APIVersions)) {
			for _, resource := range slices.Sorted(slices.Values(r.Resources)) {
				for _, gvk := range k.kindsFor(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}) {
					found[gvk] = true
					if n++; n == maxTypes {
						return false
					}
				}
			}
		}
	}
	return true
}

// kindsFor returns the kinds of a resource, found as the API server's REST
// mapper does: in any letter case, also by the singular name, and in any group
// if none is given.
func (k *KindTypes) kindsFor(gvr schema.GroupVersionResource) []schema.GroupVersionKind {
	name := strings.ToLower(gvr.Resource)
	var kinds []schema.GroupVersionKind
	for _, r := range k.Served() {
		if r.Version != gvr.Version || gvr.Group != "" && r.Group != gvr.Group || strings.Contains(r.Name, "/") {
			continue
		}
		if r.Name == name || strings.ToLower(r.Kind) == name {
			kinds = append(kinds, schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind})
		}
	}
	return kinds
}

// Decl returns the CEL type of a kind, named after it with a prefix, or nil if
// the kind's schema is unknown. The kind without a name has the fields that every object has.
func (k *KindTypes) Decl(gvk schema.GroupVersionKind, prefix string) *apiservercel.DeclType {
	name := prefix + gvk.GroupVersion().String() + "." + gvk.Kind
	if gvk.Empty() {
		return anyObject(k.Decl(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, ""))
	}
	k.mu.Lock()
	f := k.decls[name]
	if f == nil {
		f = sync.OnceValue(func() *apiservercel.DeclType {
			s, ok := k.types.Schema(gvk)
			if !ok {
				return nil
			}
			d := common.SchemaDeclType(&openapi.Schema{Schema: s}, true)
			if d == nil {
				return nil
			}
			return d.MaybeAssignTypeName(name)
		})
		k.decls[name] = f
	}
	k.mu.Unlock()
	return f()
}

// Known returns those kinds of rules that have a schema, or else the kind without a name.
func (k *KindTypes) Known(m *v1.MatchResources) []schema.GroupVersionKind {
	var known []schema.GroupVersionKind
	if m != nil {
		known = slices.DeleteFunc(k.Of(m.ResourceRules), func(kind schema.GroupVersionKind) bool { return k.Decl(kind, "") == nil })
	}
	if len(known) == 0 {
		known = []schema.GroupVersionKind{{}}
	}
	return known
}

// anyObject returns a type with those fields of a kind's type that every object has.
func anyObject(of *apiservercel.DeclType) *apiservercel.DeclType {
	fields := map[string]*apiservercel.DeclField{}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		fields[name] = of.Fields[name]
	}
	return apiservercel.NewObjectType("object", fields)
}
