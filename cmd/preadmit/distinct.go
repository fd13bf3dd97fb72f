package main

import (
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
		if slices.ContainsFunc(seen[key], func(other *render.Object) bool { return render.Equal(other.Object, o.Object) }) {
			continue
		}
		seen[key], kept = append(seen[key], o), append(kept, o)
	}
	return kept
}
