package mutator

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A number is a number of an assigned value. Gatekeeper reads only these as
// floating-point numbers, so they differ from integers while mutators run, but not in
// the result.
type number float64

// numbers returns a value with all its numbers as type number.
func numbers(v any) any {
	return render.Replace(v, func(v any) any {
		switch v := v.(type) {
		case int64:
			return number(v)
		case float64:
			return number(v)
		}
		return v
	})
}

// plain returns the number as objects hold it.
func (n number) plain() any {
	if f := float64(n); f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return int64(f)
	}
	return float64(n)
}

// withoutExternals returns a deep copy with numbers as objects hold them, without values of
// external data providers.
func withoutExternals(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if x, open := e.(*external); open && !x.had {
				continue
			}
			out[k] = withoutExternals(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withoutExternals(e)
		}
		return out
	case *external:
		return v.was
	case number:
		return v.plain()
	}
	return v
}

// Weight estimates the size of a value.
func Weight(v any) int {
	n := 0
	for key, v := range render.Values(v) {
		text, _ := v.(string)
		n += 1 + len(key)/64 + len(text)/64
	}
	return n
}

// sameJSON reports whether two values have the same JSON.
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

// exactKey returns a key that is equal for equal values only. An integer and a
// floating-point number differ.
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

// TypeName returns the type of a value, for messages that must not quote it.
func TypeName(v any) string {
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
