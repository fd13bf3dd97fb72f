package helm

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCuts holds the cutting of outputs against Helm's regular expression.
func TestCuts(t *testing.T) {
	t.Parallel()
	separator := regexp.MustCompile(`(?:^|\s*\n)---\s*`)
	tokens := []string{"---", "\n", "\n", " ", "\t", "a: b", "-", "#", "\r\n", "\u0085", "---\n---", "é", "\f", "\v"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(tokens[random.IntN(len(tokens))])
		}
		text := b.String()
		var want, got []string
		for _, doc := range separator.Split(strings.TrimSpace(text), -1) {
			if doc = strings.TrimSpace(doc); doc != "" {
				want = append(want, doc)
			}
		}
		for _, cut := range cuts(text) {
			got = append(got, text[cut[0]:cut[1]])
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%q (-regexp +ours):\n%s", text, d)
		}
	}
}
