package main

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
	"strings"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
)

// A memory is the open cache, with what this run will add to it.
type memory struct {
	store  *cache.Store
	build  string
	graphs []*cache.Graph
	put    []func()
}

// dir is the directory of a memory; "" of none.
func (m *memory) dir() string {
	if m == nil {
		return ""
	}
	return m.store.Dir()
}

type userCache struct{}

// withUserCache lets runs keep what they can in the user's cache directory, if
// it can be told: where the environment says nothing of one they do without.
func withUserCache(ctx context.Context) context.Context {
	dir, err := os.UserCacheDir()
	if err != nil || !filepath.IsAbs(dir) {
		return ctx
	}
	return context.WithValue(ctx, userCache{}, filepath.Join(dir, "preadmit"))
}

// openCache makes the memory of a run. Why there is none is said with -v; it is an
// error only where the directory was asked for and can't be trusted.
func (o *loadOptions) openCache(ctx context.Context, t *tree) error {
	dir, asked := o.cache, o.cache != ""
	if !asked {
		dir, _ = ctx.Value(userCache{}).(string)
	}
	if o.noCache || dir == "" || o.notes == nil {
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
	o.memory = &memory{store: store, build: build}
	return nil
}

// noCacheHere says why nothing is kept, which changes nothing else.
func (o *loadOptions) noCacheHere(dir string, err error) {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	fmt.Fprintf(o.notes, "no cache: %s: %s\n", report.Plain(dir), report.Plain(err.Error()))
}

var errInTree = errors.New("lies in the repository, where a change could bring answers of its own")

// outOf says whether a directory, which need not be there, is out of a tree.
func outOf(t *tree, dir string) error {
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

// buildIdentity tells this program from any other that may use the same cache:
// by its beginning, which holds the id that Go's linker gives a build.
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

// graph renders what the command line names of a tree, and remembers it if it
// may. What was found is kept for each side of a change by itself.
func (o *loadOptions) graph(t *tree, args []string) (rendering, *cache.Graph) {
	side := t.side()
	graph := render.Graph{Renderers: o.progress.renderers(o.watch.Renderers(o.renderers(), side)), Selection: o.selection, Store: t.store, Forgets: o.forgets, Parts: o.parts}
	if o.memory == nil && o.base == "" {
		return graph, nil
	}
	options := cache.Options{Label: strings.Join(append([]string{side, t.Dir}, args...), "\x00"), Apart: disk.Outside}
	if o.memory != nil {
		options.Store, options.Build = o.memory.store, o.memory.build
	}
	if side == "base" { // of which only what the change can reach is rendered again
		options.Other = o.rendered
	}
	g := cache.New(graph, t, options)
	if side == "head" {
		o.rendered = g
	}
	if o.memory != nil {
		o.memory.graphs = append(o.memory.graphs, g)
	}
	return g, g
}

// saveCache keeps the results of this run. It is called when the report is written.
func (o *loadOptions) saveCache() {
	m := o.memory
	if m == nil {
		return
	}
	for _, g := range m.graphs {
		g.Save()
	}
	for _, put := range m.put {
		put()
	}
	m.store.Trim()
	if err := m.store.Err(); err != nil {
		o.noCacheHere(m.store.Dir(), err)
	}
}
