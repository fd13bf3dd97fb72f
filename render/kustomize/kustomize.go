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
//   - detect.go finds kustomizations; walk.go, file.go, ref.go and fsys.go read what they
//     refer to, fetched.go what is not in the tree
//   - build.go runs kustomize; accumulate.go and transform.go call its transformers so
//     that overlays share their bases (bases.go), hidden.go keeps large schemas out,
//     jsonpatch.go applies JSON patches to nodes
//   - generator.go, plugin.go, helm.go and helmvalues.go: resources that a kustomization
//     makes
//   - tag.go gives the nodes of each document lines of their own, record.go those that
//     transformers write, and mark.go keeps them; origin.go and source.go find the places
//     of a field from them
//   - patch.go, target.go and replacement.go check patches and replacements
//   - explain.go words kustomize's errors without values
package kustomize

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"weak"

	"sigs.k8s.io/kustomize/api/resource"

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
		claim.Uses = mentions(fsys, dir, files)
		return claim, true
	}
	if f.component() {
		claim.Unit, claim.Note = false, "component"
	}
	claim.Uses = uses(fsys, dir, f)
	return claim, true
}
