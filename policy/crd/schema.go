package crd

import (
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

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
