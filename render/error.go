package render

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// An Error says why a source was not rendered, or which part of it is doubtful,
// and where. Renderers return Errors joined by errors.Join.
type Error struct {
	Span Span
	// Rule names the kind of error in kebab case, such as "yaml-syntax" or
	// "missing-dependency". Names are stable: the error's result has it as its
	// rule.
	Rule string
	// Err is a sentence in the user's terms, without place and prefix. It must
	// not quote content of files.
	Err error
	// Hint is the next step, such as "run `helm dependency build`", or "".
	Hint string
	// Missing is true if the error is only that something is not in the tree.
	Missing bool
	// Remote is the missing source, if `preadmit fetch` can bring it.
	Remote *Remote
	// Source is the missing source, such as the URL of a base, if it is no
	// Remote.
	Source string
	// Maker is the ID of the failed unit that this error follows from, or "".
	Maker string
	// Warning is true if the object was rendered nevertheless.
	Warning bool
	// Undecided is true for a Warning if the cluster may be sent another object
	// than the rendered one.
	Undecided bool
}

// MissingSource returns the name of the missing source, or "".
func (e *Error) MissingSource() string {
	if e.Remote != nil && e.Missing {
		return e.Remote.String()
	}
	return e.Source
}

// Error returns the place, if known, and the sentence.
func (e *Error) Error() string {
	if p := e.Span.String(); p != "" {
		return p + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// addresses matches pointers in values that Go printed. They differ between
// runs.
var addresses = regexp.MustCompile(`\b0x[0-9a-f]{8,16}\b`)

// Cut cuts a text to at most limit bytes, between characters. It ends in an ellipsis
// then.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:max(0, limit-len("…"))], "") + "…"
}

// WithoutAddresses replaces memory addresses in a message, so that it is the
// same in every run.
func WithoutAddresses(text string) string {
	if !strings.Contains(text, "0x") {
		return text
	}
	return addresses.ReplaceAllString(text, "0x…")
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Errors returns the *Errors that err joins, in order. It makes an *Error
// without a place of each error of another type.
func Errors(err error) []*Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return []*Error{e}
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*Error
		for _, e := range joined.Unwrap() {
			all = append(all, Errors(e)...)
		}
		return all
	}
	var e *Error
	if errors.As(err, &e) {
		return []*Error{e}
	}
	return []*Error{{Rule: "internal", Err: err}}
}

// Failures returns the *Errors that err joins, without warnings.
func Failures(err error) []*Error {
	return slices.DeleteFunc(Errors(err), func(e *Error) bool { return e.Warning })
}

// OnlyMissing reports whether all failures that err joins are of sources that are not in
// the tree. Objects that were rendered without these would be deployed with them.
func OnlyMissing(err error) bool {
	return !slices.ContainsFunc(Failures(err), func(e *Error) bool { return !e.Missing })
}
