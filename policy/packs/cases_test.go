package packs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCases evaluates the objects of each archive by the policies that its
// comment names (`policies: a b`), and holds what does not pass: exemptions,
// all kinds of workloads, and what is easily mistaken.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no archives", err)
	}
	tested := map[string]bool{}
	for _, file := range files {
		a := rendertest.ParseArchive(t, file)
		names := policiesOf(string(a.Comment))
		for _, name := range names {
			tested["best-practices-"+name] = true
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			cases(t, file, a, names)
		})
	}
	for _, p := range pairs(t, objects(t, newest)) {
		if !tested[p.name] {
			t.Errorf("no case for %s", p.name)
		}
	}
}

func policiesOf(comment string) []string {
	for line := range strings.Lines(comment) {
		if names, ok := strings.CutPrefix(line, "policies: "); ok {
			return strings.Fields(names)
		}
	}
	return nil
}

func cases(t *testing.T, file string, a *txtar.Archive, names []string) {
	t.Helper()
	var chosen []*render.Object
	for _, name := range names {
		chosen = append(chosen, named(t, newest, "best-practices-"+name)...)
	}
	j := newKindValidator(t, newest, chosen)
	var out strings.Builder
	for i := range a.Files {
		if a.Files[i].Name != "want" {
			all := rendertest.Parse(t, a.Files[i].Name, a.Files[i].Data)
			for _, r := range j.review(t, all) {
				line(&out, &r)
			}
			continue
		}
		if d := cmp.Diff(string(a.Files[i].Data), out.String()); d != "" && os.Getenv("UPDATE_GOLDEN") == "" {
			t.Errorf("%s:\n%s", file, d)
		}
		a.Files[i].Data = []byte(out.String())
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		rendertest.OK(t, os.WriteFile(file, txtar.Format(a), 0o644))
	}
}

func line(out *strings.Builder, r *policy.Result) {
	if r.Outcome == policy.Pass {
		return
	}
	rule := strings.TrimPrefix(r.Policy, "best-practices-") + "/" + r.Rule
	fmt.Fprintf(out, "%s %s: %s %s: %s %q\n", r.Object.Kind, r.Object.Name, r.Outcome, rule, r.Message, r.Fields)
}

func named(t *testing.T, version, name string) []*render.Object {
	t.Helper()
	for _, p := range pairs(t, objects(t, version)) {
		if p.name == name {
			return []*render.Object{p.policy, p.binding}
		}
	}
	t.Fatalf("no policy %s", name)
	return nil
}
