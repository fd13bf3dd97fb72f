package schema

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A custom is a kind defined by a CustomResourceDefinition.
type custom struct {
	group, kind, plural string
	namespaced          bool
	guessed             bool              // the plural and the scope, in a definition made of a catalogue's schema
	served              []string          // versions, as listed
	deprecated          map[string]string // warnings, by version
	webhook             bool              // converts between the versions
	schemas             map[string]func() (*customSchema, error)
	subresources        map[string][]string // by version
}

// IsDefinition reports whether an object is a CustomResourceDefinition.
func IsDefinition(o *render.Object) bool { return isDefinition(o.GroupVersionKind()) }

func isDefinition(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "apiextensions.k8s.io" && gvk.Kind == "CustomResourceDefinition"
}

// addCustom reads a definition, of apiextensions.k8s.io/v1 or v1beta1. If
// several define the same kind, the first is used. It returns an error for an invalid definition, unless nothing
// deploys it.
func (k *Kinds) addCustom(o *render.Object) error {
	c, pointer, err := readCRD(o.Object)
	switch {
	case err != nil && o.Unit != nil && o.Unit.State == render.Unreached: // such as a patch that a kustomization leaves out
		return nil
	case err != nil:
		e := &render.Error{Rule: "invalid-crd", Err: fmt.Errorf("CustomResourceDefinition %s: %w", o.GetName(), err)}
		if places := o.At(pointer); len(places) > 0 {
			e.Span = places[0].Span
		}
		return e
	}
	gk := schema.GroupKind{Group: c.group, Kind: c.kind}
	if k.customs[gk] == nil {
		k.customs[gk] = c
	}
	return nil
}

// readCRD reads the names and served versions of a kind. The error is about the
// field at pointer.
func readCRD(object map[string]any) (c *custom, pointer string, err error) {
	spec, _ := object["spec"].(map[string]any)
	if spec == nil {
		return nil, "/spec", errors.New("has no spec")
	}
	c = &custom{}
	scope := ""
	for _, f := range []struct {
		to   *string
		path []string
	}{
		{&c.group, []string{"group"}},
		{&c.kind, []string{"names", "kind"}},
		{&c.plural, []string{"names", "plural"}},
		{&scope, []string{"scope"}},
	} {
		text, _, _ := unstructured.NestedString(spec, f.path...)
		if *f.to = text; text == "" {
			return nil, "/spec/" + strings.Join(f.path, "/"), fmt.Errorf("spec.%s: Required value", strings.Join(f.path, "."))
		}
	}
	if scope != "Namespaced" && scope != "Cluster" {
		return nil, "/spec/scope", errors.New(`spec.scope: Unsupported value: supported values: "Cluster", "Namespaced"`)
	}
	c.namespaced = scope == "Namespaced"
	guessed, _, _ := unstructured.NestedString(object, "metadata", "annotations", policy.GuessedResource)
	c.guessed = guessed != ""
	strategy, _, _ := unstructured.NestedString(spec, "conversion", "strategy")
	c.webhook = strategy == "Webhook"
	c.schemas = readSchemas(object)
	c.subresources = readSubresources(spec)
	c.deprecated = readDeprecated(spec, c.group, c.kind)
	if c.served = servedVersions(spec); len(c.served) == 0 {
		return nil, "/spec/versions", errors.New("spec.versions: Required value: no version is served")
	}
	return c, "", nil
}

// readSubresources returns the subresources of each version, including those
// that v1beta1 declares for all versions.
func readSubresources(spec map[string]any) map[string][]string {
	byVersion := map[string][]string{}
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		v, _ := v.(map[string]any)
		name, _ := v["name"].(string)
		for _, from := range []map[string]any{spec, v} {
			subs, _ := from["subresources"].(map[string]any)
			for _, sub := range []string{"scale", "status"} {
				if subs[sub] != nil && !slices.Contains(byVersion[name], sub) {
					byVersion[name] = append(byVersion[name], sub)
				}
			}
		}
	}
	return byVersion
}

// servedVersions returns the served versions, or spec.version of v1beta1.
func servedVersions(spec map[string]any) []string {
	var served []string
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		v, _ := v.(map[string]any)
		name, _ := v["name"].(string)
		if on, _ := v["served"].(bool); on && name != "" {
			served = append(served, name)
		}
	}
	if single, _ := spec["version"].(string); single != "" && len(versions) == 0 {
		served = append(served, single)
	}
	return served
}

// prepareCustom gives later validators a custom resource as its strategy's PrepareForCreate or PrepareForUpdate
// (pkg/registry/customresource of k8s.io/apiextensions-apiserver) leaves it.
func (k *Kinds) prepareCustom(req *policy.Request) {
	c := k.customs[req.Kind.GroupKind()]
	if c == nil || req.Admitted == nil {
		return
	}
	p := &policy.Prepared{Admitted: maps.Clone(req.Admitted)}
	if slices.Contains(c.subresources[req.Kind.Version], "status") {
		delete(p.Admitted, "status")
		if status, ok := req.OldAdmitted["status"]; ok {
			p.Admitted["status"] = status
		}
	}
	metadata, _ := p.Admitted["metadata"].(map[string]any)
	if metadata = maps.Clone(metadata); metadata != nil {
		metadata["generation"] = generation(req.OldAdmitted, p.Admitted)
		p.Admitted["metadata"] = metadata
	}
	req.Prepare(p)
}

