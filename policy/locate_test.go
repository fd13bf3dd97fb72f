package policy

import (
	"testing"

	"github.com/preadmit/preadmit/render"
)

// TestSameAt holds that an element of a list is compared with the one of its name, and a missing
// field by the nearest one around it.
func TestSameAt(t *testing.T) {
	t.Parallel()
	container := func(name, image string) any { return map[string]any{"name": name, "image": image} }
	was := map[string]any{"containers": []any{container("old", "a:latest"), container("other", "b:1")}, "args": []any{"x"}}
	is := map[string]any{"containers": []any{container("new", "a:latest"), container("old", "a:latest"), container("other", "b:2")}, "args": []any{"x", "y"}}
	for pointer, want := range map[string]bool{
		"/containers/0/image":  false,
		"/containers/1/image":  true,
		"/containers/1/limits": true,
		"/containers/2/limits": false,
		"/containers/2/name":   true,
		"/args/0":              true,
		"/args/1":              false,
		"/args/7":              false,
		"":                     false,
	} {
		if got := sameAt(was, is, render.Path(pointer)); got != want {
			t.Errorf("%s: %v, want %v", pointer, got, want)
		}
	}
}
