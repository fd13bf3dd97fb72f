package overlay

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// JSON6902 applies a patchesJson6902 in YAML or JSON as Kyverno does with
// json-patch v5: indices may count from the end, removing a missing value
// changes nothing, and adding creates missing parents. The error names the
// operation that does not apply.
//
// The library itself is not used, because a patch can break it: it recurses without
// end after a move from "/" below "//", crashes where null is tested against a list,
// and pads lists in quadratic time.
func JSON6902(object map[string]any, patchText string) (Result, error) {
	operations, err := operations(patchText)
	if err != nil {
		return Result{}, err
	}
	root, err := clone(object, 0)
	if err != nil {
		return Result{}, err
	}
	d := document{root: root}
	for i, o := range operations {
		if err := d.apply(o); err != nil {
			return Result{}, fmt.Errorf("operation %d, %s %s: %w", i, o.Op, orRoot(deref(o.Path)), err)
		}
	}
	after, ok := d.root.(map[string]any)
	if !ok {
		return Result{}, fmt.Errorf("the patch leaves %s in place of the object", render.TypeName(d.root))
	}
	return Result{Object: after, Applied: true, Pointers: differences(object, after)}, nil
}

// An operation is of RFC 6902.
type operation struct {
	Op    string  `json:"op"`
	Path  *string `json:"path"`
	From  *string `json:"from"`
	Value given   `json:"value"`
}

// A given value may be null. If the operation has no value, is is false.
type given struct {
	is    bool
	value any
}

// UnmarshalJSON implements json.Unmarshaler.
func (g *given) UnmarshalJSON(data []byte) error {
	g.is = true
	return kjson.UnmarshalCaseSensitivePreserveInts(data, &g.value)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func operations(text string) ([]operation, error) {
	data := []byte(text)
	if !strings.HasPrefix(text, "[") {
		var err error
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return nil, errors.New("the patch is not YAML")
		}
	}
	var list []operation
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &list); err != nil {
		return nil, errors.New("the patch is not a list of operations with op, path and value")
	}
	for i, o := range list {
		if o.Path == nil {
			return nil, fmt.Errorf("operation %d has no path", i)
		}
		if (o.Op == "add" || o.Op == "replace") && !o.Value.is {
			return nil, fmt.Errorf("operation %d, %s %s, has no value", i, o.Op, orRoot(*o.Path))
		}
		if _, err := clone(o.Value.value, 0); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return list, nil
}

// A document is the object while it is patched.
type document struct {
	root   any
	copied int // values made by copies
}

// maxCopied bounds the values that the copies of one patch make: each can double the
// object.
const maxCopied = 1 << 18

func (d *document) apply(o operation) error {
	switch o.Op {
	case "add":
		return d.add(*o.Path, render.Copy(o.Value.value))
	case "remove":
		if *o.Path == "" {
			return nil // Kyverno's library looks for a field "" and finds none
		}
		err := d.remove(*o.Path)
		if errors.Is(err, errMissing) {
			return nil
		}
		return err
	case "replace":
		return d.replace(*o.Path, render.Copy(o.Value.value))
	case "test":
		return d.test(*o.Path, o.Value.value)
	case "move", "copy":
		return d.transfer(o)
	}
	return errors.New("no operation is called so")
}

func (d *document) transfer(o operation) error {
	if o.From == nil {
		return errors.New("it has no from")
	}
	value, err := d.get(*o.From)
	if err != nil {
		return fmt.Errorf("from %s: %w", orRoot(*o.From), err)
	}
	if o.Op == "move" {
		if *o.From == *o.Path {
			return nil
		}
		if strings.HasPrefix(*o.Path, *o.From+"/") {
			return errors.New("nothing can be moved into itself")
		}
		if err := d.remove(*o.From); err != nil {
			return err
		}
		return d.add(*o.Path, value)
	}
	for range render.Values(value) {
		d.copied++
	}
	if d.copied > maxCopied {
		return errors.New("the patch copies too much")
	}
	c, err := clone(value, 0)
	if err != nil {
		return err
	}
	return d.add(*o.Path, c)
}

func (d *document) get(pointer string) (any, error) {
	parts, err := split(pointer)
	if err != nil {
		return nil, err
	}
	return walk(d.root, parts)
}

// edit replaces the value at the end of a path by the result of change, which
// gets the parent and the last part of the path.
func (d *document) edit(pointer string, change func(parent any, last string) (any, error)) error {
	parts, err := split(pointer)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return errors.New("the whole object can't be")
	}
	d.root, err = rebuild(d.root, parts, change)
	return err
}

// rebuild stores the changed parent at its place, since a list that grew is a new
// list.
func rebuild(v any, parts []string, change func(parent any, last string) (any, error)) (any, error) {
	if len(parts) == 1 {
		return changed(v, parts[0], change)
	}
	child, err := walk(v, parts[:1])
	if err != nil {
		return v, err
	}
	after, err := rebuild(child, parts[1:], change)
	if err != nil {
		return v, err
	}
	switch t := v.(type) {
	case map[string]any:
		t[parts[0]] = after
	case []any:
		i, _ := index(parts[0], len(t), len(t))
		t[i] = after
	}
	return v, nil
}

func changed(v any, last string, change func(parent any, last string) (any, error)) (any, error) {
	after, err := change(v, last)
	if err != nil {
		return v, err
	}
	return after, nil
}

func (d *document) add(pointer string, value any) error {
	if pointer == "" {
		d.root = value
		return nil
	}
	parts, err := split(pointer)
	if err != nil {
		return err
	}
	if d.root, err = ensure(d.root, parts); err != nil {
		return err
	}
	return d.edit(pointer, func(parent any, last string) (any, error) {
		switch t := parent.(type) {
		case map[string]any:
			t[last] = value
			return t, nil
		case []any:
			return insert(t, last, value)
		}
		return nil, errMissing
	})
}

func (d *document) remove(pointer string) error {
	return d.edit(pointer, func(parent any, last string) (any, error) {
		switch t := parent.(type) {
		case map[string]any:
			if _, ok := t[last]; !ok {
				return nil, errMissing
			}
			delete(t, last)
			return t, nil
		case []any:
			i, err := index(last, len(t), len(t))
			if err != nil {
				return nil, err
			}
			return append(t[:i], t[i+1:]...), nil
		}
		return nil, errMissing
	})
}

func (d *document) replace(pointer string, value any) error {
	if pointer == "" {
		d.root = value
		return nil
	}
	return d.edit(pointer, func(parent any, last string) (any, error) {
		if _, err := walk(parent, []string{last}); err != nil {
			return nil, err
		}
		return putAt(parent, last, value, nil)
	})
}

// test holds if the value equals want, or if both are null or missing.
func (d *document) test(pointer string, want any) error {
	have, err := d.get(pointer)
	if errors.Is(err, errMissing) && want == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if !same(have, want) {
		return errors.New("the object has another value there")
	}
	return nil
}

// same compares JSON values; numbers by their value.
func same(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, same)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, same)
	}
	if x, ok := a.(int64); ok {
		if y, ok := b.(float64); ok {
			return y == math.Trunc(y) && float64(x) == y
		}
	}
	if x, ok := b.(int64); ok {
		if y, ok := a.(float64); ok {
			return y == math.Trunc(y) && float64(x) == y
		}
	}
	return reflect.DeepEqual(a, b)
}
