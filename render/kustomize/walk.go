package kustomize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// Limits of one build. They are needed because kustomize reads a base again for
// every overlay that names it, and cannot be stopped by a context.
const (
	maxObjects = 20_000
	maxLoads   = 20_000 // of kustomizations
	maxDepth   = 100    // of kustomizations within each other
	maxFields  = 2_000  // field specs; kustomize compares each with all others
)

// A walk visits the graph of kustomizations before kustomize does. It reads
// every file that the build will see, once. It returns errors with places for
// everything that would make the build leave the tree, run programs, grow
// without bounds, or fail without a place.
type walk struct {
	ctx       context.Context
	src       render.Source
	options   render.Kustomize
	helm      render.Renderer
	tree      *tree
	snap      *snapshot
	nodes     map[string]*node   // by real directory
	docs      map[string]*parsed // YAML files, by real path
	stack     []string           // directories from the root to here
	errs      []error
	absent    []error // those of errs about what adds resources and is not here: the build goes on without them
	documents *documents
	bases     *bases
	openapi   bool // some kustomization brings its own schema
	// verbatim holds the files that are not read as resources or patches, such
	// as the data of a ConfigMap.
	verbatim map[string]bool
	asked    map[string]render.Origin // places of the references to fetched files, by directory
	anyFile  bool                     // the build reads a file that was fetched
	copies   int                      // JSON patch operations that copy

	growths    []growth // the replacements so far, in kustomize's order
	multiplied int      // the most copies that one replacement may write

	size   int // bytes read
	fields int // field specs of configurations and labels

	inflated []inflated // charts, in the order of the walk
}

// A node is one kustomization of the graph.
type node struct {
	*file
	dir        string
	namespace  string              // that charts get from overlays
	build      types.Kustomization // as kustomize is to read it
	rewritten  bool                // build differs from the file
	items      []item              // its resources, in order
	components []*node
	generators []*chart // charts of chart generators
	plugins    []*plugin
	patches    []*patch
	replaces   map[string][]render.Document // files of replacements, by their paths as written
	loads      int
	objects    int
	helm       bool // a chart in it takes the namespace of the overlay
}

// An item is an entry of resources: a manifest file or another kustomization.
type item struct {
	at   []any
	docs []render.Document
	node *node
}

func newWalk(ctx context.Context, src render.Source, r *Renderer) *walk {
	var options render.Kustomize
	if src.Kustomize != nil {
		options = *src.Kustomize
	}
	return &walk{
		options: options, ctx: ctx, src: src, helm: r.options.Helm, documents: r.documents, bases: r.bases, tree: newTree(src.FS), snap: newSnapshot(),
		nodes: map[string]*node{}, docs: map[string]*parsed{}, verbatim: map[string]bool{}, asked: map[string]render.Origin{},
	}
}

// release drops everything that the objects' provenance does not need.
// Provenance reads from the snapshot alone.
func (w *walk) release() {
	w.ctx, w.src, w.helm, w.tree = nil, render.Source{}, nil, nil
}

// fail records an error, which may join several.
func (w *walk) fail(err error) {
	if err != nil {
		w.errs = append(w.errs, err)
	}
}

// failed reports whether anything keeps the build from giving objects.
func (w *walk) failed() bool {
	return slices.ContainsFunc(w.errs, func(err error) bool { return !warnings(err) && !slices.Contains(w.absent, err) })
}

// visit reads the kustomization of a real directory and the files it refers to.
// It returns nil if it cannot be read.
func (w *walk) visit(dir, namespace string) *node {
	if n, ok := w.nodes[dir]; ok {
		w.sameNamespace(n, namespace)
		return n
	}
	w.nodes[dir] = nil
	f, err := w.load(dir)
	w.fail(err)
	if f == nil || err != nil && !warnings(err) {
		return nil
	}
	n := &node{file: f, dir: dir, namespace: namespace, build: f.fixed()}
	w.nodes[dir] = n
	w.stack = append(w.stack, dir)
	n.rewritten = len(n.spec.Bases) > 0 || len(n.spec.ImageTags) > 0
	w.openapi = w.openapi || n.spec.OpenAPI != nil
	n.build.Generators = nil
	for _, l := range n.spec.Labels {
		w.fields += len(l.FieldSpecs)
	}
	for _, r := range references(&n.spec) {
		w.follow(n, r)
	}
	for i, p := range n.spec.Patches {
		w.inlinePatch(n, "patches", i, p.Patch)
	}
	for i, p := range n.spec.PatchesJson6902 {
		w.inlinePatch(n, "patchesJson6902", i, p.Patch)
	}
	w.inflateAll(n)
	n.count()
	w.grow(n.replacements())
	w.stack = w.stack[:len(w.stack)-1]
	return n
}

