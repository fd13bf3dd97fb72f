// Package cache stores rendered units between runs, with a record of everything that their
// rendering read.
//
// A [Graph] renders as [render.Graph] does and returns the same units. For each unit it records the
// reads from the tree: content of files, names that exist or are missing, and listings of
// directories. An entry in the [Store] is valid if the tree still gives the same results. So the
// base and the work tree share entries, and so do runs in other directories. An entry also contains
// the origins of the fields that earlier runs looked up. If the origin of another field is needed,
// the unit is rendered again.
//
// unit.go recalls and stores units, resolve.go what resolvers were answered, claims.go
// discoveries, places.go origins. tree.go and recorder.go know what was read, store.go and codec.go
// write entries.
package cache

import (
	"context"
	"crypto/sha256"
	"io/fs"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// Options configure a Graph.
type Options struct {
	Store *Store
	Build string // identifies the program; other programs' entries are not used
	Label string // identifies the tree and paths of cached discoveries
	Apart string // a directory of the tree that listings omit
	Other *Graph // the graph of the other side of a change, or of the same tree, which has already rendered
	Last  *Graph // the graph of an earlier run of this process, of the same side with other texts; may be nil
}

// A Graph is a render.Graph with a cache. It is for one tree, and safe for concurrent use.
type Graph struct {
	graph   render.Graph
	options Options
	tree    *Tree
	claims  *claims

	mu      sync.Mutex
	units   map[*render.Unit]*unit
	byKey   map[Key][]*unit
	digests *Digests // of the objects passed to resolvers
}

// Settle drops the references to other Graphs. It is called after rendering, so that a run that uses
// the Graph as Last does not keep all earlier runs in memory.
func (g *Graph) Settle() {
	g.options.Other, g.options.Last, g.claims.other = nil, nil, nil
	g.tree.settle()
}

// New returns a Graph for a tree.
func New(g render.Graph, tree fs.FS, o Options) *Graph {
	t := NewTree(tree, o.Apart)
	switch {
	case o.Other == nil:
	case reflect.TypeOf(tree).Comparable() && o.Other.tree.fsys == tree:
		t = o.Other.tree
	default:
		t.other = o.Other.tree
	}
	digests := NewDigests()
	if o.Last != nil {
		digests = o.Last.digests.Renew()
	}
	return &Graph{
		graph: g, options: o, tree: t, claims: newClaims(o, t),
		units: make(map[*render.Unit]*unit), byKey: make(map[Key][]*unit), digests: digests,
	}
}

// Discover is render.Graph.Discover for the Graph's own tree.
func (g *Graph) Discover(_ fs.FS, paths ...string) render.Discovery {
	if g.options.Store == nil {
		return g.graph.Discover(g.tree, paths...)
	}
	detecting := render.Graph{Selection: g.graph.Selection}
	for _, r := range g.graph.Renderers {
		detecting.Renderers = append(detecting.Renderers, detector{r, g.claims})
	}
	return detecting.Discover(g.tree, paths...)
}

// Render is render.Graph.Render with the cache.
func (g *Graph) Render(ctx context.Context, srcs ...render.Source) ([]*render.Unit, error) {
	units := make([]*render.Unit, len(srcs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	const batch = 4
	for start := 0; start < len(srcs); start += batch {
		group.Go(func() error {
			for i := start; i < min(start+batch, len(srcs)); i++ {
				var err error
				if units[i], err = g.render(ctx, srcs[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return units, group.Wait()
}

func (g *Graph) render(ctx context.Context, src render.Source) (*render.Unit, error) {
	src.FS = g.tree
	key, ok := g.key(src)
	if !ok {
		units, err := g.graph.Render(ctx, src)
		return units[0], err
	}
	u := &unit{graph: g, ctx: context.WithoutCancel(ctx), src: src, key: key}
	if !u.adopt() && !u.recall() {
		if err := u.renderAnew(ctx); err != nil {
			return nil, err
		}
	}
	g.add(u)
	return u.unit, nil
}

func (g *Graph) add(u *unit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.units[u.unit] = u
	g.byKey[u.key] = append(g.byKey[u.key], u)
}

// alike returns the units with a key. A nil Graph has none.
func (g *Graph) alike(k Key) []*unit {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byKey[k]
}

// Rest frees memory that only speeds up rendering. It is called when most units are rendered. g may
// be nil.
func (g *Graph) Rest() {
	if g != nil {
		g.tree.empty()
	}
}

// key returns the key of a source's entry. ok is false if the source is not cached: values from the
// command line may be secrets, and the key does not cover settings of the GitOps object that
// deploys the source.
func (g *Graph) key(src render.Source) (Key, bool) {
	if src.Owner != nil || src.Kustomize != nil || g.isApart(src.Path) && src.Kind == "manifest" && path.Dir(src.Path) == g.options.Apart {
		return Key{}, false
	}
	if h := src.Helm; h != nil {
		if len(h.Set)+len(h.SetString)+len(h.SetFile) > 0 {
			return Key{}, false
		}
		for _, f := range h.ValueFiles {
			if g.isApart(f) {
				return Key{}, false
			}
		}
	}
	src.FS, src.Inputs = nil, nil
	var e Encoder
	e.Plain(src)
	data, err := e.Data()
	return KeyOf("unit", g.options.Build, string(data)), err == nil
}

func (g *Graph) isApart(name string) bool {
	return name == g.options.Apart || strings.HasPrefix(name, g.options.Apart+"/")
}

// ID returns a digest of everything that a unit was rendered from. Units with
// equal IDs are equal, including the lines of their fields. ok is false for
// units that are not cached.
func (g *Graph) ID(u *render.Unit) (Key, bool) {
	g.mu.Lock()
	r := g.units[u]
	g.mu.Unlock()
	if r == nil {
		return Key{}, false
	}
	v, ok := r.seen()
	return v.id, ok && storable(&r.result)
}

// Digest returns a hash of a file of the tree. ok is false if it can't be read.
func (g *Graph) Digest(name string) (sum string, ok bool) {
	out := g.tree.outcome(access{opRead, name})
	return out, strings.HasPrefix(out, content)
}

// Recalled reports whether a unit comes from the store or from the other side of a change.
func (g *Graph) Recalled(u *render.Unit) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.units[u]
	return r != nil && r.recalled
}

// MayRead reports whether a file may be among those that a unit was rendered from. It is true for units
// that the Graph did not render, and for those that a GitOps object deploys, whose values may come from
// other units. g may be nil.
func (g *Graph) MayRead(u *render.Unit, file string) bool {
	if g == nil || u.Owner != nil {
		return true
	}
	g.mu.Lock()
	r := g.units[u]
	g.mu.Unlock()
	if r == nil {
		return true
	}
	v, ok := r.seen()
	return !ok || slices.ContainsFunc(v.reads, func(x read) bool { return x.name == file })
}

// Save writes new entries to the store. The caller must not look up origins of fields afterwards.
func (g *Graph) Save() {
	g.claims.save()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, units := range g.byKey {
		group.Go(func() error {
			for _, u := range units {
				u.save()
			}
			return nil
		})
	}
	_ = group.Wait()
}

// inquiryFor returns the inquiry for a Remote.
func inquiryFor(r *render.Remote) inquiry {
	return inquiry{"fetched", string(r.Kind), r.URL, r.Name, r.Version}
}

// remoteOf returns the Remote that an inquiry asks for.
func remoteOf(q inquiry) *render.Remote {
	return &render.Remote{Kind: render.RemoteKind(q.Cluster), URL: q.A, Name: q.B, Version: q.C}
}

// A recordingStore records which Remotes a source's rendering asks its store
// for. It is safe for concurrent use.
type recordingStore struct {
	of  render.Store
	rec *recorder

	mu    sync.Mutex
	asked map[inquiry]string
}

func newRecordingStore(of render.Store, rec *recorder) *recordingStore {
	if of == nil {
		of = render.NoStore{}
	}
	return &recordingStore{of: of, rec: rec, asked: make(map[inquiry]string)}
}

// Fetched implements render.Store.
func (r *recordingStore) Fetched(remote *render.Remote) (render.Repository, error) {
	repo, err := r.of.Fetched(remote)
	r.mu.Lock()
	r.asked[inquiryFor(remote)] = rootOf(repo, err)
	r.mu.Unlock()
	if repo.FS != nil {
		repo.FS = r.rec
	}
	return repo, err
}

// len returns the number of Remotes that were asked for.
func (r *recordingStore) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

// condition returns the responses so far.
func (r *recordingStore) condition() condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	var c condition
	for q, a := range r.asked {
		c.Asked = append(c.Asked, asked{Question: q, Answer: a})
	}
	c.sort()
	return c
}

// holds reports whether the Graph's store still gives the recorded answers.
func (g *Graph) holds(c *condition) bool {
	store := newRecordingStore(g.graph.Store, nil).of
	return !slices.ContainsFunc(c.Asked, func(a asked) bool {
		return a.Question.What != "fetched" || rootOf(store.Fetched(remoteOf(a.Question))) != a.Answer
	})
}

// Digests computes digests of objects without the places of their fields. Objects share equal
// parts ([render.Parts]), and each part is hashed once. Objects must not change afterwards. It is
// safe for concurrent use.
type Digests struct {
	mu      sync.Mutex
	objects map[*unstructured.Unstructured]string
	parts   map[part]string
	buffer  []byte
	last    *Digests // see Renew; may be nil
}

// A part is a map or list in memory, which it keeps there.
type part struct {
	at     unsafe.Pointer
	length int
}

// NewDigests returns empty Digests.
func NewDigests() *Digests {
	return &Digests{objects: make(map[*unstructured.Unstructured]string), parts: make(map[part]string)}
}

// Renew returns Digests for another run, which know the objects of d. A second Renew forgets those
// that the run between did not need.
func (d *Digests) Renew() *Digests {
	d.mu.Lock()
	defer d.mu.Unlock()
	renewed := NewDigests()
	renewed.last, d.last = d, nil
	return renewed
}

// known returns the digest of an object that d has seen.
func (d *Digests) known(o *unstructured.Unstructured) (sum string, ok bool) {
	if d == nil {
		return "", false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	sum, ok = d.objects[o]
	return sum, ok
}

// Of returns the digest of an object.
func (d *Digests) Of(o *render.Object) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sum, ok := d.objects[o.Unstructured]; ok {
		return sum, nil
	}
	if sum, ok := d.last.known(o.Unstructured); ok {
		d.objects[o.Unstructured] = sum
		return sum, nil
	}
	fields := make(map[string]any, len(o.Object))
	for key, v := range o.Object {
		fields[key] = v
		at := reflect.ValueOf(v)
		if (at.Kind() == reflect.Map || at.Kind() == reflect.Slice) && at.Len() > 0 {
			sum, err := d.part(part{at.UnsafePointer(), at.Len()}, v)
			if err != nil {
				return "", err
			}
			fields[key] = []any{sum} // no other field is a list with elements
		}
	}
	sum, err := d.sum(fields)
	if err == nil {
		d.objects[o.Unstructured] = sum
	}
	return sum, err
}

func (d *Digests) part(p part, v any) (string, error) {
	if sum, ok := d.parts[p]; ok {
		return sum, nil
	}
	sum, err := d.sum(v)
	if err == nil {
		d.parts[p] = sum
	}
	return sum, err
}

func (d *Digests) sum(v any) (string, error) {
	e := Encoder{data: d.buffer[:0], whole: true}
	e.Value(v)
	d.buffer = e.data
	sum := sha256.Sum256(e.data)
	return string(sum[:]), e.err
}
