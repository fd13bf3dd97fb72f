package main

import (
	"reflect"
	"slices"

	"github.com/preadmit/preadmit/render"
)

// distinct leaves out objects that an earlier one equals: overlays repeat the
// policies of their base, and a cluster has each once.
func distinct(objects []*render.Object) []*render.Object {
	seen := make(map[render.Key][]*render.Object)
	var kept []*render.Object
	for _, o := range objects {
		key := o.Key()
		key.Unit = ""
		if !containsEqual(seen[key], o) {
			seen[key] = append(seen[key], o)
			kept = append(kept, o)
		}
	}
	return kept
}

func containsEqual(objects []*render.Object, o *render.Object) bool {
	return slices.ContainsFunc(objects, func(other *render.Object) bool { return reflect.DeepEqual(other.Object, o.Object) })
}
