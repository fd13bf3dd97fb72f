package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Limits of the API server on a request's body (MaxRequestBodyBytes of
// k8s.io/apiserver) and on the total size of annotations
// (TotalAnnotationSizeLimitB of k8s.io/apimachinery/pkg/api/validation).
const (
	maxObject      = 3 << 20
	maxAnnotations = 256 << 10
)

// Admit returns the object as the API server holds it after decoding, defaulting
// and admission plugins, before any policy and before the kind's own preparation
// for storage. An object of a kind that is neither built in nor defined is copied
// unchanged. The error is the API server's, a *policy.FieldError if it is about
// fields.
func (k *Kinds) Admit(o *render.Object, namespace string) (map[string]any, error) {
	held, _, err := k.AdmitTyped(o, namespace)
	return held, err
}

// AdmitUpdate implements policy.TypedKinds.
func (k *Kinds) AdmitUpdate(o *render.Object, namespace string) (map[string]any, error) {
	return cmp.Or(k.updates, k).Admit(o, namespace)
}

// AdmitTyped implements policy.TypedKinds.
func (k *Kinds) AdmitTyped(o *render.Object, namespace string) (held map[string]any, typed any, err error) {
	gv, err := schema.ParseGroupVersion(o.GetAPIVersion())
	if err != nil {
		return nil, nil, fieldError(fmt.Errorf("apiVersion: %w", err), "/apiVersion")
	}
	if err := tooLarge(o.Object); err != nil {
		return nil, nil, err
	}
	gvk := gv.WithKind(o.GetKind())
	if b := k.builtins[gvk]; b != nil {
		return k.admitBuiltin(b, o, namespace)
	}
	if c := k.customs[gvk.GroupKind()]; c != nil {
		held, err = c.admit(k.release, o, gvk, namespace)
		return held, nil, err
	}
	if err := k.unknown(gvk); err != nil {
		return nil, nil, err
	}
	return runtime.DeepCopyJSON(o.Object), nil, nil
}

// unknown returns the error for a kind that no API server can serve, whatever
// is installed in it.
func (k *Kinds) unknown(gvk schema.GroupVersionKind) error {
	if k.builtinGroup(gvk.Group) {
		field := "/apiVersion"
		if s := k.suggest(gvk); s != "" && !strings.Contains(s, " ") {
			field = "/kind"
		}
		return notServed(k.noMatch(gvk), field)
	}
	if s := k.suggestCustom(gvk); s != "" {
		return notServed(fmt.Errorf("no matches for kind %q in version %q; did you mean %s?", gvk.Kind, gvk.GroupVersion(), s), "/kind")
	}
	if !strings.Contains(gvk.Group, ".") { // a definition's group has a dot
		return notServed(k.noMatchElsewhere(gvk), "/apiVersion")
	}
	if strings.TrimSpace(gvk.Kind) != gvk.Kind || strings.ContainsAny(gvk.Group+gvk.Version, " \t\r\n") {
		return notServed(fmt.Errorf("no matches for kind %q in version %q", gvk.Kind, gvk.GroupVersion()), "/kind")
	}
	return nil
}

// noMatchElsewhere names the built-in groups that have such a kind.
func (k *Kinds) noMatchElsewhere(gvk schema.GroupVersionKind) error {
	var others []string
	for _, b := range k.sortedKinds(func(b *builtin) bool { return b.gvk.Kind == gvk.Kind && b.byDefault() }) {
		others = append(others, b.gvk.GroupVersion().String())
	}
	hint := ""
	if len(others) > 0 {
		hint = "; did you mean " + strings.Join(others, " or ") + "?"
	}
	return fmt.Errorf("no matches for kind %q in version %q%s", gvk.Kind, gvk.GroupVersion(), hint)
}

func (k *Kinds) admitBuiltin(b *builtin, o *render.Object, namespace string) (held map[string]any, typed any, err error) {
	t := b.goType()
	if t == nil {
		held := runtime.DeepCopyJSON(o.Object)
		place(held, b.namespaced, namespace)
		return held, nil, nil
	}
	decoded, err := t.decode(o.Object)
	if err != nil {
		return nil, nil, t.refuseAll(b.gvk, o.Object, err)
	}
	completed, err := t.complete(k.release, decoded, cmp.Or(o.GetNamespace(), namespace), k.plugins(b.gvk.Kind, o.Unit))
	if err != nil {
		return nil, nil, badRequest(b.gvk, err)
	}
	if held, err = runtime.DefaultUnstructuredConverter.ToUnstructured(completed); err != nil {
		return nil, nil, fmt.Errorf("%s in version %q: %w", b.gvk.Kind, b.gvk.Version, err)
	}
	t.older.adapt(held)
	place(held, b.namespaced, namespace)
	meta, ok := completed.(metav1.Object)
	if !ok || t.older != nil {
		return held, nil, nil
	}
	meta.SetNamespace((&unstructured.Unstructured{Object: held}).GetNamespace())
	return held, completed, nil
}

