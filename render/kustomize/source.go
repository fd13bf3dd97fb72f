package kustomize

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
)

// collectAll collects the documents of the unit.
func (o *origins) collectAll() {
	o.byFile = map[string][]*source{}
	o.inline = map[*patch][]*source{}
	o.inlineAt = map[string][]*source{}
	o.parents = map[*node][]*node{}
	o.simple = o.w.simple()
	o.hides = o.simple && !o.w.patchesDefinitions()
	o.charts = map[string][]byte{}
	renamed := false
	for _, n := range o.w.nodes {
		renamed = renamed || n != nil && n.affixes()
	}
	for _, dir := range sorted(o.w.nodes) {
		if n := o.w.nodes[dir]; n != nil {
			n.renamed = renamed
			o.collect(n)
		}
	}
	for _, c := range o.w.inflated {
		o.collectChart(c)
	}
}

func (o *origins) collect(n *node) {
	for _, it := range n.items {
		if it.node != nil {
			o.parents[it.node] = append(o.parents[it.node], n)
		}
		for _, doc := range it.docs {
			s := &source{doc: doc, line: doc.Span.Line, owner: n}
			if o.hides {
				s.hide(o.w.snap.files[doc.Span.File])
			}
			o.add(s)
		}
	}
	for _, c := range n.components {
		o.parents[c] = append(o.parents[c], n)
	}
	for _, p := range n.patches {
		o.json = o.json || p.json()
		name, _ := p.virtual(n)
		for _, doc := range p.docs {
			s := &source{doc: doc, line: doc.Span.Line, owner: n, patch: p, shifted: p.text != ""}
			if s.shifted {
				o.inline[p] = append(o.inline[p], s)
				o.inlineAt[name] = append(o.inlineAt[name], s)
			} else if !p.json() {
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

// prepare finds the documents that an object was built from, once.
func (p *provenance) prepare() {
	if p.ready {
		return
	}
	p.ready = true
	seen := map[*source]int{}
	for _, m := range p.marks {
		if s, _, ok := find(p.o.tags, int(m.line)); ok {
			seen[s]++
		}
	}
	p.base = mostSeen(seen)
	if p.base == nil && p.o.json {
		if p.o.rebuild(); p.i < len(p.o.nodes) {
			p.node = p.o.nodes[p.i]
			clear(seen)
			p.o.tally(p.node, seen)
			p.base = mostSeen(seen)
		}
	}
	if p.base == nil {
		p.base = p.o.guess(p.value)
	}
	p.chain = p.o.chain(p)
	p.collectPatches()
}

// marked reports whether the object has lines of a resource.
func (p *provenance) marked() bool {
	return slices.ContainsFunc(p.marks, func(m mark) bool {
		s, _, ok := find(p.o.tags, int(m.line))
		return ok && s.patch == nil
	})
}

// mostSeen returns the resource from which most of an object's nodes come.
func mostSeen(seen map[*source]int) (most *source) {
	for s, n := range seen {
		if s.patch == nil && (most == nil || n > seen[most] || n == seen[most] && s.before(most)) {
			most = s
		}
	}
	return most
}

func (s *source) before(t *source) bool {
	return cmp.Or(cmp.Compare(s.doc.Span.File, t.doc.Span.File), cmp.Compare(s.line, t.line), cmp.Compare(s.owner.dir, t.owner.dir)) < 0
}

// tally counts the nodes of an object by the document they were read from.
func (o *origins) tally(n *yaml.Node, seen map[*source]int) {
	if s, _, ok := find(o.bare, n.Line); ok {
		seen[s]++
	}
	for _, c := range n.Content {
		o.tally(c, seen)
	}
}

// guess returns the only resource with the object's kind and with its name
// apart from prefixes and suffixes.
func (o *origins) guess(value map[string]any) *source {
	var found *source
	best := 0
	for _, file := range sorted(o.byFile) {
		for _, s := range o.byFile[file] {
			if s.patch != nil {
				continue
			}
			_, score := s.match(value)
			if score > best {
				found, best = s, score
			}
		}
	}
	return found
}

// match returns the object's pointer in the document, which is not the root for
// items of Lists, and how much of the name agrees. 0 means that it is another
// object.
func (s *source) match(value map[string]any) (string, int) {
	best, at := 0, ""
	m, _ := s.doc.Value.(map[string]any)
	if items, ok := m["items"].([]any); ok && strings.HasSuffix(kindOf(s.doc), "List") {
		for i, item := range items {
			if n := alike(item, value); n > best {
				best, at = n, "/items/"+strconv.Itoa(i)
			}
		}
	}
	if n := alike(m, value); n > best {
		return "", n
	}
	return at, best
}

func alike(was any, value map[string]any) int {
	name := text(was, "metadata", "name")
	if name == "" || text(was, "kind") != text(value, "kind") || text(was, "apiVersion") != text(value, "apiVersion") {
		return 0
	}
	if strings.Contains(text(value, "metadata", "name"), name) {
		return len(name)
	}
	return 0
}

// object returns an object's pointer in the document.
func (s *source) object(value map[string]any) string {
	at, _ := s.match(value)
	return at
}

// chain returns the kustomizations that an object passed through: the one that
// reads it, those above it, and the components of all of them.
func (o *origins) chain(p *provenance) []*node {
	set := map[*node]bool{}
	var up func(*node)
	up = func(n *node) {
		if n == nil || set[n] {
			return
		}
		set[n] = true
		for _, c := range n.components {
			up(c)
		}
		for _, above := range o.parents[n] {
			up(above)
		}
	}
	if p.base != nil {
		for _, s := range o.byFile[p.base.doc.Span.File] {
			up(s.owner)
		}
		up(p.base.owner)
	} else {
		for _, dir := range sorted(o.w.nodes) {
			if n := o.w.nodes[dir]; n != nil && n.generator(p.value) != nil {
				up(n)
			}
		}
	}
	return o.outermostFirst(set)
}

func (o *origins) outermostFirst(set map[*node]bool) []*node {
	var order []*node
	seen := map[*node]bool{}
	var down func(*node)
	down = func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		if set[n] {
			order = append(order, n)
		}
		for _, c := range slices.Backward(n.components) {
			down(c)
		}
		for _, it := range n.items {
			down(it.node)
		}
	}
	down(o.root)
	return order
}

// collectPatches lists the merge patches that may have gone into the object,
// the last first.
func (p *provenance) collectPatches() {
	for _, n := range p.chain {
		for _, patch := range slices.Backward(n.patches) {
			if patch.json() || !p.selects(patch) {
				continue
			}
			p.patches = append(p.patches, p.o.sourcesOf(patch)...)
		}
	}
}

func (o *origins) sourcesOf(p *patch) []*source {
	if p.text != "" {
		return o.inline[p]
	}
	var all []*source
	for _, doc := range p.docs {
		for _, s := range o.byFile[doc.Span.File] {
			if s.patch == p {
				all = append(all, s)
			}
		}
	}
	return all
}

// selects reports whether a patch may have been meant for the object.
func (p *provenance) selects(q *patch) bool {
	is, known := p.selected[q]
	if !known {
		if p.selected == nil {
			p.selected = map[*patch]bool{}
		}
		is = p.mayTake(q)
		p.selected[q] = is
	}
	return is
}

func (p *provenance) mayTake(patch *patch) bool {
	if patch.target != nil {
		return patch.selection.may(p.candidate())
	}
	return slices.ContainsFunc(patch.docs, func(doc render.Document) bool {
		m, _ := doc.Value.(map[string]any)
		return text(m, "kind") == text(p.value, "kind") && alike(m, p.value) > 0
	})
}

// candidate returns the object with the names that it had.
func (p *provenance) candidate() candidate {
	c := candidateOf(p.value)
	if p.base != nil {
		was, _ := render.Lookup(p.base.doc.Value, p.base.object(p.value))
		c.add(candidateOf(was))
	}
	for _, n := range p.chain {
		if g := n.generator(p.value); g != nil {
			c.names = append(c.names, g.name)
		}
	}
	return c
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
			found[i].Span = s.patch.shift(s.owner, found[i].Span)
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

// tagged follows a path in the tagged build and returns the document and
// pointer from which the value there was read.
func (p *provenance) tagged(path []string) (*source, string) {
	tags, line, column, depth := p.o.tags, 0, 0, len(path)
	if p.node != nil {
		n := follow(p.node, path, p.value)
		if n == nil {
			return nil, ""
		}
		tags, line, column = p.o.bare, n.Line, n.Column
	} else {
		line, column, depth = markAt(p.marks, p.value, path)
	}
	s, line, ok := find(tags, line)
	if !ok {
		return nil, ""
	}
	at, ok := s.pointer(line, column, path[:depth])
	if !ok {
		return nil, ""
	}
	return s, at + render.PathPointer(path[depth:])
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
