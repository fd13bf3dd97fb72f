package rego

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// An Error is an error of a module, at its place in the text.
type Error struct {
	Name         string // of the source; empty where it isn't known
	Line, Column int    // from 1; 0 where it isn't known
	Text         string // at most maxText bytes
}

func (e *Error) Error() string { return e.Text }

// maxText bounds what an error says: OPA quotes what it could not read.
const maxText = 2 << 10

// newError is text at a place of a module, which may be unknown.
func newError(at *ast.Location, text string) *Error {
	e := &Error{Text: shorten(text)}
	if at != nil {
		e.Name, e.Line, e.Column = at.File, at.Row, at.Col
	}
	return e
}

// shorten cuts a text that is too long to be read, between characters.
func shorten(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxText {
		return text
	}
	cut := maxText - len(" ...")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + " ..."
}

// maxErrors bounds the reported errors of one program.
const maxErrors = 50

// moduleErrors are the errors of the parser or the compiler, by place.
func moduleErrors(name string, err error) []*Error {
	var many ast.Errors
	var one *ast.Error
	var out []*Error
	switch {
	case errors.As(err, &many):
		for _, e := range many {
			out = append(out, moduleError(e))
		}
	case errors.As(err, &one):
		out = append(out, moduleError(one))
	default:
		out = append(out, newError(nil, err.Error()))
	}
	for _, e := range out {
		e.Name = cmp.Or(e.Name, name)
	}
	return tidy(out)
}

// tidy sorts errors by place, drops what is said twice, and bounds their
// number.
func tidy(errs []*Error) []*Error {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	errs = slices.CompactFunc(errs, func(a, b *Error) bool { return *a == *b })
	return errs[:min(len(errs), maxErrors)]
}

// moduleError is an error of the parser or the compiler in the user's words:
// OPA's code is dropped, for the sentence says it.
func moduleError(e *ast.Error) *Error {
	return newError(e.Location, e.Message)
}

// join makes one error of many, nil of none.
func join(errs []*Error) error {
	if len(errs) == 0 {
		return nil
	}
	out := make([]error, len(errs))
	for i, e := range errs {
		out[i] = e
	}
	return errors.Join(out...)
}

// evalError is an error of the evaluator. A conflict lists the values, which
// are left out: they may be secrets.
func evalError(e *topdown.Error) *Error {
	text := e.Message
	if e.Code == topdown.ConflictErr {
		text, _, _ = strings.Cut(text, "\n")
		text = strings.TrimSuffix(text, ":")
	}
	return newError(e.Location, text)
}
