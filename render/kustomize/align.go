package kustomize

import (
	"fmt"
	"reflect"
	"strconv"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
)

// mergeKeys are the fields that identify items of lists, the most specific
// first. They are the merge keys of the Kubernetes API, see patchMergeKey in
// k8s.io/api.
var mergeKeys = []string{"name", "containerPort", "port", "mountPath", "devicePath", "ip", "key", "topologyKey", "uid", "type", "id", "path", "host"}

// translate converts the path of a field of value to its pointer in other, an earlier version of
// value whose lists may be longer, shorter or in another order. The search begins at the pointer
// from in other, and the result begins with it.
func translate(path []string, value any, other any, from string) (string, bool) {
	at := from
	o, ok := render.Lookup(other, from)
	if !ok {
		return "", false
	}
	for _, key := range path {
		switch v := value.(type) {
		case map[string]any:
			m, ok := o.(map[string]any)
			if !ok {
				return "", false
			}
			if o, ok = m[key]; !ok {
				return "", false
			}
			value = v[key]
			at += render.Pointer(key)
		case []any:
			list, ok := o.([]any)
			i, err := strconv.Atoi(key)
			if !ok || err != nil || i >= len(v) {
				return "", false
			}
			j, ok := itemLike(v, i, list)
			if !ok {
				return "", false
			}
			value, o = v[i], list[j]
			at += "/" + strconv.Itoa(j)
		default:
			return "", false
		}
	}
	return at, true
}

// itemLike returns the index in other of the item that corresponds to item i of list.
func itemLike(list []any, i int, other []any) (int, bool) {
	if m, ok := list[i].(map[string]any); ok {
		for _, key := range mergeKeys {
			if v, ok := m[key]; ok && render.IsScalar(v) {
				if j, ok := only(list, other, i, key); ok {
					return j, true
				}
				return i, len(list) == len(other) && mostAlike(m, other) == i
			}
		}
	}
	if i < len(other) && reflect.DeepEqual(list[i], other[i]) {
		return i, true
	}
	for j, o := range other {
		if reflect.DeepEqual(list[i], o) {
			return j, true
		}
	}
	return i, len(list) == len(other) && !render.IsScalar(list[i])
}

// mostAlike returns the index of the item that shares most fields with a map.
func mostAlike(m map[string]any, other []any) int {
	best, most := -1, 0
	for j, o := range other {
		n := 0
		c, _ := o.(map[string]any)
		for key, v := range m {
			if have, ok := c[key]; ok && reflect.DeepEqual(v, have) {
				n++
			}
		}
		if n > most {
			best, most = j, n
		}
	}
	return best
}

// only returns the index in other of the item that has the same value for key as item i of list. If
// several have it, it returns the one at the same rank among them.
func only(list, other []any, i int, key string) (int, bool) {
	want := list[i].(map[string]any)[key]
	rank := 0
	for _, v := range list[:i] {
		if m, ok := v.(map[string]any); ok && equal(m[key], want) {
			rank++
		}
	}
	for j, o := range other {
		if m, ok := o.(map[string]any); ok && equal(m[key], want) {
			if rank == 0 {
				return j, true
			}
			rank--
		}
	}
	return 0, false
}

// follow returns the node at path below n, or nil. The path belongs to value; n
// may differ from it as translate allows.
func follow(n *yaml.Node, path []string, value any) *yaml.Node {
	for _, key := range path {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		switch v := value.(type) {
		case map[string]any:
			if n = entryOf(n, key); n == nil {
				return nil
			}
			value = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) || n.Kind != yaml.SequenceNode {
				return nil
			}
			j, ok := i, len(n.Content) == len(v) && sameItem(n.Content[i], v[i])
			if !ok {
				j, ok = itemLike(v, i, items(n))
			}
			if !ok {
				return nil
			}
			n, value = n.Content[j], v[i]
		default:
			return nil
		}
	}
	return n
}

func entryOf(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// sameItem reports whether a node is the origin of a value: an equal scalar, or
// a map with equal merge keys.
func sameItem(n *yaml.Node, v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return n.Kind == yaml.ScalarNode && n.Value == fmt.Sprint(v)
	}
	for _, key := range mergeKeys {
		if want, ok := m[key]; ok && render.IsScalar(want) {
			e := entryOf(n, key)
			return e != nil && e.Value == fmt.Sprint(want)
		}
	}
	return true
}

// items decodes the items of a list, to compare them.
func items(n *yaml.Node) []any {
	all := make([]any, len(n.Content))
	for i, c := range n.Content {
		var v any
		if c.Decode(&v) == nil {
			all[i], _ = plain(v)
		}
	}
	return all
}
