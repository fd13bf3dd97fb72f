// Package kustomize renders kustomizations as `kustomize build` does, from the
// files of a tree alone.
//
// It takes a directory with a kustomization file and first walks everything that
// the file refers to. The walk reads each file once, under limits, and returns
// errors with places for what is remote, missing, hostile or not supported. Only
// files that it accepted are given to kustomize's own library, in memory. The
// places of an object's fields are found when they are first asked for. Charts are
// rendered by the Renderer in the [Options].
//
// kustomize itself prints warnings about vars, patchesStrategicMerge and
// patchesJson6902 to standard error, and unused vars to the standard logger. This
// package does not change those globals: a command that wants clean output must
// redirect standard error while it renders. Other deprecated fields are replaced by
// their successors before kustomize sees them.
//
// The files, in the order of a build:
//
//   - kustomize.go finds kustomizations; walk.go, file.go, ref.go and fsys.go read what they
//     refer to, fetched.go what is not in the tree
//   - build.go runs kustomize and keeps large schemas out; accumulate.go and transform.go
//     call its transformers so that overlays share their bases (bases.go)
//   - generator.go, plugin.go, helm.go and helmvalues.go: resources that a kustomization
//     makes
//   - tag.go gives the nodes of each document lines of their own, record.go those that
//     transformers write; origin.go and source.go find the places
//     of a field from them
//   - patch.go, target.go and replacement.go check patches and replacements, and apply
//     JSON patches to nodes
//   - explain.go words kustomize's errors without values
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
	"unicode"
	"weak"

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// Options configure a [Renderer].
type Options struct {
	// Helm renders the charts of helmCharts; nil makes every chart an error.
	Helm render.Renderer
}

// A Renderer renders kustomizations. It is safe for concurrent use.
type Renderer struct {
	options   Options
	documents *documents
	bases     *bases
}

// New returns a Renderer.
func New(o Options) *Renderer {
	return &Renderer{o, &documents{files: map[fileKey]weak.Pointer[parsed]{}, kustomizations: map[string]weak.Pointer[file]{}}, newBases()}
}

var _ render.Renderer = (*Renderer)(nil)

// Kind returns "kustomize".
func (r *Renderer) Kind() string { return "kustomize" }

// Render builds the kustomization at src.Path. Objects are in the order of
// `kustomize build`: by kind, unless sortOptions differ. It returns either all
// objects, with warnings at most, or none and errors. There is one exception: resources, charts and
// generators that are not in the tree are left out, and the other objects are returned beside the
// errors, if they can be built alone. For every reference to something that is not in the tree there
// is one error, whose Missing says what it is.
func (r *Renderer) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := newWalk(ctx, src, r)
	defer w.noteVerbatim(src.Inputs)
	root := w.start()
	if root == nil || w.failed() {
		return nil, errors.Join(w.errs...)
	}
	if err := w.bounds(root); err != nil {
		return nil, errors.Join(append(w.errs, err)...)
	}
	w.publishAll()
	origins := newOrigins(w, root)
	resources, err := origins.build()
	switch {
	case err != nil && len(w.absent) > 0: // what refers to an absent resource fails, too
		return nil, errors.Join(w.errs...)
	case err != nil:
		return nil, errors.Join(append(w.errs, w.explain(root, err))...)
	case len(w.absent) == 0:
		w.fail(w.unmatched())
	}
	objects, err := w.objects(origins, resources)
	w.fail(err)
	origins.noteDocuments()
	w.release()
	return objects, errors.Join(w.errs...)
}

// start visits the kustomization that is to be built.
func (w *walk) start() *node {
	p := w.tree.resolve(path.Clean(w.src.Path))
	switch {
	case p.err != nil:
		w.fail(&render.Error{Span: render.Span{File: w.src.Path}, Rule: "missing-kustomization", Err: errors.New("no such directory")})
		return nil
	case !p.dir:
		w.fail(&render.Error{Span: render.Span{File: w.src.Path}, Rule: "missing-kustomization", Err: errors.New("is a file, not a directory")})
		return nil
	}
	w.snap.addDir(p.real, p.real)
	return w.visit(p.real, "")
}

// objects converts kustomize's resources to objects.
func (w *walk) objects(origins *origins, resources []*resource.Resource) ([]*render.Object, error) {
	objects := make([]*render.Object, 0, len(resources))
	for _, r := range resources {
		var at *provenance
		u, err := object(r.YNode())
		if err == nil {
			at, err = origins.object(u.Object, r.YNode())
		}
		if err != nil {
			return nil, origins.root.error("not-representable", fmt.Errorf("%s %s: %w", r.GetKind(), r.GetName(), err))
		}
		o := &render.Object{Unstructured: u, Provenance: at}
		if len(w.asked) > 0 {
			o.Provenance = referred{at, w.asked}
		}
		if len(w.inflated) > 0 {
			if s, _ := at.base(); s != nil && s.chart != nil {
				o.Assumed = slices.Clone(s.chart.Assumed)
			}
		}
		objects = append(objects, o)
		w.fail(o.HeldObjects())
	}
	return objects, nil
}

