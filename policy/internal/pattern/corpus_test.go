package pattern

import (
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

const tables = "../../../../shared/corpora/kyverno-tables/"

func TestRecordedLeaves(t *testing.T) {
	t.Parallel()
	for _, r := range rendertest.Rows[struct {
		ID             string
		Value, Pattern any
		Match          bool
	}](t, tables+"kyverno-pattern.jsonl") {
		if got := Leaf(r.Value, r.Pattern); got != r.Match {
			t.Errorf("%s: Leaf(%v, %v) = %v", r.ID, r.Value, r.Pattern, got)
		}
	}
}

func TestRecordedPatterns(t *testing.T) {
	t.Parallel()
	for _, r := range rendertest.Rows[struct {
		ID, Result, Path  string
		Resource, Pattern any
	}](t, tables+"kyverno-match-pattern.jsonl") {
		p, err := Compile(r.Pattern)
		rendertest.OK(t, err)
		got := p.Match(r.Resource)
		if got.Status.String() != r.Result || got.Path != r.Path {
			t.Errorf("%s: %s at %q, want %s at %q\n%s", r.ID, got.Status, got.Path, r.Result, r.Path, got.Err)
		}
	}
}
