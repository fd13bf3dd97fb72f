package kustomize

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// kyaml's nodes keep the line at which they were read through merges and
// setters, but not the file. Therefore the unit is built from files in which
// every document is moved down to a range of lines that no other document has,
// so that the line of a node identifies its document too.

// leastTag is the number of lines reserved for an object beyond those of its
// document and patches. Lines below the lowest tag belong to nodes that
// kustomize created by printing and parsing an object.
const leastTag = 200

// maxPadding is the most lines that may be added to a unit in all.
const maxPadding = 16 << 20

// patchDir holds the inline patches of a kustomization in tagged builds.
const patchDir = ".preadmit-patches"

// A tag is the range of lines that identifies a document.
type tag struct {
	from, to int // exclusive
	shift    int // from a node's line to the line in the file
	source   *source
}

// A tagger moves documents apart.
type tagger struct {
	o      *origins
	snap   *snapshot
	tags   []tag // by line
	pieces []piece
	specs  map[*node]*types.Kustomization // kustomizations that differ from the unit's
}

// A piece is a part of a file: the text of a document, or a separator between
// two.
type piece struct {
	file   string
	text   []byte
	line   int     // in the file
	end    int     // the line after it
	lines  int     // of the text as it is built
	source *source // nil if it keeps its lines
	hidden []hidden
	from   int // the number of lines above it in the tagged build
}

// separator matches the document separators at which kio splits (splitDocuments
// in kyaml/kio).
var separator = regexp.MustCompile(`\n---.*\n`)

// file tags a file.
func (t *tagger) file(name string, data []byte, sources []*source) {
	t.pieces = append(t.pieces, piecesOf(name, data, sources)...)
}

// piecesOf splits a file into pieces. Each text is followed by its separator,
// which is empty at the end. sources are the file's documents by the line on
// which their text begins. Text without a document is left unchanged.
func piecesOf(name string, data []byte, sources []*source) (all []piece) {
	text := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	line, from := 1, 0
	for _, at := range append(separator.FindAllIndex(text, -1), []int{len(text), len(text)}) {
		p := piece{file: name, text: text[from:at[0]], line: line}
		p.lines = bytes.Count(p.text, []byte("\n")) + 1
		p.end = p.line + p.lines
		if !bytes.HasPrefix(p.text, []byte("%")) && !bytes.HasPrefix(p.text, []byte("\xef\xbb\xbf")) {
			if p.source = p.sourceIn(sources); p.source != nil {
				p.hide()
			}
		}
		all = append(all, p, piece{file: name, text: text[at[0]:at[1]]})
		line += bytes.Count(text[from:at[1]], []byte("\n"))
		from = at[1]
	}
	return all
}

// sourceIn returns the piece's document among those of the file.
func (p *piece) sourceIn(sources []*source) *source {
	for _, s := range sources {
		if p.line <= s.line && s.line < p.end {
			return s
		}
	}
	return nil
}

// hide leaves out the schemas that the build need not read.
func (p *piece) hide() {
	s := p.source
	if n := len(s.hidden); n > 0 && s.chart == nil && s.hidden[n-1].to <= p.end {
		p.hidden = s.hidden
	}
	for _, h := range p.hidden {
		p.lines -= h.to - h.line - 1
	}
}

// place assigns lines to the documents. Short ones come first, because that
// takes the least padding.
func (t *tagger) place() {
	var order []*piece
	longest, added := 0, 0
	for i := range t.pieces {
		if p := &t.pieces[i]; p.source != nil {
			order = append(order, p)
			longest = max(longest, p.written())
		}
	}
	for _, n := range t.o.w.nodes {
		if n != nil {
			added += t.o.w.addedLines(n)
		}
	}
	next := leastTag + longest + added
	slices.SortStableFunc(order, func(a, b *piece) int { return cmp.Compare(a.lines, b.lines) })
	padding := 0
	for _, p := range order {
		if padding+next > maxPadding {
			p.source = nil
			continue
		}
		p.from = next
		padding += next
		next += p.lines + 2
		t.tag(p)
	}
	t.writeFiles(bytes.Repeat([]byte("\n"), next))
}

// written returns the most lines that kustomize needs to print an object of the
// piece. It is 0 for an object with a hidden schema, because kustomize never
// prints it.
func (p *piece) written() int {
	if len(p.hidden) > 0 {
		return 0
	}
	return p.lines + p.source.doc.Positions.Len() + bytes.Count(p.text, []byte(`\n`))
}

// addedLines returns the most lines that the patches and generators of a
// kustomization can add to an object.
func (w *walk) addedLines(n *node) (lines int) {
	if len(n.spec.ConfigMapGenerator)+len(n.spec.SecretGenerator) > 0 {
		lines += bytes.Count(n.data, []byte("\n"))
		for name := range w.verbatim {
			lines += bytes.Count(w.snap.files[name], []byte("\n"))
		}
	}
	for _, p := range n.patches {
		for _, doc := range p.docs {
			lines += doc.Span.EndLine - doc.Span.Line + 1 + doc.Positions.Len()
		}
	}
	return lines
}

