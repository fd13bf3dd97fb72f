package render

import (
	"errors"
	"regexp"
	"strings"
)

// An Error is why something was not rendered, or not as it stands, with its
// place. Joined with others by errors.Join, it is what renderers return.
type Error struct {
	Span Span
	// Rule is the stable, kebab-case name of what went wrong, which is the
	// rule of the result made of it: "yaml-syntax", "missing-dependency".
	Rule string
	// Err is a sentence about the user's world without place or prefix. It
	// holds no content of files.
	Err error
	// Hint is the next step, if there is one: "run `helm dependency build`".
	Hint string
	// Missing says that nothing is wrong with what is there: what it needs
	// is not in the tree.
	Missing bool
	// Remote is what `preadmit fetch` would bring to mend it, if anything.
	Remote *Remote
	// Source names a missing source that is no Remote, such as the URL of a base.
	Source string
	// Warning says that the object was rendered all the same.
	Warning bool
	// Undecided says of a Warning that nobody knows what a cluster would be sent.
	Undecided bool
}

// MissingSource names the source that is missing, or is empty.
func (e *Error) MissingSource() string {
	if e.Remote != nil && e.Missing {
		return e.Remote.String()
	}
	return e.Source
}

// Error is the place, if known, and the sentence.
func (e *Error) Error() string {
	if p := e.Span.String(); p != "" {
		return p + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// addresses are pointers of Go in printed values, which differ between runs.
var addresses = regexp.MustCompile(`\b0x[0-9a-f]{8,16}\b`)

// WithoutAddresses takes the addresses of values in memory out of a message.
func WithoutAddresses(text string) string {
	if !strings.Contains(text, "0x") {
		return text
	}
	return addresses.ReplaceAllString(text, "0x…")
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Errors takes a joined error apart into its *Error leaves, in order. A leaf
// of another type becomes an *Error without a place.
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

func onlyMissing(err error) bool {
	for _, e := range Errors(err) {
		if !e.Missing && !e.Warning {
			return false
		}
	}
	return true
}
