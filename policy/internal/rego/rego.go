// Package rego compiles and evaluates Rego modules for the engines whose policies
// are written in Rego, with OPA's parser, compiler and evaluator.
//
// It takes the texts of modules and returns prepared queries. A query can be
// evaluated on any number of inputs, by several goroutines at once. It also returns
// the places of the input that a violation depends on. Modules can't reach the
// outside: one that calls a built-in function which connects somewhere, reads the
// environment, or answers differently from run to run does not compile. Each
// evaluation is bounded in time and in memory.
//
// The files:
//
//   - compile.go: from texts to a [Program]; capabilities.go lists the built-in
//     functions and replaces some, guard*.go estimate what they allocate
//   - ask.go answers a question: by plan.go, machine.go and machinewalk.go, which evaluate
//     most rules several times faster than OPA, else by OPA; bound.go limits both,
//     results.go keeps results of functions
//   - blame.go finds the places of the input that a violation depends on: trace.go watches
//     an evaluation, origin.go follows values to the input; resolve.go, read.go and
//     succeed.go find the places that an expression read. It also reads those that a
//     violation's own details name
//   - cover.go counts branches; value.go converts values, notes reads of unknown
//     places and hides values of Secrets
package rego

import (
	"context"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// A Source is the text of a module.
type Source struct {
	Name    string // of the module, unique in a program; errors name it
	Text    string
	Version ast.RegoVersion // RegoUndefined: v1 if it parses, else v0, as in OPA
	// NoMetadata reads "# METADATA" comments as comments, as Gatekeeper does;
	// otherwise they are annotations, and broken ones are errors.
	NoMetadata bool
}

// Options configure the compilation of a program.
type Options struct {
	// ExternalData defines Gatekeeper's external_data. A call is undefined, and
	// Answer.Unknown names the provider.
	ExternalData bool
	// Time limits one question; zero is five seconds.
	Time time.Duration
	// Cover counts the outcomes of expressions; nil counts nothing.
	Cover Cover
}

// Data holds the documents under data, besides the rules of modules.
type Data struct {
	documents *ast.Term
	store     storage.Store
	txn       storage.Transaction
}

// NewData returns documents by their names under data. The caller must not change
// them afterwards.
func NewData(documents ast.Object) *Data {
	store := inmem.NewFromASTObject(documents)
	// Nothing ever writes, so one read transaction serves all questions. Its context
	// never ends.
	txn, _ := store.NewTransaction(context.Background())
	return &Data{ast.NewTerm(documents), store, txn}
}

// A Question is the input of a query.
type Question struct {
	Input *ast.Term // nil: undefined
	Open  []Open    // places of the input that are unknown
	Data  *Data     // nil: none
	Now   time.Time // for time.now_ns; zero: unknown
	// Print gets the output of print(), with its place; nil discards it.
	Print func(name string, line int, text string)
	// Inside keeps data about the input for other questions about the same input; nil
	// keeps nothing.
	Inside *Inside
}

// An Answer is the result of a query.
type Answer struct {
	Value   ast.Value // nil: undefined
	Errors  []*Error  // of built-in functions, whose calls were undefined
	ByZero  []*Error  // those of divisions by zero
	Unknown []string  // needs that only a live cluster can answer
}
