package overlay

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/preadmit/preadmit/render"
)

// A merger merges a patch into an object as kustomize's kyaml does (packages merge2
// and walk; new elements of lists before the others), and records the changed fields.
type merger struct{ pointers []string }

// maxPointers bounds the pointers of a result.
const maxPointers = 256

func (m *merger) set(at string) {
	if len(m.pointers) < maxPointers {
		m.pointers = append(m.pointers, at)
	}
}

// cleared is the value of fields that a patch removes.
type cleared struct{}

// The directives of strategic merge patches.
const directive = "$patch"

// merge returns the value at a place after the patch, or cleared. It changes
// the object's value, which may be missing, in place.
func (m *merger) merge(object, patch any, s shape, at string) (any, error) {
	if patch == nil {
		return cleared{}, nil
	}
	if object == nil {
		value, err := clean(patch, s, at)
		if _, gone := value.(cleared); err == nil && !gone {
			m.set(at)
		}
		return value, err
	}
	if render.TypeName(object) != render.TypeName(patch) && (isTree(object) || isTree(patch)) {
		return nil, fmt.Errorf("the patch has %s where the object has %s: %s", render.TypeName(patch), render.TypeName(object), at)
	}
	switch p := patch.(type) {
	case map[string]any:
		return m.mergeMap(object.(map[string]any), p, s, at)
	case []any:
		if s.merge {
			return m.mergeList(object.([]any), p, s, at)
		}
	}
	if !reflect.DeepEqual(object, patch) {
		m.set(at)
	}
	return patch, nil
}

func isTree(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func (m *merger) mergeMap(object, patch map[string]any, s shape, at string) (any, error) {
	how, err := takeDirective(patch, at)
	switch {
	case err != nil:
		return nil, err
	case how == "delete":
		return cleared{}, nil
	case how == "replace":
		return m.replacement(object, patch, s, at)
	}
	if !s.known() {
		s = shapeOf(object)
	}
	if !s.known() {
		s = shapeOf(patch)
	}
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		here := at + render.Pointer(key)
		value, err := m.merge(object[key], patch[key], s.field(key), here)
		if err != nil {
			return nil, err
		}
		if _, gone := value.(cleared); !gone {
			object[key] = value
		} else if _, was := object[key]; was {
			delete(object, key)
			m.set(here)
		}
	}
	return object, nil
}

// replacement returns the patch, which replaces the object's value.
func (m *merger) replacement(object any, patch any, s shape, at string) (any, error) {
	value, err := clean(patch, s, at)
	if err == nil && !reflect.DeepEqual(object, value) {
		m.set(at)
	}
	return value, err
}

// clean returns a patch that is merged with nothing: without directives and without
// nulls that remove fields.
func clean(patch any, s shape, at string) (any, error) {
	switch p := patch.(type) {
	case nil:
		return cleared{}, nil
	case map[string]any:
		return cleanMap(p, s, at)
	case []any:
		if s.merge {
			var m merger
			return m.mergeList(nil, p, s, at)
		}
	}
	return patch, nil
}

func cleanMap(patch map[string]any, s shape, at string) (any, error) {
	how, err := takeDirective(patch, at)
	if err != nil {
		return nil, err
	}
	if how == "delete" {
		return cleared{}, nil
	}
	if !s.known() {
		s = shapeOf(patch)
	}
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		value, err := clean(patch[key], s.field(key), at+render.Pointer(key))
		if err != nil {
			return nil, err
		}
		if _, gone := value.(cleared); gone {
			delete(patch, key)
		} else {
			patch[key] = value
		}
	}
	return patch, nil
}

// takeDirective takes $patch from a map.
func takeDirective(patch map[string]any, at string) (string, error) {
	v, ok := patch[directive]
	if !ok || v == nil {
		return "merge", nil
	}
	delete(patch, directive)
	return parseDirective(v, at)
}

func parseDirective(v any, at string) (string, error) {
	switch v {
	case "merge", "replace", "delete":
		return v.(string), nil
	}
	return "", fmt.Errorf("$patch at %s is none of merge, replace and delete", orRoot(at))
}

func orRoot(at string) string {
	if at == "" {
		return "the root"
	}
	return at
}

// takeListDirective removes from a list the element that is only a $patch.
func takeListDirective(patch []any, at string) (string, []any, error) {
	i := slices.IndexFunc(patch, func(e any) bool {
		element, _ := e.(map[string]any)
		_, ok := element[directive]
		return ok
	})
	if i < 0 || len(patch[i].(map[string]any)) > 1 {
		return "merge", patch, nil
	}
	how, err := parseDirective(patch[i].(map[string]any)[directive], at)
	return how, slices.Delete(slices.Clone(patch), i, i+1), err
}

// mergeList merges elements by their keys: the patch's first, in their order, each
// merged with the object's, then the object's others.
func (m *merger) mergeList(object, patch []any, s shape, at string) (any, error) {
	how, patch, err := takeListDirective(patch, at)
	switch {
	case err != nil:
		return nil, err
	case how == "delete":
		return cleared{}, nil
	case how == "replace":
		return m.replacement(object, patch, s, at)
	}
	if len(s.keys) == 0 {
		return m.union(object, patch, at), nil
	}
	groups, err := grouped(object, patch, usedKeys(object, patch, s.keys), at)
	if err != nil {
		return nil, err
	}
	return m.mergeGroups(groups, s.elements(), at)
}