// tag records the line ranges of a piece. After a hidden schema a new range
// begins.
func (t *tagger) tag(p *piece) {
	from, line := p.from, p.line
	for _, h := range p.hidden {
		to := from + h.line - line + 2
		t.tags = append(t.tags, tag{from: from, to: to, shift: line - 1 - from, source: p.source})
		from, line = to-1, h.to
	}
	t.tags = append(t.tags, tag{from: from, to: p.from + p.lines + 1, shift: line - 1 - from, source: p.source})
}

// writeFiles writes the files of the pieces.
func (t *tagger) writeFiles(padding []byte) {
	sizes := map[string]int{}
	for _, p := range t.pieces {
		sizes[p.file] += len(p.text) + p.from
	}
	for _, p := range t.pieces {
		out := t.snap.files[p.file]
		if n := sizes[p.file]; n >= 0 {
			out, sizes[p.file] = make([]byte, 0, n), -1
		}
		t.snap.files[p.file] = p.write(out, padding)
	}
}

// write appends the text of the piece as it is built, below as many empty lines as it
// is moved down.
func (p piece) write(out, padding []byte) []byte {
	if p.source == nil {
		return append(out, p.text...)
	}
	text, line := p.text, p.line
	if bytes.HasPrefix(text, []byte("---")) {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		out, text = append(out, text[:end]...), text[end:]
		line++
	}
	out = append(out, padding[:p.from]...)
	for _, h := range p.hidden {
		before := linesOf(text, h.line-line)
		out = append(append(out, text[:before]...), h.stub...)
		text, line = text[before+linesOf(text[before:], h.to-h.line):], h.to
	}
	return append(out, text...)
}

// linesOf returns the length of the first n lines of a text.
func linesOf(text []byte, n int) (length int) {
	for ; n > 0; n-- {
		end := bytes.IndexByte(text[length:], '\n') + 1
		if end == 0 {
			return len(text)
		}
		length += end
	}
	return length
}

// find converts a node's line to the document that it was read from and the line in the document's
// file.
func find(tags []tag, line int) (*source, int, bool) {
	i := sort.Search(len(tags), func(i int) bool { return tags[i].to > line })
	if i == len(tags) || line < tags[i].from {
		return nil, 0, false
	}
	return tags[i].source, line + tags[i].shift, true
}

// build builds the unit. Its errors are those of building the original files,
// because lines in tagged files differ.
func (o *origins) build() ([]*resource.Resource, error) {
	if all, err := o.accumulate(true, nil); err == nil {
		o.tags, o.order = all.tags, all.order
		return inOrder(all.resources, all.order), nil
	}
	t := o.newTagger(true)
	if resources, err := o.tagged(t); err == nil {
		o.tags = t.tags
		return resources, nil
	}
	o.order = nil
	m, err := o.w.build(o.w.snap, o.root.dir, krusty.ReorderOptionUnspecified)
	if err != nil {
		return nil, err
	}
	return m.Resources(), nil
}

// tagged builds the unit from tagged files. If it may have to be built again,
// it is built in the order of its resources, by which objects are then
// identified.
func (o *origins) tagged(t *tagger) ([]*resource.Resource, error) {
	again := o.json && !o.w.openapi
	order := krusty.ReorderOptionUnspecified
	if again {
		t.inOrder()
		order = krusty.ReorderOptionNone
	}
	m, err := o.w.build(t.snap, o.root.dir, order)
	if err != nil {
		return nil, err
	}
	if !again {
		return m.Resources(), nil
	}
	o.order, err = sortedOrder(m.Resources(), o.root.build.SortOptions)
	return inOrder(m.Resources(), o.order), err
}

func inOrder(resources []*resource.Resource, order []int) []*resource.Resource {
	sorted := make([]*resource.Resource, len(order))
	for i, j := range order {
		sorted[i] = resources[j]
	}
	return sorted
}

// rebuild builds the unit again without JSON patches, which make an object's
// nodes lose their lines. Objects of the two builds are paired by kind and
// name, or by order if JSON patches change kinds or names.
func (o *origins) rebuild() {
	if o.rebuilt {
		return
	}
	o.rebuilt = true
	bare, nodes := o.unsorted(false, o.lost())
	rank, ok := o.rank(nodes)
	if !ok && o.w.openapi {
		_, full := o.unsorted(true, nil)
		o.order, _ = o.rank(full)
	}
	if !ok {
		rank = o.order
	}
	if len(rank) != len(nodes) {
		return
	}
	o.bare = bare
	o.nodes = make([]*yaml.Node, len(rank))
	for i, j := range rank {
		if !o.objects[i].marked() {
			o.nodes[i] = nodes[j]
		}
	}
}

