package crd

import (
	"errors"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

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

// A counter validates one object and gives up after maxErrors errors. Upstream
// compares each error with all earlier ones, which would take an hour for a
// hundred thousand. Errors within anyOf and the like do not count, because
// validation may succeed in spite of them.
type counter struct {
	schema *spec.Schema
	left   int // remaining errors
	below  int // errors of the children of the current value
	errors []error
}

// maxErrors is the most errors of one object that are searched for.
const maxErrors = 2_000

// exceeded reports whether there may be more errors than those found.
func (c *counter) exceeded() bool { return c.left <= 0 }

var _ validation.SchemaCreateValidator = (*counter)(nil)

// Validate implements validation.SchemaCreateValidator.
func (c *counter) Validate(value any, _ ...validation.ValidationOption) *validate.Result {
	c.left = maxErrors
	result := c.field("", c.schema, nil, "", strfmt.Default).Validate(value)
	c.errors = result.Errors
	return result
}

func (c *counter) options(o *validate.SchemaValidatorOptions) {
	o.NewValidatorForField, o.NewValidatorForIndex = c.field, c.index
}

func (c *counter) index(_ int, s *spec.Schema, root any, path string, formats strfmt.Registry, options ...validate.Option) validate.ValueValidator {
	return c.field("", s, root, path, formats, options...)
}

func (c *counter) field(_ string, s *spec.Schema, root any, path string, formats strfmt.Registry, options ...validate.Option) validate.ValueValidator {
	return &counted{validate.NewSchemaValidator(s, root, path, formats, append(options, c.options)...), c}
}

// counted validates one value.
type counted struct {
	*validate.SchemaValidator
	counter *counter
}

// Validate implements validate.ValueValidator.
func (c *counted) Validate(value any) *validate.Result {
	n := c.counter
	if n.exceeded() {
		return &validate.Result{}
	}
	before := n.below
	n.below = 0
	result := c.SchemaValidator.Validate(value)
	n.left -= max(0, len(result.Errors)-n.below)
	n.below = before + len(result.Errors)
	return result
}

// capture keeps the original errors of a validation, one for each field error
// that upstream converts them to.
type capture struct {
	validation.SchemaValidator
	errors []error
}

// ValidateUpdate implements validation.SchemaValidator.
func (c *capture) ValidateUpdate(value, old any, options ...validation.ValidationOption) *validate.Result {
	result := c.SchemaValidator.ValidateUpdate(value, old, options...)
	c.errors = result.Errors
	return result
}
