package kustomize

import (
	"bytes"
	"errors"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/builtins"
	"sigs.k8s.io/kustomize/api/filters/nameref"
	"sigs.k8s.io/kustomize/api/ifc"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	yamljson "sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// kustomize builds a base again for every overlay that names it. This file
// builds each base once for all units that share it. It calls kustomize's own
// transformers in kustomize's own order (KustTarget.accumulateTarget in its
// internal/target) and gives each overlay a copy of the base. A copy of the
// objects is enough, because kustomize passes all other information from a base
// to its overlays in annotations of the objects. A repository of 1,260 kustomizations takes
// 43% of the CPU that it takes without.
//
// kustomize itself builds units with fields that this file does not know, and
// units that cannot be built, see origins.build.

// errNotShared is the error for units that kustomize itself must build.
var errNotShared = errors.New("kustomize must build this unit")

// An accumulation builds one unit.
type accumulation struct {
	o       *origins
	bases   *bases
	specs   *defaults
	inexact bool // the values may differ from kustomize's
	inputs  *inputs
	noted   []noted // room for recordings
}

// inputs lists the files and directories that a kustomization and those below it read.
type inputs struct {
	reads  map[string]read // by path from the root of the tree
	pieces []piece         // of files, without their text
	steps  []*step
}

// A read is the file or directory at a path.
type read struct {
	place place
	data  []byte // of a file
}

// A built is the result of building a unit.
type built struct {
	resources []*resource.Resource // in the order of the kustomization's entries
	order     []int                // their indices in the order of the output
	tags      []tag
	inexact   bool
}

// accumulate builds the unit.
func (o *origins) accumulate() (all *built, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	a := &accumulation{o: o, bases: o.w.bases, inexact: !o.w.shareable(), inputs: newInputs()}
	if o.w.openapi {
		a.bases = newBases()
		schema.Lock()
		defer schema.Unlock()
		defer openapi.ResetOpenAPI()
		if err := o.w.setSchema(); err != nil {
			return nil, err
		}
	} else {
		defer shareSchema()()
	}
	if a.specs, err = readFieldSpecs(); err != nil {
		return nil, err
	}
	if a.specs, err = a.specs.and(o.w); err != nil {
		return nil, err
	}
	m, err := a.target(o.root, resmap.New())
	if err != nil {
		return nil, err
	}
	if err := a.finish(m); err != nil {
		return nil, err
	}
	all = &built{resources: m.Resources(), inexact: a.inexact}
	all.order, err = sortedOrder(m.Resources(), o.root.build.SortOptions)
	if err != nil {
		return nil, err
	}
	err = a.record(change{}, m.Resources, func() error {
		for _, r := range all.resources {
			if err := removeOwnAnnotations(r); err != nil {
				return err
			}
		}
		return nil
	})
	all.tags = o.tagsOf(a.inputs)
	return all, err
}

// setSchema sets the OpenAPI schema of the unit, for which the caller has locked schema.
func (w *walk) setSchema() error {
	openapi.ResetOpenAPI()
	schemaParsed = false
	for _, dir := range sorted(w.nodes) {
		n := w.nodes[dir]
		if n == nil || len(n.build.OpenAPI) == 0 {
			continue
		}
		data, _ := w.snap.ReadFile(path.Join(n.dir, n.build.OpenAPI["path"]))
		if err := openapi.SetSchema(n.build.OpenAPI, data, true); err != nil {
			return err
		}
	}
	return nil
}

// removeOwnAnnotations removes the annotations in which kustomize stores its
// own data. If none are left, it removes metadata.annotations too.
func removeOwnAnnotations(r *resource.Resource) error {
	annotations := r.GetAnnotations()
	for _, key := range ownAnnotations {
		delete(annotations, key)
	}
	return setAnnotations(r, annotations)
}

// ownAnnotations are the annotations in which kustomize stores data about an
// object.
var ownAnnotations = slices.Concat(resource.BuildAnnotations, []string{originAnnotation, transformationsAnnotation})

// setAnnotations does what RNode.SetAnnotations does for an object with
// metadata. Unlike that, it does not quote strings that YAML 1.1 reads as
// another type, for which kustomize would have to parse each string.
func setAnnotations(r *resource.Resource, annotations map[string]string) error {
	meta := entryOf(r.YNode(), yaml.MetadataField)
	if meta == nil || meta.Kind != yaml.MappingNode {
		return r.SetAnnotations(annotations)
	}
	if at := childAt(meta, yaml.AnnotationsField); at > 0 {
		meta.Content = slices.Delete(meta.Content, at-1, at+1)
	}
	if len(annotations) == 0 {
		return nil
	}
	all := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range sorted(annotations) {
		all.Content = append(all.Content, yaml.NewScalarRNode(key).YNode(), yaml.NewStringRNode(annotations[key]).YNode())
	}
	meta.Content = append(meta.Content, yaml.NewScalarRNode(yaml.AnnotationsField).YNode(), all)
	return nil
}

// shareable reports whether accumulate makes the same objects as kustomize of every field of
// the unit.
func (w *walk) shareable() bool {
	for _, n := range w.nodes {
		if n == nil {
			continue
		}
		k := &n.build
		if len(k.Configurations)+len(k.Crds)+len(k.OpenAPI)+len(k.Vars)+len(k.Generators)+len(k.Transformers)+len(k.Validators)+
			len(k.BuildMetadata)+len(k.HelmCharts)+len(k.HelmChartInflationGenerator)+len(k.CommonLabels)+len(k.Bases)+len(k.ImageTags) > 0 {
			return false
		}
	}
	return true
}

// target adds the resources of a kustomization to m and applies its
// transformers.
func (a *accumulation) target(n *node, m resmap.ResMap) (resmap.ResMap, error) {
	for _, entry := range n.build.Resources {
		if err := a.resource(n, entry, m); err != nil {
			return nil, err
		}
	}
	if err := a.generate(n, m); err != nil {
		return nil, err
	}
	for _, entry := range n.build.Components {
		child, err := a.component(n, entry)
		if err != nil {
			return nil, err
		}
		changed, err := a.target(child, m)
		if err != nil {
			return nil, err
		}
		m = resmap.New()
		if err := m.AppendAll(changed); err != nil {
			return nil, err
		}
	}
	return m, a.transform(n, m)
}

// resource adds the objects of a file or of another kustomization.
func (a *accumulation) resource(n *node, entry string, m resmap.ResMap) error {
	real, err := a.find(n, entry)
	if err != nil {
		return err
	}
	var resources []*resource.Resource
	if child := a.o.w.nodes[real.real]; !real.dir {
		resources, err = a.file(real.real)
	} else if child != nil {
		resources, err = a.base(child)
	} else {
		err = errNotShared
	}
	for i := 0; i < len(resources) && err == nil; i++ {
		err = m.Append(resources[i])
	}
	return err
}

func (a *accumulation) component(n *node, entry string) (*node, error) {
	real, err := a.find(n, entry)
	if err != nil {
		return nil, err
	}
	if child := a.o.w.nodes[real.real]; child != nil {
		a.readsKustomization(child)
		return child, nil
	}
	if entry != chartDir {
		return nil, errNotShared
	}
	return &node{file: &file{}, dir: real.real, build: types.Kustomization{Resources: []string{chartFile}}}, nil
}

// find looks up the file or directory of an entry and records that it was read.
func (a *accumulation) find(n *node, entry string) (place, error) {
	if path.IsAbs(entry) || remote(entry) {
		return place{}, errNotShared
	}
	name := path.Join(n.dir, filepath.ToSlash(entry))
	real, err := a.o.w.snap.find(name)
	if err == nil {
		a.inputs.reads[name] = read{real, a.o.w.snap.files[real.real]}
	}
	return real, err
}

// reads records that the file of a patch was read.
func (a *accumulation) reads(q *patch) {
	a.inputs.reads[q.name] = read{a.o.w.snap.places[q.name], a.o.w.snap.files[q.file]}
}

func (a *accumulation) readsKustomization(n *node) {
	a.inputs.reads[n.name] = read{place{real: n.name}, a.o.w.snap.files[n.name]}
}

// base returns a copy of the result of a kustomization, for an overlay to change.
func (a *accumulation) base(n *node) ([]*resource.Resource, error) {
	outer := a.inputs
	key := baseKey{dir: n.dir, hides: a.o.hides}
	b := a.bases.get(key)
	if b == nil || a.inexact || !a.o.w.snap.has(b.inputs.reads) {
		a.inputs = newInputs()
		a.readsKustomization(n)
		m, err := a.target(n, resmap.New())
		if err != nil {
			return nil, err
		}
		b = &base{inputs: a.inputs, objects: m.Resources()}
		if !a.inexact {
			a.bases.put(key, b)
		}
	}
	outer.add(b.inputs)
	a.inputs = outer
	copied := make([]*resource.Resource, len(b.objects))
	for i, r := range b.objects {
		copied[i] = copyOf(r)
	}
	return copied, nil
}

// copyOf returns a deep copy. A label that kustomize adds in several places of an object is one
// node there, so setting it in one place later sets it in all. The copy keeps this.
func copyOf(r *resource.Resource) *resource.Resource {
	hollow := *r
	hollow.RNode = *yaml.NewRNode(nil)
	c := hollow.DeepCopy()
	c.RNode = *yaml.NewRNode(copyNode(r.YNode(), map[*yaml.Node]*yaml.Node{}))
	return c
}

// copyNode copies a node. shared has the copies of scalars that kustomize made.
func copyNode(n *yaml.Node, shared map[*yaml.Node]*yaml.Node) *yaml.Node {
	made := n.Kind == yaml.ScalarNode && (n.Line < firstLines || n.Line >= firstSteps)
	if c := shared[n]; made && c != nil {
		return c
	}
	c := *n
	if made {
		shared[n] = &c
	}
	if len(n.Content) > 0 {
		c.Content = make([]*yaml.Node, len(n.Content))
		for i, below := range n.Content {
			c.Content[i] = copyNode(below, shared)
		}
	}
	return &c
}

func newInputs() *inputs { return &inputs{reads: map[string]read{}} }

func (m *inputs) add(b *inputs) {
	maps.Copy(m.reads, b.reads)
	m.pieces = append(m.pieces, b.pieces...)
	m.steps = append(m.steps, b.steps...)
}

// has reports whether the snapshot has the same files and directories at the
// same paths.
func (s *snapshot) has(reads map[string]read) bool {
	for name, r := range reads {
		if s.places[name] != r.place || !bytes.Equal(s.files[r.place.real], r.data) {
			return false
		}
	}
	return true
}

// file returns the objects of a file. Their nodes have lines that no other node of
// this process has.
func (a *accumulation) file(name string) ([]*resource.Resource, error) {
	data, ok := a.o.charts[name]
	if !ok {
		data = a.o.w.snap.files[name]
	}
	var sources []*source
	if !a.o.w.verbatim[name] {
		sources = a.o.byFile[name]
	}
	return a.documents(name, data, sources)
}

// splits matches the separators of documents that kustomize accepts.
var splits = regexp.MustCompile(`^\n---[ \t]*(#.*)?\n$`)

func (a *accumulation) documents(name string, data []byte, sources []*source) ([]*resource.Resource, error) {
	pieces := piecesOf(name, data, sources)
	if len(pieces) > 2 && slices.ContainsFunc(sources, func(s *source) bool { return strings.HasSuffix(kindOf(s.doc), "List") }) {
		a.inexact = true // kustomize appends the items of lists at the end
	}
	var all []*resource.Resource
	for i, p := range pieces {
		if i%2 == 1 {
			if len(p.text) > 0 && !splits.Match(p.text) {
				return nil, errNotShared
			}
			continue
		}
		text := p.write(nil)
		if i < len(pieces)-2 {
			text = append(text, '\n')
		}
		resources, err := a.parse(text)
		if err != nil {
			return nil, err
		}
		if p.source != nil {
			if p.from, err = a.bases.lines(p.lines + 2); err != nil {
				return nil, err
			}
			for _, r := range resources {
				moveDown(r.YNode(), p.from)
			}
			p.text, p.source = nil, nil
			a.inputs.pieces = append(a.inputs.pieces, p)
		}
		all = append(all, resources...)
	}
	return all, nil
}

// parse reads the objects of a document as resource.Factory.SliceFromBytes does. Unlike that, it
// copies no maps to resolve aliases where there are none. Lists are left to SliceFromBytes.
func (a *accumulation) parse(text []byte) (all []*resource.Resource, err error) {
	nodes, err := readNodes(text)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if aliased(n.YNode()) {
			if err := n.DeAnchor(); err != nil {
				return nil, err
			}
		}
		if n.IsNilOrEmpty() {
			continue
		}
		meta, err := n.GetValidatedMetadata()
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(meta.Kind, "List") {
			return a.bases.factory.RF().SliceFromBytes(text)
		}
		if empty, _ := n.HasNilEntryInList(); empty {
			return nil, errNotShared
		}
		all = append(all, &resource.Resource{RNode: *n})
	}
	return all, nil
}

