// Package rego runs Rego modules for the engines whose policies are written in
// it, through OPA's parser, compiler and evaluator.
//
// In go the texts of modules; out come prepared queries, which are asked about
// inputs any number of times, by any number of goroutines. It is hermetic: a
// module that calls a built-in function which looks outside, or whose answer
// is another one tomorrow, does not compile, and each question is bounded in
// time and in what a function may make.
package rego

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/print"
)

// A Source is the text of a module.
type Source struct {
	Name    string // of the module, unique in a program; errors tell it
	Text    string
	Version ast.RegoVersion // RegoUndefined: found out as OPA does, v1 before v0
}

// An Error is what is wrong with a module, at its place in the text.
type Error struct {
	Name         string // of the source
	Line, Column int    // from 1; 0 where it isn't known
	Text         string
}

func (e *Error) Error() string { return e.Text }

// Options are what a program may do besides the pure functions of Rego.
type Options struct {
	// ExternalData makes Gatekeeper's external_data known. Asking it decides
	// nothing: Answer.Asked tells.
	ExternalData bool
}

// A Program is modules, compiled together.
type Program struct {
	compiler *ast.Compiler
}

// A Query is a reference to a rule of a program, prepared. It is safe for
// concurrent use.
type Query struct {
	program *Program
	body    ast.Body
}

// Data is what stands under data besides the rules of modules.
type Data struct {
	store storage.Store
}

// NewData takes documents by their names under data. They are read-only from
// then on.
func NewData(documents ast.Object) *Data {
	return &Data{inmem.NewFromASTObject(documents)}
}

// A Question is what a query is asked about.
type Question struct {
	Input  *ast.Term
	Data   *Data     // nil: none
	Now    time.Time // for time.now_ns
	Strict bool      // an error of a built-in function ends it, instead of being undefined
	Print  func(name string, line int, text string)
}

// An Answer is what a query said.
type Answer struct {
	Value   ast.Value // nil: undefined
	Errors  []*Error  // of built-in functions, that were undefined for them
	Unknown []string  // what was asked of that only a live cluster knows
}

// Ask evaluates the query. The error is an *Error where the program is at
// fault, as with two values for one rule.
func (q *Query) Ask(ctx context.Context, in Question) (Answer, error) {
	panic("being built")
}

var _ = []any{topdown.NewQuery, errors.New, fmt.Errorf, print.Context{}}