// Detect claims every directory with a kustomization file. It reads that file,
// and of the files that it refers to only generators that may name charts. A
// kustomization with errors still uses the files that its lines name: they are not
// deployed by themselves because of a typing error.
func (r *Renderer) Detect(fsys fs.FS, dir string) (render.Claim, bool) {
	files := names(fsys, dir)
	if len(files) == 0 {
		return render.Claim{}, false
	}
	claim := render.Claim{Unit: true, Files: files}
	f, err := r.documents.load(fsys, dir)
	if f != nil && !f.isKustomize() {
		return render.Claim{}, false
	}
	if f == nil || err != nil && !warnings(err) {
		claim.Uses = mentions(fsys, dir, files, false)
		return claim, true
	}
	if f.component() {
		claim.Unit, claim.Note = false, "component"
	}
	claim.Uses, claim.Commented = uses(fsys, dir, f), mentions(fsys, dir, files, true)
	return claim, true
}

// isKustomize reports whether a file named kustomization.yaml is a kustomization for kustomize.
// Flux has a kind Kustomization too, and some repositories keep such objects under this file name.
func (f *file) isKustomize() bool {
	group, _, ok := strings.Cut(apiVersionOf(f.doc), "/")
	return !ok || group == "kustomize.config.k8s.io" || !strings.HasSuffix(group, ".fluxcd.io")
}

func (f *file) component() bool { return f.spec.Kind == types.ComponentKind }

// uses returns the paths that a kustomization refers to directly, relative to
// the tree's root, without duplicates.
func uses(fsys fs.FS, dir string, f *file) []string {
	u := &usage{dir: dir, seen: map[string]bool{}}
	for _, r := range references(&f.spec) {
		u.add(r.text)
		if r.kind == refPlugin && r.at[0] == "generators" {
			u.generator(fsys, r.text)
		}
	}
	k := f.fixed()
	for i := range k.HelmCharts {
		c := &chart{HelmChart: k.HelmCharts[i]}
		if k.HelmGlobals != nil {
			c.HelmGlobals = *k.HelmGlobals
		}
		u.chart(c)
	}
	return u.names
}

// mentions returns the existing files and directories that the lines of kustomization files in dir name:
// the entries of lists, and words with a slash or a dot. It also reads files that can't be decoded, but none
// of over 1 MiB. If commented is set, it reads only comments.
func mentions(fsys fs.FS, dir string, files []string, commented bool) []string {
	u := &usage{dir: dir, seen: map[string]bool{}}
	for _, file := range files {
		data, err := render.ReadFile(fsys, file)
		if err != nil || len(data) > 1<<20 {
			continue
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			text := strings.TrimLeft(line, "# ")
			if commented && !strings.HasPrefix(line, "#") {
				continue
			}
			entry, listed := strings.CutPrefix(text, "- ")
			words := strings.FieldsFunc(entry, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"'[]{},`, r) })
			for _, word := range words {
				if !strings.ContainsAny(word, "/.") && !(listed && len(words) == 1) {
					continue
				}
				if name, ok := inside(dir, word); ok && fs.ValidPath(name) {
					if _, err := fs.Stat(fsys, name); err == nil {
						u.add(word)
					}
				}
			}
		}
	}
	return u.names
}

type usage struct {
	dir   string
	names []string
	seen  map[string]bool
}

// add records a path, unless it is remote, leads out of the tree or is an
// inline document.
func (u *usage) add(text string) {
	if text == "" || remote(text) || strings.ContainsAny(text, "\n") {
		return
	}
	if name, ok := inside(u.dir, text); ok && name != u.dir && fs.ValidPath(name) && !u.seen[name] {
		u.seen[name] = true
		u.names = append(u.names, name)
	}
}

func (u *usage) chart(c *chart) {
	if c.Name != "" {
		u.add(path.Join(c.home(), c.Name))
	}
	if c.ChartHome != "" {
		u.add(c.ChartHome)
	}
	u.add(c.ValuesFile)
	for _, name := range c.AdditionalValuesFiles {
		u.add(name)
	}
}

// generator records the charts that a generator's file names.
func (u *usage) generator(fsys fs.FS, text string) {
	name, ok := inside(u.dir, text)
	if !ok || remote(text) {
		return
	}
	data, err := render.ReadFile(fsys, name)
	if err != nil {
		return
	}
	docs, _ := render.Documents(name, data, render.YAML12)
	for _, doc := range docs {
		c := &chart{}
		if data, err := json.Marshal(doc.Value); err == nil && kindOf(doc) == helmKind && json.Unmarshal(data, c) == nil {
			u.chart(c)
		}
	}
}
