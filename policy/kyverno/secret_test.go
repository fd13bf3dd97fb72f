package kyverno

import (
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestSecretsAreNotQuoted holds that nothing that is said about a Secret, or of
// what a rule holds against one, has its values.
func TestSecretsAreNotQuoted(t *testing.T) {
	t.Parallel()
	archive := rendertest.ParseArchive(t, "testdata/rules/secret-quotes.txtar")
	got := 0
	for line := range strings.Lines(evaluateArchive(t, archive)) {
		if _, made, _ := strings.Cut(line, " "); !strings.HasPrefix(made, "sec/") {
			continue // what a mutation made of the object, which holds it
		}
		got++
		if strings.Contains(line, "aHVudGVy") || strings.Contains(line, "hunter2") {
			t.Errorf("quotes the Secret: %s", line)
		}
	}
	if got < 14 {
		t.Errorf("only %d results", got)
	}
}