// generation returns the generation of a custom resource: the next one if anything but its metadata changes.
func generation(old, now map[string]any) int64 {
	was, _ := old["metadata"].(map[string]any)
	n, _ := was["generation"].(int64)
	without := func(o map[string]any) map[string]any {
		o = maps.Clone(o)
		delete(o, "metadata")
		return o
	}
	if old != nil && render.Equal(without(old), without(now)) {
		return max(n, 1)
	}
	return n + 1
}

func (c *custom) gvr(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: c.group, Version: version, Resource: c.plural}
}

// readSchemas takes the schemas of the served versions from a definition in
// apiextensions.k8s.io/v1; the ones of v1beta1 may not be structural.
func readSchemas(object map[string]any) map[string]func() (*customSchema, error) {
	schemas := map[string]func() (*customSchema, error){}
	if object["apiVersion"] != "apiextensions.k8s.io/v1" {
		return schemas
	}
	keepUnknown, _, _ := unstructured.NestedBool(object, "spec", "preserveUnknownFields")
	versions, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "versions")
	list, _ := versions.([]any)
	for _, v := range list {
		v, _ := v.(map[string]any)
		name, _ := v["name"].(string)
		props, _, _ := unstructured.NestedFieldNoCopy(v, "schema", "openAPIV3Schema")
		schema, _ := props.(map[string]any)
		schemas[name] = compileSchema(schema, keepUnknown)
	}
	return schemas
}

// admit returns a copy of a custom object, pruned and defaulted by its
// definition's schema.
func (c *custom) admit(r release, o *render.Object, gvk schema.GroupVersionKind, namespace string) (map[string]any, error) {
	if !slices.Contains(c.served, gvk.Version) {
		return nil, notServed(fmt.Errorf("no matches for kind %q in version %q: its CustomResourceDefinition serves %s",
			gvk.Kind, gvk.GroupVersion(), strings.Join(c.served, ", ")), "/apiVersion")
	}
	held := runtime.DeepCopyJSON(o.Object)
	if compile := c.schemas[gvk.Version]; compile != nil {
		s, err := compile()
		if err != nil {
			return nil, fmt.Errorf("the schema of %s %s can't be read: %w", gvk.GroupVersion(), gvk.Kind, short(err))
		}
		if err := s.complete(held); err != nil {
			return nil, badRequest(gvk, err)
		}
	}
	if r < omitsNullTimestamps {
		nullTimestamp(held)
	}
	place(held, c.namespaced, namespace)
	return held, nil
}

// nullTimestamp sets the null creationTimestamp that older servers write.
func nullTimestamp(held map[string]any) {
	if m, ok := held["metadata"].(map[string]any); ok && m["creationTimestamp"] == nil {
		m["creationTimestamp"] = nil // the key is there, without a value
	}
}

func (c *custom) convert(admitted map[string]any, from, to schema.GroupVersionKind) (map[string]any, error) {
	if !slices.Contains(c.served, to.Version) {
		return nil, fmt.Errorf("%s is not served in version %s", from.GroupKind(), to.Version)
	}
	if c.webhook {
		return nil, fmt.Errorf("%s is converted to %s by a webhook, which can't be called offline", from.GroupKind(), to.Version)
	}
	converted := runtime.DeepCopyJSON(admitted)
	converted["apiVersion"] = to.GroupVersion().String()
	return converted, nil
}

// equivalentCustoms lists the other served versions of a custom resource.
func (k *Kinds) equivalentCustoms(gvr schema.GroupVersionResource) []policy.Version {
	var kinds []schema.GroupKind
	for gk, c := range k.customs {
		if c.group == gvr.Group && c.plural == gvr.Resource && slices.Contains(c.served, gvr.Version) {
			kinds = append(kinds, gk)
		}
	}
	slices.SortFunc(kinds, compareKinds)
	var found []policy.Version
	for _, gk := range kinds {
		c := k.customs[gk]
		for _, v := range c.served {
			if v != gvr.Version {
				found = append(found, policy.Version{Resource: c.gvr(v), Kind: gk.WithVersion(v)})
			}
		}
	}
	return found
}

// suggestCustom returns the custom kind of the group that differs only in
// letter case and white space, as a suggestion.
func (k *Kinds) suggestCustom(gvk schema.GroupVersionKind) string {
	for _, gk := range slices.SortedFunc(maps.Keys(k.customs), compareKinds) {
		if fold(gk.Group) == fold(gvk.Group) && fold(gk.Kind) == fold(gvk.Kind) {
			if gk.Group == gvk.Group {
				return gk.Kind
			}
			return gk.Group + "/" + k.customs[gk].served[0] + " " + gk.Kind
		}
	}
	return ""
}

func compareKinds(a, b schema.GroupKind) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Group, b.Group))
}
