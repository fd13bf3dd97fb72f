package render

import "strconv"

// Positions knows where the fields of a document, or of a part of it, are
// written. It is immutable. It keeps the text of the file in memory, and
// computes the end of a field when asked.
type Positions struct {
	src   *source
	tree  *tree
	entry entry   // of the root; that of a document has neither key nor place
	keyed bool    // the root's entry is a map's
	flow  bool    // the root's entry is in flow style
	sites []place // places of aliases above the root
}

// Field returns the spans of the key and of the value at a JSON pointer. Items
// of lists have no key, and the value of an alias is where its anchor is. The
// span of a scalar covers its text with quotes or block header, without tag and
// anchor. The span of a collection ends with its last value or its bracket. The
// span of an empty value is empty.
func (p *Positions) Field(pointer string) (key, value Span, ok bool) {
	f := p.find(pointer)
	if f.missing {
		return Span{}, Span{}, false
	}
	if f.keyed {
		key = p.src.span(p.src.keyToken(f.entry, f.flow))
	}
	return key, p.src.span(p.extent(f.entry.node)), true
}

// Len returns the number of values in the document; p may be nil.
func (p *Positions) Len() int {
	if p == nil {
		return 0
	}
	return len(p.tree.nodes)
}

// Each calls f for each field, outer fields first, with the line and column
// where the parser has its value begin: at its anchor or tag if it has one, or
// at the alias.
func (p *Positions) Each(f func(pointer string, line, column int)) { p.each(p.entry, "", f) }

func (p *Positions) each(e entry, pointer string, f func(string, int, int)) {
	n := p.tree.nodes[e.node]
	f(pointer, int(n.at.line)+1, int(n.at.column))
	if e.site != (place{}) {
		f(pointer, int(e.site.line)+1, int(e.site.column))
	}
	for i, child := range p.tree.entriesOf(e.node) {
		if n.kind == listNode {
			p.each(child, pointer+"/"+strconv.Itoa(i), f)
		} else {
			p.each(child, pointer+Pointer(p.src.keys[child.key]), f)
		}
	}
}

// At returns where a field is written, or else its nearest ancestor: the value
// of a scalar, the key of a map or list, and for KeyOf always the key. For a field that comes by an alias,
// the alias is first. The place of the whole object is its name, else its kind,
// else its first line.
func (p *Positions) At(pointer string) []Origin {
	f := p.find(pointer)
	if f.root {
		f = p.title()
	}
	var origins []Origin
	for _, site := range append(p.sites[:len(p.sites):len(p.sites)], f.sites...) {
		origins = append(origins, p.origin(p.src.token(node{at: site, kind: styledScalar})))
	}
	if _, key := FieldOfKey(pointer); key && f.keyed && !f.missing {
		return append(origins, p.origin(p.src.keyToken(f.entry, f.flow)))
	}
	return append(origins, p.origin(p.identifying(f)))
}

func (p *Positions) origin(from, to int) Origin {
	return Origin{Span: p.src.oneLine(from, to), Role: Manifest}
}

// identifying returns the offsets of the part of a field that identifies it best in
// one line.
func (p *Positions) identifying(f found) (from, to int) {
	n := p.tree.nodes[f.entry.node]
	if scalar := n.kind == plainScalar || n.kind == styledScalar; scalar && !f.missing {
		if from, to := p.src.token(n); from < to {
			return from, to
		}
	}
	aliased := f.entry.site != place{} && !f.entry.merged
	if f.keyed && !aliased {
		return p.src.keyToken(f.entry, f.flow)
	}
	if n.flow {
		return p.extent(f.entry.node)
	}
	if entries := p.tree.entriesOf(f.entry.node); n.kind == mapNode && len(entries) > 0 && !entries[0].merged {
		from, _ = p.src.keyToken(entries[0], n.flow)
		return from, p.entryEnd(entries[0], n)
	}
	from = p.src.skipProperties(p.src.offset(int(n.at.line), int(n.at.column)))
	line, _ := p.src.place(from)
	_, to = p.src.content(line - 1)
	return from, max(from, p.src.trimRight(from, to))
}

