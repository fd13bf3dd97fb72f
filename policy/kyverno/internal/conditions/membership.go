package conditions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// A membership is an operator that searches keys among values.
type membership struct {
	one     func(found bool) bool              // for a single key
	many    func(keys []string, v values) bool // for a list of keys
	scalars bool                               // a list may be searched in a value that is not a list
}

func (m membership) holds(key, value any) bool {
	if keys, ok := key.([]any); ok {
		if isOnly(keys, value) {
			return m.one(true)
		}
		v, ok := valuesOf(value, m.scalars)
		if ok && len(keys) > fewKeys {
			v.index()
		}
		return ok && m.many(texts(keys), v)
	}
	if !isScalar(key) {
		return false
	}
	found, ok := isAmong(text(key), value)
	return ok && m.one(found)
}

func in(found bool) bool    { return found }
func notIn(found bool) bool { return !found }

func isScalar(v any) bool {
	switch v.(type) {
	case string, bool:
		return true
	}
	_, ok := pattern.Number(v)
	return ok
}

func texts(list []any) []string {
	found := make([]string, len(list))
	for i, e := range list {
		found[i] = text(e)
	}
	return found
}

// text returns a value as it is printed. Lists may be long, and mostly hold strings.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

// isAmong reports whether a key is in a value: a list, with wildcards on either
// side, or a string that is a wildcard, a range or a JSON list. ok is false if
// the value can't contain a key.
func isAmong(key string, value any) (found, ok bool) {
	switch v := value.(type) {
	case []any:
		return values{list: texts(v)}.has(key), true
	case string:
		if pattern.Wildcard(v, key) {
			return true, true
		}
		if pattern.Range(v) {
			return pattern.Leaf(key, v), true
		}
		list, ok := listInText(v)
		return slices.Contains(list, key), ok
	}
	return false, false
}

// listInText parses a list of strings in JSON, such as ConfigMaps hold. Other JSON
// gives no value, and any other text is itself the only value.
func listInText(s string) (list []string, ok bool) {
	if !mayBeJSON(s) || !json.Valid([]byte(s)) {
		return []string{s}, true
	}
	err := json.Unmarshal([]byte(s), &list)
	return list, err == nil
}

// mayBeJSON reports whether a text begins like JSON.
func mayBeJSON(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return s != "" && strings.IndexByte(`{["-0123456789tfn`, s[0]) >= 0
}

// isOnly reports whether the only element of a list equals the value.
func isOnly(keys []any, value any) bool {
	s, ok := value.(string)
	return ok && len(keys) == 1 && fmt.Sprint(keys[0]) == s
}

// values is the list or range in which keys are searched, with wildcards on either side.
type values struct {
	list  []string
	wild  []string        // those of list that hold wildcards
	exact map[string]bool // all of list; nil if wild is not set either
	span  string
}

// fewKeys is the number of keys beyond which an index of the list saves time.
const fewKeys = 8

// index prepares for a search of many keys.
func (v *values) index() {
	v.exact = make(map[string]bool, len(v.list))
	for _, e := range v.list {
		v.exact[e] = true
		if pattern.HasWildcard(e) {
			v.wild = append(v.wild, e)
		}
	}
}

// valuesOf converts a value; ok is false if the value can't contain a list.
func valuesOf(value any, scalars bool) (v values, ok bool) {
	switch x := value.(type) {
	case []any:
		return values{list: texts(x)}, true
	case string:
		if pattern.Range(x) {
			return values{span: x}, true
		}
		list, ok := listInText(x)
		return values{list: list}, ok
	}
	return values{list: []string{text(value)}}, scalars && isScalar(value)
}

func (v values) has(key string) bool {
	if v.span != "" {
		return pattern.Leaf(key, v.span)
	}
	if v.exact[key] {
		return true
	}
	if pattern.HasWildcard(key) && slices.ContainsFunc(v.list, func(e string) bool { return pattern.Wildcard(key, e) }) {
		return true
	}
	wild := v.wild
	if v.exact == nil {
		wild = v.list
	}
	return slices.ContainsFunc(wild, func(e string) bool { return pattern.Wildcard(e, key) })
}

// excludes reports whether a key is not in the list, or is a number outside of the range.
func (v values) excludes(key string) bool {
	if v.span != "" {
		return pattern.Leaf(key, strings.Replace(v.span, "-", "!-", 1))
	}
	return !v.has(key)
}

func anyIn(keys []string, v values) bool    { return slices.ContainsFunc(keys, v.has) }
func anyNotIn(keys []string, v values) bool { return slices.ContainsFunc(keys, v.excludes) }
func allNotIn(keys []string, v values) bool { return !slices.ContainsFunc(keys, v.has) }

func allIn(keys []string, v values) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return !v.has(key) })
}

// exactMembership implements In and NotIn. A single key is in a list if it
// matches an element, with wildcards on either side. Each string of a list must
// equal one of the values; NotIn holds if one does not. A value that is a string
// is a wildcard for a single key, or a list in JSON.
func exactMembership(not bool) comparison {
	return func(key, value any) bool {
		keys, ok := key.([]any)
		if !ok {
			found, ok := isExactly(key, value)
			return ok && found != not
		}
		if isOnly(keys, value) {
			return true
		}
		list, ok := exactValues(value)
		if !ok || !allStrings(keys) {
			return false
		}
		missing := slices.ContainsFunc(texts(keys), func(key string) bool { return !slices.Contains(list, key) })
		return missing == not
	}
}

// isExactly is isAmong for In and NotIn.
func isExactly(key, value any) (found, ok bool) {
	if !isScalar(key) {
		return false, false
	}
	s, isText := value.(string)
	if !isText {
		return isAmong(text(key), value)
	}
	if pattern.Wildcard(s, text(key)) {
		return true, true
	}
	list, ok := exactValues(value)
	return slices.Contains(list, text(key)), ok
}

func exactValues(value any) (list []string, ok bool) {
	switch v := value.(type) {
	case []any:
		return texts(v), allStrings(v)
	case string:
		err := json.Unmarshal([]byte(v), &list)
		return list, err == nil
	}
	return nil, false
}

func allStrings(list []any) bool {
	return !slices.ContainsFunc(list, func(e any) bool { _, ok := e.(string); return !ok })
}
