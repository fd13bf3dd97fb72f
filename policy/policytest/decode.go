package policytest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A node is a value in a suite's file, with its place. Its methods add errors
// to the suite and continue.
type node struct {
	s       *suite
	doc     *render.Document
	pointer string
	value   any // nil if absent
}

// span returns the node's place, or that of its nearest ancestor.
func (n node) span() render.Span {
	if n.doc == nil || n.doc.Positions == nil {
		return render.Span{File: n.s.name}
	}
	if key, _, ok := n.doc.Positions.Field(n.pointer); ok && key.Line > 0 {
		return key
	}
	if at := n.doc.Positions.At(n.pointer); len(at) > 0 {
		return at[0].Span
	}
	return render.Span{File: n.s.name}
}

func (n node) errorf(format string, args ...any) *render.Error {
	return &render.Error{Span: n.span(), Rule: "suite", Err: fmt.Errorf(format, args...)}
}

func (n node) fail(format string, args ...any) { n.s.fail(n.errorf(format, args...)) }

// name returns the node's key, or list and index, for messages.
func (n node) name() string {
	path := render.Path(n.pointer)
	if len(path) == 0 {
		return "the suite"
	}
	name := path[len(path)-1]
	if _, err := strconv.Atoi(name); err == nil && len(path) > 1 {
		return path[len(path)-2] + "[" + name + "]"
	}
	return name
}

// fields returns the fields of a mapping and reports unknown ones.
func (n node) fields(known ...string) map[string]node {
	return n.read(func(key string) string { return key }, known)
}

// folded returns the fields of a mapping by their known names, ignoring the case.
func (n node) folded(known ...string) map[string]node {
	return n.read(func(key string) string {
		if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, key) }); i >= 0 {
			return known[i]
		}
		return key
	}, known)
}

func (n node) read(name func(string) string, known []string) map[string]node {
	fields := make(map[string]node, len(known))
	for _, k := range known {
		fields[k] = node{s: n.s, doc: n.doc, pointer: n.pointer + render.Pointer(k)}
	}
	m, ok := n.value.(map[string]any)
	if n.value != nil && !ok {
		n.fail("%s must be a mapping", n.name())
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		child := node{s: n.s, doc: n.doc, pointer: n.pointer + render.Pointer(k), value: m[k]}
		switch is := name(k); {
		case !slices.Contains(known, is):
			child.fail("unknown key %q in %s; %s", k, n.name(), render.Instead(k, known))
		case fields[is].value != nil:
			child.fail("%s is given twice in %s", is, n.name())
		default:
			fields[is] = child
		}
	}
	return fields
}

// items returns the elements of a list.
func (n node) items() []node {
	list, ok := n.value.([]any)
	if n.value != nil && !ok {
		n.fail("%s must be a list", n.name())
	}
	items := make([]node, len(list))
	for i, v := range list {
		items[i] = node{s: n.s, doc: n.doc, pointer: n.pointer + render.Pointer(i), value: v}
	}
	return items
}

// text returns a string, "" if there is none. A name may be a number.
func (n node) text() string {
	s, ok := n.value.(string)
	if i, number := n.value.(int64); number {
		s, ok = strconv.FormatInt(i, 10), true
	}
	if n.value != nil && !ok {
		n.fail("%s must be a string", n.name())
	}
	return s
}

// flag returns a boolean, false if there is none.
func (n node) flag() bool {
	b, ok := n.value.(bool)
	if n.value != nil && !ok {
		n.fail("%s must be true or false", n.name())
	}
	return b
}

// texts returns a list of strings.
func (n node) texts() []string {
	var all []string
	for _, item := range n.items() {
		all = append(all, item.text())
	}
	return all
}
