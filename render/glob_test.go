package render_test

import (
	"fmt"
	"regexp"
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

// FuzzGlob holds a pattern against the regular expression that it stands for.
func FuzzGlob(f *testing.F) {
	f.Add("apps/*/prod/**", "apps/Deployment/prod/web")
	f.Add("**a*", "b/ca")
	f.Add("***", "\n/")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		var b strings.Builder
		b.WriteString(`(?s)\A`)
		for rest := pattern; rest != ""; {
			stars := len(rest) - len(strings.TrimLeft(rest, "*"))
			switch stars {
			case 0:
				b.WriteString(fmt.Sprintf(`\x{%02x}`, rest[0]))
				stars = 1
			case 1:
				b.WriteString(`[^/]*`)
			default:
				b.WriteString(`.*`)
			}
			rest = rest[stars:]
		}
		re, err := regexp.Compile(b.String() + `\z`)
		if err != nil || len(pattern) > 200 {
			return
		}
		latin := make([]rune, len(text)) // a byte a character, as Glob compares
		for i := range len(text) {
			latin[i] = rune(text[i])
		}
		if got, want := render.Glob(pattern, text), re.MatchString(string(latin)); got != want {
			t.Errorf("Glob(%q, %q) = %v", pattern, text, got)
		}
	})
}
