package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestOrigins changes the text at the places that are said to have made fields
// what they are, renders plainly, and wants those fields to change. A sample of
// the project's own charts and overlays takes seconds; `make origins` goes over
// all that is in ../shared as well, PREADMIT_ORIGINS=N with N places of each
// unit, and PREADMIT_ORIGINS=all with every one.
func TestOrigins(t *testing.T) {
	o := &oracle{places: 12, tables: map[string]*tally{}}
	quietLibraries()
	mode := os.Getenv("PREADMIT_ORIGINS")
	if mode != "" {
		o.places = 1 << 30
		if mode != "all" {
			n, err := strconv.Atoi(mode)
			if err != nil {
				t.Fatalf("PREADMIT_ORIGINS=%q is neither a number nor all", mode)
			}
			o.places = n
		}
		for _, root := range repositories(t) {
			o.tree(t, filepath.Base(root), treeOf(t, root))
		}
	} else {
		o.tree(t, "shop", treeOf(t, "../../testdata/repos/shop"))
	}
	for _, file := range cases(t) {
		archive := rendertest.ParseArchive(t, file)
		fsys, _ := rendertest.Tree(archive)
		o.tree(t, strings.TrimPrefix(filepath.ToSlash(file), "../../"), fsys)
	}
	o.report(t)
}

// cases are the trees of the renderers' own tests.
func cases(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"../../testdata/origins/*.txtar", "../../render/helm/testdata/charts/*.txtar", "../../render/kustomize/testdata/render/*.txtar"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing is %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// An oracle counts, for each kind of source, the fields with a place and the
// places that hold.
type oracle struct {
	places int // to try of a unit
	mu     sync.Mutex
	tables map[string]*tally
}

type tally struct {
	units, fields     int
	leaf, line, whole int // fields whose first place is so
	tried             map[string]*trial
	wrong             []string
	broken            map[string][]string // by the rule of the error
}

func newTally() *tally { return &tally{tried: map[string]*trial{}, broken: map[string][]string{}} }

func (n *tally) of(class string) *trial {
	if n.tried[class] == nil {
		n.tried[class] = &trial{}
	}
	return n.tried[class]
}

// A trial counts fields by what became of them when the place was changed.
type trial struct {
	fields    int
	confirmed int // are others now
	identity  int // are part of another object, or another item of a list, now
	broken    int // unknown, since nothing renders with the change
	same      int // are as before
}

// A question is a place and the fields that are said to depend on it.
type question struct {
	at     render.Origin
	class  string
	fields []fieldOf
}

type fieldOf struct {
	object  *render.Object
	pointer string
	value   string
	chain   []render.Origin
}

// class is what sort of place an origin is.
func class(at render.Origin) string {
	switch {
	case at.Line == 0:
		return "file only"
	case at.Role == render.Value, at.Role == render.Patch, at.Role == render.Generated:
		return "leaf or patch"
	}
	return "template or base"
}

func (o *oracle) tree(t *testing.T, name string, fsys fs.FS) {
	t.Helper()
	graph := render.Graph{Renderers: renderers()}
	found := graph.Discover(fsys, ".")
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, src := range found.Sources {
		group.Go(func() error {
			o.unit(t, name, graph, src)
			return nil
		})
	}
	_ = group.Wait()
}

// unit asks for the place of each field of a unit, and tries some of them.
func (o *oracle) unit(t *testing.T, tree string, graph render.Graph, src render.Source) {
	units, err := graph.Render(context.Background(), src)
	if err != nil {
		t.Error(err)
	}
	u := units[0]
	if len(u.Objects) == 0 {
		return
	}
	n := newTally()
	n.units = 1
	questions := n.ask(t, u)
	for _, q := range spread(questions, u.Path, o.places) {
		o.try(n, tree, graph, u, q)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tables[src.Kind] == nil {
		o.tables[src.Kind] = newTally()
	}
	o.tables[src.Kind].add(n)
}

// ask collects the places of all fields: the first of each, and the first in a
// template or base behind it.
func (n *tally) ask(t *testing.T, u *render.Unit) []*question {
	byPlace := map[render.Origin]*question{}
	put := func(at render.Origin, class string, f fieldOf) {
		q := byPlace[at]
		if q == nil {
			q = &question{at: at, class: class}
			byPlace[at] = q
		}
		if q.class == class {
			q.fields = append(q.fields, f)
		}
	}
	for _, obj := range u.Objects {
		scalars(obj.Object, "", func(pointer string, v any) {
			n.fields++
			chain := obj.At(pointer)
			if len(chain) == 0 {
				t.Errorf("%s: %s %s %s has no place", u.Path, obj.GetKind(), obj.GetName(), pointer)
				return
			}
			f := fieldOf{obj, pointer, jsonOf(v), chain}
			switch c := class(chain[0]); c {
			case "file only":
				n.whole++
			case "leaf or patch":
				n.leaf++
				put(chain[0], c, f)
				for _, at := range chain[1:] {
					if at.Role == render.Template && at.Line > 0 {
						put(at, "template behind it", f)
						break
					}
				}
			default:
				n.line++
				put(chain[0], c, f)
			}
		})
	}
	return slices.Collect(maps.Values(byPlace))
}

func jsonOf(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// scalars calls f for each scalar, empty map and empty list.
func scalars(v any, pointer string, f func(string, any)) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				scalars(v[key], pointer+render.Pointer(key), f)
			}
			return
		}
	case []any:
		if len(v) > 0 {
			for i, item := range v {
				scalars(item, pointer+render.Pointer(i), f)
			}
			return
		}
	}
	f(pointer, v)
}

