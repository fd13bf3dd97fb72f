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
	Name         string // of the source; empty if unknown
	Line, Column int    // from 1; 0 if unknown
	Text         string // at most maxText bytes
}

func (e *Error) Error() string { return e.Text }

// byZero reports whether a division failed because it has no value for any number,
// which no policy does on purpose. to_number of a text without a number, in contrast,
// is left undefined by many.
func (e *Error) byZero() bool {
	return e.Text == "div: divide by zero" || e.Text == "rem: modulo by zero"
}

// maxText bounds an error's text: OPA quotes the input that it could not read.
const maxText = 2 << 10

// newError returns an error at a place of a module, which may be nil.
func newError(at *ast.Location, text string) *Error {
	e := &Error{Text: shorten(text)}
	if at != nil {
		e.Name, e.Line, e.Column = at.File, at.Row, at.Col
	}
	return e
}

// shorten cuts a long text, between characters.
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

// moduleErrors returns the errors of the parser or the compiler, sorted by place.
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

// tidy sorts errors by place, drops duplicates and bounds their number.
func tidy(errs []*Error) []*Error {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	errs = slices.CompactFunc(errs, func(a, b *Error) bool { return *a == *b })
	return errs[:min(len(errs), maxErrors)]
}

// moduleError converts an error of the parser or the compiler. It drops OPA's code,
// which repeats the sentence.
func moduleError(e *ast.Error) *Error {
	return newError(e.Location, e.Message)
}

// join joins errors; nil for none.
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

// evalError converts an error of the evaluator. It leaves out the values that a
// conflict lists, which may be secrets.
func evalError(e *topdown.Error) *Error {
	text := e.Message
	if e.Code == topdown.ConflictErr {
		text, _, _ = strings.Cut(text, "\n")
		text = strings.TrimSuffix(text, ":")
	}
	return newError(e.Location, text)
}
