package kustomize

import (
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// collectAll collects the documents of the unit.
func (o *origins) collectAll() {
	o.byFile = map[string][]*source{}
	o.inline = map[*patch][]*source{}
	o.inlineAt = map[string][]*source{}
	o.hides = o.w.simple() && !o.w.patchesDefinitions()
	o.charts = map[string][]byte{}
	for _, dir := range sorted(o.w.nodes) {
		if n := o.w.nodes[dir]; n != nil {
			o.collect(n)
		}
	}
	for _, c := range o.w.inflated {
		o.collectChart(c)
	}
}

func (o *origins) collect(n *node) {
	for _, it := range n.items {
		for _, doc := range it.docs {
			s := &source{doc: doc, line: doc.Span.Line, owner: n}
			if o.hides {
				s.hide(o.w.snap.files[doc.Span.File])
			}
			o.add(s)
		}
	}
	for _, p := range n.patches {
		name := p.virtual(n)
		for _, doc := range p.docs {
			s := &source{doc: doc, line: doc.Span.Line, owner: n, patch: p, shifted: p.text != ""}
			if s.shifted {
				o.inline[p] = append(o.inline[p], s)
				o.inlineAt[name] = append(o.inlineAt[name], s)
			} else {
				o.add(s)
			}
		}
	}
}

// add records a document of a file, once for each kustomization that reads it.
func (o *origins) add(s *source) {
	o.byFile[s.doc.Span.File] = append(o.byFile[s.doc.Span.File], s)
}

// collectChart records the objects of charts, whose documents this package
// wrote.
func (o *origins) collectChart(c inflated) {
	data := o.w.snap.files[c.file]
	if o.hides {
		data = c.withoutSchemas(data)
		o.charts[c.file] = data
	}
	docs, _ := render.Documents(c.file, data, render.YAML12)
	for i, doc := range docs {
		if i < len(c.objects) {
			s := &source{doc: doc, line: doc.Span.Line, owner: c.owner, chart: c.objects[i]}
			if o.hides {
				s.hideChart()
			}
			o.add(s)
		}
	}
}

// origins returns where a field of the document is written.
func (s *source) origins(at string) []render.Origin {
	if s.chart != nil {
		return s.chart.At(at)
	}
	return s.placed(slices.Clone(s.doc.Positions.At(at)))
}

// placed converts places in the document to places in the file that contains
// it.
func (s *source) placed(found []render.Origin) []render.Origin {
	role := render.Manifest
	if s.patch != nil {
		role = render.Patch
	}
	for i := range found {
		found[i].Role = role
		if s.shifted {
			found[i].Span = embedded(s.patch.within, s.patch.span, s.patch.text, found[i].Span)
		}
	}
	return found
}

// whole returns the origins of the object at a pointer of the document.
func (s *source) whole(at string) []render.Origin {
	if sub := s.doc.Positions.Sub(at); sub != nil {
		return sub.At("")
	}
	return s.origins("")
}

// pointer returns the pointer of the field that begins at a line and column of
// a document. If aliases make several fields begin there, it returns the one
// most similar to path.
func (s *source) pointer(line, column int, path []string) (string, bool) {
	if s.places == nil {
		s.places = map[[2]int][]string{}
		s.doc.Positions.Each(func(at string, line, column int) {
			key := [2]int{line, column}
			s.places[key] = append(s.places[key], at)
		})
	}
	found := s.places[[2]int{line, column}]
	if len(found) == 0 {
		return "", false
	}
	best, most := found[0], -1
	for _, at := range found {
		if n := commonEnd(render.Path(at), path); n > most {
			best, most = at, n
		}
	}
	return best, true
}

// commonEnd counts the elements in which two paths agree, from the end.
func commonEnd(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

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
}

// noteVerbatim records the files that are not read as resources, also those of a kustomization that can't be built.
func (w *walk) noteVerbatim(to *render.Inputs) {
	for file := range w.verbatim {
		to.Note(file, -1, render.DocData)
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
