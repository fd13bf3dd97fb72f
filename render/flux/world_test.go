package flux_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/flux"
	"github.com/preadmit/preadmit/render/helm"
	"github.com/preadmit/preadmit/render/kustomize"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A world answers a resolver from a list of objects and folders of one tree.
type world struct {
	tree    fs.FS
	objects []*render.Object
	sources map[string]string // folders of the tree, by Kind/namespace/name or URL
	cluster render.Cluster
}

var (
	charts         = helm.New(helm.Options{})
	kustomizations = kustomize.New(kustomize.Options{Helm: charts})
)

func (w *world) Object(_ string, kind schema.GroupKind, namespace, name string) *render.Object {
	i := slices.IndexFunc(w.objects, func(o *render.Object) bool {
		return o.GroupVersionKind().GroupKind() == kind && o.GetNamespace() == namespace && o.GetName() == name
	})
	if i < 0 {
		return nil
	}
	return w.objects[i]
}

func (w *world) Objects(_ string, kind schema.GroupKind) []*render.Object {
	var all []*render.Object
	for _, o := range w.objects {
		if o.GroupVersionKind().GroupKind() == kind {
			all = append(all, o)
		}
	}
	return all
}

func (w *world) Repository(url, _ string) (render.Repository, error) {
	if dir, ok := w.sources[url]; ok {
		return render.Repository{FS: w.tree, Root: dir}, nil
	}
	return render.Repository{}, &render.Error{Rule: "foreign-repository", Missing: true, Err: errors.New(url + " is another repository")}
}

func (w *world) Source(kind, namespace, name string) (render.Repository, bool) {
	dir, ok := w.sources[kind+"/"+namespace+"/"+name]
	return render.Repository{FS: w.tree, Root: dir}, ok
}

func (w *world) Fetched(r *render.Remote) (render.Repository, error) {
	return render.NoStore{}.Fetched(r)
}

func (w *world) Params(string, string) ([]map[string]any, bool) { return nil, false }

func (w *world) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	if src.Kind == "helm" {
		return charts.Render(ctx, src)
	}
	return kustomizations.Render(ctx, src)
}

// resolve resolves each object that Flux follows, and those that they make.
func (w *world) resolve(t *testing.T) []*render.Unit {
	t.Helper()
	r := flux.New()
	var units []*render.Unit
	seen := make(map[string]bool)
	for i := 0; i < len(w.objects); i++ {
		o := w.objects[i]
		if !r.Follows(o) || seen[o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName()] {
			continue
		}
		seen[o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName()] = true
		u := r.Resolve(t.Context(), o, render.NewWorld(w.cluster, nil, w))
		w.objects = append(w.objects, u.Objects...)
		units = append(units, u)
	}
	return units
}

// parse reads the objects of a file, which may be absent.
func parse(t *testing.T, fsys fs.FS, name string) []*render.Object {
	t.Helper()
	data, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	rendertest.OK(t, err)
	objects, err := render.Parse(name, data)
	if err != nil && !strings.Contains(err.Error(), "ambiguous") {
		t.Logf("%s: %v", name, err)
	}
	return objects
}