// readNodes reads a text as kio.ByteReader does, without comments.
func readNodes(text []byte) ([]*yaml.RNode, error) {
	rest, marked := bytes.CutPrefix(text, []byte("---\n"))
	n := render.ParseNode(rest)
	if n == nil || n.Kind != yaml.MappingNode {
		return (&kio.ByteReader{OmitReaderAnnotations: true, Reader: bytes.NewReader(text)}).Read()
	}
	if marked {
		moveDown(n, 1)
	}
	return []*yaml.RNode{yaml.NewRNode(n)}, nil
}

// aliased reports whether a node contains an anchor, an alias or a key that is
// not a plain word. kustomize would change such a node when it resolves
// aliases.
func aliased(n *yaml.Node) bool {
	if n == nil {
		return false
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return true
	}
	for i, c := range n.Content {
		key := n.Kind == yaml.MappingNode && i%2 == 0
		if key && (c.Tag != yaml.NodeTagString || c.Value != strings.TrimSpace(c.Value) || c.Value == "") || aliased(c) {
			return true
		}
	}
	return false
}

// moveDown adds by to the line of each node that was read from a file and was not moved before.
func moveDown(n *yaml.Node, by int) {
	if n.Line > 0 && n.Line < firstLines {
		n.Line += by
	}
	for _, c := range n.Content {
		moveDown(c, by)
	}
}