// Line returns where line n, from 0, of a literal block scalar is written. It
// returns nil for other fields and for blank lines.
func (p *Positions) Line(pointer string, n int) []Origin {
	f := p.find(pointer)
	if node := p.tree.nodes[f.entry.node]; f.missing || node.kind != styledScalar {
		return nil
	} else if from, to := p.src.token(node); from < to && p.src.data[from] == '|' {
		line, _ := p.src.place(from)
		if line+n >= p.src.lineCount() {
			return nil
		}
		if span := p.src.text(line + n); span.Column < span.EndColumn {
			return []Origin{{Span: span, Role: Manifest}}
		}
	}
	return nil
}

// title returns the field that names an object.
func (p *Positions) title() found {
	for _, pointer := range []string{"/metadata/name", "/metadata/generateName", "/kind"} {
		if f := p.find(pointer); !f.missing && len(p.tree.entriesOf(f.entry.node)) == 0 {
			return f
		}
	}
	return found{entry: p.entry, keyed: p.keyed, flow: p.flow}
}

// Sub returns the positions of the part of the document at a JSON pointer, or
// nil if there is none.
func (p *Positions) Sub(pointer string) *Positions {
	f := p.find(pointer)
	if f.missing {
		return nil
	}
	if f.root {
		return p
	}
	return &Positions{
		src: p.src, tree: p.tree, entry: f.entry, keyed: f.keyed, flow: f.flow,
		sites: append(p.sites[:len(p.sites):len(p.sites)], f.sites...),
	}
}

// A found is the entry that a pointer led to.
type found struct {
	entry   entry   // the last entry found on the way
	sites   []place // places of the aliases on the way
	root    bool    // nothing on the way was found
	missing bool    // the way ended before the field
	keyed   bool    // entry is a map's
	flow    bool    // entry is in flow style
}

func (p *Positions) find(pointer string) found {
	f := found{entry: p.entry, root: true, keyed: p.keyed, flow: p.flow}
	for key := range segments(pointer) {
		parent := p.tree.nodes[f.entry.node]
		e, ok := p.child(f.entry.node, key)
		if !ok {
			f.missing = true
			return f
		}
		f.entry, f.root, f.keyed, f.flow = e, false, parent.kind == mapNode, parent.flow
		if e.site != (place{}) {
			f.sites = append(f.sites, e.site)
		}
	}
	return f
}

func (p *Positions) child(i int32, key string) (entry, bool) {
	entries := p.tree.entriesOf(i)
	switch p.tree.nodes[i].kind {
	case mapNode:
		for _, e := range entries {
			if p.src.keys[e.key] == key {
				return e, true
			}
		}
	case listNode:
		if n, err := strconv.Atoi(key); err == nil && n >= 0 && n < len(entries) {
			return entries[n], true
		}
	}
	return entry{}, false
}

// extent returns the offsets of a whole value, over all its lines.
func (p *Positions) extent(i int32) (from, to int) {
	n := p.tree.nodes[i]
	from, to = p.src.token(n)
	switch {
	case n.flow:
		return from, p.src.flowEnd(from)
	case n.kind == mapNode || n.kind == listNode:
		if last, ok := p.last(i); ok {
			return from, max(from, p.entryEnd(last, n))
		}
		return from, from
	}
	return from, to
}

// last returns the entry of a collection that is written last.
func (p *Positions) last(i int32) (last entry, ok bool) {
	for _, e := range p.tree.entriesOf(i) {
		if e.merged && e.site != (place{}) {
			e.keyAt = e.site
		}
		if !ok || e.keyAt.line > last.keyAt.line || e.keyAt.line == last.keyAt.line && e.keyAt.column > last.keyAt.column {
			last, ok = e, true
		}
	}
	return last, ok
}

// entryEnd returns where an entry of a collection ends: after its value, its
// alias, or its key if it has no value.
func (p *Positions) entryEnd(e entry, parent node) int {
	end := 0
	if parent.kind == mapNode && !e.merged {
		_, end = p.src.keyToken(e, parent.flow)
	}
	if e.site != (place{}) {
		_, to := p.src.token(node{at: e.site, kind: styledScalar})
		return max(end, to)
	}
	_, to := p.extent(e.node)
	return max(end, to)
}
