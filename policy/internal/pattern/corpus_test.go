package pattern

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// rows reads a table that was recorded from Kyverno, if it is here.
func rows[R any](t *testing.T, name string) []R {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../../shared/corpora/kyverno-tables", name))
	if err != nil {
		t.Skip("the recorded tables are not here")
	}
	defer f.Close()
	var found []R
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r R
		rendertest.OK(t, json.Unmarshal(lines.Bytes(), &r))
		found = append(found, r)
	}
	if len(found) == 0 {
		t.Fatal("the table is empty")
	}
	return found
}

func TestRecordedLeaves(t *testing.T) {
	t.Parallel()
	for _, r := range rows[struct {
		ID             string
		Value, Pattern any
		Match          bool
	}](t, "kyverno-pattern.jsonl") {
		if got := Leaf(r.Value, r.Pattern); got != r.Match {
			t.Errorf("%s: Leaf(%v, %v) = %v", r.ID, r.Value, r.Pattern, got)
		}
	}
}

func TestRecordedPatterns(t *testing.T) {
	t.Parallel()
	for _, r := range rows[struct {
		ID, Result, Path  string
		Resource, Pattern any
	}](t, "kyverno-match-pattern.jsonl") {
		p, err := Compile(r.Pattern)
		rendertest.OK(t, err)
		got := p.Match(r.Resource)
		if got.Status.String() != r.Result || got.Path != r.Path {
			t.Errorf("%s: %s at %q, want %s at %q\n%s", r.ID, got.Status, got.Path, r.Result, r.Path, got.Err)
		}
	}
}
