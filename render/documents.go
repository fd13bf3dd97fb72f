package render

import (
	"bytes"
	"cmp"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A DocumentState reports whether a Kubernetes object in a file of the tree is
// deployed, and otherwise why not.
type DocumentState string

// The states of a document, of which each has exactly one. If several units
// read it, the first of these counts.
const (
	DocRendered    DocumentState = "rendered"     // a unit deploys it
	DocDeleted     DocumentState = "deleted"      // a patch deletes it
	DocLocalConfig DocumentState = "local-config" // kustomize reads it and leaves it out
	DocSkipped     DocumentState = "skipped"      // its controller reads it and does not apply it
	DocLeft        DocumentState = "left"         // its deployer leaves it alone, as its annotation says
	DocData        DocumentState = "data"         // a unit reads it as a patch, a generator's data or a schema
	DocInChart     DocumentState = "in-chart"     // its chart does not render it
	DocFailed      DocumentState = "failed"       // its unit could not be rendered
	DocUnused      DocumentState = "unused"       // it belongs to a component that no unit uses, or nothing deploys it
	DocExcluded    DocumentState = "excluded"     // it lies in an excluded or hidden directory
	DocFixture     DocumentState = "fixture"      // it belongs to a test suite
	DocTemplate    DocumentState = "template"     // it has placeholders that are filled in before it is deployed
)

// DocumentStates lists all states.
var DocumentStates = []DocumentState{
	DocRendered, DocDeleted, DocLocalConfig, DocSkipped, DocLeft, DocData, DocInChart, DocFailed, DocUnused, DocExcluded, DocFixture, DocTemplate,
}

// States of an Input that are more specific than those of a document.
const (
	docPatch DocumentState = "patch" // data

	// DocGated is a template that wrote nothing under a condition which only a
	// cluster decides, such as whether a release is upgraded. It counts as
	// in-chart.
	DocGated DocumentState = "gated"
)

// An Input records how a unit used a document of the tree.
type Input struct {
	File  string
	Index int // Document.Index, or -1 for all documents of the file
	Line  int // if not 0, the input is about the document with this line alone
	State DocumentState

	Reason string // of DocSkipped and DocLeft, and of DocInChart if it is known
}

// isAbout reports whether the input is about a document.
func (i *Input) isAbout(doc *TreeDocument, c chunk) bool {
	if i.Line > 0 {
		return i.Line > c.line && i.Line <= c.line+bytes.Count(c.text, []byte("\n"))
	}
	return i.Index < 0 || i.Index == doc.Index
}

// Inputs collects how a rendering uses the documents that it reads. It is safe
// for concurrent use; nil collects nothing.
type Inputs struct {
	mu    sync.Mutex
	all   []Input
	asked []Question

	branches []Branch
	patches  []GivenPatch
}

// Note adds an input.
func (i *Inputs) Note(file string, index int, state DocumentState) {
	if i != nil {
		i.add(Input{File: file, Index: index, State: state})
	}
}

func (i *Inputs) add(in Input) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, in)
}

// NoteUnwritten adds a template that wrote nothing, and why.
func (i *Inputs) NoteUnwritten(file, why string) {
	if i != nil {
		i.add(Input{File: file, Index: -1, State: DocInChart, Reason: why})
	}
}

// NotePatch adds an input whose documents are patches.
func (i *Inputs) NotePatch(file string, index int) { i.Note(file, index, docPatch) }

// All returns the inputs, ordered by file and document.
func (i *Inputs) All() []Input {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	all := slices.Clone(i.all)
	slices.SortFunc(all, func(a, b Input) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Line, b.Line), strings.Compare(string(a.State), string(b.State)), strings.Compare(a.Reason, b.Reason))
	})
	return slices.Compact(all)
}

// NoteSkipped adds inputs about objects that were rendered and that are not applied, and
// why. A document with an applied object counts as rendered.
func (i *Inputs) NoteSkipped(skipped, applied []*Object, reason string) {
	if i == nil || len(skipped) == 0 {
		return
	}
	files := make(map[string]bool)
	for _, o := range skipped {
		for _, at := range o.At("") {
			files[at.File] = true
			i.add(Input{File: at.File, Index: -1, Line: at.Line, State: DocSkipped, Reason: reason})
		}
	}
	for _, o := range applied {
		for _, at := range o.At("") {
			if files[at.File] {
				i.add(Input{File: at.File, Index: -1, Line: at.Line, State: DocRendered})
			}
		}
	}
}

