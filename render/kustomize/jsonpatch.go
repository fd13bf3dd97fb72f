package kustomize

import (
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
)

// kustomize applies a JSON patch to the JSON of an object and parses the
// result, so that all of the object's nodes lose their lines. Therefore the
// operations here change a copy of the nodes in the same way, and the result
// takes its lines from that.

// operations returns the nodes of a JSON patch's operations, with lines that no other
// node of this process has.
func (a *accumulation) operations(n *node, q *patch) []*yaml.Node {
	name, data, sources := q.file, a.o.w.snap.files[q.file], a.o.byFile[q.file]
	if q.text != "" {
		name, data, sources = q.virtual(n), []byte(q.text), a.o.inline[q]
	}
	p := piecesOf(name, data, sources)[0]
	if p.source == nil {
		return nil
	}
	list, err := yaml.Parse(string(p.write(nil)))
	if err != nil {
		return nil
	}
	if p.from, err = a.bases.lines(p.lines + 2); err != nil {
		return nil
	}
	moveDown(list.YNode(), p.from)
	p.text, p.source = nil, nil
	a.inputs.pieces = append(a.inputs.pieces, p)
	return list.YNode().Content
}

// patchNodes returns an object with operations applied, or nil if one fails. It does not
// change the nodes that it is given, but the result shares them.
func patchNodes(n *yaml.Node, ops []*yaml.Node) *yaml.Node {
	for _, op := range ops {
		kind, at := textOf(op, "op"), render.Path(textOf(op, "path"))
		from, value := render.Path(textOf(op, "from")), entryOf(op, "value")
		if kind == "copy" || kind == "move" {
			value = nodeAt(n, from)
		}
		if kind == "remove" || kind == "move" {
			gone := from
			if kind == "remove" {
				gone = at
			}
			n = changed(n, gone, remove)
		}
		switch kind {
		case "test", "remove":
		case "add", "replace", "copy", "move":
			n = changed(n, at, func(container *yaml.Node, key string) bool { return put(container, key, value, kind != "replace") })
		default:
			return nil
		}
		if n == nil || value == nil && kind != "test" && kind != "remove" {
			return nil
		}
	}
	return n
}

func textOf(n *yaml.Node, key string) string {
	if e := entryOf(n, key); e != nil {
		return e.Value
	}
	return ""
}

func nodeAt(n *yaml.Node, path []string) *yaml.Node {
	for _, key := range path {
		i := childAt(n, key)
		if i < 0 {
			return nil
		}
		n = n.Content[i]
	}
	return n
}

// copyLines gives the nodes of an object the lines of another version of it, as far as both
// have the same fields. from may be nil.
func copyLines(to, from *yaml.Node) {
	if from == nil {
		return
	}
	if from.Kind == yaml.AliasNode {
		copyLines(to, from.Alias)
	}
	to.Line, to.Column = from.Line, from.Column
	for i, c := range to.Content {
		switch {
		case to.Kind != from.Kind:
		case to.Kind != yaml.MappingNode:
			if len(to.Content) == len(from.Content) {
				copyLines(c, from.Content[i])
			}
		case i%2 == 1:
			copyLines(c, entryOf(from, to.Content[i-1].Value))
		}
	}
}

// changed applies change to the map or list that contains the value at path,
// and returns the changed tree. The nodes on the way are copied. It returns nil
// if the change fails.
func changed(n *yaml.Node, path []string, change func(container *yaml.Node, key string) bool) *yaml.Node {
	if n == nil || len(path) == 0 {
		return nil
	}
	c := *n
	c.Content = slices.Clone(n.Content)
	if len(path) == 1 {
		if !change(&c, path[0]) {
			return nil
		}
		return &c
	}
	i := childAt(&c, path[0])
	if i < 0 {
		return nil
	}
	if c.Content[i] = changed(c.Content[i], path[1:], change); c.Content[i] == nil {
		return nil
	}
	return &c
}

// childAt returns the index of the node of a key or an item, -1 if there is none.
func childAt(n *yaml.Node, key string) int {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return i + 1
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && isIndex(key) && i < len(n.Content) {
			return i
		}
	}
	return -1
}

// put sets a field or an item, or inserts an item. Both nodes are the caller's.
func put(n *yaml.Node, key string, value *yaml.Node, insert bool) bool {
	at := childAt(n, key)
	switch {
	case n.Kind == yaml.MappingNode && at < 0:
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString, Value: key}, value)
	case n.Kind == yaml.SequenceNode && insert && (key == "-" || key == strconv.Itoa(len(n.Content))):
		n.Content = append(n.Content, value)
	case at < 0:
		return false
	case n.Kind == yaml.SequenceNode && insert:
		n.Content = slices.Insert(n.Content, at, value)
	default:
		n.Content[at] = value
	}
	return true
}

// remove removes a field or an item.
func remove(n *yaml.Node, key string) bool {
	at := childAt(n, key)
	switch {
	case at < 0:
		return false
	case n.Kind == yaml.MappingNode:
		n.Content = slices.Delete(n.Content, at-1, at+1)
	default:
		n.Content = slices.Delete(n.Content, at, at+1)
	}
	return true
}

func isIndex(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
