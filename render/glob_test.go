package render_test

import (
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "abc", true},
		{"*", "a/b", false},
		{"**", "a/b", true},
		{"a/*", "a/b", true},
		{"a/*", "a/b/c", false},
		{"a/**", "a/b/c", true},
		{"a/**", "a", false},
		{"**/web", "apps/Deployment/prod/web", true},
		{"apps/*/prod/*", "apps/Deployment/prod/web", true},
		{"apps/*/prod/*", "apps/Deployment/dev/web", false},
		{"/Pod/*/w*b", "/Pod/prod/web", true},
		{"p/validations[0]", "p/validations[0]", true},
		{"p/validations[*]", "p/validations[12]", true},
		{"p/validations[0]", "p/validations0", false},
		{"a?c", "abc", false},
		{"***", "a/b", true},
		{"*é", "caffé", true},
	} {
		if got := render.Glob(c.pattern, c.text); got != c.want {
			t.Errorf("Glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
	// A pattern that makes a backtracking matcher try for ever.
	if render.Glob(strings.Repeat("*a", 2000)+"b", strings.Repeat("a", 4000)) {
		t.Error("a text without b matches")
	}
}
