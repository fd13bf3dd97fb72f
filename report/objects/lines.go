package objects

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A Line is a line of an object's YAML. Its texts are not safe to show.
type Line struct {
	Text    string
	Pointer string      // JSON pointer of the innermost field written there
	Place   render.Span // the line that a person would edit, without a column
}

// Lines returns the lines of data, an object's YAML. display names files.
func Lines(o *render.Object, data []byte, display func(string) string) []Line {
	texts := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	lines := make([]Line, len(texts))
	header := 0
	at := linePointers(data, len(lines))
	for i, pointer := range at {
		if i == 0 || at[i-1] != pointer {
			header = i
		}
		lines[i] = Line{Text: texts[i], Pointer: pointer}
		if origins := lineOrigins(o, pointer, i-header-1); len(origins) > 0 {
			lines[i].Place = origins[0].Span
			lines[i].Place.File, lines[i].Place.Column = display(origins[0].File), 0
		}
	}
	return lines
}

// lineOrigins returns the places of a field, or of one of its lines, from 0, if it is
// a text whose lines have places of their own.
func lineOrigins(o *render.Object, pointer string, line int) []render.Origin {
	if line >= 0 {
		if origins := o.Line(pointer, line); len(origins) > 0 {
			return origins
		}
	}
	return o.At(pointer)
}

// linePointers returns for each line of an object's YAML the deepest field written
// there. A value of several lines, such as a block scalar, goes on until the next
// field.
func linePointers(data []byte, n int) []string {
	at := make([]string, n)
	docs, err := render.Documents("", slices.Clone(data), render.YAML11)
	if err != nil || len(docs) != 1 {
		return at
	}
	for pointer := range render.Fields(docs[0].Value, "") {
		key, value, _ := docs[0].Positions.Field(pointer)
		line := key.Line
		if line == 0 {
			line = value.Line // an item of a list
		}
		if line > 0 && line <= n && pointer != "" {
			at[line-1] = pointer
		}
	}
	for i := 1; i < n; i++ {
		if at[i] == "" {
			at[i] = at[i-1]
		}
	}
	return at
}

// FieldOrigins returns the places of an object's scalars, and of its empty maps and
// lists, by JSON pointer. display names files.
func FieldOrigins(o *render.Object, display func(string) string) map[string][]render.Origin {
	all := make(map[string][]render.Origin)
	for pointer, v := range render.Fields(o.Object, "") {
		m, _ := v.(map[string]any)
		list, _ := v.([]any)
		if len(m)+len(list) == 0 {
			all[pointer] = report.Displayed(o.At(pointer), display)
		}
	}
	return all
}

// WithoutLines returns notes about fields whose file, but not whose line, is known: those of
// charts in archives, and those that templates make in ways that can't be traced.
func WithoutLines(units []*render.Unit, display func(string) string) []string {
	type place struct{ unit, file string }
	counts := make(map[place]int)
	for _, u := range units {
		for _, o := range u.Objects {
			for pointer, v := range render.Fields(o.Object, "") {
				if at := o.At(pointer); pointer != "" && render.IsScalar(v) && len(at) > 0 && at[0].Line == 0 {
					counts[place{display(u.Identity()), display(at[0].File)}]++
				}
			}
		}
	}
	var notes []string
	for at, n := range counts {
		notes = append(notes, fmt.Sprintf("%s: fields of %s that come from this file, at an unknown line: %d", at.file, at.unit, n))
	}
	slices.Sort(notes)
	return notes
}