// A TreeDocument is a Kubernetes object in a file of the tree, with its state.
type TreeDocument struct {
	File   string
	Index  int // index in the file, from 0
	Line   int // line of its kind
	Kind   string
	State  DocumentState
	Units  []string // identities of the units from which the state comes
	Reason string   // why it is not deployed
	Cause  string   // the file that keeps it from being deployed, if known
	// Usual is true for documents that are normally not deployed: patches, and
	// templates of a chart that wrote nothing.
	Usual bool
}

// IgnoreMark begins a comment that accepts failures.
const IgnoreMark = "preadmit:ignore"

// Documents returns the state of each Kubernetes object in the files below the
// paths of d, and in the files that units read, ordered by file and document.
// units must hold the units rendered from d's sources, and may hold others. marked
// reports for each of these files that is not left out whether it has the IgnoreMark.
func (d Discovery) Documents(units []*Unit) (docs []TreeDocument, marked map[string]bool) {
	if d.walk == nil {
		return nil, nil
	}
	a := &accounting{
		walk: d.walk, sources: make(map[string]*Unit), inputs: make(map[string][]unitInput), whole: make(map[string]*Unit),
		failed: make(map[string]bool), alone: make(map[string]bool),
	}
	a.learn(units)
	files := a.files()
	found, marks := make([][]TreeDocument, len(files)), make([]bool, len(files))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range files {
		group.Go(func() error {
			found[i], marks[i] = a.file(name)
			return nil
		})
	}
	_ = group.Wait()
	marked = make(map[string]bool, len(files))
	for i, name := range files {
		if _, left := a.leftAt(name); !left {
			marked[name] = marks[i]
		}
	}
	return slices.Concat(found...), marked
}

// Objects returns a function that decodes the objects of a document; it returns nil if
// that can't be done. It keeps the last file, so documents are best asked for in the
// order of Documents. It must not be called concurrently.
func (d Discovery) Objects() func(TreeDocument) []*Object {
	var file string
	var docs []Document
	return func(doc TreeDocument) []*Object {
		if doc.File != file {
			data, err := ReadFile(d.walk.fsys, doc.File)
			if err != nil {
				return nil
			}
			file = doc.File
			docs, _ = Documents(file, data, YAML11)
		}
		for _, x := range docs {
			if x.Index == doc.Index {
				m, _ := x.Value.(map[string]any)
				if shapeOf(m) == template {
					return nil
				}
				objects, _ := flatten(x.Value, x.Positions, 0)
				return objects
			}
		}
		return nil
	}
}

// An accounting is the state of one call of Documents.
type accounting struct {
	*walk
	sources map[string]*Unit // manifests, by file
	whole   map[string]*Unit // charts, by directory
	inputs  map[string][]unitInput
	left    map[string]Skipped // by path
	failed  map[string]bool    // paths of units that could not be rendered
	alone   map[string]bool    // files that no kustomization and no chart includes
	taken   map[string]bool    // files and directories in Claim.Uses: whether a unit uses the claim
}

type unitInput struct {
	Input
	unit string
}

func (a *accounting) learn(units []*Unit) {
	for _, u := range units {
		for _, in := range u.Inputs {
			a.inputs[in.File] = append(a.inputs[in.File], unitInput{in, u.Identity()})
		}
		switch u.Source.Kind {
		case "manifest":
			a.sources[u.Path] = u
		case "helm":
			a.whole[u.Path] = u
		}
		if s := u.Status(); s == string(Failed) || s == string(NotRendered) {
			a.failed[u.Path] = true
		}
	}
	for _, s := range a.out.Sources {
		if s.Kind == "manifest" {
			a.alone[s.Path] = true
		}
	}
	a.left = make(map[string]Skipped)
	for _, s := range a.out.Skipped {
		if s.State != "" {
			a.left[s.Path] = s
		}
	}
	a.taken = make(map[string]bool)
	for i, c := range a.used.claims {
		for _, name := range slices.Concat(c.Uses, c.Files) {
			a.taken[path.Clean(name)] = a.taken[path.Clean(name)] || a.used.reached[i]
		}
	}
}