// spread takes so many questions, the same ones each time, and others of
// another unit that shares files with this one.
func spread(all []*question, unit string, n int) []*question {
	slices.SortFunc(all, func(a, b *question) int {
		return cmp.Or(cmp.Compare(hash(unit, a.at), hash(unit, b.at)), cmp.Compare(a.at.String(), b.at.String()))
	})
	return all[:min(n, len(all))]
}

func hash(unit string, at render.Origin) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, unit, at)
	return h.Sum64()
}

// try changes the text at a place until the fields that depend on it change.
func (o *oracle) try(n *tally, tree string, graph render.Graph, u *render.Unit, q *question) {
	out := n.of(q.class)
	data, err := fs.ReadFile(u.FS, q.at.File)
	if err != nil {
		n.wrong = append(n.wrong, fmt.Sprintf("%s: %v", q.at, err))
		return
	}
	left := q.fields
	var broken error
	rendered := false
	for _, content := range edits(data, q.at.Span) {
		src := u.Source
		src.FS = patched{u.FS, q.at.File, content}
		again, err := rerender(graph, src)
		if err != nil && fatal(u.Err) == nil || len(again) == 0 {
			broken = cmp.Or(broken, err)
			continue
		}
		rendered = true
		if left = unchanged(left, out, q.at, u.Objects, again); len(left) == 0 {
			break
		}
	}
	out.fields += len(q.fields)
	switch {
	case len(left) == 0:
	case !rendered:
		out.broken += len(left)
		n.broken[ruleOf(broken)] = append(n.broken[ruleOf(broken)], line(tree, u, q, left)+": "+fmt.Sprint(broken))
	default:
		out.same += len(left)
		n.wrong = append(n.wrong, line(tree, u, q, left))
	}
}

func line(tree string, u *render.Unit, q *question, left []fieldOf) string {
	f := left[0]
	return fmt.Sprintf("%s %s: %s %s %s = %.60s (%d fields): %s %s", tree, u.Path, f.object.GetKind(), f.object.GetName(), f.pointer, f.value, len(left), q.at.Role, q.at)
}

func ruleOf(err error) string {
	for _, e := range render.Errors(err) {
		if !e.Warning {
			return e.Rule
		}
	}
	return "no edit of its text is known"
}

// rerender renders a source again; without the chart's schema of values when
// that is all that stands in the way.
func rerender(graph render.Graph, src render.Source) ([]*render.Object, error) {
	units, _ := graph.Render(context.Background(), src)
	err := fatal(units[0].Err)
	for _, e := range render.Errors(units[0].Err) {
		if e.Rule != "helm-schema" || src.Helm != nil && src.Helm.SkipSchema {
			continue
		}
		h := render.Helm{}
		if src.Helm != nil {
			h = *src.Helm
		}
		h.SkipSchema = true
		src.Helm = &h
		return rerender(graph, src)
	}
	if err == nil && len(units[0].Objects) == 0 {
		err = errNothing
	}
	return units[0].Objects, err
}

var errNothing = errors.New("no object is left")

// unchanged are the fields that are after a change as they were before, unless
// the change made another object or another item of a list of what they are in.
func unchanged(fields []fieldOf, out *trial, at render.Origin, before, after []*render.Object) (left []fieldOf) {
	was, now := identities(before), identities(after)
	for _, f := range fields {
		obj := counterpart(f.object, was, now, before, after)
		switch {
		case obj == nil, valueAt(obj, f.pointer) != f.value:
			out.confirmed++
		case at.Role == render.Generated && now[identity(f.object)] == nil:
			out.identity++ // a generator writes its kind, whatever it is given
		case otherItem(f, obj):
			out.identity++
		default:
			left = append(left, f)
		}
	}
	return left
}

