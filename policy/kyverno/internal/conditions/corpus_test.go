package conditions

import (
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestRecordedConditions(t *testing.T) {
	t.Parallel()
	rows := rendertest.Rows[struct {
		ID, Operator string
		Key, Value   any
		Result       bool
	}](t, "../../../../../shared/corpora/kyverno-tables/kyverno-conditions.jsonl")
	for _, r := range rows {
		if got := Compare(r.Operator, r.Key, r.Value); got != r.Result {
			t.Errorf("%s: %v %s %v is %v", r.ID, r.Key, r.Operator, r.Value, got)
		}
	}
	if len(rows) < 100 {
		t.Errorf("only %d rows", len(rows))
	}
}
