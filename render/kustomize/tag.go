package kustomize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// kyaml's nodes know the line at which they were read and keep it through
// merges and setters, but not the file. So the unit is built from files in
// which every document is moved down by a number of lines that no other
// document has: the line of a node then tells its document as well.

const (
	// firstTag keeps away from the lines of nodes that kustomize made itself
	// by writing and reading an object.
	firstTag = 2000
	// maxPadding is how many lines may be added to a unit in all.
	maxPadding = 16 << 20
)

// patchDir holds, in tagged builds alone, the patches that stand in the
// kustomization itself.
const patchDir = ".preadmit-patches"

// A tag is the range of lines that stands for a document.
type tag struct {
	from, to int // to is exclusive
	shift    int // from a node's line to the line in the file
	source   *source
}

// A tagger moves documents apart.
type tagger struct {
	o       *origins
	snap    *snapshot
	tags    []tag
	next    int
	padding int
	specs   map[*node]*types.Kustomization // that differ from those of the unit
}

// separator is what kio splits documents at (splitDocuments in kyaml/kio).
var separator = regexp.MustCompile(`\n---.*\n`)

// file tags a file. Sources are its documents by the line on which their text
// begins; chunks without one are left alone.
func (t *tagger) file(name string, data []byte, sources []*source) {
	text := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	var out bytes.Buffer
	line, from := 1, 0
	for _, at := range append(separator.FindAllIndex(text, -1), []int{len(text), len(text)}) {
		chunk := text[from:at[0]]
		t.chunk(&out, chunk, line, sources)
		out.Write(text[at[0]:at[1]])
		line += bytes.Count(text[from:at[1]], []byte("\n"))
		from = at[1]
	}
	t.snap.files[name] = out.Bytes()
}

func (t *tagger) chunk(out *bytes.Buffer, chunk []byte, line int, sources []*source) {
	lines := bytes.Count(chunk, []byte("\n")) + 1
	i := slices.IndexFunc(sources, func(s *source) bool { return line <= s.line && s.line < line+lines })
	if i < 0 || bytes.HasPrefix(chunk, []byte("%")) || bytes.HasPrefix(chunk, []byte("\xef\xbb\xbf")) || t.padding+t.next > maxPadding {
		out.Write(chunk)
		return
	}
	t.padding += t.next
	t.tags = append(t.tags, tag{from: t.next, to: t.next + lines + 1, shift: line - 1 - t.next, source: sources[i]})
	pad := bytes.Repeat([]byte("\n"), t.next)
	if bytes.HasPrefix(chunk, []byte("---")) {
		end := bytes.IndexByte(chunk, '\n') + 1
		if end == 0 {
			end = len(chunk)
		}
		out.Write(chunk[:end])
		chunk = chunk[end:]
	}
	out.Write(pad)
	out.Write(chunk)
	t.next += lines + 2
}

// find returns the document and the line in its file of a node's line.
func find(tags []tag, line int) (*source, int, bool) {
	i := sort.Search(len(tags), func(i int) bool { return tags[i].to > line })
	if line < firstTag || i == len(tags) || line < tags[i].from {
		return nil, 0, false
	}
	return tags[i].source, line + tags[i].shift, true
}

// build builds the unit. Errors are those of the files as they are: in tagged
// ones they would have other lines.
func (o *origins) build() (resmap.ResMap, error) {
	t := o.newTagger(true)
	m, err := o.w.build(t.snap, o.root.dir, krusty.ReorderOptionUnspecified)
	if err == nil {
		o.tags = t.tags
		return m, nil
	}
	return o.w.build(o.w.snap, o.root.dir, krusty.ReorderOptionUnspecified)
}

// rebuild builds the unit once more without JSON patches, which make kustomize
// forget the lines of the whole object. Objects are known by kind and name
// then, unless JSON patches change these: a third build, with them, tells which
// object is which by the order of both.
func (o *origins) rebuild() {
	if o.rebuilt {
		return
	}
	o.rebuilt = true
	bare, nodes := o.unsorted(false)
	rank, ok := o.rank(nodes)
	if !ok {
		_, full := o.unsorted(true)
		rank, ok = o.rank(full)
		ok = ok && len(full) == len(nodes)
	}
	if !ok {
		return
	}
	o.bare = bare
	for _, i := range rank {
		o.nodes = append(o.nodes, nodes[i])
	}
}

// unsorted builds the unit in the order of its resources.
func (o *origins) unsorted(withJSON bool) ([]tag, []*yaml.Node) {
	t := o.newTagger(withJSON)
	t.inOrder()
	m, err := o.w.build(t.snap, o.root.dir, krusty.ReorderOptionNone)
	if err != nil {
		return nil, nil
	}
	var nodes []*yaml.Node
	for _, r := range m.Resources() {
		nodes = append(nodes, r.YNode())
	}
	return t.tags, nodes
}

// newTagger tags the files and patches of the unit. Files that are also read as
// the data that they are stay so.
func (o *origins) newTagger(withJSON bool) *tagger {
	t := &tagger{o: o, snap: o.w.snap.clone(), next: o.firstTag(), specs: map[*node]*types.Kustomization{}}
	for _, name := range sorted(o.byFile) {
		if data, ok := o.w.snap.files[name]; ok && !o.w.verbatim[name] {
			t.file(name, data, o.byFile[name])
		}
	}
	t.kustomizations(withJSON)
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

// firstTag is beyond the lines of every document.
func (o *origins) firstTag() int {
	first := firstTag
	for _, sources := range o.byFile {
		for _, s := range sources {
			first = max(first, 2*(s.doc.Span.EndLine-s.doc.Span.Line))
		}
	}
	return first
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
	rel := path.Join(patchDir, fmt.Sprintf("%s-%d.yaml", p.field, p.entry))
	name := path.Join(n.dir, rel)
	t.snap.addFile(name, name, []byte(p.text))
	t.file(name, []byte(p.text), t.o.inline[p])
	return rel
}