// files lists the files that may hold documents, in byte order.
func (a *accounting) files() []string {
	all := make(map[string]bool)
	for name := range a.walk.files {
		all[name] = true
	}
	for name := range a.sources {
		all[name] = true
	}
	for name := range a.inputs {
		all[name] = all[name] || !a.walked["."] // documents outside of the tree are not counted
	}
	for _, c := range a.used.claims {
		if c.Whole {
			a.below(c.dir, all)
		}
	}
	for name := range a.left {
		a.below(name, all)
	}
	names := make([]string, 0, len(all))
	for name, in := range all {
		if in && hasManifestName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// below adds the regular files below a path.
func (a *accounting) below(name string, all map[string]bool) {
	_ = fs.WalkDir(a.fsys, name, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // reported by the unit that reads it
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.Type().IsRegular():
			if a.count++; a.count > maxFiles {
				return fs.SkipAll
			}
			all[name] = true
		}
		return nil
	})
}

// file finds the documents of a file and what becomes of them, and whether it has the IgnoreMark.
func (a *accounting) file(name string) (docs []TreeDocument, marked bool) {
	data, err := ReadFile(a.fsys, name)
	marked = bytes.Contains(data, []byte(IgnoreMark))
	if err != nil || !mayHoldObjects(data) || encoding(data) != nil {
		return nil, marked // reported by the unit that reads it
	}
	src := newSource(name, data)
	for i, c := range src.split() {
		kind, line := objectIn(src, c)
		if line == 0 {
			continue
		}
		doc := TreeDocument{File: name, Index: i, Line: line, Kind: kind}
		if !a.read(&doc, c) {
			a.unread(&doc, c)
		}
		docs = append(docs, doc)
	}
	return docs, marked
}

// objectIn returns the kind and the line of the object in a document, or line 0
// if there is none. A document that can't be decoded counts as an object if it
// has an apiVersion and a kind at its left margin.
func objectIn(src *source, c chunk) (kind string, line int) {
	version, kind := marginKey(c.text, "apiVersion:"), marginKey(c.text, "kind:")
	plain := version != "" && kind != "" && !strings.ContainsAny(version+kind, `"'&*!{[|>#`)
	if plain && isConfig(version, kind) {
		return "", 0
	}
	line = c.line + 1 + bytes.Count(c.text[:max(0, bytes.Index(c.text, []byte("kind:")))], []byte("\n"))
	if plain {
		return kind, line
	}
	if !mayHoldObjects(c.text) {
		return "", 0
	}
	doc, _ := src.document(&c, YAML11, c.line == 0)
	if doc.Positions == nil {
		if version != "" && kind != "" {
			return strings.Trim(kind, `"'`), line
		}
		return "", 0
	}
	if s := shapeOf(doc.Value); s != object && s != template {
		return "", 0
	}
	at := doc.Positions.At("/kind")[0]
	return text(doc.Value.(map[string]any)["kind"]), at.Line
}

