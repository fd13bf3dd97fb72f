package conditions

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestRecordedConditions(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../../../shared/corpora/kyverno-tables/kyverno-conditions.jsonl")
	if err != nil {
		t.Skip("the recorded tables are not here")
	}
	defer f.Close()
	rows := 0
	for lines := bufio.NewScanner(f); lines.Scan(); rows++ {
		var r struct {
			ID, Operator string
			Key, Value   any
			Result       bool
		}
		rendertest.OK(t, json.Unmarshal(lines.Bytes(), &r))
		if got := Compare(r.Operator, r.Key, r.Value); got != r.Result {
			t.Errorf("%s: %v %s %v is %v", r.ID, r.Key, r.Operator, r.Value, got)
		}
	}
	if rows < 100 {
		t.Errorf("only %d rows", rows)
	}
}
