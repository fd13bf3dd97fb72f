package schema

import (
	"reflect"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// omitsNullTimestamps is the first release that omits an empty
// creationTimestamp instead of writing null.
const omitsNullTimestamps release = 34

// An adapter converts an object in client-go's types to the form that an older
// API server holds: fields that the older release does not have are dropped. A
// nil *adapter does nothing.
type adapter struct {
	has   *known // fields of the kind in the release
	stamp bool   // give metadata a null creationTimestamp if it has none
}

// newAdapter returns the adapter of a kind; nil if the release has all fields.
func (s *server) newAdapter(gvk apischema.GroupVersionKind) *adapter {
	if s.release == newest {
		return nil
	}
	has, err := knownOf(gvk, s.release)
	if has == nil || err != nil {
		return nil
	}
	stamp := s.release < omitsNullTimestamps
	if now, err := knownOf(gvk, newest); err == nil && !stamp && reflect.DeepEqual(now, has) {
		return nil
	}
	return &adapter{has, stamp}
}

func (a *adapter) adapt(value any) {
	if a != nil {
		a.drop(value, a.has)
	}
}

func (a *adapter) drop(value any, has *known) {
	if has == nil {
		return
	}
	switch v := value.(type) {
	case []any:
		for _, child := range v {
			a.drop(child, has.each)
		}
	case map[string]any:
		for key, child := range v {
			below, ok := has.in(key)
			if !ok {
				delete(v, key)
				continue
			}
			a.drop(child, below)
		}
		if _, ok := v["creationTimestamp"]; a.stamp && !ok && has.metadata {
			v["creationTimestamp"] = nil
		}
	}
}
