package fixes

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
)

// made returns a text with replacements, found by lines and code points.
func made(t *testing.T, text string, all []policy.Replacement) string {
	t.Helper()
	for _, r := range slices.Backward(all) {
		lines := strings.SplitAfter(text, "\n")
		offset := func(line, column int) int {
			if line > len(lines) || line > 1 && lines[line-1] == "" {
				t.Fatalf("%+v begins or ends at line %d, and %q has %d", r, line, text, len(lines))
			}
			runes := []rune(strings.TrimRight(lines[line-1], "\r\n"))
			if column > len(runes)+1 {
				t.Fatalf("%+v is beyond the line %q", r, lines[line-1])
			}
			return len(strings.Join(lines[:line-1], "")) + len(string(runes[:column-1]))
		}
		text = text[:offset(r.Line, r.Column)] + r.Text + text[offset(r.EndLine, r.EndColumn):]
	}
	return text
}

// TestReplacements makes random edits of lines and words, and holds that their replacements make the
// edited text again, and begin and end within lines.
func TestReplacements(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	words := []string{"a: b", "  - name: 😀é", "true", "false # why?", "é😀: {x: 1}", "a: b", "", "@@ -1 +1 @@", "--- a", "\\ No newline"}
	for i := range 20000 {
		newline := []string{"\n", "\r\n"}[i%2]
		var before []string
		for range 1 + rnd.IntN(12) {
			before = append(before, words[rnd.IntN(len(words))])
		}
		after := slices.Clone(before)
		for range 1 + rnd.IntN(3) {
			k := rnd.IntN(len(after))
			switch rnd.IntN(3) {
			case 0:
				after[k] += words[rnd.IntN(len(words))]
			case 1:
				after = slices.Insert(after, k+rnd.IntN(2), words[rnd.IntN(len(words))])
			case 2:
				if len(after) > 1 {
					after = slices.Delete(after, k, k+1)
				}
			}
		}
		was, now := strings.Join(before, newline), strings.Join(after, newline)
		if i%3 > 0 {
			was, now = was+newline, now+newline
		}
		if strings.HasSuffix(was, newline) != strings.HasSuffix(now, newline) {
			continue // no edit does this
		}
		if got := made(t, was, replacements("f", was, now)); got != now {
			t.Fatalf("%q is to be %q, and is %q:\n%+v", was, now, got, replacements("f", was, now))
		}
	}
	for _, c := range []struct{ was, now, text string }{
		{"{password: x, privileged: true} # y\n", "{password: x, privileged: false} # y\n", "false"},
		{"a: 1\n", "a: 1\nb: 2\n", "\nb: 2"},
	} {
		if got := replacements("f", c.was, c.now); len(got) != 1 || got[0].Text != c.text {
			t.Errorf("%q to %q: %+v", c.was, c.now, got)
		}
	}
	for _, r := range replacements("f", "{password: x, a: true}\n{password: y, a: true}\n", "{password: x, a: false}\n{password: y, a: false}\n") {
		if r.Text != "false" {
			t.Errorf("repeats %q", r.Text)
		}
	}
}
