package gatekeeper

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A number is a number of an assigned value. Gatekeeper reads only these as
// floating-point numbers, so they differ from integers while mutators run, but not in
// the result.
type number float64

// numbers is a value with all its numbers as numbers.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = numbers(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = numbers(e)
		}
		return out
	case int64:
		return number(v)
	case float64:
		return number(v)
	}
	return v
}

// plain is the number as objects have it.
func (n number) plain() any {
	if f := float64(n); f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return int64(f)
	}
	return float64(n)
}

// clone copies a value: what is shared within it is not any more.
func clone(v any) any { return copied(v, false) }

// settled is a clone with numbers as objects have them, and without what only
// a provider of external data knows.
func settled(v any) any { return copied(v, true) }

func copied(v any, settle bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if x, open := e.(*external); open && settle && !x.had {
				continue
			}
			out[k] = copied(e, settle)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = copied(e, settle)
		}
		return out
	case *external:
		if settle {
			return v.was
		}
	case number:
		if settle {
			return v.plain()
		}
	}
	return v
}

// weight is about how large a value is.
func weight(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			n += len(k)/64 + weight(e)
		}
	case []any:
		for _, e := range v {
			n += weight(e)
		}
	case string:
		n += len(v) / 64
	}
	return n
}

// sameJSON reports whether two values are written the same.
func sameJSON(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, sameJSON)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameJSON)
	case number:
		a = x.plain()
	}
	switch y := b.(type) {
	case map[string]any, []any:
		return false
	case number:
		b = y.plain()
	}
	return a == b
}

// exactKey is the same for values that are the same, and for no others: an
// integer is not a floating-point number.
func exactKey(v any) string {
	if s, ok := v.(string); ok {
		return `"` + s
	}
	var b strings.Builder
	writeKey(&b, v)
	return b.String()
}

func writeKey(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b.WriteString(strconv.Quote(k))
			writeKey(b, v[k])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for _, e := range v {
			writeKey(b, e)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case string:
		b.WriteString(strconv.Quote(v))
	case float64:
		writeKey(b, number(v))
	case number:
		b.WriteString("~" + strconv.FormatFloat(float64(v), 'g', -1, 64))
	default:
		fmt.Fprint(b, v)
	}
}

// typeName returns the type of a value, for messages that must not quote it.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case *external:
		return "external data"
	}
	return "a number"
}
