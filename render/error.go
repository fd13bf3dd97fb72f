package render

import (
	"errors"
	"io/fs"
	"path"
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
	// Upgrade is true if the error is that an upgrade of a release can't be rendered.
	Upgrade bool
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

// addresses matches pointers in values that Go printed, and printed structures with pointers, such as a
// map that CEL names as a key: their order differs between runs, too.
var addresses = regexp.MustCompile(`(?s)&\{[^&]*?\b0x[0-9a-f]{8,16}\}|\b0x[0-9a-f]{8,16}\b`)

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
	return addresses.ReplaceAllStringFunc(text, func(found string) string {
		if found[0] == '&' {
			return "{…}"
		}
		return "0x…"
	})
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

// Nearest returns the one of names that the user most likely meant by name, or
// "". It differs in letter case, separators or number, begins with name, or is
// one or two typing errors away.
func Nearest(name string, names []string) string {
	names = slices.Sorted(slices.Values(names))
	plain := plainName(name)
	best, bestDistance := "", slips(plain)+1
	for _, n := range names {
		if d := distance(plain, plainName(n), bestDistance); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	if best != "" || len(plain) < 3 {
		return best
	}
	begun := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(plainName(n), plain) })
	if len(begun) == 1 {
		return begun[0]
	}
	return ""
}

// DidYouMean returns "did you mean NAME?" with the nearest of the names, or "" if
// none is near.
func DidYouMean(name string, names []string) string {
	if near := Nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// Meant returns the name in what DidYouMean returned, or "" for other texts.
func Meant(hint string) string {
	name, begins := strings.CutPrefix(hint, "did you mean ")
	name, ends := strings.CutSuffix(name, "?")
	if !begins || !ends || strings.Contains(name, " ") {
		return ""
	}
	return name
}

// Instead returns what to suggest for a wrong name: the nearest of the names,
// or else all of them.
func Instead(name string, names []string) string {
	if s := DidYouMean(name, names); s != "" {
		return s
	}
	return "there are " + strings.Join(names, ", ")
}

// Alike reports whether two names differ only in letter case, separators or
// number, or, if they are long, by one typing error.
func Alike(a, b string) bool {
	const long = 8
	a, b = plainName(a), plainName(b)
	return a == b || min(len(a), len(b)) >= long && distance(a, b, 2) < 2
}

// NearFile returns "; did you mean NAME?" with a file or directory beside name
// that has a similar name, or "" if there is none. shown is the name as the
// user wrote it.
func NearFile(tree fs.FS, name, shown string) string {
	entries, err := fs.ReadDir(tree, path.Dir(name))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	meant := Nearest(path.Base(name), names)
	if meant == "" {
		return ""
	}
	return "; did you mean " + shown[:len(shown)-len(path.Base(shown))] + meant + "?"
}

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// plainName returns a name in lower case, without separators and plural.
func plainName(s string) string {
	s = separators.Replace(strings.ToLower(s))
	if y, ok := strings.CutSuffix(s, "ies"); ok {
		return y + "y"
	}
	return strings.TrimSuffix(s, "s")
}

// slips returns how many typing errors a name of this length may have.
func slips(name string) int {
	switch n := len(name); {
	case n < 3:
		return 0
	case n < 5:
		return 1
	default:
		return 2
	}
}

// distance returns how many letters must be inserted, removed, changed or
// swapped with the next to turn a into b, up to limit.
func distance(a, b string, limit int) int {
	if len(a) > 100 || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
