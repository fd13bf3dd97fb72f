package crd

import (
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// A counter is a schema's validation of one object that gives up after a
// number of errors: upstream compares each with all before it, and an object
// with a hundred thousand would take an hour. It gives up only along the
// structure, where every error counts, and not within anyOf and the like.
type counter struct {
	schema *spec.Schema
	left   int // errors it goes on for
	below  int // errors of the children of the value at hand
	errors []error
}

// maxErrors is how many errors of one object are looked for.
const maxErrors = 2_000

// exceeded says that there may be more errors than those found.
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

// counted is the validation of one value.
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

// capture keeps the errors of a validation beside the field errors that
// upstream makes of them, one for one.
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
