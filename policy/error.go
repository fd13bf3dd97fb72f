package policy

import (
	"errors"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A NamedError is an error about a policy. Errors sets the name in the result.
type NamedError struct {
	Policy string
	Err    error
}

func (n *NamedError) Error() string { return n.Err.Error() }

// Unwrap returns Err.
func (n *NamedError) Unwrap() error { return n.Err }

// ErrorAt returns an error about the field of a policy at a JSON pointer.
func ErrorAt(o *render.Object, pointer, rule string, err error) *render.Error {
	return &render.Error{Span: o.Span(pointer), Rule: rule, Err: &NamedError{Policy: o.GetName(), Err: ShortError(err)}}
}

// MaxMessage limits the bytes of a message, which may quote values of objects.
const MaxMessage = 4 << 10

// ShortError returns err, shortened to at most [MaxMessage] bytes of text.
func ShortError(err error) error {
	if s := err.Error(); len(s) > MaxMessage {
		return errors.New(Shorten(s, MaxMessage))
	}
	return err
}

// UnknownField returns the path in `unknown field "spec.foo"`, an error of strict decoding.
func UnknownField(err error) string {
	_, rest, _ := strings.Cut(err.Error(), `"`)
	path, _, _ := strings.Cut(rest, `"`)
	return path
}
