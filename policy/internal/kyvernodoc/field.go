package kyvernodoc

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A field is a value of the policy and its pointer. Of one that is not there
// the value is nil, and so is everything in it.
type field struct {
	value   any
	pointer string
}

func (x field) at(keys ...string) field {
	for _, key := range keys {
		x = field{x.get(key), child(x.pointer, key)}
	}
	return x
}

// child is the pointer to a key of the map at a pointer.
func child(pointer, key string) string {
	if strings.ContainsAny(key, "~/") {
		return pointer + render.Pointer(key)
	}
	return pointer + "/" + key
}

func (x field) get(key string) any {
	m, _ := x.value.(map[string]any)
	return m[key]
}

func (x field) there() bool { return x.value != nil }

func (x field) list() []field {
	items, _ := x.value.([]any)
	all := make([]field, len(items))
	for i, item := range items {
		all[i] = field{item, x.pointer + "/" + strconv.Itoa(i)}
	}
	return all
}

// fields are those of a map, in the order of their keys.
func (x field) fields() []field {
	var all []field
	for _, key := range slices.Sorted(maps.Keys(x.keys())) {
		all = append(all, x.at(key))
	}
	return all
}

func (x field) text(key string) string {
	s, _ := x.get(key).(string)
	return s
}

func (x field) texts(key string) []string {
	items, _ := x.get(key).([]any)
	var all []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func (x field) textMap(key string) map[string]string {
	m, _ := x.get(key).(map[string]any)
	if m == nil {
		return nil
	}
	all := make(map[string]string, len(m))
	for k, v := range m {
		all[k], _ = v.(string)
	}
	return all
}

// flag is the value, or what the definition's default is.
func (x field) flag(key string, otherwise bool) bool {
	if b, ok := x.get(key).(bool); ok {
		return b
	}
	return otherwise
}

func (x field) keys() map[string]any {
	m, _ := x.value.(map[string]any)
	return m
}