// tagsOf returns the tags of documents and steps for this unit.
func (o *origins) tagsOf(in *inputs) []tag {
	t := &tagger{}
	slices.SortFunc(in.pieces, func(a, b piece) int { return a.from - b.from })
	for i := range in.pieces {
		p := in.pieces[i]
		if i > 0 && p.from == in.pieces[i-1].from {
			continue
		}
		sources := o.byFile[p.file]
		if len(sources) == 0 {
			sources = o.inlineAt[p.file]
		}
		if p.source = p.sourceIn(sources); p.source != nil {
			t.tag(&p)
		}
	}
	slices.SortFunc(in.steps, func(a, b *step) int { return a.line - b.line })
	for _, s := range slices.Compact(in.steps) {
		t.tags = append(t.tags, tag{from: s.line, to: s.line + 1, step: s})
	}
	return t.tags
}

// generate adds the objects of generators.
func (a *accumulation) generate(n *node, m resmap.ResMap) error {
	k := &n.build
	entries := n.generated()
	for _, args := range k.ConfigMapGenerator {
		args.Options = optionsOf(args.Options, k.GeneratorOptions)
		if err := a.generator(n, m, builtins.NewConfigMapGeneratorPlugin(), args, entries[0]); err != nil {
			return err
		}
		entries = entries[1:]
	}
	for _, args := range k.SecretGenerator {
		args.Options = optionsOf(args.Options, k.GeneratorOptions)
		if err := a.generator(n, m, builtins.NewSecretGeneratorPlugin(), args, entries[0]); err != nil {
			return err
		}
		entries = entries[1:]
	}
	for _, p := range n.pluginsOf("generators") {
		g, ok := newPlugin(kindOf(p.doc)).(resmap.GeneratorPlugin)
		if !ok {
			return errNotShared
		}
		made := &generator{args: &types.GeneratorArgs{}, configs: []config{p.config()}}
		if kind, ok := strings.CutSuffix(kindOf(p.doc), "Generator"); ok {
			made = p.generator(kind)
		}
		if err := a.generator(n, m, g, p.doc.Value, made); err != nil {
			return err
		}
	}
	return nil
}