// refusals joins errors about several fields of an object. The API server stops
// at the first, so Error returns only that one's text.
type refusals []error

func (r refusals) Error() string { return r[0].Error() }

// Unwrap returns them all, as errors.Join does.
func (r refusals) Unwrap() []error { return r }

// maxRefusals limits the reported fields of one object.
const maxRefusals = 20

// refuseAll returns the API server's errors about an object in sequence, each
// found after removing the field of the one before. err is the first.
func (g *goType) refuseAll(gvk schema.GroupVersionKind, object map[string]any, err error) error {
	all := refusals{badRequest(gvk, err)}
	rest := runtime.DeepCopyJSON(object)
	for len(all) < maxRefusals {
		var fe *policy.FieldError
		if !errors.As(err, &fe) || len(fe.Fields) != 1 || !forget(rest, fe.Fields[0]) {
			break
		}
		if _, err = g.decode(rest); err == nil {
			break
		}
		all = append(all, badRequest(gvk, err))
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// forget sets the value at a pointer to null, which the decoder ignores. It
// reports whether there was a value.
func forget(object map[string]any, pointer string) bool {
	i := strings.LastIndexByte(pointer, '/')
	if i < 0 {
		return false
	}
	parent, _ := render.Lookup(object, pointer[:i])
	path := render.Path(pointer)
	key := path[len(path)-1]
	switch v := parent.(type) {
	case map[string]any:
		if v[key] == nil {
			return false
		}
		v[key] = nil
		return true
	case []any:
		n, err := strconv.Atoi(key)
		if err != nil || n < 0 || n >= len(v) || v[n] == nil {
			return false
		}
		v[n] = nil
		return true
	}
	return false
}

// badRequest returns the error of the API server's create handler for an object
// that it can't decode.
func badRequest(gvk schema.GroupVersionKind, err error) error {
	what := fmt.Errorf("%s in version %q cannot be handled as a %s: %w", gvk.Kind, gvk.Version, gvk.Kind, err)
	var fe *policy.FieldError
	if errors.As(err, &fe) {
		return &policy.FieldError{Fields: fe.Fields, Err: what}
	}
	return what
}

// place sets an object's namespace to that of its request, or removes it from
// cluster-scoped kinds, as EnsureObjectNamespaceMatchesRequestNamespace of
// k8s.io/apiserver does.
func place(held map[string]any, namespaced bool, namespace string) {
	u := unstructured.Unstructured{Object: held}
	switch {
	case !namespaced && u.GetNamespace() != "":
		u.SetNamespace("")
	case namespaced && u.GetNamespace() == "" && namespace != "":
		u.SetNamespace(namespace)
	}
}

// tooLarge returns the API server's error for an object that exceeds its
// limits.
func tooLarge(object map[string]any) error {
	if size := weigh(object); size > 4*maxObject { // with shared parts it may not fit into memory as JSON
		return fmt.Errorf("Request entity too large: limit is %d", maxObject)
	} else if size > maxObject/4 {
		data, err := json.Marshal(object)
		if err != nil {
			return err
		}
		if len(data) > maxObject {
			return fmt.Errorf("Request entity too large: limit is %d", maxObject)
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	size := 0
	for key, value := range annotations {
		s, _ := value.(string)
		size += len(key) + len(s)
	}
	if size > maxAnnotations {
		return fieldError(fmt.Errorf("metadata.annotations: Too long: may not be more than %d bytes", maxAnnotations), "/metadata/annotations")
	}
	return nil
}

// weigh estimates the size of a value as JSON.
func weigh(value any) int {
	size := 0
	for key, v := range render.Values(value) {
		text, _ := v.(string)
		size += 4 + len(key) + len(text)
	}
	return size
}

// notServed returns the error for a kind that has no resource.
func notServed(err error, pointer string) error {
	return &policy.FieldError{Fields: []string{pointer}, Err: err, NotServed: true}
}

func fieldError(err error, pointers ...string) error {
	return &policy.FieldError{Fields: pointers, Err: err}
}
