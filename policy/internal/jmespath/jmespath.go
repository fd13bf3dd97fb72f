// Package jmespath searches JSON values with the JMESPath of Kyverno: the
// language of jmespath.org, in which a missing key is an error of its own
// ([NotFoundError]) and to which Kyverno adds functions.
//
// The input is an expression ([Compile]) and a JSON value, or a [Scope] that loads the
// value on demand. [Expression.Search] returns the expression's value, and
// [Expression.Trace] also the places in the data that it was taken from.
//
// lex.go and parse.go make the nodes of node.go, and search.go evaluates them. table.go
// lists the functions: standard.go, arithmetic.go, text.go, regex.go, clock.go, objects.go,
// order.go, encoding.go and random.go have their code, function.go their
// arguments. place.go finds the places of a value, parted.go the results for parts of a
// list; check.go finds errors without data.
package jmespath

import "time"

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
