package policytest

import (
	"fmt"
	"strings"
	"testing"
)

// TestKyvernoLimits holds that a small file does not ask for endless work.
func TestKyvernoLimits(t *testing.T) {
	t.Parallel()
	var pods, results strings.Builder
	for i := range 400 {
		fmt.Fprintf(&pods, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: pod-%d}\n", i)
	}
	for range 400 {
		results.WriteString("- {policy: p, rule: a, kind: Pod, result: pass}\n")
	}
	text := strings.Replace(kyvernoHead, "resources.yaml", "many.yaml", 1) + "results:\n" + results.String()
	s := runKyvernoSuite(t, text, map[string]string{"many.yaml": pods.String()}, nil)
	if len(s.Cases) > maxCases+400 || !strings.Contains(s.Error, "more than 100000 cases") {
		t.Errorf("%d cases: %s", len(s.Cases), s.Error)
	}
}

// TestKyvernoManyMisspelt holds that misspelt names are told as fast as others.
func TestKyvernoManyMisspelt(t *testing.T) {
	t.Parallel()
	names := strings.Repeat("nobody, ", 20_000)
	s := runKyvernoSuite(t, kyvernoHead+"results:\n- {policy: p, rule: a, kind: Pod, resources: ["+names+"], result: pass}\n", nil, nil)
	if len(s.Cases) != 20_000 {
		t.Errorf("%d cases", len(s.Cases))
	}
}
