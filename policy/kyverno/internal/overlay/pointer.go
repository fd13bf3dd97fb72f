package overlay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var errMissing = errors.New("the object has nothing there")

// split splits a JSON pointer.
func split(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, errors.New("a path starts with /")
	}
	parts := strings.Split(pointer[1:], "/")
	if len(parts) > maxDepth {
		return nil, errors.New("the path is too long")
	}
	for i, p := range parts {
		parts[i] = unescape.Replace(p)
	}
	return parts, nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func walk(v any, parts []string) (any, error) {
	for _, part := range parts {
		switch t := v.(type) {
		case map[string]any:
			e, ok := t[part]
			if !ok {
				return nil, errMissing
			}
			v = e
		case []any:
			i, err := index(part, len(t), len(t))
			if err != nil {
				return nil, err
			}
			v = t[i]
		default:
			return nil, errMissing
		}
	}
	return v, nil
}

// index reads an index of a list below a limit. Negative ones count back from end.
func index(part string, limit, end int) (int, error) {
	i, err := strconv.Atoi(part)
	if err != nil || part[0] == '+' {
		return 0, fmt.Errorf("%.32q is not an index of a list", part)
	}
	if i < 0 {
		i += end
	}
	if i < 0 || i >= limit {
		return 0, errMissing
	}
	return i, nil
}

// maxPadding bounds a list that is extended to have an element at an index.
const maxPadding = 1 << 10

// ensure creates the missing parents of a path: lists before indices, and maps.
func ensure(v any, parts []string) (any, error) {
	if len(parts) == 1 {
		return v, nil
	}
	child, err := walk(v, parts[:1])
	if err != nil && !errors.Is(err, errMissing) && parts[0] != "-" {
		return nil, err
	}
	if child != nil {
		after, err := ensure(child, parts[1:])
		return putAt(v, parts[0], after, err)
	}
	made, err := container(parts[1])
	if err != nil {
		return nil, err
	}
	after, err := ensure(made, parts[1:])
	return putAt(v, parts[0], after, err)
}

// container returns an empty list or map for a part of a path: an index or a key.
func container(part string) (any, error) {
	n, err := strconv.Atoi(part)
	if part == "-" {
		return []any{}, nil
	}
	if err != nil {
		return map[string]any{}, nil
	}
	if n < -1 || n > maxPadding {
		return nil, errMissing
	}
	return make([]any, max(0, n)), nil
}

// putAt puts a value at a part of its list or map.
func putAt(v any, part string, value any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	switch t := v.(type) {
	case map[string]any:
		t[part] = value
		return t, nil
	case []any:
		if i, err := index(part, len(t), len(t)); err == nil {
			t[i] = value
			return t, nil
		}
		return insert(t, part, value)
	}
	return nil, errMissing
}

func insert(list []any, at string, value any) (any, error) {
	if at == "-" {
		return append(list, value), nil
	}
	i, err := index(at, len(list)+1, len(list)+1)
	if err != nil {
		return nil, err
	}
	list = append(list, nil)
	copy(list[i+1:], list[i:])
	list[i] = value
	return list, nil
}
