package mutator

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// An application applies one mutator to one object
// (gatekeeper/v3/pkg/mutation/mutators/core).
type application struct {
	*Mutator
	object  map[string]any // the object that is changed
	bounds  *bounds
	changed bool // some value differs
	value   any  // see once
	written bool // for gator
}

// bounds limit the remaining work of mutators on one object.
type bounds struct {
	added int // values, in one round
	work  int // visited parts of locations, and the like
	kept  int // values of the object after each of the mutators
}

// maxAdded is the most bytes that mutators add to an object, which is at most
// 1.5 MiB. maxWork limits their running time to about a second. maxKept is how
// much of the history is kept.
const (
	maxAdded = 1 << 20
	maxWork  = 20 << 20
	maxKept  = 2 << 20
)

func newBounds() bounds { return bounds{maxAdded, maxWork, maxKept} }

var (
	errTooMuch = errors.New("adds more to the object than an API server would take")
	errTooLong = errors.New("it takes too long to apply the mutators to this object")
)

func (b *bounds) add(weight int) error {
	if b.added -= weight; b.added < 0 {
		return errTooMuch
	}
	return nil
}

func (b *bounds) step(n int) error {
	if b.work -= n; b.work < 0 {
		return errTooLong
	}
	return nil
}

func (b *bounds) keep(weight int) error {
	if b.kept -= weight; b.kept < 0 {
		return errTooLong
	}
	return b.step(weight)
}

// sharedCopy returns the copy of a value for this application. All places that are set to
// it share the copy, as in Gatekeeper: if a later mutator changes it in one place, it
// changes in all.
func (a *application) sharedCopy(v any) any {
	if a.value == nil {
		a.value = render.Copy(v)
	}
	return a.value
}

// apply changes the object in place. On error it may be half changed.
func (a *application) apply() error {
	_, _, err := a.applyAt(a.object, 0)
	return err
}

// applyAt applies the mutator at the part of the location at a depth, to the value current.
// mutated is false if a test prevented that; otherwise next is the new value.
func (a *application) applyAt(current any, depth int) (mutated bool, next any, err error) {
	if err := a.bounds.step(1); err != nil {
		return false, nil, err
	}
	if a.location[depth].list {
		list, ok := current.([]any)
		if !ok {
			return false, nil, a.mismatch(current, depth, "a list")
		}
		if depth == len(a.location)-1 {
			return a.setElement(list, depth)
		}
		return a.elements(list, depth)
	}
	object, ok := current.(map[string]any)
	if !ok {
		return false, nil, a.mismatch(current, depth, "an object")
	}
	return a.field(object, depth)
}

func (a *application) mismatch(current any, depth int, want string) error {
	return fmt.Errorf("location %s is about another kind of object: %s is %s, and should be %s", a.location, a.location[:depth], TypeName(current), want)
}

func (a *application) field(object map[string]any, depth int) (bool, any, error) {
	name := a.location[depth].name
	next, exists := object[name]
	if exists && !a.tests.existing(depth) || !exists && !a.tests.missing(depth) {
		return false, nil, nil
	}
	if depth == len(a.location)-1 {
		changed, err := a.set.setField(a, object, name)
		if err != nil {
			return false, nil, fmt.Errorf("%s: %w", a.location, err)
		}
		a.changed = a.changed || changed
		return true, object, nil
	}
	if !exists {
		next = a.missingAt(depth)
	}
	mutated, next, err := a.applyAt(next, depth+1)
	if mutated {
		object[name] = next
		a.changed = a.changed || !exists
	}
	return mutated, object, err
}

// missingAt returns the value for a missing part of the location.
func (a *application) missingAt(depth int) any {
	if a.location[depth+1].list {
		return []any{}
	}
	if p := a.location[depth]; p.list {
		return map[string]any{p.name: p.key}
	}
	return map[string]any{}
}

// elements applies the mutator to the list elements that the part at a depth selects,
// and adds one if there is none.
func (a *application) elements(list []any, depth int) (mutated bool, next any, err error) {
	p := a.location[depth]
	if p.glob && !a.tests.existing(depth) {
		return false, nil, nil
	}
	found := false
	for _, e := range list {
		if !p.glob && !p.selects(e) {
			continue
		}
		if !a.tests.existing(depth) {
			return false, nil, nil
		}
		m, _, err := a.applyAt(e, depth+1)
		if err != nil {
			return false, nil, err
		}
		mutated, found = mutated || m, true
	}
	if found || p.glob {
		return mutated, list, nil
	}
	if !a.tests.missing(depth) {
		return false, nil, nil
	}
	added := a.missingAt(depth)
	mutated, _, err = a.applyAt(added, depth+1)
	if err != nil {
		return false, nil, err
	}
	a.changed = a.changed || mutated
	return mutated, append(list[:len(list):len(list)], added), nil
}

// selects reports whether the part's key selects an element.
func (p part) selects(element any) bool {
	object, _ := element.(map[string]any)
	v, ok := object[p.name]
	return ok && p.key == v
}

// setElement replaces an element by the value, or appends it.
func (a *application) setElement(list []any, depth int) (bool, any, error) {
	p := a.location[depth]
	value, _ := a.sharedCopy(a.set.element()).(map[string]any)
	if err := a.bounds.add(Weight(value)); err != nil {
		return false, nil, err
	}
	list = append(make([]any, 0, len(list)+1), list...)
	for i, e := range list {
		if _, ok := e.(map[string]any); !ok {
			return false, nil, fmt.Errorf("location %s is about another kind of object: an element is %s, and should be an object", a.location, TypeName(e))
		}
		if !p.selects(e) {
			continue
		}
		if !a.tests.existing(depth) {
			return false, nil, nil
		}
		a.changed = a.changed || !sameJSON(e, value)
		list[i] = value
		return true, list, nil
	}
	if !a.tests.missing(depth) {
		return false, nil, nil
	}
	a.changed = true
	return true, append(list, value), nil
}

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
