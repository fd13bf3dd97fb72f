package objects

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// A partedText is the provenance of a text with a place for each of its parts.
type partedText map[string]render.Origin

func (p partedText) At(string) []render.Origin { return []render.Origin{p[""]} }

func (p partedText) Part(_, part string) []render.Origin {
	if at, ok := p[part]; ok {
		return []render.Origin{at}
	}
	return nil
}

// TestChangedAt holds that a changed text is at the part that differs, if that has a place.
func TestChangedAt(t *testing.T) {
	t.Parallel()
	at := func(line int) render.Origin { return render.Origin{Span: render.Span{File: "values.yaml", Line: line}} }
	image := func(text string) *render.Object {
		return &render.Object{
			Unstructured: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": text}}},
			Provenance:   partedText{"": at(1), "latest": at(3), "ä:latest": at(2)},
		}
	}
	for _, c := range []struct {
		was, is string
		line    int
	}{
		{"web:v1", "web:latest", 3},
		{"web:v1", "web:v2", 1},
		{"web", "web:latest", 1},
		{"web:latest", "web", 1},
		{"a/ö:latest", "a/ä:latest", 2},
	} {
		if got := changedAt(image(c.was), image(c.is)); got[0].Line != c.line {
			t.Errorf("%s to %s: line %d, want %d", c.was, c.is, got[0].Line, c.line)
		}
	}
}