// lost returns the kinds of the objects without lines. It returns nil if they may
// have been other kinds.
func (o *origins) lost() map[string]bool {
	kinds := map[string]bool{}
	for _, n := range o.w.nodes {
		if n != nil && n.renames() || !o.simple {
			return nil
		}
	}
	for _, p := range o.objects {
		if !p.marked() {
			kinds[text(p.value, "kind")] = true
		}
	}
	return kinds
}

// unsorted builds the unit in the order of its resources. Those of kinds other than
// the given ones need only have their metadata.
func (o *origins) unsorted(withJSON bool, kinds map[string]bool) ([]tag, []*yaml.Node) {
	all, err := o.accumulate(withJSON, kinds)
	if err != nil && kinds != nil {
		all, err = o.accumulate(withJSON, nil)
	}
	if err == nil {
		return all.tags, nodesOf(all.resources)
	}
	t := o.newTagger(withJSON)
	t.inOrder()
	m, err := o.w.build(t.snap, o.root.dir, krusty.ReorderOptionNone)
	if err != nil {
		return nil, nil
	}
	return t.tags, nodesOf(m.Resources())
}

func nodesOf(resources []*resource.Resource) (nodes []*yaml.Node) {
	for _, r := range resources {
		nodes = append(nodes, r.YNode())
	}
	return nodes
}

// newTagger tags the files and patches of the unit, except for files that are also read as plain
// data.
func (o *origins) newTagger(withJSON bool) *tagger {
	t := &tagger{o: o, snap: o.w.snap.clone(), specs: map[*node]*types.Kustomization{}}
	for _, name := range sorted(o.byFile) {
		data, ok := o.charts[name]
		if !ok {
			data, ok = o.w.snap.files[name]
		}
		if ok && !o.w.verbatim[name] {
			t.file(name, data, o.byFile[name])
		}
	}
	t.kustomizations(withJSON)
	t.place()
	return t
}

// rank finds the node of each object; ok is false when one has none.
func (o *origins) rank(nodes []*yaml.Node) (rank []int, ok bool) {
	index := make(map[[4]string]int, len(nodes))
	for i, n := range nodes {
		r := yaml.NewRNode(n)
		index[[4]string{r.GetApiVersion(), r.GetKind(), r.GetNamespace(), r.GetName()}] = i
	}
	for _, p := range o.objects {
		v := p.value
		i, ok := index[[4]string{text(v, "apiVersion"), text(v, "kind"), text(v, "metadata", "namespace"), text(v, "metadata", "name")}]
		if !ok {
			return nil, false
		}
		rank = append(rank, i)
	}
	return rank, len(nodes) == len(o.objects)
}

// kustomizations moves patches out of the kustomizations into tagged files.
func (t *tagger) kustomizations(withJSON bool) {
	for _, dir := range sorted(t.o.w.nodes) {
		n := t.o.w.nodes[dir]
		if n == nil || len(n.patches) == 0 {
			continue
		}
		spec, moved := n.build, false
		spec.Patches = nil
		for i, p := range n.build.Patches {
			switch q := n.patch("patches", i); {
			case q == nil:
			case q.json() && !withJSON:
				moved = true
				continue
			case q.text != "" && !q.json():
				p.Path, p.Patch, moved = t.virtual(n, q), "", true
			}
			spec.Patches = append(spec.Patches, p)
		}
		spec.PatchesStrategicMerge = slices.Clone(n.build.PatchesStrategicMerge)
		for i := range spec.PatchesStrategicMerge {
			if q := n.patch("patchesStrategicMerge", i); q != nil && q.text != "" {
				spec.PatchesStrategicMerge[i], moved = types.PatchStrategicMerge(t.virtual(n, q)), true
			}
		}
		if !withJSON && len(spec.PatchesJson6902) > 0 {
			spec.PatchesJson6902, moved = nil, true
		}
		if moved {
			t.write(n, &spec)
		}
	}
}

func (t *tagger) write(n *node, spec *types.Kustomization) {
	t.specs[n] = spec
	if data, err := json.Marshal(spec); err == nil {
		t.snap.files[n.name] = data
	}
}

// inOrder makes kustomizations leave objects in the order of their resources.
func (t *tagger) inOrder() {
	for _, dir := range sorted(t.o.w.nodes) {
		n := t.o.w.nodes[dir]
		if n == nil || n.build.SortOptions == nil {
			continue
		}
		spec := n.build
		if t.specs[n] != nil {
			spec = *t.specs[n]
		}
		spec.SortOptions = nil
		t.write(n, &spec)
	}
}

// virtual makes a tagged file of an embedded patch and returns its path from
// the kustomization.
func (t *tagger) virtual(n *node, p *patch) string {
	name, rel := p.virtual(n)
	t.snap.addFile(name, name, []byte(p.text))
	t.file(name, []byte(p.text), t.o.inline[p])
	return rel
}

// virtual returns the name of the file that holds an embedded patch, and its path
// from the kustomization.
func (p *patch) virtual(n *node) (name, rel string) {
	rel = path.Join(patchDir, fmt.Sprintf("%s-%d.yaml", p.field, p.entry))
	return path.Join(n.dir, rel), rel
}
