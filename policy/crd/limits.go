package crd

import (
	"errors"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Limits on objects and schemas. Real objects are far below them. Beyond them
// the API server's validation, which is limited only by the size and time of a
// request, takes minutes or gigabytes.
const (
	maxValues   = 250_000   // values in an object
	maxInBranch = 20_000    // the same, if branches of the schema contain lists or maps
	maxPaths    = 128 << 20 // bytes of the paths of all its values, each written out
	maxMatch    = 64 << 20  // steps of matching a pattern: instructions times bytes
	maxMatches  = 4 << 30   // steps of all matches
	maxBranches = 20 << 20  // values times the schemas that may validate each
)

var (
	errTooLarge   = errors.New("the object is too large to be checked")
	errTooComplex = errors.New("the schema's patterns or branches are too much to be tried on this object")
	// errTooMuch is the error for a definition that is refused before it is
	// compiled.
	errTooMuch = errors.New("its validation rules are too many to be checked")
	// errTooManyErrors is the error for an update whose unchanged values may be
	// invalid.
	errTooManyErrors = errors.New("too many values violate the schema to compare them with the old object")
)

// A weight estimates the cost of evaluating an object.
type weight struct {
	values, paths, longest, bytes int
}

func (w *weight) add(tree any, path int) {
	w.values++
	w.paths += path
	switch v := tree.(type) {
	case string:
		w.longest = max(w.longest, len(v))
		w.bytes += len(v)
	case []any:
		for _, child := range v {
			w.add(child, path+8)
		}
	case map[string]any:
		for key, child := range v {
			w.add(child, path+len(key)+1)
		}
	}
}

// A load estimates the cost of validating one value by a schema.
type load struct {
	instructions int  // of its largest pattern
	branches     int  // most schemas that validate one value
	lists        bool // branches contain lists or maps
	defaults     int  // values in its defaults
}

func loadOf(written map[string]any) load {
	var l load
	if written == nil {
		return l
	}
	spine(spot{written, ""}, func(s spot) {
		l.pattern(s.node)
		var w weight
		w.add(s.node["default"], 0)
		l.defaults += w.values
		n := 1
		for _, b := range branches(s.node) {
			n += l.count(b)
		}
		l.branches = max(l.branches, n)
	})
	return l
}

func (l *load) pattern(node map[string]any) {
	if p, ok := node["pattern"].(string); ok {
		l.instructions = max(l.instructions, cel.Instructions(p))
	}
}

// count counts the schemas in a branch.
func (l *load) count(node map[string]any) int {
	l.pattern(node)
	n := 1
	for _, b := range branches(node) {
		n += l.count(b)
	}
	for _, c := range children(node) {
		l.lists = l.lists || c.pointer == "/items" || c.pointer == "/additionalProperties"
		n += l.count(c.node)
	}
	return n
}

// refuse returns the reason why objects are not checked with a schema, or nil.
func (l load) refuse(tree any) error {
	var w weight
	w.add(tree, 0)
	switch {
	case w.values > maxValues || w.paths > maxPaths || l.lists && w.values > maxInBranch:
		return errTooLarge
	case w.longest*l.instructions > maxMatch || w.bytes*l.instructions > maxMatches || w.values*l.branches > maxBranches:
		return errTooComplex
	}
	return nil
}

// Limits on the rules of one definition. Compiling takes about a second for
// each 50 KB of the worst expressions.
const (
	maxRules       = 5_000
	maxExpressions = 512 << 10
)

// tooManyRules reports whether a definition has more rules than any real one.
func tooManyRules(object map[string]any) bool {
	count, size := 0, 0
	for _, v := range render.Values(object["spec"]) {
		schema, _ := v.(map[string]any)
		rules, _ := schema[validationsKey].([]any)
		for _, r := range rules {
			rule, ok := r.(map[string]any)
			if !ok {
				continue
			}
			count++
			for _, key := range []string{"rule", "messageExpression"} {
				text, _ := rule[key].(string)
				size += len(text)
			}
		}
	}
	return count > maxRules || size > maxExpressions
}

const validationsKey = "x-kubernetes-validations"

// refuseDefinition returns the reason why a definition is not checked, or nil.
func refuseDefinition(object map[string]any) error {
	if tooManyRules(object) {
		return errTooMuch
	}
	for i := range versionNames(object) {
		written, _ := render.Lookup(object, schemaPointer(object, i))
		schema, _ := written.(map[string]any)
		l := loadOf(schema)
		l.lists = l.lists || l.defaults > maxInBranch
		if err := l.refuse(schema); err != nil {
			return err
		}
	}
	return nil
}
