package render

import (
	"errors"
	"maps"
	"slices"
	"strconv"
)

// An Edit sets, removes or renames the value at a JSON pointer.
type Edit struct {
	Pointer string `json:"pointer"` // missing parents are added; "-" or the length appends to a list
	Delete  bool   `json:"delete,omitempty"`
	Key     string `json:"key,omitempty"`   // the field gets this key and keeps its value
	Value   any    `json:"value,omitempty"` // of JSON; unused with Delete and Key
}

// Apply returns v with the edit. It shares what is the same with v, which does not change.
func (e Edit) Apply(v any) (any, error) { return edited(v, Path(e.Pointer), e) }

// edited returns a copy of a value with the edit made at a path.
func edited(v any, path []string, e Edit) (any, error) {
	if len(path) == 0 {
		return Copy(e.Value), nil
	}
	switch v := v.(type) {
	case nil:
		if e.Delete {
			return nil, errors.New("there is nothing to delete")
		}
		child, err := edited(nil, path[1:], e)
		if path[0] == "-" {
			return []any{child}, err
		}
		return map[string]any{path[0]: child}, err
	case map[string]any:
		if v == nil {
			v = map[string]any{}
		}
		copied := maps.Clone(v)
		if _, ok := v[path[0]]; e.Delete && !ok {
			return nil, errors.New("there is nothing to delete")
		}
		if e.Delete && len(path) == 1 {
			delete(copied, path[0])
			return copied, nil
		}
		if e.Key != "" && len(path) == 1 {
			return rekeyed(copied, path[0], e.Key)
		}
		child, err := edited(v[path[0]], path[1:], e)
		copied[path[0]] = child
		return copied, err
	case []any:
		i, err := index(path[0], len(v))
		if err != nil || i == len(v) && e.Delete {
			return nil, errors.New("the list has no such element")
		}
		copied := slices.Clone(v)
		if e.Delete && len(path) == 1 {
			return slices.Delete(copied, i, i+1), nil
		}
		if i == len(v) {
			copied = append(copied, nil)
		}
		copied[i], err = edited(copied[i], path[1:], e)
		return copied, err
	}
	return nil, errors.New("its parent is neither a mapping nor a list")
}

func rekeyed(m map[string]any, from, to string) (any, error) {
	v, ok := m[from]
	if _, there := m[to]; there || !ok {
		return nil, errors.New("there is no such field, or one with the new name, too")
	}
	delete(m, from)
	m[to] = v
	return m, nil
}

// index returns the index that a segment of a pointer names in a list of a length.
func index(segment string, length int) (int, error) {
	if segment == "-" {
		return length, nil
	}
	i, err := strconv.Atoi(segment)
	if err == nil && (i < 0 || i > length) {
		err = errors.New("out of range")
	}
	return i, err
}
