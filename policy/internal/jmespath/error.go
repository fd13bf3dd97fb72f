package jmespath

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxMessage bounds the length of an error's message.
const maxMessage = 1024

// A SyntaxError is the place where an expression is not JMESPath.
type SyntaxError struct {
	Expression string
	Offset     int // in bytes
	Message    string
}

func (s *SyntaxError) Error() string { return "SyntaxError: " + s.Message }

// A NotFoundError reports a key that a map does not have.
type NotFoundError struct{ Key string }

func (n *NotFoundError) Error() string {
	return `Unknown key "` + clip(n.Key, maxMessage) + `" in path`
}

// IsNotFound reports whether an error is, or wraps, a *NotFoundError.
func IsNotFound(err error) bool {
	_, ok := errors.AsType[*NotFoundError](err)
	return ok
}

// A FunctionError reports an unknown function, or wrong arguments of a known one. Its
// text is Kyverno's.
type FunctionError struct{ Function, Message string }

func (f *FunctionError) Error() string { return f.Message }

// An UndecidedError reports that a function needs data that is not available
// offline.
type UndecidedError struct{ Function, Reason string }

func (u *UndecidedError) Error() string {
	return fmt.Sprintf("JMESPath function '%s': %s", u.Function, u.Reason)
}

// A LimitError reports a search that exceeds its limits.
type LimitError struct{ Message string }

func (l *LimitError) Error() string { return l.Message }

// errorf returns an error in the form of most functions.
func errorf(function, format string, args ...any) error {
	return plainf(function, "JMESPath function '%s': %s", function, fmt.Sprintf(format, args...))
}

// plainf returns an error that Kyverno does not prefix with the function's name.
func plainf(function, format string, args ...any) error {
	return &FunctionError{function, clip(fmt.Sprintf(format, args...), maxMessage)}
}

// plain converts another package's error to a function's.
func plain(function string, err error) error { return plainf(function, "%s", err) }

// clip shortens a text to about most bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return strings.ToValidUTF8(s[:most], "\uFFFD") + "…"
}
