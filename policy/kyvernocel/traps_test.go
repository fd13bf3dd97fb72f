package kyvernocel

import (
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestTraps holds small policies, each about one thing that implementations
// get wrong, against what Kyverno's command line says about them.
func TestTraps(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(corpora, "kyverno-traps", "vpol")
	rendertest.SkipWithout(t, dir)
	read := func(name string) []*render.Object {
		data := rendertest.ReadFile(t, filepath.Join(dir, name))
		return rendertest.Parse(t, name, data)
	}
	kinds := kindsOf(t)
	e, err := New(read("policy.yaml"), Options{CLI: true, Kinds: kinds})
	rendertest.OK(t, err)
	said := map[string]Response{}
	for _, o := range read("resources.yaml") {
		responses, err := e.Respond(context.Background(), requestOf(kinds, o, policy.Create), &Mocks{})
		rendertest.OK(t, err)
		for _, r := range responses {
			said[r.Policy.Name+" default/"+o.GetKind()+"/"+o.GetName()] = r
		}
	}
	f, err := os.Open(filepath.Join(dir, "expected.tsv"))
	rendertest.OK(t, err)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	rendertest.OK(t, err)
	for _, row := range rows[1:] {
		got := said[row[0]+" "+row[2]]
		if !strings.EqualFold(string(got.Status), row[3]) || row[4] != "skip" && got.Message != row[4] {
			t.Errorf("%s on %s: %s %q, want %s %q", row[0], row[2], got.Status, got.Message, row[3], row[4])
		}
	}
	if len(rows) < 60 {
		t.Errorf("%d rows only", len(rows))
	}
}