// Headings returns an object with the apiVersion and kind of each document of a file that has
// both at its left margin, even if the document can't be read. Templates are left out.
func Headings(data []byte) []*Object {
	var all []*Object
	for _, c := range newSource("", data).split() {
		version, kind := marginKey(c.text, "apiVersion:"), marginKey(c.text, "kind:")
		if version == "" || kind == "" || templateMark.Match(c.text) {
			continue
		}
		all = append(all, &Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": strings.Trim(version, `"'`), "kind": strings.Trim(kind, `"'`),
		}}})
	}
	return all
}

// read sets the state of a document that units read. It returns false if none
// does.
func (a *accounting) read(doc *TreeDocument, c chunk) bool {
	found := false
	for _, in := range a.inputsOf(doc, c) {
		usual := in.State == docPatch || in.State == DocInChart
		reason := in.Reason
		switch in.State {
		case docPatch:
			in.State, reason = DocData, "a patch"
		case DocGated:
			in.State, reason = DocInChart, "a template that writes nothing, on install and upgrade and with the API versions that it asks for"
		}
		switch order := cmp.Compare(slices.Index(DocumentStates, in.State), slices.Index(DocumentStates, doc.State)); {
		case !found || order < 0:
			doc.State, doc.Units, doc.Usual, doc.Reason = in.State, []string{in.unit}, usual, reason
		case order == 0 && !slices.Contains(doc.Units, in.unit):
			doc.Units = append(doc.Units, in.unit)
		}
		found = true
	}
	slices.Sort(doc.Units)
	if doc.Reason != "" {
		return found
	}
	switch doc.State {
	case DocDeleted:
		doc.Reason = "deleted by a patch"
	case DocLocalConfig:
		doc.Reason = "annotated with config.kubernetes.io/local-config, which kustomize leaves out"
	case DocData:
		doc.Reason = "read as data, not as a resource"
	case DocInChart:
		doc.Reason = "a template that writes nothing"
	}
	return found
}

// inputsOf returns the inputs about a document. A unit's inputs about the document alone
// replace those about its whole file.
func (a *accounting) inputsOf(doc *TreeDocument, c chunk) []unitInput {
	var all []unitInput
	alone := make(map[string]bool)
	for _, in := range a.inputs[doc.File] {
		if in.isAbout(doc, c) {
			all = append(all, in)
			if in.Line > 0 {
				alone[in.unit] = true
			}
		}
	}
	if len(alone) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(in unitInput) bool { return in.Line == 0 && alone[in.unit] })
}

// unread sets the state of a document that no unit reads.
func (a *accounting) unread(doc *TreeDocument, c chunk) {
	if left, ok := a.leftAt(doc.File); ok {
		doc.State, doc.Reason = left.State, left.Reason
		return
	}
	if u := a.sources[doc.File]; u != nil {
		doc.State, doc.Reason, doc.Units = DocFailed, "it could not be read", []string{u.Identity()}
		if templateMark.Match(c.text) {
			doc.State, doc.Reason, doc.Units = DocTemplate, "a template: something has to fill in its placeholders first", nil
		}
		return
	}
	if dir, u, ok := a.chartOf(doc.File); ok {
		doc.State, doc.Reason = DocInChart, "inside the chart "+dir+", which does not render it"
		doc.Cause = path.Join(dir, "Chart.yaml")
		if u != nil && u.Status() != string(Rendered) {
			doc.State, doc.Reason, doc.Units = DocFailed, "its chart could not be rendered", []string{u.Identity()}
		}
		return
	}
	doc.State, doc.Reason = DocFailed, "part of a kustomization that could not be rendered"
	if !a.ofFailed(doc.File) {
		doc.State, doc.Reason = DocUnused, "in no unit that is deployed"
	}
	if used, ok := a.takenAt(doc.File); ok && !used {
		doc.State, doc.Reason = DocUnused, "part of a component that no kustomization uses"
	}
}

// ofFailed reports whether a file that no unit reads may belong to a unit that could not be
// rendered. A file that nothing includes belongs only to units at directories above it.
func (a *accounting) ofFailed(name string) bool {
	if !a.alone[name] {
		return len(a.failed) > 0
	}
	for name != "." && !a.failed[name] {
		name = path.Dir(name)
	}
	return a.failed[name]
}

func (a *accounting) leftAt(name string) (Skipped, bool) {
	for ; ; name = path.Dir(name) {
		if s, ok := a.left[name]; ok {
			return s, true
		}
		if name == "." || a.walked[name] {
			return Skipped{}, false
		}
	}
}

func (a *accounting) takenAt(name string) (used, ok bool) {
	for ; name != "."; name = path.Dir(name) {
		if used, ok := a.taken[name]; ok {
			return used, true
		}
	}
	return false, false
}

// chartOf returns the outermost directory above a file that belongs to one
// claim as a whole, and the claim's unit.
func (a *accounting) chartOf(name string) (dir string, u *Unit, ok bool) {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if a.walked[dir] && a.walk.isWhole(dir) {
			return dir, a.whole[dir], true
		}
		if dir == "." {
			return "", nil, false
		}
	}
}

// isWhole is whole for directories that the walk looked at. Unlike whole it is
// safe for concurrent use once the walk is over.
func (w *walk) isWhole(dir string) bool {
	return slices.ContainsFunc(w.asked[dir], func(c claim) bool { return c.Whole })
}
