package render

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// units makes sources of the claims that no other claim uses.
func (w *walk) units() {
	u := newUses(w)
	w.used = u
	for _, group := range u.groups() {
		for _, i := range group {
			if w.named[u.claims[i].dir] {
				u.pick(i)
			}
		}
		reached := func(i int) bool { return u.reached[i] }
		if slices.ContainsFunc(group, reached) {
			continue
		}
		slices.Sort(group)
		if i := slices.IndexFunc(group, func(i int) bool { return u.claims[i].Unit }); i >= 0 {
			u.pick(group[i])
		}
	}
	for i, c := range u.claims {
		switch {
		case u.picked[i]:
			w.source(c.dir, c.kind)
		case !c.Unit && c.Note != "":
			w.skip(c.dir, c.Note)
		}
	}
}

// uses is the graph of claims that use each other. Its nodes are indices of
// claims, ordered by directory.
type uses struct {
	claims  []claim
	byDir   map[string][]int
	reached []bool // rendered, by itself or by another claim
	picked  []bool // rendered by itself
}

func newUses(w *walk) *uses {
	u := &uses{byDir: make(map[string][]int)}
	for _, dir := range slices.Sorted(maps.Keys(w.walked)) {
		for _, c := range w.claims(dir) {
			u.byDir[dir] = append(u.byDir[dir], len(u.claims))
			u.claims = append(u.claims, c)
		}
	}
	u.reached = make([]bool, len(u.claims))
	u.picked = make([]bool, len(u.claims))
	return u
}

func (u *uses) next(i int) []int {
	var next []int
	for _, used := range u.claims[i].Uses {
		for _, j := range u.byDir[path.Clean(used)] {
			if j != i {
				next = append(next, j)
			}
		}
	}
	return next
}

// pick makes a source of a claim, and marks all claims that it uses.
func (u *uses) pick(i int) {
	u.picked[i] = true
	for todo := []int{i}; len(todo) > 0; {
		i, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if !u.reached[i] {
			u.reached[i] = true
			todo = append(todo, u.next(i)...)
		}
	}
}

// groups returns the claims in groups that use each other, users before used
// ones. Most groups have one claim. It is Tarjan's algorithm without recursion,
// since a pull request decides how long a chain is.
func (u *uses) groups() [][]int {
	t := tarjan{uses: u, index: make([]int, len(u.claims)), low: make([]int, len(u.claims)), onStack: make([]bool, len(u.claims))}
	for i := len(u.claims) - 1; i >= 0; i-- { // reversed below, which gives byte order
		if t.index[i] == 0 {
			t.visit(i)
		}
	}
	slices.Reverse(t.groups)
	return t.groups
}

type tarjan struct {
	*uses
	index, low []int // index counts from 1; 0 means not visited
	onStack    []bool
	stack      []int
	count      int
	groups     [][]int
}

type frame struct {
	node int
	next []int
}

func (t *tarjan) enter(i int) frame {
	t.count++
	t.index[i], t.low[i] = t.count, t.count
	t.stack, t.onStack[i] = append(t.stack, i), true
	return frame{i, t.next(i)}
}

func (t *tarjan) visit(i int) {
	for calls := []frame{t.enter(i)}; len(calls) > 0; {
		f := &calls[len(calls)-1]
		if len(f.next) > 0 {
			j := f.next[0]
			f.next = f.next[1:]
			if t.index[j] == 0 {
				calls = append(calls, t.enter(j))
			} else if t.onStack[j] {
				t.low[f.node] = min(t.low[f.node], t.index[j])
			}
			continue
		}
		t.leave(f.node)
		calls = calls[:len(calls)-1]
		if n := len(calls); n > 0 {
			up := calls[n-1].node
			t.low[up] = min(t.low[up], t.low[f.node])
		}
	}
}

// leave closes the group whose first visited claim is i.
func (t *tarjan) leave(i int) {
	if t.low[i] != t.index[i] {
		return
	}
	from := len(t.stack) - 1
	for t.stack[from] != i {
		from--
	}
	group := slices.Clone(t.stack[from:])
	t.stack = t.stack[:from]
	for _, j := range group {
		t.onStack[j] = false
	}
	t.groups = append(t.groups, group)
}