func (w *walk) load(dir string) (*file, error) {
	f, err := w.documents.load(w.src.FS, dir)
	if f == nil {
		return nil, err
	}
	w.size += len(f.data)
	if p := w.tree.resolve(f.name); p.err == nil && !below(p.real, dir) {
		return f, errors.Join(err, f.error("outside-root", errors.New("symbolic link leads out of the directory, which kustomize does not follow")))
	}
	w.snap.addFile(f.name, f.name, f.data)
	if err == nil || warnings(err) {
		err = errors.Join(err, f.check())
	}
	return f, err
}

// count computes how often kustomize will read a kustomization and how many
// objects that gives. Both double at every level when overlays share their
// bases.
func (n *node) count() {
	n.loads = 1
	n.objects = len(n.spec.ConfigMapGenerator) + len(n.spec.SecretGenerator)
	for _, it := range n.items {
		for _, doc := range it.docs {
			n.objects += objectsIn(doc.Value)
		}
		n.add(it.node)
	}
	for _, c := range n.components {
		n.add(c)
	}
}

func (n *node) add(child *node) {
	if child != nil {
		n.loads = min(n.loads+child.loads, maxLoads+1)
		n.objects = min(n.objects+child.objects, maxObjects+1)
		n.helm = n.helm || child.helm && n.spec.Namespace == ""
	}
}

func objectsIn(value any) int {
	m, _ := value.(map[string]any)
	items, ok := m["items"].([]any)
	if kind, _ := m["kind"].(string); !ok || !strings.HasSuffix(kind, "List") {
		return 1
	}
	return len(items)
}

// fieldSpecs counts the maps with a path in a configuration.
func fieldSpecs(value any) int {
	count := 0
	for key := range render.Values(value) {
		if key == "path" {
			count++
		}
	}
	return count
}

// bounds refuses a build that would not end in reasonable time and memory.
func (w *walk) bounds(root *node) error {
	switch {
	case root.loads > maxLoads:
		return root.error("too-large", fmt.Errorf("overlays and bases refer to each other so often that kustomize would read more than %d of them", maxLoads))
	case root.objects > maxObjects:
		return root.error("too-large", fmt.Errorf("more than %d objects", maxObjects))
	case w.fields > maxFields:
		return root.error("too-large", fmt.Errorf("configurations and labels name more than %d fields to change", maxFields))
	case w.copies > 0 && (w.copies > 24 || w.size<<w.copies > 256<<20):
		return root.error("too-large", errors.New("JSON patches copy so often that the objects could grow without bounds"))
	case len(w.growths) > maxReplacements:
		return root.error("too-large", fmt.Errorf("more than %d replacements", maxReplacements))
	case w.multiplied > maxCopies, w.multiplied > 256 && w.multiplied*w.size > 256<<20:
		return root.error("too-large", errors.New("replacements copy the results of others so often that objects could grow without bounds"))
	}
	return nil
}

// follow checks a reference and visits the file or directory that it names.
func (w *walk) follow(n *node, r ref) {
	if (r.kind == refPlugin || r.kind == refMerge) && w.inline(n, r) {
		return
	}
	name, ok := inside(n.dir, r.text)
	switch {
	case strings.TrimSpace(r.text) == "":
		w.reject(n, r, "empty-reference", "%s is empty", nouns[r.kind])
		return
	case remote(r.text):
		w.remote(n, r)
		return
	case !ok:
		w.reject(n, r, "outside-tree", "%s %s leads out of the tree", nouns[r.kind], show(r.text))
		return
	}
	if root, ok := render.FetchedDir(n.dir); ok && !below(name, root) {
		w.reject(n, r, "outside-tree", "%s %s leads out of the repository that was fetched", nouns[r.kind], show(r.text))
		return
	}
	p := w.tree.resolve(name)
	switch {
	case errors.Is(p.err, errEscapes), errors.Is(p.err, errLinks):
		w.reject(n, r, "outside-tree", "%s %s %w", nouns[r.kind], show(r.text), p.err)
	case p.err != nil && (ambiguous(r.text) || strings.Contains(r.text, " - ")):
		w.reject(n, r, "missing-"+rule(r.kind), "%s %q not found: are these two entries, the second indented too far?", nouns[r.kind], show(r.text))
	case errors.Is(p.err, fs.ErrNotExist):
		near := ""
		if t := show(r.text); t == r.text && !strings.HasSuffix(t, "/") {
			near = render.NearFile(w.src.FS, name, t)
		}
		w.reject(n, r, "missing-"+rule(r.kind), "%s %s not found%s", nouns[r.kind], show(r.text), near)
	case p.err != nil:
		w.reject(n, r, "unreadable", "%s %s cannot be read", nouns[r.kind], show(r.text))
	case p.dir:
		w.followDir(n, r, name, p.real)
	default:
		w.followFile(n, r, name, p.real)
	}
}

