package document

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A field is a value of the policy and its pointer. A missing field has the value
// nil, and so have its children.
type field struct {
	value   any
	pointer string
}

func (f field) at(keys ...string) field {
	for _, key := range keys {
		f = field{f.get(key), child(f.pointer, key)}
	}
	return f
}

// child returns the pointer of a key in the map at a pointer.
func child(pointer, key string) string {
	if strings.ContainsAny(key, "~/") {
		return pointer + render.Pointer(key)
	}
	return pointer + "/" + key
}

func (f field) get(key string) any {
	m, _ := f.value.(map[string]any)
	return m[key]
}

func (f field) isSet() bool { return f.value != nil }

func (f field) list() []field {
	items, _ := f.value.([]any)
	all := make([]field, len(items))
	for i, item := range items {
		all[i] = field{item, f.pointer + "/" + strconv.Itoa(i)}
	}
	return all
}

// fields returns the fields of a map, in the order of their keys.
func (f field) fields() []field {
	var all []field
	for _, key := range slices.Sorted(maps.Keys(f.keys())) {
		all = append(all, f.at(key))
	}
	return all
}

func (f field) text(key string) string {
	s, _ := f.get(key).(string)
	return s
}

func (f field) texts(key string) []string { return f.at(key).strings() }

func (f field) strings() []string {
	items, _ := f.value.([]any)
	var all []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func (f field) keys() map[string]any {
	m, _ := f.value.(map[string]any)
	return m
}