func valueAt(o *render.Object, pointer string) string {
	v, ok := render.Lookup(o.Object, pointer)
	if !ok {
		return ""
	}
	return jsonOf(v)
}

// otherItem tells whether a field that names an item of a list, by which patches
// find it, is now that of another item: with one more in the list, or with other
// fields beside it.
func otherItem(f fieldOf, now *render.Object) bool {
	path := render.Path(f.pointer)
	if len(path) < 3 || strings.Trim(path[len(path)-2], "0123456789") != "" {
		return false
	}
	item := f.pointer[:strings.LastIndexByte(f.pointer, '/')]
	list := item[:strings.LastIndexByte(item, '/')]
	return length(f.object, list) != length(now, list) || valueAt(f.object, item) != valueAt(now, item)
}

func length(o *render.Object, pointer string) int {
	v, _ := render.Lookup(o.Object, pointer)
	list, _ := v.([]any)
	return len(list)
}

// counterpart is the object that another became: that of the same name, else
// that of the same rank among those of its kind whose names are new.
func counterpart(was *render.Object, ids, now map[string]*render.Object, before, after []*render.Object) *render.Object {
	if obj := now[identity(was)]; obj != nil {
		return obj
	}
	rank := 0
	for _, obj := range before {
		if obj == was {
			break
		}
		if obj.GetKind() == was.GetKind() && now[identity(obj)] == nil {
			rank++
		}
	}
	for _, obj := range after {
		if obj.GetKind() != was.GetKind() || ids[identity(obj)] != nil {
			continue
		}
		if rank == 0 {
			return obj
		}
		rank--
	}
	return nil
}

func identity(o *render.Object) string {
	return o.GetAPIVersion() + " " + o.GetKind() + " " + o.GetNamespace() + " " + o.GetName()
}

func identities(objects []*render.Object) map[string]*render.Object {
	all := make(map[string]*render.Object, len(objects))
	for _, o := range objects {
		all[identity(o)] = o
	}
	return all
}

func (n *tally) add(m *tally) {
	n.units += m.units
	n.fields += m.fields
	n.leaf += m.leaf
	n.line += m.line
	n.whole += m.whole
	n.wrong = append(n.wrong, m.wrong...)
	for rule, lines := range m.broken {
		n.broken[rule] = append(n.broken[rule], lines...)
	}
	for c, more := range m.tried {
		out := n.of(c)
		out.fields += more.fields
		out.confirmed += more.confirmed
		out.identity += more.identity
		out.broken += more.broken
		out.same += more.same
	}
}

func (o *oracle) report(t *testing.T) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	kinds := slices.Sorted(maps.Keys(o.tables))
	fmt.Fprintln(w, "source\tunits\tfields\tvalues leaf or patch\ttemplate or base line\tfile only\t")
	for _, kind := range kinds {
		n := o.tables[kind]
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t\n", kind, n.units, n.fields, share(n.leaf, n.fields), share(n.line, n.fields), share(n.whole, n.fields))
	}
	fmt.Fprintln(w, "\t\t\t\t\t\t\nsource\tplace\tfields tried\tconfirmed\tby identity\tdo not render\tas before\t")
	for _, kind := range kinds {
		n := o.tables[kind]
		for _, c := range slices.Sorted(maps.Keys(n.tried)) {
			out := n.tried[c]
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t\n", kind, c, out.fields, share(out.confirmed+out.identity, out.fields-out.broken), out.identity, out.broken, out.same)
		}
	}
	w.Flush()
	t.Logf("\n%s", b.String())
	for _, kind := range kinds {
		o.tables[kind].say(t, kind)
		o.tables[kind].hold(t, kind)
	}
}

// hold wants a line for 99.9% of the fields, and each edit of a place to change
// what is said to depend on it.
func (n *tally) hold(t *testing.T, kind string) {
	if n.whole*1000 > n.fields {
		t.Errorf("%s: %d of %d fields have no line", kind, n.whole, n.fields)
	}
	for _, c := range slices.Sorted(maps.Keys(n.tried)) {
		if out := n.tried[c]; out.same > 0 {
			t.Errorf("%s: %d of %d fields are as before with another %s", kind, out.same, out.fields, c)
		}
	}
}

func (n *tally) say(t *testing.T, kind string) {
	slices.Sort(n.wrong)
	for _, line := range n.wrong {
		t.Logf("as before: %s", line)
	}
	for _, rule := range slices.Sorted(maps.Keys(n.broken)) {
		slices.Sort(n.broken[rule])
		t.Logf("%s: %d edits do not render: %s, such as\n\t%.300s", kind, len(n.broken[rule]), rule, n.broken[rule][0])
	}
}

func share(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(n)/float64(of))
}