func rule(kind refKind) string { return strings.ReplaceAll(nouns[kind], " ", "-") }

// reject records an error about a reference.
func (w *walk) reject(n *node, r ref, rule, format string, args ...any) {
	w.fail(&render.Error{Span: n.place(r), Rule: rule, Err: fmt.Errorf(format, args...)})
}

func (n *node) place(r ref) render.Span {
	if r.span != (render.Span{}) {
		return r.span
	}
	return n.at(r.at...)
}

func (w *walk) remote(n *node, r ref) {
	const instead = "vendor it: put a copy into the tree and refer to that"
	e := &render.Error{
		Span: n.place(r), Rule: "remote-base", Missing: true, Source: withoutSecrets(r.text), Hint: instead,
		Err: fmt.Errorf("%s %s is not in the tree, and nothing is fetched", nouns[r.kind], show(withoutSecrets(r.text))),
	}
	if remote, dir, ok := fetchable(r); ok {
		err := w.fetched(n, r, remote, dir)
		if err == nil {
			return
		}
		e = e.Needs(remote, err, instead)
	}
	w.fail(e)
	if r.kind == refResource && r.span == (render.Span{}) {
		w.absent = append(w.absent, e)
		n.leaveOut(r.text)
	}
}

// leaveOut has the build go on without a resource that is elsewhere.
func (n *node) leaveOut(text string) {
	n.rewritten = true
	n.build.Resources = slices.DeleteFunc(slices.Clone(n.build.Resources), func(entry string) bool { return entry == text })
}

// withoutSecrets takes user and password out of a URL.
func withoutSecrets(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	host, tail, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 && strings.Contains(host[:i], ":") {
		return scheme + "://…@" + host[i+1:] + "/" + tail
	}
	return text
}

// followDir visits the kustomization of another directory.
func (w *walk) followDir(n *node, r ref, name, real string) {
	if r.kind != refResource && r.kind != refComponent && r.kind != refPlugin {
		w.reject(n, r, "not-a-file", "%s %s is a directory", nouns[r.kind], show(r.text))
		return
	}
	if ambiguous(r.text) {
		w.reject(n, r, "ambiguous-path", "%q leads to %s: are these two entries, the second indented too far?", show(r.text), name)
		return
	}
	if w.cycle(n, r, real) {
		return
	}
	if len(names(w.src.FS, real)) == 0 {
		w.reject(n, r, "missing-kustomization", "%s %s is a directory without kustomization.yaml", nouns[r.kind], show(r.text))
		return
	}
	w.snap.addDir(name, real)
	child := w.visit(real, n.passes())
	if child == nil || !w.kindFits(n, r, child) {
		return
	}
	switch r.kind {
	case refComponent:
		n.components = append(n.components, child)
	case refPlugin:
		w.pluginDir(n, r, child)
	default:
		n.items = append(n.items, item{at: r.at, node: child})
	}
}

// cycle refuses a base that contains an overlay on the way to it, which
// kustomize does too (errIfArgEqualOrHigher), and a chain without end.
func (w *walk) cycle(n *node, r ref, real string) bool {
	for _, dir := range w.stack {
		if below(dir, real) {
			w.reject(n, r, "cycle", "%s %s leads back to %s, which is being built from it", nouns[r.kind], show(r.text), path.Join(dir, "/"))
			return true
		}
	}
	if len(w.stack) >= maxDepth {
		w.reject(n, r, "too-deep", "more than %d kustomizations within each other", maxDepth)
		return true
	}
	return false
}

// passes returns the namespace that charts in bases get, see
// accumulateDirectory in kustomize's internal/target/kusttarget.go.
func (n *node) passes() string {
	if n.spec.Namespace != "" {
		return n.spec.Namespace
	}
	return n.namespace
}

// sameNamespace refuses a base with charts if overlays of the same build would
// give the charts different namespaces.
func (w *walk) sameNamespace(n *node, namespace string) {
	if n != nil && n.helm && n.namespace != namespace {
		w.fail(n.error("unsupported", fmt.Errorf("the charts of this kustomization are rendered for two namespaces in one build, %q and %q", n.namespace, namespace), "helmCharts"))
	}
}

