package rego

import (
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// maxHints bounds the fields that the details of one violation name.
const maxHints = 16

// hintKeys are the keys under which violations name their field, the most reliable
// first.
var hintKeys = []string{
	"pointer", "pointers", "jsonPointer", "json_pointer", "field", "fields", "_field", "fieldPath", "field_path",
	"path", "paths", "jsonPath", "json_path", "jsonpath", "_loc", "loc", "location",
}

// Hinted returns the fields that a violation's details name, as JSON pointers, if the
// object has the field or its parent. Both arguments are Go's JSON.
func Hinted(details, object any) []string {
	top, _ := details.(map[string]any)
	for _, within := range []any{top, top["details"], top["metadata"]} {
		m, ok := within.(map[string]any)
		if !ok {
			continue
		}
		for _, key := range hintKeys {
			if found := fieldsOf(m[key], object); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// fieldsOf returns the fields of a hint: a text, a list of segments, or a list of
// either.
func fieldsOf(hint any, object any) []string {
	switch hint := hint.(type) {
	case string:
		return existing(object, readings(hint))
	case []any:
		if found := existing(object, segments(hint)); len(found) > 0 {
			return found
		}
		var all []string
		for _, h := range hint {
			for _, p := range fieldsOf(h, object) {
				if !slices.Contains(all, p) && len(all) < maxHints {
					all = append(all, p)
				}
			}
		}
		return all
	case map[string]any:
		for _, key := range hintKeys {
			if found := fieldsOf(hint[key], object); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// segments converts a list to a path; nil if an element can't be a segment.
func segments(list []any) []string {
	path := make([]string, len(list))
	for i, e := range list {
		switch e := e.(type) {
		case string:
			path[i] = e
		case int64:
			path[i] = strconv.FormatInt(e, 10)
		default:
			return nil
		}
	}
	return path
}

// readings returns the paths that a text may mean: a JSON pointer, or fields with
// dots and brackets.
func readings(text string) []string {
	if strings.HasPrefix(text, "/") {
		return render.Path(text)
	}
	return dotted(text)
}

// dotted parses spec.containers[0].image, also with quoted keys in brackets. It
// returns nil if the text is no such path.
func dotted(text string) []string {
	var path []string
	for text = strings.TrimPrefix(text, "."); text != ""; {
		key, rest := text, ""
		switch i := strings.IndexAny(text, ".["); {
		case text[0] == '[':
			end := strings.IndexByte(text, ']')
			if end < 0 {
				return nil
			}
			key, rest = strings.Trim(text[1:end], `"'`), text[end+1:]
		case i == 0:
			return nil
		case i > 0:
			key, rest = text[:i], text[i:]
		}
		path, text = append(path, key), strings.TrimPrefix(rest, ".")
	}
	return path
}

// existing returns the pointer of a path that the object has, or whose parent it has.
// The path may begin with a name that rules use for the object.
func existing(object any, path []string) []string {
	for i := range path {
		if i > 0 && !slices.Contains([]string{"$", "input", "review", "object"}, path[i-1]) {
			return nil
		}
		if p := render.PathPointer(path[i:]); exists(object, path[i:], p) {
			return []string{p}
		}
	}
	return nil
}

func exists(object any, path []string, pointer string) bool {
	if _, ok := render.Lookup(object, pointer); ok {
		return true
	}
	parent, ok := render.Lookup(object, render.PathPointer(path[:len(path)-1]))
	_, isMap := parent.(map[string]any)
	return ok && isMap && len(path) > 1
}
