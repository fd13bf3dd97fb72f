package render

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// A Span is a place in a file of the tree. Lines and columns count from 1,
// columns in Unicode code points; ends are exclusive. Line 0 means the whole
// file. The zero Span is an unknown place.
type Span struct {
	File      string `json:"file"` // slash-separated, from the root of the tree
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	EndLine   int    `json:"endLine"`
	EndColumn int    `json:"endColumn"`
}

// String returns the start as file:line:column, without the parts that are
// unknown; the zero Span gives "".
func (s Span) String() string {
	switch {
	case s.Line == 0:
		return s.File
	case s.Column == 0:
		return fmt.Sprintf("%s:%d", s.File, s.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", s.File, s.Line, s.Column)
	}
}

// A Role says how a place determined a field.
type Role string

// The roles, as in the JSON report.
const (
	Manifest  Role = "manifest"  // the field itself, in plain YAML or a kustomize base
	Value     Role = "value"     // a leaf of a values file, or a flag that sets a value
	Template  Role = "template"  // the template line that wrote the field
	Patch     Role = "patch"     // a kustomize patch, image, replica count or other transformer
	Generated Role = "generated" // a generator's entry
	Reference Role = "reference" // a reference to the source, such as a resources entry or a HelmRelease
)

// An Origin is one of the places that determined a field.
type Origin struct {
	Span
	Role Role `json:"role"`
}

// WithRole returns a copy of origins with another role.
func WithRole(origins []Origin, role Role) []Origin {
	origins = slices.Clone(origins)
	for i := range origins {
		origins[i].Role = role
	}
	return origins
}

// Provenance knows where the fields of one object are written. It is safe for
// concurrent use.
type Provenance interface {
	// At returns the places that determined the field at an RFC 6901 JSON
	// pointer; the first is the line a person would edit. For a field that the
	// object lacks it returns those of the nearest ancestor.
	At(pointer string) []Origin
}

// File is the Provenance of an object whose file is known, but not its lines.
type File Origin

// At returns the file for every pointer.
func (f File) At(string) []Origin { return []Origin{Origin(f)} }

// Pointer returns the RFC 6901 JSON pointer with the path elements, which must
// be strings (keys) and ints (indices).
func Pointer(path ...any) string {
	var b strings.Builder
	for _, e := range path {
		b.WriteByte('/')
		switch e := e.(type) {
		case int:
			b.WriteString(strconv.Itoa(e))
		case string:
			b.WriteString(escape.Replace(e))
		default:
			fmt.Fprint(&b, e)
		}
	}
	return b.String()
}

// IsScalar reports whether a value is neither a mapping nor a list.
func IsScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// PathPointer returns the JSON pointer with the keys of a path.
func PathPointer(path []string) string {
	var b strings.Builder
	for _, key := range path {
		b.WriteByte('/')
		b.WriteString(escape.Replace(key))
	}
	return b.String()
}

// FieldPointer converts a field path of a Kubernetes error, such as
// spec.rules[0].host, to a JSON pointer.
func FieldPointer(path string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		b.WriteString(Pointer(part))
	}
	return b.String()
}

// FieldPath converts a JSON pointer to a field path as Kubernetes writes it,
// such as spec.rules[0].host.
func FieldPath(pointer string) string {
	var b strings.Builder
	for _, part := range Path(pointer) {
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(part)
	}
	return b.String()
}

// Path returns the unescaped elements of a JSON pointer; "" has none.
func Path(pointer string) []string {
	pointer = strings.TrimSuffix(pointer, keyMark)
	if pointer == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, p := range parts {
		parts[i] = segment(p)
	}
	return parts
}

// keyMark ends the pointer of a field's key. No other pointer holds it: "~" is written "~0".
const keyMark = "~#"

// KeyOf returns a pointer to the key of a field, for [Object.At] and [Object.Span]. Where it is not known
// where the key is written, it leads to the field.
func KeyOf(pointer string) string { return pointer + keyMark }

// FieldOfKey returns the pointer that KeyOf was given, and whether pointer is its result.
func FieldOfKey(pointer string) (field string, is bool) { return strings.CutSuffix(pointer, keyMark) }

// segments goes through a pointer's segments, as Path returns them.
func segments(pointer string) iter.Seq[string] {
	return func(yield func(string) bool) {
		pointer = strings.TrimSuffix(pointer, keyMark)
		rest, more := strings.TrimPrefix(pointer, "/"), pointer != ""
		for more {
			var part string
			part, rest, more = strings.Cut(rest, "/")
			if !yield(segment(part)) {
				return
			}
		}
	}
}

func segment(escaped string) string {
	if strings.Contains(escaped, "~") {
		return unescape.Replace(escaped)
	}
	return escaped
}

// Lookup returns the value at a JSON pointer in a value tree.
func Lookup(value any, pointer string) (any, bool) {
	for key := range segments(pointer) {
		switch v := value.(type) {
		case map[string]any:
			child, ok := v[key]
			if !ok {
				return nil, false
			}
			value = child
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// Part returns the places that made the first occurrence of part in a field
// that is a text. A text that was made of several values, such as an image of
// repository and tag, has a place for each. It returns nil if only the places
// of the whole field are known.
func (o *Object) Part(pointer, part string) []Origin {
	if o == nil || part == "" {
		return nil
	}
	if p, ok := o.Provenance.(interface {
		Part(pointer, part string) []Origin
	}); ok {
		return p.Part(pointer, part)
	}
	return nil
}
