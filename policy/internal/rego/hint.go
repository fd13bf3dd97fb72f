package rego

import (
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// maxHints bounds how many fields the details of one violation name.
const maxHints = 16

// hintKeys are the keys by which violations say which field they are about, in
// the order in which they are believed.
var hintKeys = []string{
	"pointer", "pointers", "jsonPointer", "json_pointer", "field", "fields", "_field", "fieldPath", "field_path",
	"path", "paths", "jsonPath", "json_path", "jsonpath", "_loc", "loc", "location",
}

// Hinted are the fields that a violation's details name, as JSON pointers: of
// those that the object has, or could have, whose parent is there. There are
// none where no detail names one. Both are Go's JSON.
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

// fieldsOf are the fields that a hint names: one as text or as a list of its
// segments, or a list of such.
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

// segments are a list's elements as path; nil where one can be no segment.
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

// readings are the paths that a text may mean: a JSON pointer, or fields with
// dots and brackets.
func readings(text string) []string {
	if strings.HasPrefix(text, "/") {
		return render.Path(text)
	}
	return dotted(text)
}

// dotted reads spec.containers[0].image, also with keys in brackets and quotes.
// It is nil where the text is no such path.
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

// existing is a path that an object has, or whose parent it has, as a pointer:
// as it is, or from what rules call the object.
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
