package kustomize

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
)

// kustomize applies a JSON patch to the JSON of an object and parses the
// result, so that all of the object's nodes lose their lines. The operations
// here change the nodes in place, and untouched nodes keep their lines. If the
// result might differ from kustomize's, the library applies the patch, see
// patched.

// patchNodes returns an object with a patch applied, or nil if the library has to do
// it. It does not change the nodes that it is given, but the result shares them.
func patchNodes(n *yaml.Node, patch jsonpatch.Patch) *yaml.Node {
	if !survivesJSON(n) {
		return nil
	}
	for _, op := range patch {
		path, err := op.Path()
		if err != nil || !strings.HasPrefix(path, "/") {
			return nil
		}
		change := func(container *yaml.Node, key string) bool { return remove(container, key) }
		switch op.Kind() {
		case "add", "replace":
			value := valueOf(op)
			if value == nil {
				return nil
			}
			insert := op.Kind() == "add"
			change = func(container *yaml.Node, key string) bool { return put(container, key, value, insert) }
		case "remove":
		default:
			return nil
		}
		if n = changed(n, render.Path(path), change); n == nil {
			return nil
		}
	}
	return n
}

// survivesJSON reports whether a node has the same value after it is written as
// JSON and parsed.
func survivesJSON(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i]; key.Kind != yaml.ScalarNode || key.ShortTag() != yaml.NodeTagString {
				return false
			}
		}
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case yaml.NodeTagString:
			return n.Style&yaml.FoldedStyle == 0 && (n.Style&yaml.LiteralStyle != 0 || !strings.Contains(n.Value, "\n"))
		case yaml.NodeTagBool, yaml.NodeTagNull:
			return true
		case yaml.NodeTagInt:
			return len(n.Value) < 16 // a float64 holds it
		}
		return false
	case yaml.SequenceNode:
	default:
		return false
	}
	return !slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return !survivesJSON(c) })
}

// valueOf returns the value of an operation as a node without a line, or nil.
func valueOf(op jsonpatch.Operation) *yaml.Node {
	raw := op["value"]
	var v any
	if raw == nil || json.Unmarshal(*raw, &v) != nil {
		return nil
	}
	return nodeOf(v)
}

// nodeOf returns the node of a JSON value. It is nil for texts of several lines,
// which kyaml may change as it writes and reads them.
func nodeOf(v any) *yaml.Node {
	scalar := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: yaml.NodeTagMap}
		for _, key := range sorted(v) {
			e := nodeOf(v[key])
			if e == nil {
				return nil
			}
			n.Content = append(n.Content, scalar(yaml.NodeTagString, key), e)
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: yaml.NodeTagSeq}
		for _, item := range v {
			e := nodeOf(item)
			if e == nil {
				return nil
			}
			n.Content = append(n.Content, e)
		}
		return n
	case string:
		if strings.Contains(v, "\n") {
			return nil
		}
		return scalar(yaml.NodeTagString, v)
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if strings.ContainsAny(text, ".e") {
			return scalar(yaml.NodeTagFloat, text)
		}
		return scalar(yaml.NodeTagInt, text)
	case bool:
		return scalar(yaml.NodeTagBool, strconv.FormatBool(v))
	}
	return scalar(yaml.NodeTagNull, "null")
}

// changed applies change to the map or list that contains the value at path,
// and returns the changed tree. The nodes on the way are copied. It returns nil
// if the change fails.
func changed(n *yaml.Node, path []string, change func(container *yaml.Node, key string) bool) *yaml.Node {
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
