package rego

import (
	"slices"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Hidden replaces text that quotes a Secret's values.
const Hidden = "not shown, since it may quote a Secret"

// Secrets lists the objects visible to rules whose values must not appear in
// output.
type Secrets []map[string]any

// Reveals reports whether a text contains a part of a Secret's values.
func (s Secrets) Reveals(text string) bool { return len(s) > 0 && cel.Reveals(text, s...) }

// Hide returns the text, or Hidden if the text reveals a Secret's values.
func (s Secrets) Hide(text string) string {
	if s.Reveals(text) {
		return Hidden
	}
	return text
}

// Fields drops the JSON pointers that are missing in the object and whose names may come from
// a Secret's values.
func (s Secrets) Fields(object any, pointers []string) []string {
	if len(s) == 0 {
		return pointers
	}
	return slices.DeleteFunc(slices.Clone(pointers), func(p string) bool {
		_, ok := render.Lookup(object, p)
		return !ok && s.Reveals(p)
	})
}
