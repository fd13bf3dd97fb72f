// Package rego compiles and evaluates Rego modules for the engines whose policies
// are written in Rego, with OPA's parser, compiler and evaluator.
//
// It takes the texts of modules and returns prepared queries. A query can be
// evaluated on any number of inputs, by several goroutines at once. It also returns
// the places of the input that a violation depends on. Modules can't reach the
// outside: one that calls a built-in function which connects somewhere, reads the
// environment, or answers differently from run to run does not compile. Each
// evaluation is bounded in time and in memory.
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
	Name    string // of the module, unique in a program; errors tell it
	Text    string
	Version ast.RegoVersion // RegoUndefined: found out as OPA does, v1 before v0
	// NoMetadata reads "# METADATA" comments as comments, as Gatekeeper does;
	// otherwise they are annotations, and broken ones are errors.
	NoMetadata bool
}

// Options allow a program more than the pure functions of Rego.
type Options struct {
	// ExternalData makes Gatekeeper's external_data known. Asking it decides
	// nothing: it is undefined, and Answer.Unknown tells.
	ExternalData bool
	// Time limits one question; zero is five seconds.
	Time time.Duration
	// Cover has the outcomes of expressions counted; nil counts nothing.
	Cover Cover
}

// Data is what stands under data besides the rules of modules.
type Data struct {
	documents *ast.Term
	store     storage.Store
	txn       storage.Transaction
}

// NewData takes documents by their names under data. They are read-only from
// then on.
func NewData(documents ast.Object) *Data {
	store := inmem.NewFromASTObject(documents)
	// Nothing ever writes, so that one reading transaction serves all
	// questions. It takes no context that could end it.
	txn, _ := store.NewTransaction(context.Background())
	return &Data{ast.NewTerm(documents), store, txn}
}

// A Question is the input of a query.
type Question struct {
	Input  *ast.Term // nil: undefined
	Open   []Open    // places of the input that are unknown
	Data   *Data     // nil: none
	Now    time.Time // for time.now_ns; the zero time is not known
	Strict bool      // an error of a built-in function ends it, instead of being undefined
	// Print gets what print() says, with its place. nil: nobody listens.
	Print func(name string, line int, text string)
	// Inside keeps what blame finds out about the input, for other questions
	// about the same one. nil: it is found out each time.
	Inside *Inside
}

// An Answer is the result of a query.
type Answer struct {
	Value   ast.Value // nil: undefined
	Errors  []*Error  // of built-in functions, which were undefined for them
	Unknown []string  // what was asked of that only a live cluster knows
}
