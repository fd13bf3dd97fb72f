package schema

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A lifecycle is a Go type that states which release of Kubernetes deprecates its
// version.
type lifecycle interface {
	APILifecycleDeprecated() (major, minor int)
}

// Deprecated returns the API server's warning about a deprecated version that
// it serves, with the version to use instead, or "" for other versions. For
// custom resources it is the warning of their definition.
func (k *Kinds) Deprecated(gvk schema.GroupVersionKind) string {
	if c := k.customs[gvk.GroupKind()]; c != nil {
		return c.deprecated[gvk.Version]
	}
	b := k.builtins[gvk]
	if b == nil {
		return ""
	}
	return b.deprecated()
}

// deprecation returns the result of Deprecated for a built-in kind.
func (s *server) deprecation(gvk schema.GroupVersionKind) string {
	typ := typeOf(gvk)
	if typ == nil {
		return ""
	}
	object := reflect.New(typ).Interface()
	old, ok := object.(lifecycle)
	if !ok {
		return ""
	}
	_, since := old.APILifecycleDeprecated()
	if release(since) > s.release {
		return ""
	}
	text := fmt.Sprintf("%s %s is deprecated in v1.%d+", gvk.GroupVersion(), gvk.Kind, since)
	if r, ok := object.(interface{ APILifecycleRemoved() (major, minor int) }); ok {
		_, in := r.APILifecycleRemoved()
		text += fmt.Sprintf(", unavailable in v1.%d+", in)
	}
	use := s.sibling(gvk)
	if r, ok := object.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		use = r.APILifecycleReplacement().GroupVersion().String() + " " + r.APILifecycleReplacement().Kind
	}
	if use == gvk.GroupVersion().String()+" "+gvk.Kind {
		use = ""
	}
	return text + useInstead(use)
}

// readDeprecated returns the warnings about deprecated versions of a
// definition. If it has no text for one, the API server's text is used.
func readDeprecated(spec map[string]any, group, kind string) map[string]string {
	warnings := map[string]string{}
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		v, _ := v.(map[string]any)
		name, _ := v["name"].(string)
		if on, _ := v["deprecated"].(bool); !on {
			continue
		}
		warnings[name], _, _ = unstructured.NestedString(v, "deprecationWarning")
		if warnings[name] == "" {
			warnings[name] = fmt.Sprintf("%s/%s %s is deprecated", group, name, kind)
		}
	}
	return warnings
}
