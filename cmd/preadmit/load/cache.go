package load

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/render/git"
	"github.com/preadmit/preadmit/report"
)

// A Memory is the open cache, with functions that add the entries of this run.
type Memory struct {
	Store   *cache.Store
	Build   string
	Digests *cache.Digests // of the objects that are evaluated
	graphs  []*cache.Graph
	Put     []func()
}

// NewMemory returns a Memory without a directory, for a command that evaluates a tree several times.
func NewMemory() *Memory {
	return &Memory{Store: cache.NewStore(), Digests: cache.NewDigests()}
}

// Keep adds the results of the run to the cache.
func (m *Memory) Keep() {
	for _, put := range m.Put {
		put()
	}
}

// dir returns the directory of the cache, or "" without one.
func (m *Memory) dir() string {
	if m == nil {
		return ""
	}
	return m.Store.Dir()
}

type userCache struct{}

// WithUserCache allows runs to use the user's cache directory. If the
// environment has none, there is no cache.
func WithUserCache(ctx context.Context) context.Context {
	dir, err := os.UserCacheDir()
	if err != nil || !filepath.IsAbs(dir) {
		return ctx
	}
	return context.WithValue(ctx, userCache{}, filepath.Join(dir, "preadmit"))
}

// OpenCache opens the cache of a run. If it can't, it logs the reason with -v. It returns an error
// only if --cache names a directory that can't be trusted.
//
// If Memory is set, by an earlier run of this process, its store is used: a confined process can't open
// the directory again.
func (o *Sources) OpenCache(ctx context.Context, t *Tree) error {
	if m := o.Memory; m != nil {
		o.Memory = &Memory{Store: m.Store, Build: m.Build, Digests: m.Digests.Renew()}
		return nil
	}
	dir, asked := o.Cache, o.Cache != ""
	if !asked {
		dir, _ = ctx.Value(userCache{}).(string)
	}
	if o.NoCache || dir == "" || o.Notes == nil {
		return nil
	}
	build, err := buildIdentity()
	if err == nil {
		err = outOf(t, dir)
	}
	if errors.Is(err, errInTree) && asked {
		return fmt.Errorf("--cache %s: %w", dir, err)
	}
	var store *cache.Store
	if err == nil {
		store, err = cache.Open(dir, cache.Limit, time.Now())
	}
	if err != nil {
		o.noCacheHere(dir, err)
		return nil
	}
	o.Memory = &Memory{Store: store, Build: build, Digests: cache.NewDigests()}
	return nil
}

// noCacheHere logs why there is no cache. The run goes on without one.
func (o *Sources) noCacheHere(dir string, err error) {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	fmt.Fprintf(o.Notes, "no cache: %s: %s\n", report.Plain(dir), report.Plain(err.Error()))
}

var errInTree = errors.New("is inside the repository, where a change could add cached results")

// outOf returns an error unless a directory, which may not exist, is outside a
// tree.
func outOf(t *Tree, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for rest := ""; ; rest = filepath.Join(filepath.Base(dir), rest) {
		real, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		if _, in := disk.Within(t.Dir, filepath.Join(real, rest)); in {
			return errInTree
		}
		return err
	}
}

// buildIdentity returns a hash of the beginning of this program, which contains
// the build id of Go's linker. It differs from any other program that may use
// the same cache.
func buildIdentity() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.CopyN(h, f, 64<<10); err != nil {
		return "", err
	}
	fmt.Fprintf(h, "%d %s %s %s %s", info.Size(), supervise.Version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	return hex.EncodeToString(h.Sum(nil)), nil
}

// A rendering finds sources and renders them.
type rendering interface {
	Discover(fsys fs.FS, paths ...string) render.Discovery
	Render(ctx context.Context, srcs ...render.Source) ([]*render.Unit, error)
}

// graph renders the paths of the command line in a tree, with the cache if
// allowed. Discoveries are cached separately for each side of a change.
func (o *Sources) graph(t *Tree, args []string) (rendering, *cache.Graph) {
	side := t.side()
	graph := render.Graph{Renderers: o.Progress.renderers(o.Watch.Renderers(o.Renderers(), side)), Selection: o.Selection, Store: t.Store, Forgets: o.Forgets, Parts: o.Parts}
	if o.Memory == nil && o.Base == "" && !o.Again && o.Next == nil {
		return graph, nil
	}
	options := cache.Options{Label: strings.Join(append([]string{side, t.Dir}, args...), "\x00"), Apart: disk.Outside}
	if o.Memory != nil {
		options.Store, options.Build = o.Memory.Store, o.Memory.Build
	}
	options.Other, options.Last = o.Rendered, o.Last[side] // units are rendered again only if the change affects them
	g := cache.New(graph, t, options)
	if o.Next != nil && o.Next[side] == nil {
		o.Next[side] = g
	}
	if o.Rendered == nil {
		o.Rendered = g
	}
	if o.Memory != nil {
		o.Memory.graphs = append(o.Memory.graphs, g)
	}
	return g, g
}

// SaveCache writes the results of this run to the cache. It is called after the report is written.
func (o *Sources) SaveCache() {
	m := o.Memory
	if m == nil {
		return
	}
	for _, g := range m.graphs {
		g.Save()
	}
	m.Keep()
	m.Store.Trim()
	if err := m.Store.Err(); err != nil {
		o.noCacheHere(m.Store.Dir(), err)
	}
}

// factPart is the maximum size in bytes of a cache entry with facts about the objects of a
// repository. Entries are numbered from 0.
const factPart = 1 << 20

// RememberObjects gives the revision's repository the facts about its objects that earlier runs
// cached, and caches the facts that this run uses.
func (o *Sources) RememberObjects(r *Revision) {
	m := o.Memory
	if m == nil {
		return
	}
	key := func(i int) cache.Key {
		return cache.KeyOf("git objects", m.Build, r.Tree.Dir, strconv.Itoa(i))
	}
	var known []git.Fact
	for i := 0; ; i++ {
		data, ok := m.Store.Get(key(i))
		if !ok {
			break
		}
		known = append(known, decodeFacts(data)...)
	}
	facts := git.NewFacts(known)
	r.Repo.Remember(facts)
	m.Put = append(m.Put, func() {
		used, changed := facts.Used()
		if !changed {
			return
		}
		for i, part := range factParts(used) {
			if data, err := encodeFacts(part); err == nil {
				m.Store.Put(key(i), data)
			}
		}
	})
}

// factParts divides facts among entries. A tree that is larger than an entry is left out.
func factParts(facts []git.Fact) (parts [][]git.Fact) {
	room := 0
	for _, f := range facts {
		const more = 64 // bytes, besides the tree
		size := len(f.Tree) + more
		if size > factPart {
			continue
		}
		if room -= size; room < 0 {
			parts, room = append(parts, nil), factPart-size
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], f)
	}
	return parts
}

func encodeFacts(facts []git.Fact) ([]byte, error) {
	var e cache.Encoder
	e.Uint(uint64(len(facts)))
	for _, f := range facts {
		e.String(f.Object)
		e.String(f.Tree)
		e.Uint(f.Size)
		e.String(f.Digest)
	}
	return e.Data()
}

// decodeFacts is the inverse of encodeFacts. It returns nil for invalid data.
func decodeFacts(data []byte) []git.Fact {
	var facts []git.Fact
	d := cache.NewDecoder(data)
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		facts = append(facts, git.Fact{Object: d.String(), Tree: d.String(), Size: d.Uint(), Digest: d.String()})
	}
	if d.End() != nil {
		return nil
	}
	return facts
}