// manifests makes sources of the files that hold objects and that no claim
// reads or uses. It reads them in parallel.
func (w *walk) manifests() {
	files := w.unclaimed()
	reasons := make([]foreignFile, len(files))
	errs := make([]error, len(files))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	const batch = 32
	for start := 0; start < len(files); start += batch {
		group.Go(func() error {
			for i := start; i < min(start+batch, len(files)); i++ {
				reasons[i], errs[i] = w.classify(files[i])
			}
			return nil
		})
	}
	_ = group.Wait()
	for i, name := range files {
		switch {
		case errs[i] != nil:
			w.errs = append(w.errs, errs[i])
		case reasons[i].why != "":
			w.leave(name, reasons[i].why, reasons[i].state)
		default:
			w.source(name, Manifests{}.Kind())
		}
	}
}

// A foreignFile says why a file is no manifest. It is zero for a manifest.
type foreignFile struct {
	why   string
	state DocumentState // state of its documents
}

// classify reports whether a file is a manifest.
func (w *walk) classify(name string) (foreignFile, error) {
	data, err := ReadFile(w.fsys, name)
	if err != nil {
		return foreignFile{}, err
	}
	if !mayHoldObjects(data) {
		return foreignFile{why: "contains no Kubernetes object"}, nil
	}
	if clearlyManifest(data) && !mayBeTemplate(data) {
		return foreignFile{}, nil
	}
	return parseFile(name, data).foreign, nil
}

// clearlyManifest reports quickly, for the usual form, that a file holds an
// object: a document has both keys at its left margin, and no tool's kind of
// them.
func clearlyManifest(data []byte) bool {
	found := false
	for chunk := range bytes.SplitSeq(data, []byte("\n---")) {
		version, kind := marginKey(chunk, "apiVersion:"), marginKey(chunk, "kind:")
		if version == "" || kind == "" {
			continue
		}
		if strings.ContainsAny(version+kind, `"'&*!{[|>#`) || isConfig(version, kind) {
			return false
		}
		found = true
	}
	return found
}

// marginKey returns the value behind a key at the beginning of a line.
func marginKey(chunk []byte, key string) string {
	for rest := chunk; ; {
		i := bytes.Index(rest, []byte(key))
		if i < 0 {
			return ""
		}
		if i == 0 && len(rest) == len(chunk) || i > 0 && rest[i-1] == '\n' {
			line, _, _ := bytes.Cut(rest[i+len(key):], []byte("\n"))
			return string(bytes.TrimSpace(line))
		}
		rest = rest[i+len(key):]
	}
}

// unclaimed returns the found files that no claim reads or uses and that are
// not given by name, ordered by path.
func (w *walk) unclaimed() []string {
	taken := make(map[string]bool)
	for _, s := range w.out.Sources {
		taken[s.Path] = w.files[s.Path]
	}
	for dir := range w.walked {
		for _, c := range w.claims(dir) {
			for _, f := range c.Files {
				taken[f], taken[path.Join(dir, f)] = true, true
			}
			for _, used := range c.Uses {
				if used = path.Clean(used); len(w.asked[used]) == 0 {
					taken[used] = true
				}
			}
		}
	}
	var files []string
	for _, f := range slices.Sorted(maps.Keys(w.files)) {
		switch suite, fixture := w.tested[f]; {
		case within(taken, f):
		case fixture:
			w.leave(f, "fixture of "+suite, DocFixture)
		default:
			files = append(files, f)
		}
	}
	return files
}

// within reports whether name or a directory above it is in the set.
func within(set map[string]bool, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if set[name] {
			return true
		}
	}
	return false
}

// result returns the results, sorted and without duplicates.
func (w *walk) result() Discovery {
	slices.SortStableFunc(w.out.Sources, func(a, b Source) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Kind, b.Kind))
	})
	w.out.Sources = slices.CompactFunc(w.out.Sources, func(a, b Source) bool { return a.Path == b.Path && a.Kind == b.Kind })
	slices.SortFunc(w.out.Skipped, func(a, b Skipped) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Reason, b.Reason))
	})
	w.out.Skipped = slices.DeleteFunc(slices.Compact(w.out.Skipped), func(s Skipped) bool {
		return s.State != "" && w.walked[s.Path] // left out first, then given by name
	})
	slices.SortStableFunc(w.errs, func(a, b error) int {
		return strings.Compare(a.(*Error).Span.File, b.(*Error).Span.File)
	})
	w.out.Err = errors.Join(w.errs...)
	w.out.walk = w
	return w.out
}
