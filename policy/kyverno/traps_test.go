package kyverno

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestTraps asks what Kyverno's binary was asked where others go wrong. What
// the rows do not name gave no response.
func TestTraps(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"conditions", "patterns-1", "patterns-2", "update-enforce", "validate-cel-vap"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(corpora, "kyverno-traps", name)
			rows := rendertest.ReadOrSkip(t, filepath.Join(dir, "expected.tsv"))
			holdTraps(t, string(rows), trapResponses(t, dir))
		})
	}
}

func holdTraps(t *testing.T, rows string, said []Response) {
	t.Helper()
	byRule := map[string]Response{}
	for _, r := range said {
		byRule[r.Policy.Name+"/"+r.Name] = r
	}
	wanted := map[string]bool{}
	for _, row := range strings.Split(strings.TrimSpace(rows), "\n")[1:] {
		c := append(strings.Split(row, "\t"), "")
		key := c[0] + "/" + c[1]
		if c[1] == "" {
			continue // a ValidatingAdmissionPolicy
		}
		wanted[key] = true
		r, ok := byRule[key]
		if !ok {
			t.Errorf("%s: no response, want %s %s", key, c[3], c[4])
			continue
		}
		if !strings.EqualFold(string(r.Status), c[3]) || !sameMessage(r.Message, c[4]) {
			t.Errorf("%s:\n\twant %s %s\n\tgot  %s %s", key, c[3], c[4], r.Status, r.Message)
		}
	}
	for key, r := range byRule {
		if !wanted[key] {
			t.Errorf("%s: %s %s, want no response", key, r.Status, r.Message)
		}
	}
}

// sameMessage compares without white space, and without the frames that the
// binary draws around multi-line texts.
func sameMessage(a, b string) bool {
	strip := func(s string) string { return spaceless(strings.ReplaceAll(s, "|", "")) }
	return strip(a) == strip(b)
}

func trapResponses(t *testing.T, dir string) []Response {
	t.Helper()
	engine, err := New(objectsOf(t, dir, []string{"policy.yaml"}), Options{CLI: true})
	if err != nil {
		t.Log(err)
	}
	op := policy.Create
	if args, err := os.ReadFile(filepath.Join(dir, "args.txt")); err == nil && strings.Contains(string(args), "UPDATE") {
		op = policy.Update
	}
	var all []Response
	for _, o := range prepared(objectsOf(t, dir, []string{"resources.yaml"})) {
		rs, err := engine.Respond(context.Background(), requestFor(o, op), &Mocks{})
		rendertest.OK(t, err)
		all = append(all, rs...)
	}
	return all
}
