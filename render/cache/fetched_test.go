package cache_test

import (
	"context"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/rendertest"
)

// fetched answers for Remotes by the digests of their content, which lies in a
// tree.
type fetched struct {
	fs.FS
	digests map[string]string // by name
}

func (f fetched) Fetched(r *render.Remote) (render.Repository, error) {
	if f.digests[r.Name] == "" {
		return render.Repository{}, render.NotFetched(r)
	}
	return render.Repository{FS: f.FS, Root: render.FetchedName("chart "+r.Name, f.digests[r.Name])}, nil
}

// A fetcher renders and resolves the files of a Remote: each file x.chart is a
// source that names one, and so does each object Chart.
type fetcher struct {
	mu   sync.Mutex
	made *[]string // names, in the order of rendering
}

func (f *fetcher) Kind() string                              { return "chart" }
func (f *fetcher) Detect(fs.FS, string) (render.Claim, bool) { return render.Claim{}, false }

func (f *fetcher) Render(_ context.Context, src render.Source) ([]*render.Object, error) {
	name := strings.TrimSuffix(src.Path, ".chart")
	f.note("source " + name)
	return objectsOf(src.Fetched(render.NewChart("https://x", name, "1")))
}

func (f *fetcher) Follows(o *render.Object) bool { return o.GetKind() == "Chart" }

func (f *fetcher) Resolve(_ context.Context, o *render.Object, w *render.World) *render.Unit {
	f.note("object " + o.GetName())
	u := &render.Unit{}
	u.Objects, u.Err = objectsOf(w.Fetched(render.NewChart("https://x", o.GetName(), "1")))
	return u
}

func (f *fetcher) note(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*f.made = append(*f.made, name)
}

func objectsOf(repo render.Repository, err error) ([]*render.Object, error) {
	if err != nil {
		return nil, err
	}
	data, err := fs.ReadFile(repo.FS, repo.Root+"/x.yaml")
	if err != nil {
		return nil, err
	}
	return render.Parse(repo.Root+"/x.yaml", data)
}

type fetchedFiles struct {
	files
	fetched
}

func (f fetchedFiles) Open(name string) (fs.File, error) { return f.files.Open(name) }
func (f fetchedFiles) Fetched(r *render.Remote) (render.Repository, error) {
	return f.fetched.Fetched(r)
}

// TestFetchedAnswers renders again what another lock answers otherwise, and
// nothing beside it: of another side of a change, and of another run.
func TestFetchedAnswers(t *testing.T) {
	t.Parallel()
	store, err := cache.Open(t.TempDir(), cache.Limit, time.Now())
	rendertest.OK(t, err)
	const old, now, none = "aaaaaaaaaaaa", "bbbbbbbbbbbb", ""
	render1 := func(digests map[string]string, o cache.Options) (*cache.Graph, []string) {
		tree := fstest.MapFS{"one.chart": {}, "two.chart": {}, "charts.yaml": {Data: []byte("apiVersion: a/v1\nkind: Chart\nmetadata: {name: one}\n---\napiVersion: a/v1\nkind: Chart\nmetadata: {name: two}\n")}}
		for _, name := range []string{"one", "two"} {
			for _, digest := range []string{old, now} {
				tree[render.FetchedName("chart "+name, digest)+"/x.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "-" + digest + "}\n")}
			}
		}
		from := fetched{tree, digests}
		var made []string
		f := &fetcher{made: &made}
		g := cache.New(render.Graph{Renderers: []render.Renderer{f, render.Manifests{}}, Store: from}, tree, o)
		units, err := g.Render(t.Context(), render.Source{Path: "one.chart", Kind: "chart"}, render.Source{Path: "two.chart", Kind: "chart"}, render.Source{Path: "charts.yaml", Kind: "manifest"})
		rendertest.OK(t, err)
		follower := render.Follower{Resolvers: g.Resolvers([]render.Resolver{f}), Outside: fetchedFiles{files{FS: tree}, from}}
		d, err := follower.Follow(t.Context(), nil, units)
		rendertest.OK(t, err)
		got := make(map[string]int)
		for _, u := range slices.Concat(units[:2], d.Units) {
			for _, o := range u.Objects {
				got[o.GetName()]++
			}
		}
		for name, digest := range digests {
			if want := 2; digest != none && got[name+"-"+digest] != want || digest == none && len(got) > 1 {
				t.Errorf("%v: rendered %v", digests, got)
			}
		}
		g.Save()
		slices.Sort(made)
		return g, slices.Compact(made)
	}
	lock := map[string]string{"one": old, "two": old}
	all := []string{"object one", "object two", "source one", "source two"}
	if _, made := render1(lock, cache.Options{Store: store, Build: "test"}); !slices.Equal(made, all) {
		t.Fatalf("made %v", made)
	}
	head, _ := render1(lock, cache.Options{})
	for name, c := range map[string]struct {
		lock map[string]string
		want []string
	}{
		"the same":  {lock, nil},
		"a bump":    {map[string]string{"one": old, "two": now}, []string{"object two", "source two"}},
		"not there": {map[string]string{"one": old, "two": none}, []string{"object two", "source two"}},
	} {
		for kind, o := range map[string]cache.Options{"another side": {Other: head}, "another run": {Store: store, Build: "test"}} {
			if _, made := render1(c.lock, o); !slices.Equal(made, c.want) {
				t.Errorf("%s, %s: made %v, want %v", name, kind, made, c.want)
			}
		}
	}
}
