package jmespath

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const table = "../../../../shared/corpora/kyverno-tables/kyverno-jmespath.jsonl"

// What Kyverno 1.19.1 says of its own tests.
func TestKyvernoTable(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.FromSlash(table))
	if err != nil {
		t.Skip("the published table is not beside this checkout")
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			ID, Expr, Error string
			Input, Value    any
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		t.Run(row.ID, func(t *testing.T) {
			t.Parallel()
			e, err := Compile(row.Expr)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Search(row.Input, nil)
			if message(err) != row.Error {
				t.Errorf("%s\ngot error  %s\nwant error %s", row.Expr, message(err), row.Error)
			}
			if diff := cmp.Diff(row.Value, throughJSON(t, got)); diff != "" {
				t.Errorf("%s: %s", row.Expr, diff)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func throughJSON(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
