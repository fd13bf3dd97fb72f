package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render"
)

// An unmet error is a condition that the object doesn't meet. In a list it skips one
// element; elsewhere, and for <() anywhere, the whole patch.
type unmet struct {
	global bool
	key    string
}

func (u *unmet) Error() string { return "the object does not meet the condition at " + u.key }

// preprocess returns the patch without its anchors, as they apply to this
// object. It changes the patch. The error is an [unmet] if the anchors exclude
// the object. As in Kyverno, a condition on a field of the object itself that sets
// something, such as (spec), keeps its anchor, so it sets a field of that name.
//
// Source: Kyverno's pkg/engine/mutate/patch, before it merges.
func preprocess(patch, object map[string]any) (map[string]any, error) {
	if err := processMap(patch, object); err != nil {
		return nil, err
	}
	var r remover
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		a, _ := pattern.ParseKey(key)
		value, gone := r.remove(patch[key], isConditional(a))
		if patch[key] = value; gone {
			delete(patch, key)
		}
	}
	return patch, r.err
}

// missing is the object's value at a place that it does not have, unlike null.
type missing struct{}

// processMap applies the anchors of a map of the patch. object is the object's value
// at the same place, or missing.
func processMap(patch map[string]any, object any) error {
	there, _ := object.(map[string]any)
	addMissing(patch, there)
	for _, anchor := range []pattern.Anchor{pattern.Global, pattern.Condition} {
		if err := checkConditions(patch, there, anchor); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		if isAnchor(key) {
			continue
		}
		inner, ok := there[key]
		if !ok {
			inner = missing{}
		}
		value, err := process(patch[key], inner)
		if err != nil {
			return err
		}
		patch[key] = value
	}
	return nil
}

// process returns the value of the patch after its anchors; maps are changed
// in place.
func process(value, object any) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		return v, processMap(v, object)
	case []any:
		if len(v) == 0 {
			return v, nil
		}
		if _, ok := v[0].(map[string]any); ok {
			return processList(v, object)
		}
	}
	return value, nil
}

// isAnchor reports whether a key of a patch has an anchor.
func isAnchor(key string) bool {
	a, _ := pattern.ParseKey(key)
	return a == pattern.Addition || isConditional(a)
}

func isConditional(a pattern.Anchor) bool { return a == pattern.Condition || a == pattern.Global }

// addMissing applies +(): if the object has the key, even as null, the key is removed
// from the patch, else it becomes a plain key. It reports whether there was any.
func addMissing(patch, object map[string]any) bool {
	found := false
	for _, raw := range slices.Sorted(maps.Keys(patch)) {
		a, key := pattern.ParseKey(raw)
		if a != pattern.Addition {
			continue
		}
		found = true
		value := patch[raw]
		delete(patch, raw)
		if _, has := object[key]; !has {
			patch[key] = value
		}
	}
	return found
}

// checkConditions checks the object against the conditions of one kind. A condition
// whose value adds fields only requires the key.
func checkConditions(patch, object map[string]any, kind pattern.Anchor) error {
	for _, raw := range slices.Sorted(maps.Keys(patch)) {
		a, key := pattern.ParseKey(raw)
		if a != kind {
			continue
		}
		failed := &unmet{global: kind == pattern.Global, key: key}
		there, has := object[key]
		if !has {
			return failed
		}
		if within, ok := patch[raw].(map[string]any); ok {
			if inner, _ := there.(map[string]any); addMissing(within, inner) {
				continue
			}
		}
		p, err := pattern.Compile(scalarText(patch[raw]))
		if err != nil {
			return err
		}
		if p.Match(scalarText(there)).Status != pattern.Pass {
			return failed
		}
	}
	return nil
}

