package jmespath

import (
	"errors"
	"fmt"
)

// A SyntaxError says where an expression is not JMESPath.
type SyntaxError struct {
	Expression string
	Offset     int // in bytes
	Message    string
}

func (e *SyntaxError) Error() string { return "SyntaxError: " + e.Message }

// A NotFoundError says that a map lacks a key.
type NotFoundError struct{ Key string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("Unknown key %q in path", e.Key) }

// IsNotFound says whether an error is, or wraps, a *NotFoundError.
func IsNotFound(err error) bool {
	_, ok := errors.AsType[*NotFoundError](err)
	return ok
}

// An UndecidedError says that a function needs what is not there offline.
type UndecidedError struct{ Function, Reason string }

func (e *UndecidedError) Error() string {
	return fmt.Sprintf("JMESPath function '%s': %s", e.Function, e.Reason)
}

// A LimitError says that a search grew beyond its bounds.
type LimitError struct{ Message string }

func (e *LimitError) Error() string { return e.Message }
