package triage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/preadmit/preadmit/render"
)

// TestUsesAt holds which fields a position determines: those whose value is there, also in several
// lines, or else those of the line.
func TestUsesAt(t *testing.T) {
	t.Parallel()
	o := new(render.Object)
	span := func(line, column, endLine, endColumn int) render.Span {
		return render.Span{File: "f", Line: line, Column: column, EndLine: endLine, EndColumn: endColumn}
	}
	f := &fileUses{list: []use{
		{o, "/a", span(1, 5, 1, 8)},
		{o, "/b", span(1, 12, 1, 14)},
		{o, "/b", span(1, 13, 1, 14)},
		{o, "/text", span(2, 5, 5, 1)},
		{o, "/in", span(3, 3, 3, 6)},
		{o, "/line", span(7, 1, 0, 0)},
	}}
	for _, c := range []struct {
		line, column int
		want         []string
	}{
		{1, 6, []string{"/a"}},
		{1, 8, []string{"/a"}},
		{1, 13, []string{"/b"}},
		{1, 10, []string{"/a", "/b"}},
		{2, 1, []string{"/text"}},
		{3, 4, []string{"/text", "/in"}},
		{3, 9, []string{"/text"}},
		{4, 1, []string{"/text"}},
		{5, 1, nil},
		{6, 1, nil},
		{7, 3, []string{"/line"}},
	} {
		var got []string
		for _, x := range f.at(c.line, c.column) {
			got = append(got, x.pointer)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", fmt.Sprint(c.line, ":", c.column), got, c.want)
		}
	}
}
