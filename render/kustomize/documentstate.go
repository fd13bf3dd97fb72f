package kustomize

import (
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// noteDocuments records the state of each document that the build read: it became part of an
// object, or the reason why it did not.
func (o *origins) noteDocuments() {
	used := o.used()
	note := o.w.src.Inputs.Note
	for file, sources := range o.byFile {
		for _, s := range sources {
			switch {
			case s.chart != nil:
			case s.patch != nil:
				o.w.src.Inputs.NotePatch(file, s.doc.Index)
			case used[s]:
				note(file, s.doc.Index, render.DocRendered)
			default:
				note(file, s.doc.Index, stateOf(s.doc.Value))
			}
		}
	}
	for file := range o.w.verbatim {
		note(file, -1, render.DocData)
	}
}

// used returns the resources that became objects. If a JSON patch removed an
// object's lines, every resource of its kind whose name it may have counts as
// used.
func (o *origins) used() map[*source]bool {
	used := make(map[*source]bool)
	for _, p := range o.objects {
		found := false
		for _, m := range p.marks {
			if t, ok := find(o.tags, int(m.line)); ok && t.step == nil && t.source.patch == nil {
				used[t.source], found = true, true
			}
		}
		if found {
			continue
		}
		for _, sources := range o.byFile {
			for _, s := range sources {
				if s.patch == nil && mayBecome(s.doc.Value, p.value) {
					used[s] = true
				}
			}
		}
	}
	return used
}

// mayBecome reports whether a resource, or an item of it if it is a List, may
// have become an object.
func mayBecome(resource any, object map[string]any) bool {
	m, _ := resource.(map[string]any)
	if items, ok := m["items"].([]any); ok {
		return slices.ContainsFunc(items, func(item any) bool { return mayBecome(item, object) })
	}
	return text(m, "kind") == text(object, "kind") && strings.Contains(text(object, "metadata", "name"), text(m, "metadata", "name"))
}

// stateOf returns the state of a resource that is not part of the build's output.
func stateOf(resource any) render.DocumentState {
	m, _ := resource.(map[string]any)
	if items, ok := m["items"].([]any); ok {
		for _, item := range items {
			if stateOf(item) == render.DocLocalConfig {
				return render.DocLocalConfig
			}
		}
		return render.DocDeleted
	}
	if text(m, "metadata", "annotations", "config.kubernetes.io/local-config") != "" {
		return render.DocLocalConfig
	}
	return render.DocDeleted
}
