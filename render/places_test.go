package render_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// The file `ask` of a case holds the pointers to look up in each object of
// x.yaml, one a line.
func TestPlaces(t *testing.T) {
	t.Parallel()
	rendertest.Run(t, "testdata/places", func(t *testing.T, fsys fs.FS) string {
		data, err := fs.ReadFile(fsys, "x.yaml")
		rendertest.OK(t, err)
		ask, err := fs.ReadFile(fsys, "ask")
		rendertest.OK(t, err)
		objects, err := render.Parse("x.yaml", data)
		var b strings.Builder
		for _, o := range objects {
			fmt.Fprintf(&b, "%s %s\n", o.GetKind(), o.GetName())
			for _, pointer := range strings.Split(strings.TrimSuffix(string(ask), "\n"), "\n") {
				showPlaces(&b, strings.Split(string(data), "\n"), o, pointer)
			}
		}
		for _, e := range render.Errors(err) {
			fmt.Fprintf(&b, "error %s [%s]\n", e, e.Rule)
		}
		return b.String()
	})
}

func showPlaces(b *strings.Builder, lines []string, o *render.Object, pointer string) {
	fmt.Fprintf(b, "  %q\n", pointer)
	for _, origin := range o.At(pointer) {
		runes := []rune(lines[origin.Line-1])
		fmt.Fprintf(b, "    %s %s %s\n", origin, origin.Role, string(runes[origin.Column-1:origin.EndColumn-1]))
	}
	key, value, ok := o.Provenance.(*render.Positions).Field(pointer)
	if ok && (value.EndLine > value.Line || key.EndLine > key.Line) {
		fmt.Fprintf(b, "    from %d:%d to %d:%d\n", value.Line, value.Column, value.EndLine, value.EndColumn)
	}
}

// Line ends and marks that editors hide change no place.
func TestPlacesAsInEditors(t *testing.T) {
	t.Parallel()
	doc := "apiVersion: v1\nkind: Pod\nmetadata: {name: é, labels: {ключ: '😀 x'}}\n---\n# second\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n"
	show := func(data string) []string {
		objects, err := render.Parse("x.yaml", []byte(data))
		rendertest.OK(t, err)
		var all []string
		for _, o := range objects {
			for _, p := range []string{"", "/kind", "/metadata/labels/ключ", "/metadata/name", "/metadata/nope"} {
				all = append(all, fmt.Sprint(o.At(p)))
			}
		}
		return all
	}
	want := show(doc)
	if got := want[2]; got != "[x.yaml:3:36]" {
		t.Errorf("got %v", got)
	}
	for _, data := range []string{
		"\ufeff" + doc, strings.ReplaceAll(doc, "\n", "\r\n"), "\ufeff" + strings.ReplaceAll(doc, "\n", "\r\n"), strings.Replace(doc, "---\n", "---\n\ufeff", 1),
		strings.TrimSuffix(doc, "\n"),
	} {
		if got := show(data); !slices.Equal(got, want) {
			t.Errorf("%q:\n%v, want\n%v", data, got, want)
		}
	}
}
