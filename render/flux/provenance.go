package flux

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A replaced is the Provenance of an object some of whose fields come from the
// object that deploys it.
type replaced struct {
	render.Provenance
	object *render.Object
	places map[string]string // by field: the pointer in the object that it comes from
}

// At implements render.Provenance.
func (r *replaced) At(pointer string) []render.Origin {
	if at, ok := r.places[pointer]; ok {
		return render.WithRole(r.object.At(at), render.Patch)
	}
	return at(r.Provenance, pointer)
}

// Line is called by [render.Object.Line].
func (r *replaced) Line(pointer string, n int) []render.Origin {
	if _, ok := r.places[pointer]; ok {
		return nil
	}
	return (&render.Object{Provenance: r.Provenance}).Line(pointer, n)
}

// Part is called by [render.Object.Part].
func (r *replaced) Part(pointer, part string) []render.Origin {
	if _, ok := r.places[pointer]; ok {
		return nil
	}
	return (&render.Object{Provenance: r.Provenance}).Part(pointer, part)
}

func at(p render.Provenance, pointer string) []render.Origin {
	if p == nil {
		return nil
	}
	return p.At(pointer)
}

// A substituted is the Provenance of an object in whose texts variables or
// inputs were replaced.
type substituted struct {
	inner  *render.Object // the object before substitution
	values replacements
}

// Replacements are the values that were filled into a text: variables, or
// inputs of a template.
type replacements interface {
	names(text string) []string      // names in a text
	whole(text string) bool          // text is a name and nothing else
	at(name string) []render.Origin  // where the value of a name is written
	text(name string) (string, bool) // the value of a name
	key(before, now string) bool     // substitution turns before into now
}

// At implements render.Provenance. If a field's text is only a variable, the
// variable's place comes first, else the field's.
func (s *substituted) At(pointer string) []render.Origin {
	pointer, text := s.written(pointer)
	field := s.inner.At(pointer)
	names := s.values.names(text)
	if len(names) == 0 {
		return field
	}
	var origins []render.Origin
	if !s.values.whole(text) {
		origins = slices.Clone(field)
	}
	for _, name := range names {
		origins = append(origins, render.WithRole(s.values.at(name), render.Value)...)
	}
	for _, o := range field {
		if !slices.Contains(origins, o) {
			origins = append(origins, o)
		}
	}
	return origins
}

// Line is called by [render.Object.Line].
func (s *substituted) Line(pointer string, n int) []render.Origin {
	pointer, _ = s.written(pointer)
	return s.inner.Line(pointer, n)
}

// Part implements the method that render.Object.Part looks for: a part that is
// a variable's value is written where the variable is.
func (s *substituted) Part(pointer, part string) []render.Origin {
	pointer, text := s.written(pointer)
	for _, name := range s.values.names(text) {
		if v, ok := s.values.text(name); ok && v == part {
			return append(render.WithRole(s.values.at(name), render.Value), s.inner.At(pointer)...)
		}
	}
	return s.inner.Part(pointer, part)
}

// written returns where a field was written before substitution, and its text.
// For a field that a variable's value brought, it is the text with the
// variable.
func (s *substituted) written(pointer string) (string, string) {
	var value any = s.inner.Object
	at := ""
	for _, key := range render.Path(pointer) {
		switch v := value.(type) {
		case map[string]any:
			if _, ok := v[key]; !ok {
				key = s.keyBefore(v, key)
			}
			next, ok := v[key]
			if !ok {
				return at, ""
			}
			value = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return at, ""
			}
			value = v[i]
		default:
			text, _ := value.(string)
			return at, text
		}
		at += render.Pointer(key)
	}
	text, _ := value.(string)
	return at, text
}

// keyBefore returns the key that was substituted to key.
func (s *substituted) keyBefore(m map[string]any, key string) string {
	for k := range m {
		if s.values.key(k, key) {
			return k
		}
	}
	return key
}

var (
	wholeVariable = regexp.MustCompile(`^\s*\$\{[^{}]*\}\s*$`)
	variableName  = regexp.MustCompile(`(\$*)\$\{#?([_A-Za-z][_A-Za-z0-9]*)`)
)

// namesIn returns the names of the variables in a text, each once.
func namesIn(text string) []string {
	if !strings.Contains(text, "${") {
		return nil
	}
	var names []string
	for _, m := range variableName.FindAllStringSubmatch(text, -1) {
		if len(m[1])%2 == 0 && !slices.Contains(names, m[2]) { // $${NAME} is not a variable
			names = append(names, m[2])
		}
	}
	return names
}
