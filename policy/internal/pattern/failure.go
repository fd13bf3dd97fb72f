package pattern

import (
	"fmt"
	"strconv"
	"strings"
)

// A failure is a mismatch and its place. Its message is formatted only when
// needed.
type failure struct {
	status   Status // Fail, unless Skip
	negation bool   // of X(): never an error, whichever keys are missing
	direct   bool   // a skip by an anchor of the map itself, not from below

	path    string // in Kyverno's form
	pointer string

	text           message
	key            string
	value, pattern any
	causes         []*failure
}

// A message selects one of Kyverno's sentences.
type message uint8

const (
	mismatch message = iota
	differentStructures
	notSatisfied
	notFound
	notAllowed
	emptyPattern
	lengthMismatch
	existenceOfNoList
	existencePatternNoList
	existencePatternNoMap
	existenceFailed
	conditionKeyMissing
	conditionMismatch
	globalMismatch
	combined
)

// fail returns a failure at the current value.
func (m *matcher) fail(f failure) *failure {
	if f.status != Skip {
		f.status = Fail
	}
	f.path, f.pointer = m.path(m.len), m.pointer()
	return &f
}

// literals returns the texts in the value that negated wildcards of the pattern match.
func (f *failure) literals() (found []string) {
	value, ok := f.value.(string)
	p, isText := f.pattern.(string)
	if !ok || !isText {
		return nil
	}
	for _, all := range alternatives(p) {
		for _, t := range all {
			if t.op == notEqual && t.isWild && !t.matches(value) {
				found = append(found, Texts(t.text)...)
			}
		}
	}
	return found
}

// path returns the first length segments in Kyverno's form.
func (m *matcher) path(length int) string {
	var b strings.Builder
	b.WriteByte('/')
	for i := range length {
		if s := m.segment(i); s.index >= 0 {
			b.WriteString(strconv.Itoa(s.index))
		} else {
			b.WriteString(s.key)
		}
		b.WriteByte('/')
	}
	return b.String()
}

func (m *matcher) pointer() string {
	var b strings.Builder
	for i := range m.len {
		b.WriteString(pointerTo(m.segment(i)))
	}
	return b.String()
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

func pointerTo(s segment) string {
	if s.index >= 0 {
		return "/" + strconv.Itoa(s.index)
	}
	return "/" + escape.Replace(s.key)
}

// maxText limits the length of a message.
const maxText = 4 << 10

// Error formats a failure as Kyverno does.
func (f *failure) Error() string {
	var b strings.Builder
	f.write(&b)
	return truncate(b.String())
}

func truncate(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "..."
}

func (f *failure) write(b *strings.Builder) {
	if b.Len() > maxText {
		return
	}
	switch f.text {
	case conditionMismatch:
		b.WriteString("conditional anchor mismatch: ")
		f.causes[0].write(b)
	case globalMismatch:
		b.WriteString("global anchor mismatch: ")
		f.causes[0].write(b)
	case combined:
		for i, cause := range f.causes {
			if i > 0 {
				b.WriteString("; ")
			}
			cause.write(b)
		}
	default:
		b.WriteString(f.sentence())
	}
}

func (f *failure) sentence() string {
	switch f.text {
	case mismatch:
		return fmt.Sprintf("resource value '%s' does not match '%s' at path %s", show(f.value), show(f.pattern), f.path)
	case differentStructures:
		return fmt.Sprintf("pattern and resource have different structures. Path: %s. Expected %T, found %s", f.path, f.pattern, goType(f.value))
	case notSatisfied:
		return fmt.Sprintf("validation rule failed at path %s, resource does not satisfy the expected overlay pattern", f.path)
	case notFound:
		return fmt.Sprintf("%s/%s not found", f.path, f.key)
	case notAllowed:
		return fmt.Sprintf("negation anchor matched in resource: %s is not allowed", f.path)
	case emptyPattern:
		return "pattern Array empty"
	case lengthMismatch:
		return fmt.Sprintf("validate Array failed, array length mismatch, resource Array len is %d and pattern Array len is %d", f.value, f.pattern)
	case existenceOfNoList:
		return fmt.Sprintf("invalid resource type %s: Existence ^ () anchor can be used only on list/array type resource", goType(f.value))
	case existencePatternNoList:
		return fmt.Sprintf("invalid pattern type %s: Pattern has to be of list to compare against resource", goType(f.pattern))
	case existencePatternNoMap:
		return "invalid pattern type []interface {}: Pattern has to be of type map to compare against items in resource"
	case existenceFailed:
		return "existence anchor validation failed at path " + f.path
	default:
		return "conditional anchor mismatch: conditional anchor key doesn't exist in the resource"
	}
}

// goType returns the Go type of a value in Kyverno, where every number is a float64.
func goType(v any) string {
	if _, ok := Number(v); ok {
		return "float64"
	}
	return fmt.Sprintf("%T", v)
}

// show formats a value as Kyverno's messages do: numbers as floats.
func show(v any) string {
	return truncate(fmt.Sprint(floats(v, maxDepth)))
}

func floats(v any, depth int) any {
	if f, ok := Number(v); ok {
		return f
	}
	if depth == 0 {
		return "..."
	}
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[k] = floats(x, depth-1)
		}
		return m
	case []any:
		s := make([]any, len(v))
		for i, x := range v {
			s[i] = floats(x, depth-1)
		}
		return s
	}
	return v
}