// usedKeys returns the keys that any element has, and always the first.
func usedKeys(object, patch []any, keys []string) []string {
	used := slices.Clone(keys[:1])
	for _, key := range keys[1:] {
		if slices.ContainsFunc(slices.Concat(object, patch), func(e any) bool {
			element, _ := e.(map[string]any)
			return keyText(element[key]) != ""
		}) {
			used = append(used, key)
		}
	}
	return used
}

// A group is an element of the object, if there is one, and the elements of the patch
// with its keys.
type group struct {
	object   any
	patches  []map[string]any
	replaced bool // other elements of the object
}

// grouped returns the elements in their final order. If two keys identify them, the
// object's keep their order, behind the new ones. If one does, the object's last element
// with a key replaces the others, also a patched one, and of the patch's the first counts.
func grouped(object, patch []any, keys []string, at string) ([]*group, error) {
	old, added := elementIndex{keys: keys}, elementIndex{keys: keys}
	last := map[*group]any{}
	for _, e := range object {
		if elem, _ := e.(map[string]any); len(keys) == 1 {
			if g := old.find(elem); g != nil {
				last[g] = e
				continue
			}
		}
		old.append(&group{object: e}, e)
	}
	var first []*group
	for _, e := range patch {
		p, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the patch has %s in a list of maps: %s", render.TypeName(e), at)
		}
		g := old.find(p)
		switch {
		case g != nil && onlyOneHasKey(g.object, p, keys):
			continue
		case g != nil && len(keys) == 1 && len(g.patches) == 0:
			first = append(first, g)
		case g == nil:
			if g = added.find(p); g == nil {
				g = &group{}
				added.append(g, p)
				first = append(first, g)
			}
		}
		if len(keys) > 1 || len(g.patches) == 0 {
			g.patches = append(g.patches, p)
		}
	}
	for _, g := range old.groups {
		if len(g.patches) == 0 || len(keys) > 1 {
			first = append(first, g)
		}
	}
	for g, e := range last {
		*g = group{object: e, replaced: true}
	}
	return first, nil
}

// onlyOneHasKey reports whether only one of two elements has a key.
// kustomize treats them as the same, and keeps the object's unchanged.
func onlyOneHasKey(object any, patch map[string]any, keys []string) bool {
	o, _ := object.(map[string]any)
	return slices.ContainsFunc(keys, func(key string) bool {
		return (keyText(o[key]) == "") != (keyText(patch[key]) == "")
	})
}

// An elementIndex finds the groups of elements by their keys.
type elementIndex struct {
	keys   []string
	groups []*group
	first  map[string][]indexed // by the first key
}

type indexed struct {
	*group
	element map[string]any
}

func (e *elementIndex) append(g *group, element any) {
	if e.first == nil {
		e.first = make(map[string][]indexed)
	}
	e.groups = append(e.groups, g)
	elem, _ := element.(map[string]any)
	if key := keyText(elem[e.keys[0]]); key != "" {
		e.first[key] = append(e.first[key], indexed{g, elem})
	}
}

// find returns the group of the first element with the same keys, or nil. A
// second key counts if both elements have it. An element without the first key
// matches none.
func (e *elementIndex) find(of map[string]any) *group {
	for _, elem := range e.first[keyText(of[e.keys[0]])] {
		if !slices.ContainsFunc(e.keys[1:], func(key string) bool {
			a, b := keyText(elem.element[key]), keyText(of[key])
			return a != b && a != "" && b != ""
		}) {
			return elem.group
		}
	}
	return nil
}

func (m *merger) mergeGroups(groups []*group, s shape, at string) (any, error) {
	result, removed := []any{}, false
	for _, g := range groups {
		value, here := g.object, at+"/"+strconv.Itoa(len(result))
		for _, p := range g.patches {
			var err error
			if value, err = m.merge(value, p, s, here); err != nil {
				return nil, err
			}
			if _, gone := value.(cleared); gone {
				value = nil
			}
		}
		if element, _ := value.(map[string]any); len(g.patches) == 0 || len(element) > 0 {
			result = append(result, value)
		} else {
			removed = removed || g.object != nil
		}
		removed = removed || g.replaced
	}
	if removed {
		m.set(at)
	}
	return result, nil
}

func keyText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	if empty(v) {
		return ""
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// union joins lists of scalars: the patch's values, then the object's others.
func (m *merger) union(object, patch []any, at string) []any {
	result := []any{}
	add := func(e any) {
		if !slices.ContainsFunc(result, func(r any) bool { return reflect.DeepEqual(r, e) }) {
			result = append(result, e)
		}
	}
	for _, e := range patch {
		if !slices.ContainsFunc(object, func(o any) bool { return reflect.DeepEqual(o, e) }) {
			m.set(at + "/" + strconv.Itoa(len(result)))
		}
		add(e)
	}
	for _, e := range object {
		add(e)
	}
	return result
}