// optionsOf merges the options of a generator with generatorOptions. The caller
// gets a copy because kustomize's function writes to its first argument.
func optionsOf(own, all *types.GeneratorOptions) *types.GeneratorOptions {
	if own != nil {
		o := *own
		o.Labels, o.Annotations = maps.Clone(o.Labels), maps.Clone(o.Annotations)
		own = &o
	}
	return types.MergeGlobalOptionsIntoLocal(own, all)
}

func (a *accumulation) generator(n *node, m resmap.ResMap, g resmap.GeneratorPlugin, args any, from *generator) error {
	if err := a.configure(n, g, args); err != nil {
		return err
	}
	objects, err := g.Generate()
	if err != nil {
		return err
	}
	c := change{role: render.Generated, configs: from.configs, data: from.data(a.o.w, n)}
	return a.record(c, m.Resources, func() error { return m.AbsorbAll(objects) })
}

// configure configures a plugin with args encoded as YAML, as kustomize does.
func (a *accumulation) configure(n *node, p resmap.Configurable, args any) error {
	text, err := yamljson.Marshal(args)
	if err != nil {
		return err
	}
	return p.Config(resmap.NewPluginHelpers(&loader{a, n}, a.bases.validator, a.bases.factory, types.DisabledPluginConfig()), text)
}