// scalarText converts scalars to the text of a YAML node, which conditions of
// patches compare.
func scalarText(v any) any {
	switch v := v.(type) {
	case map[string]any, []any, string:
		return v
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// processList replaces each element with anchors by one for each element of the
// object that it matches, by name. As in Kyverno all are compared with the same copy,
// from which earlier ones may have removed keys.
func processList(list []any, object any) ([]any, error) {
	there, ok := object.([]any)
	_, absent := object.(missing)
	if object != nil && !ok && !absent {
		return nil, fmt.Errorf("the patch has a list where the object has %s", render.TypeName(object))
	}
	result := list
	for _, e := range list {
		if !hasAnchors(e, isAnchor) {
			continue
		}
		made, err := processElement(e, there, absent)
		if err != nil {
			return nil, err
		}
		result = append(result, made...)
	}
	return result, nil
}

// processElement returns the patches for an element with anchors. Elements with
// <() only require that some element of the object meets them.
func processElement(element any, there []any, absent bool) (made []any, err error) {
	global := hasAnchors(element, isGlobal)
	shared := render.Copy(element)
	var failed *unmet
	met := false
	for _, o := range there {
		shared, err = processShared(shared, o)
		var e *unmet
		switch {
		case errors.As(err, &e):
			if e.global {
				failed = e
			}
		case err != nil:
			return nil, err
		case global:
			met = true
		default:
			if made, err = appendNamed(made, shared, o); err != nil {
				return nil, err
			}
		}
	}
	if absent {
		var e *unmet
		if _, err = processShared(shared, missing{}); err != nil && (!errors.As(err, &e) || e.global) {
			return nil, err
		}
	}
	if failed != nil && !met {
		return nil, failed
	}
	return made, nil
}

// processShared is process that keeps the value on an error.
func processShared(shared, object any) (any, error) {
	after, err := process(shared, object)
	if err != nil {
		return shared, err
	}
	return after, nil
}

// appendNamed appends the element, without conditions, for an element of the
// object that has a name.
func appendNamed(made []any, element, there any) ([]any, error) {
	o, _ := there.(map[string]any)
	name := o["name"]
	if empty(name) {
		return made, nil
	}
	var r remover
	e, ok := render.Copy(element).(map[string]any)
	if !ok || r.removeFromMap(e) || r.err != nil {
		return made, r.err
	}
	e["name"] = render.Copy(name)
	return append(made, e), nil
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// hasAnchors looks for keys anywhere in a value. A text that looks like a
// condition counts too, as it does in Kyverno.
func hasAnchors(v any, is func(key string) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			if is(key) || !empty(e) && hasAnchors(e, is) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return hasAnchors(e, is) })
	case string:
		a, _ := pattern.ParseKey(v)
		return strings.HasSuffix(v, ")") && isConditional(a)
	}
	return false
}

func isGlobal(key string) bool {
	a, _ := pattern.ParseKey(key)
	return a == pattern.Global
}

// A remover removes conditions. err says what it can't remove.
type remover struct{ err error }

// removeConditions removes from a map the fields that are only compared, and the
// anchors from other keys. It removes maps that become empty, since merging them
// would remove the object's own fields.
func (r *remover) removeConditions(m map[string]any) {
	for _, raw := range slices.Sorted(maps.Keys(m)) {
		a, key := pattern.ParseKey(raw)
		value, gone := r.remove(m[raw], isConditional(a))
		delete(m, raw)
		switch {
		case gone:
		case isConditional(a):
			m[key] = value
		default:
			m[raw] = value
		}
	}
}

// remove returns a value without conditions, and whether nothing is left of it.
// If scalars is true, scalars are conditions.
func (r *remover) remove(v any, scalars bool) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, r.removeFromMap(v)
	case []any:
		left := r.removeFromList(v)
		return left, len(left) == 0 && len(v) > 0
	}
	return v, scalars
}

// removeFromMap reports whether nothing is left, or the map was empty before.
func (r *remover) removeFromMap(m map[string]any) bool {
	r.removeConditions(m)
	return len(m) == 0
}

// removeFromList drops the elements with anchors, which processList has replaced. If
// there are several, that is an error: Kyverno drops wrong ones instead, so the object loses
// elements, or crashes.
func (r *remover) removeFromList(list []any) []any {
	left := make([]any, 0, len(list))
	for _, e := range list {
		if hasAnchors(e, isAnchor) {
			continue
		}
		if value, gone := r.remove(e, false); !gone {
			left = append(left, value)
		}
	}
	if len(list)-len(left) > 1 {
		r.err = errors.New("several elements of a list have anchors, or only conditions: Kyverno drops the wrong elements or crashes")
	}
	return left
}
