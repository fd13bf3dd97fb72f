package jmespath

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

const table = "../../../../shared/corpora/kyverno-tables/kyverno-jmespath.jsonl"

// What Kyverno 1.19.1 says about its own tests.
func TestKyvernoTable(t *testing.T) {
	t.Parallel()
	for _, row := range rendertest.Rows[struct {
		ID, Expr, Error string
		Input, Value    any
	}](t, table) {
		t.Run(row.ID, func(t *testing.T) {
			t.Parallel()
			e, err := Compile(row.Expr)
			rendertest.OK(t, err)
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
	rendertest.OK(t, err)
	var out any
	rendertest.OK(t, json.Unmarshal(text, &out))
	return out
}

var variable = regexp.MustCompile(`\{\{-?((?:\{[^{}]*\}|[^{}])*)\}\}`)

// Every variable that a published policy writes in one piece compiles, and
// calls functions that there are.
func TestKyvernoPolicies(t *testing.T) {
	t.Parallel()
	rendertest.SkipWithout(t, policies)
	seen := map[string]bool{}
	err := filepath.WalkDir(policies, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		var policy any
		if err == nil && yaml.Unmarshal(data, &policy) == nil {
			collect(policy, seen)
		}
		return err
	})
	rendertest.OK(t, err)
	for text := range seen {
		e, err := Compile(strings.TrimSpace(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, f := range e.Functions() {
			if !Known(f) {
				t.Errorf("%s: no function %s", text, f)
			}
		}
	}
	if len(seen) < 60 {
		t.Errorf("only %d variables were found", len(seen))
	}
	t.Logf("%d variables", len(seen))
}

const policies = "../../../../shared/corpora/kyverno-policies"

// collect gathers the variables of the texts of a document.
func collect(v any, seen map[string]bool) {
	switch v := v.(type) {
	case string:
		for _, m := range variable.FindAllStringSubmatch(v, -1) {
			seen[m[1]] = true
		}
	case map[string]any:
		for k, x := range v {
			collect(k, seen)
			collect(x, seen)
		}
	case []any:
		for _, x := range v {
			collect(x, seen)
		}
	}
}
