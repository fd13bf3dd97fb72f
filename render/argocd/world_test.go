package argocd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/helm"
	kustomizations "github.com/preadmit/preadmit/render/kustomize"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A fakeWorld answers from objects and a tree that is every repository, unless
// repositories names others.
type fakeWorld struct {
	tree         fs.FS
	repositories map[string]string // folders of the tree by URL; nil for any URL
	objects      []*render.Object
	params       map[string][]map[string]any
	clusters     []render.Cluster
}

func (f *fakeWorld) world() *render.World {
	return render.NewWorld(render.Cluster{}, f.clusters, f)
}

func (f *fakeWorld) Object(_ string, kind schema.GroupKind, namespace, name string) *render.Object {
	for _, o := range f.Objects("", kind) {
		if o.GetName() == name && namespaceOf(o) == namespace {
			return o
		}
	}
	return nil
}

func (f *fakeWorld) Objects(_ string, kind schema.GroupKind) (all []*render.Object) {
	for _, o := range f.objects {
		if o.GroupVersionKind().GroupKind() == kind {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *render.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}

func (f *fakeWorld) Repository(url, revision string) (render.Repository, error) {
	if revision == "v0.0.0" {
		return render.Repository{}, &render.Error{Rule: "missing-revision", Err: errors.New("revision v0.0.0 is not here"), Missing: true}
	}
	if f.repositories == nil {
		return render.Repository{FS: f.tree, Root: "."}, nil
	}
	root, ok := f.repositories[url]
	if !ok {
		return render.Repository{}, &render.Error{Rule: "foreign-repository", Err: fmt.Errorf("%s is another repository", url), Missing: true}
	}
	return render.Repository{FS: f.tree, Root: root}, nil
}

func (f *fakeWorld) Source(string, string, string) (render.Repository, bool) {
	return render.Repository{}, false
}

func (f *fakeWorld) Fetched(r *render.Remote) (render.Repository, error) {
	return render.NoStore{}.Fetched(r)
}

func (f *fakeWorld) Params(namespace, name string) ([]map[string]any, bool) {
	params, ok := f.params[namespace+"/"+name]
	return params, ok
}

func (f *fakeWorld) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	charts := helm.New(helm.Options{})
	if src.Kind == "helm" {
		return charts.Render(ctx, src)
	}
	return kustomizations.New(kustomizations.Options{Helm: charts}).Render(ctx, src)
}

// parseFile returns the objects of a file of the machine.
func parseFile(t *testing.T, file string) []*render.Object {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	objects, err := render.Parse(filepath.Base(file), data)
	if err != nil {
		t.Log(err)
	}
	return objects
}
