package kyverno

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
)

// A scope holds the names visible to JMESPath: those bound by foreach and by
// context entries, inner ones first, and below them the request.
type scope struct {
	review *review
	rule   *Rule
	parent *scope
	names  []binding
	mocks  map[string]any // in the outermost scope: values that a test supplies, as a tree
	target map[string]any // the object of mutate.targets
}

// A binding is a name with its value, or with the context entry that is loaded
// for the value on first use.
type binding struct {
	name    string
	value   any
	entry   *entry // nil: value is set
	state   uint8
	err     error
	pointer func() string // for an element: returns its pointer in the object
}

const (
	notLoaded uint8 = iota
	loading
	loaded
)

var _ jmespath.Scope = (*scope)(nil)

// Lookup implements jmespath.Scope.
func (s *scope) Lookup(name string) (any, bool, error) {
	if b, in, i := s.find(name); b != nil {
		v, err := in.load(b, i)
		return v, true, err
	}
	return s.outermost().root(name)
}

func (s *scope) outermost() *scope {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

// find returns the innermost binding of a name, its scope, and its index there.
func (s *scope) find(name string) (*binding, *scope, int) {
	for in := s; in != nil; in = in.parent {
		for i := len(in.names) - 1; i >= 0; i-- {
			if in.names[i].name == name {
				return &in.names[i], in, i
			}
		}
	}
	return nil, nil, 0
}

// load returns a binding's value and loads its entry on first use. An entry
// sees the names before it.
func (s *scope) load(b *binding, i int) (any, error) {
	switch {
	case b.entry == nil || b.state == loaded:
		return b.value, b.err
	case b.state == loading:
		return nil, fmt.Errorf("context entry %s refers to itself", b.name)
	}
	b.state = loading
	if same, in, j := s.before(i).find(b.name); same != nil { // Kyverno loads all entries of a name; the last one counts
		_, b.err = in.load(same, j)
	}
	if b.err == nil {
		b.value, b.err = b.entry.load(s.before(i))
		b.value = floats(b.value)
		if b.err != nil {
			b.err = fmt.Errorf("failed to load context entry %s: %w", b.name, b.err)
		}
	}
	b.state = loaded
	s.review.trace.loaded(b, s, i)
	return b.value, b.err
}

func (s *scope) before(i int) *scope {
	return &scope{review: s.review, rule: s.rule, parent: s.parent, names: s.names[:i], mocks: s.mocks, target: s.target}
}

// All implements jmespath.Scope.
func (s *scope) All() (map[string]any, error) {
	all := map[string]any{}
	if s.parent != nil {
		var err error
		if all, err = s.parent.All(); err != nil {
			return nil, err
		}
	} else {
		maps.Copy(all, s.mocks)
		for _, name := range []string{"request", "images", "target", "serviceAccountName", "serviceAccountNamespace"} {
			v, found, err := s.root(name)
			if err != nil {
				return nil, err
			}
			if found {
				all[name] = v
			}
		}
	}
	for i := range s.names {
		v, err := s.load(&s.names[i], i)
		if err != nil {
			return nil, err
		}
		all[s.names[i].name] = v
	}
	return all, nil
}

// root returns a name that is defined without a context entry.
func (s *scope) root(name string) (any, bool, error) {
	r := s.review
	switch name {
	case "request":
		return r.request(s.mocks), true, nil
	case "images":
		if _, mocked := s.mocks[name]; !mocked {
			return r.imagesOf(s.rule)
		}
	case "target":
		if s.target != nil {
			return s.target, true, nil
		}
	case "serviceAccountName", "serviceAccountNamespace":
		if _, mocked := s.mocks[name]; !mocked {
			return r.serviceAccount(name)
		}
	}
	v, found := s.mocks[name]
	return v, found, nil
}

// query evaluates a JMESPath expression in the scope. needs is what it asks of the live request.
func (s *scope) query(expr *jmespath.Expression, needs string) (any, error) {
	if err := s.review.unknown(needs); err != nil {
		return nil, err
	}
	if err := s.review.spend(0); err != nil {
		return nil, err
	}
	v, err := expr.Search(s, &s.review.search)
	return v, s.review.searched(err)
}

// searched returns the error of a search. If the search needs something
// unknown, the result becomes undecided.
func (r *review) searched(err error) error {
	if err == nil {
		return nil
	}
	if undecided, ok := errors.AsType[*jmespath.UndecidedError](err); ok {
		return r.ask(undecided.Error())
	}
	return fmt.Errorf("JMESPath query failed: %w", err)
}

// scopeOf returns the scope of a rule's context entries.
func (r *review) scopeOf(rule *Rule, entries []*entry) *scope {
	s := &scope{review: r, rule: rule, mocks: r.mocked(rule)}
	s.names = s.bind(entries)
	return s
}

// inner returns a scope inside s with further names and entries.
func (s *scope) inner(names []binding, entries []*entry) *scope {
	n := &scope{review: s.review, rule: s.rule, parent: s, names: names}
	n.names = append(n.names, n.bind(entries)...)
	return n
}

// on returns a copy of the scope for another review. It keeps the entries that
// are loaded.
func (s *scope) on(r *review) *scope {
	n := *s
	n.review = r
	if s.parent != nil {
		n.parent = s.parent.on(r)
	}
	return &n
}

// bind returns bindings for context entries. A value that a test supplies
// replaces an entry, except for entries of kind variable, which always have the
// policy's value.
func (s *scope) bind(entries []*entry) []binding {
	var names []binding
	for _, e := range entries {
		if s.review.loads(e, s.outermost().mocks) {
			names = append(names, binding{name: e.Name, entry: e})
		}
	}
	return names
}

// loads reports whether an entry is loaded. Kyverno's test command loads only
// entries for which the test supplies responses.
func (r *review) loads(e *entry, mocks map[string]any) bool {
	if e.Variable != nil || !r.engine.options.CLI {
		return true
	}
	if _, mocked := mocks[e.Name]; mocked {
		return false
	}
	switch {
	case e.APICall != nil:
		return r.mocks.Simulate || len(r.mocks.APICalls) > 0
	case e.GlobalReference != nil:
		return r.mocks.Simulate || len(r.mocks.Global) > 0
	case e.ConfigMap != nil:
		return r.mocks.Simulate
	default:
		return false
	}
}

// mocked returns the values that a test supplies for a rule, as a tree, or nil
// if there are none.
func (r *review) mocked(rule *Rule) map[string]any {
	own := rule.Name
	if rule.Base != nil {
		own = rule.Base.Name
	}
	sets := []map[string]any{r.mocks.Variables, r.mocks.Rules[own], r.mocks.Foreach[own]}
	var tree map[string]any
	for _, set := range sets {
		if len(set) == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(set)) {
			if tree == nil {
				tree = map[string]any{}
			}
			plant(tree, splitName(name), floats(set[name]))
		}
	}
	return tree
}

// splitName splits a dotted name. A quoted part keeps its dots.
func splitName(name string) []string {
	var parts []string
	var part strings.Builder
	quoted := false
	for _, c := range name {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteRune(c)
		}
	}
	return append(parts, part.String())
}

func plant(tree map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		below, ok := tree[name].(map[string]any)
		if ok {
			below = maps.Clone(below)
		} else {
			below = map[string]any{}
		}
		tree[name] = below
		tree = below
	}
	tree[path[len(path)-1]] = value
}

// merge returns a map with the entries of both. Where both have a key, maps are
// merged and otherwise over wins. It changes neither argument.
func merge(under, over map[string]any) map[string]any {
	made := maps.Clone(under)
	for k, v := range over {
		inner, ok := v.(map[string]any)
		if below, both := made[k].(map[string]any); ok && both {
			made[k] = merge(below, inner)
			continue
		}
		made[k] = v
	}
	return made
}
