// Package jmespath searches JSON values with the JMESPath of Kyverno: the
// language of jmespath.org, in which a missing key is an error of its own
// ([NotFoundError]) and to which Kyverno adds functions.
//
// In goes an expression ([Compile]) and a JSON value, or a [Scope] that loads
// it as it is asked for; out come a value and, from [Expression.Trace], where
// in the data it was taken from.
package jmespath

import "time"

// An Expression is compiled, and safe for concurrent use.
type Expression struct{ text string }

// A Scope is the root of data that is loaded as it is asked for. A field of
// the root is a Lookup; what reads the whole root (@, *) is All.
type Scope interface {
	Lookup(name string) (value any, found bool, err error)
	All() (map[string]any, error)
}

// Options are what a search may use beside its data. The zero value decides
// nothing by the clock.
type Options struct {
	// Now is the time. Nil makes calls that need it an *UndecidedError.
	Now func() time.Time
	// Random gives a string that a regular expression matches. Nil stands for
	// one that is the same every time, and is told to Assumed.
	Random func(regex string) (string, error)
	// Assumed hears what the result rests on. It may be nil.
	Assumed func(string)
	Limits  Limits
}

// Limits bound a search. A zero is the default.
type Limits struct {
	Steps int // values looked at
	Bytes int // of the text that functions make
}

// Compile reads an expression. The error is a *SyntaxError.
func Compile(expression string) (*Expression, error) { return &Expression{text: expression}, nil }

// String is the expression as it was written.
func (e *Expression) String() string { return e.text }

// Search gives the expression's value of data: a JSON value (map[string]any,
// []any, string, bool, nil, float64, int64), or a Scope. It changes nothing in
// data, and what it returns may share parts with it. o may be nil.
func (e *Expression) Search(data any, o *Options) (any, error) { return nil, nil }

// Trace is Search, and says as JSON pointers into data where the value was
// taken from, the telling place first: for || what decided, for filters and
// projections the elements that passed, for functions their arguments. Of a
// *NotFoundError it is where the key would be.
func (e *Expression) Trace(data any, o *Options) (value any, pointers []string, err error) {
	return nil, nil, nil
}

// Roots are the names of the root that the expression reads, sorted; "@" among
// them stands for the whole root.
func (e *Expression) Roots() []string { return nil }

// Functions are the names of the functions that the expression calls, sorted.
func (e *Expression) Functions() []string { return nil }