func (w *walk) kindFits(n *node, r ref, child *node) bool {
	component := child.spec.Kind == types.ComponentKind
	switch {
	case component && r.kind != refComponent:
		w.reject(n, r, "not-a-kustomization", "%s is a component: it belongs under components", show(r.text))
	case !component && r.kind == refComponent:
		w.reject(n, r, "not-a-component", "%s is no component: its kind is not Component", show(r.text))
	default:
		return true
	}
	return false
}

// followFile reads a file into the snapshot, as far as kustomize would read it.
func (w *walk) followFile(n *node, r ref, name, real string) {
	if r.kind == refComponent {
		w.reject(n, r, "not-a-directory", "component %s is a file", show(r.text))
		return
	}
	if remote(r.text) { // kustomize reads it from anywhere
		w.anyFile = true
	} else if !below(real, n.dir) && !w.options.AnyFile {
		w.reject(n, r, "outside-root", "%s %s is not in or below the directory of its kustomization", nouns[r.kind], show(r.text))
		return
	}
	data, ok := w.read(name, real)
	if r.kind != refResource && r.kind != refPatch && r.kind != refMerge {
		w.verbatim[real] = true
	}
	if !ok {
		return
	}
	switch r.kind {
	case refData, refValues:
	case refSchema:
		if !json.Valid(data) {
			w.yaml(real, data, render.YAML11)
		}
	case refCRD:
		if len(data) == 0 {
			w.reject(n, r, "empty-file", "crd %s is empty", show(r.text))
			return
		}
		w.yaml(real, data, render.YAML11)
	case refResource:
		n.items = append(n.items, item{at: r.at, docs: w.yaml(real, data, render.YAML12)})
	case refPlugin:
		w.pluginDocs(n, r, w.yaml(real, data, render.YAML12))
	case refReplacement:
		if n.replaces == nil {
			n.replaces = map[string][]render.Document{}
		}
		n.replaces[r.text] = w.yaml(real, data, render.YAML12)
	case refPatch, refMerge:
		w.patchFile(n, r, name, real, data)
	case refConfiguration:
		for _, doc := range w.yaml(real, data, render.YAML12) {
			w.fields += fieldSpecs(doc.Value)
		}
	default:
		w.yaml(real, data, render.YAML12)
	}
}

// read makes a file visible to the build.
func (w *walk) read(name, real string) ([]byte, bool) {
	data, ok := w.snap.files[real]
	if !ok {
		var err error
		if data, err = render.ReadFile(w.src.FS, real); err != nil {
			w.fail(err)
			return nil, false
		}
		w.size += len(data)
	}
	w.snap.addFile(name, real, data)
	return data, true
}

// yaml parses a file and records its errors. It applies limits on aliases and
// nesting, because kyaml has none.
func (w *walk) yaml(real string, data []byte, dialect render.Dialect) []render.Document {
	p, ok := w.docs[real]
	if !ok {
		var err error
		p, err = w.documents.read(real, data, dialect)
		w.fail(err)
		w.docs[real], w.snap.files[real] = p, p.data
	}
	return p.docs
}

// publishAll writes the kustomizations into the snapshot.
func (w *walk) publishAll() {
	configured := false
	for _, n := range w.nodes {
		configured = configured || n != nil && (len(n.spec.Configurations) > 0 || n.spec.OpenAPI != nil || slices.Contains(n.spec.BuildMetadata, types.TransformerAnnotations))
	}
	for _, dir := range sorted(w.nodes) {
		if n := w.nodes[dir]; n != nil {
			if !configured {
				n.relabel()
			}
			w.publish(n)
		}
	}
}

// relabel rewrites deprecated fields so that kustomize prints no warnings:
// commonLabels becomes the last entry of labels, which is equivalent unless a
// configuration adds field specs for commonLabels, or annotations name each
// transformer. bases and imageTags are rewritten likewise.
func (n *node) relabel() {
	if len(n.build.CommonLabels) > 0 {
		n.build.Labels = append(slices.Clip(n.build.Labels), types.Label{Pairs: n.build.CommonLabels, IncludeSelectors: true})
		n.build.CommonLabels = nil
		n.rewritten = true
	}
}

// publish writes the kustomization into the snapshot: the file's own bytes,
// unless the build must read a changed one. So the checked bytes are the ones
// that are built.
func (w *walk) publish(n *node) {
	if !n.rewritten {
		return
	}
	data, err := json.Marshal(&n.build)
	if err != nil {
		w.fail(n.error("internal", errors.New("kustomization cannot be written")))
		return
	}
	w.snap.addFile(n.name, n.name, data)
}
