package kustomize

import (
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// account notes what becomes of each document that the build read: it went into
// an object, or why it did not.
func (o *origins) account() {
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
				note(file, s.doc.Index, whyNot(s.doc.Value))
			}
		}
	}
	for _, n := range o.w.nodes {
		if n == nil {
			continue
		}
		for _, p := range n.patches {
			if p.text == "" && len(p.docs) > 0 && p.json() {
				o.w.src.Inputs.NotePatch(p.docs[0].Span.File, -1)
			}
		}
	}
	for file := range o.w.verbatim {
		note(file, -1, render.DocData)
	}
}

// used are the resources that went into objects. An object that lost its lines
// to a JSON patch counts for every resource of its kind whose name it may have.
func (o *origins) used() map[*source]bool {
	used := make(map[*source]bool)
	for _, p := range o.objects {
		found := false
		for _, m := range p.marks {
			if s, _, ok := find(o.tags, int(m.line)); ok && s.patch == nil {
				used[s], found = true, true
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

// mayBecome reports whether a resource, or one of the list that it is, may have
// become an object.
func mayBecome(resource any, object map[string]any) bool {
	m, _ := resource.(map[string]any)
	if items, ok := m["items"].([]any); ok {
		return slices.ContainsFunc(items, func(item any) bool { return mayBecome(item, object) })
	}
	return text(m, "kind") == text(object, "kind") && strings.Contains(text(object, "metadata", "name"), text(m, "metadata", "name"))
}

// whyNot is the state of a resource that is not built.
func whyNot(resource any) render.DocumentState {
	m, _ := resource.(map[string]any)
	if items, ok := m["items"].([]any); ok {
		for _, item := range items {
			if whyNot(item) == render.DocLocalConfig {
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
