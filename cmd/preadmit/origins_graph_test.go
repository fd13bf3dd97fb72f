package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
)

// TestOriginsGraph is TestOrigins over what GitOps objects deploy: it changes the
// text at the places that are said to have made fields of such units, follows the
// whole graph again, and wants the fields to change. It takes a place of some units
// of the project's own repositories; `make origins` takes more of all of them, and
// some units of those in ../shared.
func TestOriginsGraph(t *testing.T) {
	quietLibraries()
	o := &oracle{places: 1, tables: map[string]*tally{}}
	own := 6
	if os.Getenv("PREADMIT_ORIGINS") != "" {
		o.places, own = 4, 1<<30
		for _, root := range repositories(t) {
			o.graph(t, root, 15)
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
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	units := o.made(t, dir)
	units = slices.DeleteFunc(units, func(u *render.Unit) bool { return len(u.Objects) == 0 })
	if len(units) > most {
		units = evenly(units, most)
	}
	for _, u := range units {
		n := newTally()
		n.units = 1
		for _, q := range spread(n.ask(t, u), u.ID, o.places) {
			o.tryGraph(t, n, dir, u, q)
		}
		if o.tables[u.Kind] == nil {
			o.tables[u.Kind] = newTally()
		}
		o.tables[u.Kind].add(n)
	}
}

// made returns the units that GitOps objects make in a directory.
func (o *oracle) made(t *testing.T, dir string) []*render.Unit {
	t.Helper()
	tr := treeOf(t, dir)
	in, err := loadFrom(context.Background(), &checkOptions{}, tr, []string{dir}, strings.NewReader(""))
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return in.deployed.Units
}

// tryGraph is try for a unit that an object makes. A place that names the unit
// makes another one of it.
func (o *oracle) tryGraph(t *testing.T, n *tally, dir string, u *render.Unit, q *question) {
	out := n.of(q.class)
	name := filepath.Join(dir, filepath.FromSlash(q.at.File))
	data, err := os.ReadFile(name)
	if err != nil {
		n.wrong = append(n.wrong, fmt.Sprintf("%s: %v", q.at, err))
		return
	}
	defer func() {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}()
	left := q.fields
	var broken error
	rendered := false
	for _, content := range edits(data, q.at.Span) {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
		again, err := o.remade(t, dir, u)
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
func (o *oracle) remade(t *testing.T, dir string, was *render.Unit) (*render.Unit, error) {
	t.Helper()
	var found *render.Unit
	var broken error
	for _, u := range o.made(t, dir) {
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
