package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types/ref"
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	smd "sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/render"
)

// Mergers return the converters that merge apply configurations into objects of
// a kind, or nil for an unknown kind.
type Mergers = patch.Mergers

// errRefused is an error with which the API server denies the request whatever
// the failure policy is.
type errRefused = patch.Refused

func refused(format string, args ...any) error { return patch.Refuse(format, args...) }

// errUndecided is the error for values that are unknown offline.
type errUndecided struct{ question string }

func (e *errUndecided) Error() string { return e.question }

// patched applies the value of a mutation to the object in the version that the
// policy matched, and admits the result, since the API server converts and
// defaults it after each mutation. It returns nil if nothing changed.
func (m *mutation) patched(i invocation, e *cel.Expression, value ref.Val) (map[string]any, error) {
	before := m.review().objects.In(i.as.Kind).Tree
	var after map[string]any
	var err error
	json := i.policy.mutates.mutations[e.Index].PatchType == v1.PatchTypeJSONPatch
	if json {
		after, err = m.jsonPatch(i.as.Kind, before, value)
	} else {
		after, err = m.applyConfiguration(i.as.Kind, before, value)
	}
	if as, of := i.as.Kind, m.req.Kind; err == nil && as != of && scheme.Scheme.Recognizes(as) {
		// The server converts without the internal version (dispatchOne), for which no built-in kind is prepared.
		return nil, fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", as.Version, as.Kind, of.Version, of.Kind)
	}
	if err != nil || after == nil || render.Equal(before, after) {
		return nil, err
	}
	return m.admit(before, after, json)
}

// admit defaults a patched object and converts it to the request's version.
// decoded is set for a JSON patch: the API server decodes its result, and if
// that fails denies the request whatever the failure policy is.
func (m *mutation) admit(before, after map[string]any, decoded bool) (map[string]any, error) {
	was, is := unstructured.Unstructured{Object: before}, &unstructured.Unstructured{Object: after}
	if is.GroupVersionKind() != was.GroupVersionKind() {
		return nil, refused("failed to convert object: a mutation may not change apiVersion and kind from %v", was.GroupVersionKind())
	}
	object := &render.Object{Unstructured: is}
	admitted, err := m.req.Admit(m.engine.options.Kinds, object)
	switch {
	case err != nil && decoded:
		words := err.Error()
		if _, rest, ok := strings.Cut(words, "cannot be handled as a "+is.GetKind()+": "); ok {
			words = rest
		}
		return nil, refused("Internal error occurred: %s", words)
	case err != nil:
		return nil, err
	}
	is.Object = admitted
	switch {
	case is.GetNamespace() != was.GetNamespace():
		return nil, refused("the namespace of the provided object does not match the namespace sent on the request")
	case m.req.OldAdmitted != nil && is.GetName() != was.GetName():
		return nil, refused("metadata.name: Invalid value: %q: field is immutable", is.GetName())
	case is.GroupVersionKind() == m.req.Kind:
		return admitted, nil
	}
	if admitted, err = m.engine.options.Kinds.Convert(admitted, m.req.Kind); err != nil {
		return nil, refused("failed to convert object: %w", err)
	}
	return admitted, nil
}

// converter returns the converter of a kind, or nil for an unknown kind.
func (m *mutation) converter(kind schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	if m.engine.options.Mergers == nil {
		return nil, nil
	}
	return m.engine.options.Mergers.TypeConverter(kind)
}

// applyConfiguration merges an object into another
// (k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch, smd.go).
func (m *mutation) applyConfiguration(kind schema.GroupVersionKind, before map[string]any, value ref.Val) (map[string]any, error) {
	configuration, err := patch.Configuration(value)
	if err != nil {
		return nil, err
	}
	converter, err := m.converter(kind)
	switch {
	case err != nil:
		return nil, err
	case converter == nil:
		return nil, &errUndecided{fmt.Sprintf("needs to know the schema of %v: give its CustomResourceDefinition with --with", kind)}
	}
	return patch.Merge(converter, kind, before, configuration)
}

// jsonPatch applies a list of operations
// (k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch, json_patch.go).
// If a test operation fails, it returns nil without an error.
func (m *mutation) jsonPatch(kind schema.GroupVersionKind, before map[string]any, value ref.Val) (map[string]any, error) {
	after, err := patch.JSON(before, value)
	if after == nil || err != nil {
		return nil, err
	}
	return after, m.known(kind, before, after)
}

const undeclared = ": field not declared in schema"

// known returns an error about fields that the schema of a built-in kind does
// not have.
func (m *mutation) known(kind schema.GroupVersionKind, before, after map[string]any) error {
	if is := (&unstructured.Unstructured{Object: after}); is.GroupVersionKind() != kind {
		return nil // admit refuses it
	}
	converter, err := m.converter(kind)
	if err != nil || converter == nil {
		return err
	}
	_, err = converter.ObjectToTyped(&unstructured.Unstructured{Object: after}, smd.AllowDuplicates)
	if err == nil || !strings.Contains(err.Error(), undeclared) || m.engine.custom(kind) {
		return nil // decoding reports other errors
	}
	if _, was := converter.ObjectToTyped(&unstructured.Unstructured{Object: before}, smd.AllowDuplicates); was != nil {
		return nil // the object before also has fields that are not in the schema
	}
	var unknown []string
	for line := range strings.Lines(err.Error()) {
		if path, ok := strings.CutSuffix(strings.TrimSpace(line), undeclared); ok {
			unknown = append(unknown, fmt.Sprintf("unknown field %q", strings.TrimPrefix(path, ".")))
		}
	}
	return refused("Internal error occurred: strict decoding error: %s", strings.Join(unknown, ", "))
}

// custom reports whether a CustomResourceDefinition defines a kind.
func (e *Engine) custom(kind schema.GroupVersionKind) bool {
	crds := e.options.Cluster.List(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"})
	return slices.ContainsFunc(crds, func(o *render.Object) bool {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		return group == kind.Group && name == kind.Kind
	})
}
