package kyverno

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A reference $(path) is replaced by the text of another leaf of the same
// document. The path is relative to the leaf that holds the reference, or to
// the document's root.

var (
	references        = regexp.MustCompile(`^\$\(.[^\ ]*\)|[^\\]\$\(.[^\ ]*\)`)
	escapedReferences = regexp.MustCompile(`\\\$\(.[^\ ]*\)`)
	anchor            = regexp.MustCompile(`^[+<=X^]?\((.+)\)$`)
)

// resolveReferences returns the document with its references replaced, or the
// same document if it has none.
func resolveReferences(document any) (any, error) {
	if !holds(document, "$(", 0) {
		return document, nil
	}
	r := &referrer{leaves: map[string]any{}}
	r.index(document, "", "")
	return r.replace(document, "")
}

// A referrer resolves references. It holds the document's leaves by their paths
// without anchors.
type referrer struct{ leaves map[string]any }

// A referenceError is about a reference that can't be resolved.
type referenceError struct {
	ref, at string // the reference and the path of its leaf
	err     error
}

func (e *referenceError) Error() string {
	return fmt.Sprintf("failed to resolve %s at path %s: %s", e.ref, e.at, e.err)
}

func (r *referrer) index(value any, at, key string) {
	if key != "" {
		at += step(key)
	}
	switch t := value.(type) {
	case []any:
		for i, e := range t {
			r.index(e, at, fmt.Sprint(i))
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(t)) {
			r.index(t[k], at, k)
		}
	default:
		r.leaves[at] = value
	}
}

// step returns a key of a path without its anchor.
func step(key string) string {
	if m := anchor.FindStringSubmatch(key); m != nil {
		key = m[1]
	}
	return "/" + strings.ReplaceAll(key, "/", `\/`)
}

func (r *referrer) replace(value any, at string) (any, error) {
	switch t := value.(type) {
	case string:
		return r.text(t, at)
	case []any:
		made := make([]any, len(t))
		for i, e := range t {
			var err error
			if made[i], err = r.replace(e, at+"/"+fmt.Sprint(i)); err != nil {
				return nil, err
			}
		}
		return made, nil
	case map[string]any:
		return r.mapping(t, at)
	default:
		return value, nil
	}
}

func (r *referrer) mapping(m map[string]any, at string) (any, error) {
	made := make(map[string]any, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		key, err := r.text(k, at)
		if err != nil {
			return nil, err
		}
		if made[key], err = r.replace(m[k], at+step(k)); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (r *referrer) text(s, at string) (string, error) {
	if !strings.Contains(s, "$(") {
		return s, nil
	}
	for _, found := range references.FindAllString(s, -1) {
		ref, before := found, ""
		if !strings.HasPrefix(found, "$(") {
			before, ref = found[:1], found[1:]
		}
		value, err := r.value(ref, at)
		if err != nil {
			return "", &referenceError{ref, at, err}
		}
		if s = strings.Replace(s, found, before+value, 1); len(s) > maxText {
			return "", fmt.Errorf("text with its references is longer than %d bytes at path %s", maxText, at)
		}
	}
	return escapedReferences.ReplaceAllStringFunc(s, func(v string) string { return v[1:] }), nil
}

var referenceOperators = []string{">=", "<=", ">", "<", "!"}

func (r *referrer) value(ref, at string) (string, error) {
	where, operator := strings.Trim(ref, "$()"), ""
	for _, op := range referenceOperators {
		if rest, ok := strings.CutPrefix(where, op); ok {
			where, operator = rest, op
			break
		}
	}
	if where == "" {
		return "", errors.New("expected path, found empty reference")
	}
	if !path.IsAbs(where) {
		where = path.Join(at, where)
	}
	switch v := r.leaves[where].(type) {
	case string:
		return operator + v, nil
	case nil:
		return "", errors.New("there is no value")
	case int64, float64:
		if operator != "" {
			return fmt.Sprint(operator, v), nil
		}
	}
	return "", errors.New("the value there is not a string")
}
