package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestOriginsGraph is TestOrigins over what GitOps objects deploy: it changes the
// text at the places that are said to have made fields of such units, follows the
// whole graph again, and wants the fields to change. It takes a place of some units
// of the project's own repositories; `make origins` takes more of all of them, and
// some units of those in ../shared, the fewer the more units there are to follow.
func TestOriginsGraph(t *testing.T) {
	quietLibraries()
	o := &oracle{places: 1, tables: map[string]*tally{}}
	own := 6
	if os.Getenv("PREADMIT_ORIGINS") != "" {
		o.places, own = 4, 1<<30
		for _, root := range repositories(t) {
			t.Run(filepath.Base(root), func(t *testing.T) {
				one := &oracle{places: 4, tables: map[string]*tally{}}
				one.graph(t, root, 12)
				one.report(t)
			})
		}
	}
	for _, root := range []string{"../../testdata/repos/argocd", "../../testdata/repos/flux"} {
		o.graph(t, root, own)
	}
	o.report(t)
}

// graph tries places of the units of a repository, so many units at most.
func (o *oracle) graph(t *testing.T, root string, most int) {
	t.Helper()
	dir, kept := withClusters(t, root), t.TempDir()
	units := o.made(t, dir, kept)
	most = min(most, max(3, 2000/(len(units)+1)))
	places := min(o.places, max(2, 1000/(len(units)+1)))
	units = slices.DeleteFunc(units, func(u *render.Unit) bool { return len(u.Objects) == 0 })
	if len(units) > most {
		units = evenly(units, most)
	}
	for _, u := range units {
		n := newTally()
		n.units = 1
		for _, q := range spread(n.ask(t, u), u.ID, places) {
			o.tryGraph(t, n, graphTree{dir, kept}, u, q)
		}
		if o.tables[u.Kind] == nil {
			o.tables[u.Kind] = newTally()
		}
		o.tables[u.Kind].add(n)
	}
}

// A graphTree is a directory, with the cache in which units are that an edit does
// not reach.
type graphTree struct{ dir, cache string }

// made returns the units that GitOps objects make in a directory.
func (o *oracle) made(t *testing.T, dir, kept string) []*render.Unit {
	t.Helper()
	tr := treeOf(t, dir)
	flags := &load.Sources{Renderers: renderers, Resolvers: resolvers}
	flags.Cache, flags.Notes = kept, io.Discard
	rendertest.OK(t, flags.OpenCache(context.Background(), tr))
	in, err := load.From(context.Background(), flags, tr, []string{dir}, strings.NewReader(""))
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	if entries, err := os.ReadDir(kept); err != nil || len(entries) == 0 {
		flags.SaveCache()
	}
	return in.Deployed.Units
}

// tryGraph is try for a unit that an object makes. A place that names the unit
// makes another one of it.
func (o *oracle) tryGraph(t *testing.T, n *tally, tree graphTree, u *render.Unit, q *question) {
	out := n.of(q.class)
	name := filepath.Join(tree.dir, filepath.FromSlash(q.at.File))
	data, err := os.ReadFile(name)
	if err != nil {
		n.wrong = append(n.wrong, fmt.Sprintf("%s: %v", q.at, err))
		return
	}
	defer func() {
		rendertest.OK(t, os.WriteFile(name, data, 0o644))
	}()
	left := q.fields
	var broken error
	rendered := false
	for _, content := range edits(data, q.at.Span) {
		rendertest.OK(t, os.WriteFile(name, content, 0o644))
		again, err := o.remade(t, tree, u)
		if err != nil {
			broken = cmp.Or(broken, err)
			continue
		}
		rendered = true
		if again == nil {
			out.identity += len(left)
			left = nil
			break
		}
		if left = unchanged(left, out, q.at, u.Objects, again.Objects); len(left) == 0 {
			break
		}
	}
	out.fields += len(q.fields)
	switch {
	case len(left) == 0:
	case !rendered:
		out.broken += len(left)
		n.broken[ruleOf(broken)] = append(n.broken[ruleOf(broken)], line(u.ID, u, q, left)+": "+fmt.Sprint(broken))
	default:
		out.same += len(left)
		n.wrong = append(n.wrong, line(u.ID, u, q, left))
	}
}

// remade follows the graph again. It returns the unit as it is now, nil if there
// is none of its name any more, and an error if anything fails that was rendered.
func (o *oracle) remade(t *testing.T, tree graphTree, was *render.Unit) (*render.Unit, error) {
	t.Helper()
	var found *render.Unit
	var broken error
	for _, u := range o.made(t, tree.dir, tree.cache) {
		if u.ID == was.ID {
			found = u
		}
		broken = cmp.Or(broken, fatal(u.Err))
	}
	switch {
	case found == nil:
		return nil, broken
	case fatal(found.Err) != nil:
		return nil, fatal(found.Err)
	}
	return found, nil
}
