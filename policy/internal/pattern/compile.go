package pattern

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// maxDepth bounds the depth of a pattern.
const maxDepth = 128

// A node is a pattern, or a part of one.
type node struct {
	kind nodeKind
	leaf leaf    // of a scalar
	list []*node // of a list

	anchors []entry // for a map: the entries that decide whether the rest is matched, by raw key
	rest    []entry // for a map: the other entries, in the order of matching
	expand  bool    // for a map: labels or annotations, whose keys may contain wildcards
}

type nodeKind uint8

const (
	scalarNode nodeKind = iota
	mapNode
	listNode
)

// An entry is a key of a map.
type entry struct {
	anchor Anchor
	raw    string // as written
	key    string // without its anchor
	value  *node
	track  int // number of the raw key of a condition or existence anchor, else -1
	star   bool
	orders bool // is matched before plain keys
	wild   bool // the key holds wildcards
}

// Compile compiles a pattern. It returns an error if the pattern is nested too
// deep or is not JSON.
func Compile(p any) (*Pattern, error) {
	c := compiler{keys: make(map[string]int)}
	root, err := c.compile(p, maxDepth)
	if err != nil {
		return nil, err
	}
	return &Pattern{root: root, keys: len(c.keys)}, nil
}

type compiler struct {
	keys map[string]int // raw keys of conditions and existence anchors
}

func (c *compiler) compile(p any, depth int) (*node, error) {
	if depth == 0 {
		return nil, fmt.Errorf("pattern nests deeper than %d levels", maxDepth)
	}
	switch p := p.(type) {
	case map[string]any:
		return c.compileMap(p, depth)
	case []any:
		return c.compileList(p, depth)
	}
	l, ok := compileLeaf(p)
	if !ok {
		return nil, fmt.Errorf("pattern contains a %T, which is not JSON", p)
	}
	return &node{kind: scalarNode, leaf: l}, nil
}

// compileList compiles a list. Except in a list of lists or under an existence
// anchor, the first element is the pattern of each element of a value.
func (c *compiler) compileList(p []any, depth int) (*node, error) {
	n := &node{kind: listNode}
	for _, e := range p {
		element, err := c.compile(e, depth-1)
		if err != nil {
			return nil, err
		}
		n.list = append(n.list, element)
	}
	return n, nil
}

func (c *compiler) compileMap(p map[string]any, depth int) (*node, error) {
	n := &node{kind: mapNode}
	for _, raw := range slices.Sorted(maps.Keys(p)) {
		value, err := c.compile(p[raw], depth-1)
		if err != nil {
			return nil, err
		}
		n.add(c.entry(raw, p[raw], value))
	}
	slices.SortStableFunc(n.rest, func(a, b entry) int { // Kyverno matches keys with anchors first, in reverse alphabetical order
		switch {
		case a.orders && b.orders:
			return -strings.Compare(a.raw, b.raw)
		case a.orders:
			return -1
		case b.orders:
			return 1
		}
		return strings.Compare(a.raw, b.raw)
	})
	n.each("metadata", func(metadata *node) {
		for _, tag := range []string{"labels", "annotations"} {
			metadata.each(tag, func(tags *node) {
				tags.expand = true
				tags.anchors, tags.rest = texts(tags.anchors), texts(tags.rest)
			})
		}
	})
	return n, nil
}

// texts returns the entries whose patterns are strings. When Kyverno expands
// wildcards in labels and annotations, it drops all others.
func texts(entries []entry) []entry {
	return slices.DeleteFunc(entries, func(e entry) bool {
		_, ok := e.value.leaf.pattern.(string)
		return !ok
	})
}

func (c *compiler) entry(raw string, source any, value *node) entry {
	e := entry{raw: raw, value: value, track: -1}
	e.anchor, e.key = ParseKey(raw)
	switch e.anchor {
	case Condition, Existence:
		e.track = c.track(raw)
	case Addition: // an ordinary key, as it is written
		e.key = raw
	}
	e.star = (e.anchor == None || e.anchor == Addition) && source == "*"
	e.orders = e.anchor == Global || anyKey(source, func(a Anchor) bool { return a != None && a != Addition })
	e.wild = HasWildcard(e.key)
	return e
}

func (c *compiler) track(raw string) int {
	if _, ok := c.keys[raw]; !ok {
		c.keys[raw] = len(c.keys)
	}
	return c.keys[raw]
}

func (n *node) add(e entry) {
	switch e.anchor {
	case Condition, Equality, Existence, Negation:
		n.anchors = append(n.anchors, e)
	default:
		n.rest = append(n.rest, e)
	}
}

// each calls do with the patterns of a key, with or without anchor, that are
// maps.
func (n *node) each(key string, do func(*node)) {
	for _, entries := range [][]entry{n.rest, n.anchors} {
		for i := range entries {
			if entries[i].key == key && entries[i].value.kind == mapNode {
				do(entries[i].value)
			}
		}
	}
}

// An Anchor is the anchor of a key in a pattern.
type Anchor byte

// The anchors, by the sign before the parenthesis. A plain key has None.
const (
	None      Anchor = 0
	Condition Anchor = '('
	Equality  Anchor = '='
	Existence Anchor = '^'
	Negation  Anchor = 'X'
	Global    Anchor = '<'
	Addition  Anchor = '+'
)

// ParseKey splits a key of a pattern into anchor and name: "=(image)" gives
// Equality and image. A key without an anchor gives None and the key itself.
func ParseKey(key string) (Anchor, string) {
	s := strings.TrimSpace(key)
	if !strings.HasSuffix(s, ")") || strings.Contains(s, "\n") {
		return None, key
	}
	a, inner := Condition, s
	switch s[0] {
	case '+', '<', '=', 'X', '^':
		a, inner = Anchor(s[0]), s[1:]
	}
	if len(inner) < 3 || inner[0] != '(' {
		return None, key
	}
	return a, inner[1 : len(inner)-1]
}

// HasAnchors reports whether any key of a pattern, at any depth, has an anchor.
func HasAnchors(p any) bool { return anyKey(p, func(a Anchor) bool { return a != None }) }

func anyKey(p any, is func(Anchor) bool) bool {
	for key := range render.Values(p) {
		if a, _ := ParseKey(key); is(a) {
			return true
		}
	}
	return false
}
