package policy

import (
	"strings"
	"testing"
)

func TestShorten(t *testing.T) {
	t.Parallel()
	if got := Shorten("short", 10); got != "short" {
		t.Error(got)
	}
	if got := Shorten(strings.Repeat("é", 5000), 4096); len(got) > 4096 || !strings.HasSuffix(got, "… (shortened)") || strings.ContainsRune(got, '�') {
		t.Error(len(got), got[len(got)-30:])
	}
}
