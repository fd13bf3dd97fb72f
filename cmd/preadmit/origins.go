package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
)

// originsYAML prints an object's YAML with the place of each line before it, as
// `git blame` does: the line that a person would edit.
func originsYAML(w io.Writer, t *tree, o *render.Object, data []byte) error {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	places := make([]string, len(lines))
	width, header := 0, 0
	at := pointers(data, len(lines))
	for i, pointer := range at {
		if i == 0 || at[i-1] != pointer {
			header = i
		}
		places[i] = originOf(t, o, pointer, i-header-1)
		width = max(width, utf8.RuneCountInString(places[i]))
	}
	for i, line := range lines {
		if _, err := fmt.Fprintf(w, "%-*s | %s\n", width, places[i], line); err != nil {
			return err
		}
	}
	return nil
}

// originOf is the first place of a field as file:line, or that of a line, from
// 0, of a text that is known line by line.
func originOf(t *tree, o *render.Object, pointer string, line int) string {
	var origins []render.Origin
	if line >= 0 {
		origins = o.Line(pointer, line)
	}
	if len(origins) == 0 {
		origins = o.At(pointer)
	}
	if len(origins) == 0 {
		return ""
	}
	s := origins[0].Span
	s.File, s.Column = t.Display(s.File), 0
	return plain(s.String())
}

// pointers returns for each line of an object's YAML the field that is written
// there, the deepest one. What has lines of its own, such as a block scalar,
// goes on until the next field.
func pointers(data []byte, n int) []string {
	at := make([]string, n)
	docs, err := render.Documents("", slices.Clone(data), render.YAML11)
	if err != nil || len(docs) != 1 {
		return at
	}
	fields(docs[0].Value, "", func(pointer string, _ any) {
		key, value, _ := docs[0].Positions.Field(pointer)
		line := key.Line
		if line == 0 {
			line = value.Line // an item of a list
		}
		if line > 0 && line <= n && pointer != "" {
			at[line-1] = pointer
		}
	})
	for i := 1; i < n; i++ {
		if at[i] == "" {
			at[i] = at[i-1]
		}
	}
	return at
}

// fields calls f for each map, list and scalar of a value, the outer ones first.
func fields(v any, pointer string, f func(pointer string, v any)) {
	f(pointer, v)
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fields(v[key], pointer+render.Pointer(key), f)
		}
	case []any:
		for i, item := range v {
			fields(item, pointer+render.Pointer(i), f)
		}
	}
}

// fieldOrigins are the places of an object's scalars, and of its empty maps and
// lists, by JSON pointer.
func fieldOrigins(t *tree, o *render.Object) map[string][]render.Origin {
	all := make(map[string][]render.Origin)
	fields(o.Object, "", func(pointer string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) > 0 {
				return
			}
		case []any:
			if len(v) > 0 {
				return
			}
		}
		all[pointer] = displayed(t, o.At(pointer))
	})
	return all
}

func displayed(t *tree, origins []render.Origin) []render.Origin {
	origins = slices.Clone(origins)
	for i := range origins {
		origins[i].File = t.Display(origins[i].File)
	}
	return origins
}

// coarse says of which fields no line is known, only the file: those of charts
// in archives, and what templates make in ways that can't be traced.
func coarse(in *input) []string {
	type place struct{ unit, file string }
	counts := make(map[place]int)
	for _, u := range in.head {
		for _, o := range u.Objects {
			fields(o.Object, "", func(pointer string, v any) {
				if at := o.At(pointer); pointer != "" && render.IsScalar(v) && len(at) > 0 && at[0].Line == 0 {
					counts[place{in.tree.Display(u.Identity()), in.tree.Display(at[0].File)}]++
				}
			})
		}
	}
	var notes []string
	for at, n := range counts {
		notes = append(notes, fmt.Sprintf("%s: %d fields of %s are known by this file alone, not by a line", at.file, n, at.unit))
	}
	slices.Sort(notes)
	return notes
}
