// Package jmespath searches JSON values with the JMESPath of Kyverno: the
// language of jmespath.org, in which a missing key is an error of its own
// ([NotFoundError]) and to which Kyverno adds functions.
//
// The input is an expression ([Compile]) and a JSON value, or a [Scope] that loads the
// value on demand. [Expression.Search] returns the expression's value, and
// [Expression.Trace] also the places in the data that it was taken from.
//
// lex.go and parse.go make the nodes of node.go, and search.go evaluates them. function.go
// lists the functions and checks their arguments; standard.go, arithmetic.go, text.go,
// clock.go and encoding.go have their code. place.go finds the places of a value.
package jmespath

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// An Expression is compiled, and safe for concurrent use.
type Expression struct {
	text string
	root node
	path []*field // of an expression of the form a.b.c
	made bool     // whether it can make lists or maps, which may be endless when printed
}

// A Scope is the root of data that is loaded on demand: Lookup loads a field of the
// root, and All loads the whole root (for @ and *). Their errors end the search,
// except a *NotFoundError.
type Scope interface {
	Lookup(name string) (value any, found bool, err error)
	All() (map[string]any, error)
}

// Options are inputs of a search besides its data. The zero value never reads the
// clock.
type Options struct {
	// Now returns the time. If nil, calls that need it fail with an *UndecidedError.
	Now func() time.Time
	// Decides makes calls that give a random text fail with an *UndecidedError. Otherwise they
	// give an example.
	Decides bool
	// Assumed is called with each assumption of the result. It may be nil.
	Assumed func(string)
	Limits  Limits
	// Spent counts the steps and the text of searches, so that a caller can limit
	// several. It may be nil.
	Spent *int
}

// Limits bound a search, which beyond them fails with a *LimitError. Zero means the
// default.
type Limits struct {
	Steps int // values visited
	Bytes int // of text made by functions
}

// Compile parses an expression. The error is a *SyntaxError. As in Kyverno an unknown
// function is an error of the search only: see [Known].
func Compile(expression string) (*Expression, error) {
	root, err := parse(expression)
	if err != nil {
		return nil, err
	}
	e := &Expression{text: expression, root: root}
	e.path = plainPath(root)
	e.made = makesContainers(root)
	return e, nil
}

// String returns the source of the expression.
func (e *Expression) String() string { return e.text }

// Search returns the expression's value of data: a JSON value (map[string]any,
// []any, string, bool, nil, float64, int64), or a Scope. It does not
// change data, and the result may share memory with it and with the expression.
// o may be nil.
//
// Besides the errors of the Scope there are *NotFoundError, *FunctionError,
// *UndecidedError and *LimitError.
func (e *Expression) Search(data any, o *Options) (any, error) {
	if e.path != nil {
		return walk(data, e.path)
	}
	s := newSearch(o)
	out, err := s.run(e, val{v: data})
	return out.v, err
}

// Trace is Search that also returns JSON pointers to the fields of data that the value
// comes from, the deciding one first: for || the operand that decided, for filters and
// projections the elements that passed, for functions their arguments. For a
// *NotFoundError it is the place where the key would be; for another error, the
// arguments of the function. There may be none, and there are at most 256.
func (e *Expression) Trace(data any, o *Options) (value any, pointers []string, err error) {
	s := newSearch(o)
	s.tracing = true
	out, err := s.run(e, val{v: data, at: &place{inData: true}})
	return out.v, out.at.pointers(), err
}

func (s *search) run(e *Expression, in val) (val, error) {
	steps, bytes := s.steps, s.bytes
	out, err := e.root.eval(s, in)
	if err == nil && e.made {
		err = s.spendValues(out.v)
	}
	if s.options != nil && s.options.Spent != nil {
		*s.options.Spent += steps - s.steps + (bytes-s.bytes)/bytesPerStep
	}
	if err != nil {
		out.v = nil
	}
	return out, err
}

// walk searches a path of fields.
func walk(data any, path []*field) (any, error) {
	in := val{v: data}
	for _, f := range path {
		out, err := f.eval(&untraced, in)
		if err != nil {
			return nil, err
		}
		in = out
	}
	return in.v, nil
}

// untraced is passed to nodes that only check whether to trace.
var untraced search

// Check returns the *FunctionError that every search fails with if it evaluates the
// call: an unknown function, too many or too few arguments, or a literal that is not
// a regular expression.
func (e *Expression) Check() error {
	var err error
	visit(e.root, true, func(n node, _ bool) {
		if c, ok := n.(*call); ok && err == nil {
			err = c.staticError()
		}
	})
	return err
}

func (c *call) staticError() error {
	if c.function == nil {
		return c.unknown()
	}
	if err := c.arity(len(c.args)); err != nil {
		return err
	}
	named, ok := regexFunctions[c.name]
	if !ok {
		return nil
	}
	text, _ := c.args[0].(*constant)
	if text == nil {
		return nil
	}
	source, _ := text.v.(string)
	if _, err := parseRegex(source); err != nil {
		return regexError(c.name, err, named)
	}
	return nil
}

// regexFunctions are the functions whose first argument is a regular expression. The
// value is whether their errors quote it.
var regexFunctions = map[string]bool{"regex_match": false, "regex_replace_all": true, "regex_replace_all_literal": true}

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