// A loader reads the files of a kustomization.
type loader struct {
	a *accumulation
	n *node
}

var _ ifc.Loader = (*loader)(nil)

// Repo implements [ifc.Loader]. It is empty for local files.
func (l *loader) Repo() string { return "" }

// Root implements [ifc.Loader].
func (l *loader) Root() string { return string(confirmed(l.n.dir)) }

// New implements [ifc.Loader] by refusing.
func (l *loader) New(string) (ifc.Loader, error) { return nil, errNotShared }

// Cleanup implements [ifc.Loader].
func (l *loader) Cleanup() error { return nil }

// Load implements [ifc.Loader].
func (l *loader) Load(name string) ([]byte, error) {
	real, err := l.a.find(l.n, name)
	if err != nil {
		return nil, err
	}
	return l.a.o.w.snap.ReadFile(real.real)
}

// finish performs kustomize's last steps: it appends hashes to names, updates
// references to names that changed, and drops objects with the annotation
// local-config.
func (a *accumulation) finish(m resmap.ResMap) error {
	if err := a.run(a.o.root, m, change{}, builtins.NewHashTransformerPlugin(), nil); err != nil {
		return err
	}
	were := map[string][]*resource.Resource{}
	for _, r := range m.Resources() {
		for _, id := range r.PrevIds() {
			were[id.Name] = append(were[id.Name], r)
		}
	}
	c := change{renamed: func(was, now string) *yaml.Node {
		for _, r := range were[was] {
			if r.GetName() == now {
				return entryOf(entryOf(r.YNode(), yaml.MetadataField), "name")
			}
		}
		return nil
	}}
	err := a.record(c, m.Resources, func() error {
		for _, r := range m.Resources() {
			if err := a.followNames(r, m, were); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	nodes := make([]*yaml.RNode, m.Size())
	for i, r := range m.Resources() {
		nodes[i] = &r.RNode
	}
	kept, err := a.bases.factory.RF().DropLocalNodes(nodes)
	if err != nil {
		return err
	}
	ids := make(map[resid.ResId]bool, len(kept))
	for _, r := range kept {
		ids[r.CurId()] = true
	}
	for _, id := range m.AllIds() {
		if !ids[id] {
			if err := m.Remove(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// followNames updates an object's references to other objects whose names
// changed. were holds all earlier names; a field with any other value does not
// refer to a renamed object.
func (a *accumulation) followNames(r *resource.Resource, m resmap.ResMap, were map[string][]*resource.Resource) (err error) {
	id := r.OrgId()
	var candidates resmap.ResMap
	if r.GetKind() == "RoleBinding" { // where this may fail
		if candidates, err = m.SubsetThatCouldBeReferencedByResource(r); err != nil {
			return err
		}
	}
	for _, kind := range a.specs.NameReference {
		for i, field := range kind.Fields {
			if !id.IsSelected(&field.Gvk) || !mayName(r.YNode(), kind.paths[i], were) {
				continue
			}
			if candidates == nil {
				if candidates, err = m.SubsetThatCouldBeReferencedByResource(r); err != nil {
					return err
				}
			}
			err := r.ApplyFilter(nameref.Filter{Referrer: r, NameFieldToUpdate: field, ReferralTarget: kind.Gvk, ReferralCandidates: candidates})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// mayName reports whether the value at a path may be one of the names. The path
// has no steps for items of lists. False positives are allowed: only if it
// returns false, kustomize's filter is skipped.
func mayName(n *yaml.Node, path []string, names map[string][]*resource.Resource) bool {
	if n == nil || n.Tag == yaml.NodeTagNull {
		return false
	}
	switch n.Kind {
	case yaml.DocumentNode, yaml.SequenceNode:
		return slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return mayName(c, path, names) })
	case yaml.MappingNode:
		if len(path) > 0 {
			return mayName(entryOf(n, strings.TrimSuffix(path[0], "[]")), path[1:], names)
		}
		name := entryOf(n, "name")
		return name == nil || name.Kind != yaml.ScalarNode || names[name.Value] != nil
	case yaml.ScalarNode:
		return len(path) > 0 || names[n.Value] != nil
	}
	return true
}
