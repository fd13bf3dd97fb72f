package authz

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/preadmit/preadmit/render"
)

// A reader reads a document strictly: everything unexpected is an error at its
// line.
type reader struct {
	file      string
	ruleName  string // of the errors
	positions *render.Positions
	errs      []error
}

// readDocument decodes a file with one mapping. It returns nil and an error if
// there is none.
func readDocument(file string, data []byte, ruleName, want string) (*reader, map[string]any, error) {
	r := &reader{file: file, ruleName: ruleName}
	docs, err := render.Documents(file, data, render.YAML11)
	if err != nil {
		for _, e := range render.Errors(err) {
			r.errs = append(r.errs, e)
		}
		return nil, nil, r.done()
	}
	if len(docs) != 1 {
		return nil, nil, r.error(render.Span{File: file}, "want one document that holds %s, there are %d", want, len(docs))
	}
	r.positions = docs[0].Positions
	m, ok := docs[0].Value.(map[string]any)
	if !ok {
		return nil, nil, r.error(docs[0].Span, "want a mapping that holds %s", want)
	}
	return r, m, nil
}

func (r *reader) error(s render.Span, format string, args ...any) error {
	return &render.Error{Span: s, Rule: r.ruleName, Err: fmt.Errorf(format, args...)}
}

// fail records an error about the field at a pointer.
func (r *reader) fail(pointer, format string, args ...any) {
	r.errs = append(r.errs, r.error(r.span(pointer), format, args...))
}

// span returns where a field is written: its key, else its value.
func (r *reader) span(pointer string) render.Span {
	if at := r.positions.At(pointer); len(at) > 0 {
		return at[0].Span
	}
	return render.Span{File: r.file}
}

// keySpan returns where the key of a field is written.
func (r *reader) keySpan(pointer string) render.Span {
	if key, _, ok := r.positions.Field(pointer); ok && key != (render.Span{}) {
		return key
	}
	return r.span(pointer)
}

// maxErrors limits the reported errors of one file.
const maxErrors = 10

// done returns the recorded errors, ordered by place.
func (r *reader) done() error {
	slices.SortStableFunc(r.errs, func(a, b error) int {
		x, y := place(a), place(b)
		if x.Line != y.Line {
			return x.Line - y.Line
		}
		return x.Column - y.Column
	})
	if more := len(r.errs) - maxErrors; more > 0 {
		r.errs = append(r.errs[:maxErrors:maxErrors], r.error(render.Span{File: r.file}, "and %d more errors", more))
	}
	return errors.Join(r.errs...)
}

func place(err error) render.Span {
	var e *render.Error
	if errors.As(err, &e) {
		return e.Span
	}
	return render.Span{}
}

// known records an error for each unexpected key of a mapping.
func (r *reader) known(m map[string]any, pointer string, keys ...string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if slices.Contains(keys, k) {
			continue
		}
		at := r.keySpan(pointer + render.Pointer(k))
		r.errs = append(r.errs, r.error(at, "unknown key %q; %s", shorten(k), render.Instead(k, keys)))
	}
}

// text reads a string.
func (r *reader) text(m map[string]any, pointer, name string) (string, bool) {
	v, there := m[name]
	if !there {
		return "", false
	}
	s, ok := v.(string)
	if !ok {
		r.fail(pointer+render.Pointer(name), "%s: want text%s", name, quoteIt(v))
	}
	return s, ok
}

// texts reads a string or a non-empty list of strings.
func (r *reader) texts(m map[string]any, pointer, name string) []string {
	v, there := m[name]
	if !there {
		return nil
	}
	at := pointer + render.Pointer(name)
	list, ok := v.([]any)
	switch {
	case !ok:
		s, ok := r.text(m, pointer, name)
		if !ok {
			return nil
		}
		return []string{s}
	case len(list) == 0:
		r.fail(at, "%s: an empty list matches nothing; leave the key out to match anything", name)
	}
	return r.strings(list, at, name)
}

// item returns the pointer of the i-th string that texts read.
func item(m map[string]any, pointer, name string, i int) string {
	if _, ok := m[name].([]any); ok {
		return pointer + render.Pointer(name, i)
	}
	return pointer + render.Pointer(name)
}

// strings reads the items of a list of strings.
func (r *reader) strings(list []any, at, name string) []string {
	var out []string
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			r.fail(at+render.Pointer(i), "%s: want text%s", name, quoteIt(v))
			continue
		}
		out = append(out, s)
	}
	return out
}

// quoteIt returns a hint for a scalar that is not a string.
func quoteIt(v any) string {
	switch v.(type) {
	case bool, int64, float64:
		return "; put it in quotes"
	}
	return ""
}

func shorten(s string) string { return render.Cut(s, 64) }
