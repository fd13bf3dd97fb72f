package rego

import (
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// hintKeys are the keys by which violations say which field they are about, in
// the order in which they are believed.
var hintKeys = []string{
	"pointer", "pointers", "jsonPointer", "json_pointer", "field", "fields", "_field", "fieldPath", "field_path",
	"path", "paths", "jsonPath", "json_path", "jsonpath", "_loc", "loc", "location",
}

// hinted are the fields that a violation's details name, of those that the
// object has, or could have: one whose parent is there. There are none where
// no detail names one.
func hinted(details map[string]any, object any) []string {
	for _, within := range []any{details, details["details"], details["metadata"]} {
		m, ok := within.(map[string]any)
		if !ok {
			continue
		}
		for _, key := range hintKeys {
			if found := named(m[key], object); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// named are the fields that a hint names: one as text or as a list of its
// segments, or a list of such.
func named(hint any, object any) []string {
	switch hint := hint.(type) {
	case string:
		return existing(object, readings(hint)...)
	case []any:
		if found := existing(object, segments(hint)); len(found) > 0 && len(hint) > 0 {
			return found
		}
		var all []string
		for _, h := range hint {
			for _, p := range named(h, object) {
				if !slices.Contains(all, p) && len(all) < maxFields {
					all = append(all, p)
				}
			}
		}
		return all
	case map[string]any:
		for _, key := range hintKeys {
			if found := named(hint[key], object); len(found) > 0 {
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
	if len(path) > 0 && (path[0] == "input" || path[0] == "$") {
		path = path[1:]
	}
	return path
}

// readings are the paths that a text may mean: a JSON pointer, or fields with
// dots and brackets.
func readings(text string) [][]string {
	if strings.HasPrefix(text, "/") {
		return [][]string{render.Path(text)}
	}
	if path := dotted(text); path != nil {
		return [][]string{path}
	}
	return nil
}

// dotted reads spec.containers[0].image, also with a $ or input before it, and
// keys in brackets and quotes. It is nil where the text is no such path.
func dotted(text string) []string {
	for _, prefix := range []string{"$.", "input.", "object.", "review.object.", "."} {
		text = strings.TrimPrefix(text, prefix)
	}
	var path []string
	for text != "" {
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
		rest = strings.TrimPrefix(rest, ".")
		path, text = append(path, key), rest
	}
	return path
}

// existing is the first of the paths that an object has, or whose parent it
// has, as a pointer.
func existing(object any, paths ...[]string) []string {
	for _, path := range paths {
		if len(path) == 0 {
			continue
		}
		p := pointer(path)
		if _, ok := render.Lookup(object, p); ok {
			return []string{p}
		}
		parent, ok := render.Lookup(object, pointer(path[:len(path)-1]))
		if _, isMap := parent.(map[string]any); ok && isMap && len(path) > 1 {
			return []string{p}
		}
	}
	return nil
}
