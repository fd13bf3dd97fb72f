package argocd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/internal/gotemplate"
	"github.com/preadmit/preadmit/render/rendertest"
)

const corpus = "../../../shared/corpora/gitops"

// rows calls f with each row of a table that calls of Argo CD's own unit tests
// were recorded in.
func rows[R any](t *testing.T, kind string, f func(t *testing.T, row R)) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(corpus, "argo-upstream-tests", kind, "want.jsonl"))
	if err != nil {
		t.Skipf("no recorded calls: %v", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 16<<20)
	n := 0
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var name struct{ Case string }
		var row R
		rendertest.OK(t, json.Unmarshal(lines.Bytes(), &row))
		_ = json.Unmarshal(lines.Bytes(), &name)
		t.Run(strings.TrimPrefix(name.Case, "argo-"+kind+"/"), func(t *testing.T) { f(t, row) })
		n++
	}
	if n == 0 {
		t.Fatal("no rows")
	}
}

func newTestEngine(t *testing.T, golang bool, options []string) *engine {
	t.Helper()
	return &engine{ctx: t.Context(), golang: golang, options: options, templates: map[string]*compiled{}}
}

func TestReplaceAsArgoCD(t *testing.T) {
	t.Parallel()
	rows(t, "replace", func(t *testing.T, row struct {
		Template          string
		Params            map[string]any
		GoTemplate        bool
		GoTemplateOptions []string
		Result            string
		Error             *string
	},
	) {
		if row.Error != nil && strings.Contains(*row.Error, "unsupported type: func") {
			t.Skip("its parameter is a function, which the record can't hold")
		}
		got, _, err := newTestEngine(t, row.GoTemplate, row.GoTemplateOptions).replace(row.Template, row.Params)
		if (err != nil) != (row.Error != nil) {
			t.Fatalf("error %v, want %v", err, row.Error)
		}
		if err == nil && got != row.Result {
			t.Errorf("%q gives %q, want %q", row.Template, got, row.Result)
		}
	})
}

func TestNormalizeAsArgoCD(t *testing.T) {
	t.Parallel()
	rows(t, "normalize", func(t *testing.T, row struct{ Name, Result string }) {
		if got := gotemplate.Normalize(row.Name); got != row.Result {
			t.Errorf("%q gives %q, want %q", row.Name, got, row.Result)
		}
	})
}

func TestSlugifyAsArgoCD(t *testing.T) {
	t.Parallel()
	rows(t, "slugify", func(t *testing.T, row struct {
		Args   []any
		Result string
	},
	) {
		if got, err := gotemplate.Slugify(row.Args...); err != nil || got != row.Result {
			t.Errorf("%q gives %q and %v, want %q", row.Args, got, err, row.Result)
		}
	})
}

// TestEndless holds that a template that would never end, or fill the memory, is
// an error that names the limit.
func TestEndless(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"loops":   {`{{ $l := until 10000 }}{{ range $l }}{{ range $l }}{{ range $l }}{{ end }}{{ end }}{{ end }}`, "steps"},
		"doubles": {`{{ $x := "xx" }}{{ range until 100 }}{{ $x = printf "%s%s" $x $x }}{{ end }}`, "MiB"},
		"repeats": {`{{ repeat 1000000000 "x" }}`, "MiB"},
		"indents": {`{{ indent 1000000000 "x" }}`, "MiB"},
		"counts":  {`{{ until 1000000000 }}`, "items"},
		"cycle":   {`{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}`, "contains itself"},
		"calls":   {`{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`, "depth"},
		"writes":  {`{{ range until 50000 }}` + strings.Repeat("x", 100) + `{{ end }}`, "MiB"},
		"random":  {`{{ randAlphaNum 5 }}`, "each time"},
		"clock":   {`{{ now }}`, "each time"},
		"env":     {`{{ env "HOME" }}`, "not defined"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := newTestEngine(t, true, nil).replace(c.text, map[string]any{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// FuzzTemplate holds that a text is rendered the same each time, that a text
// without braces stays, and that a parameter's value is never read as a template.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"{{a}}", "{{ .a }}", "{{a.b}}-{{ c }}", "{{", "}}", "{{ range .l }}{{ . }}{{ end }}", "{{a}}}", "{{ .a | upper }}"} {
		f.Add(text, "value")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if len(text) > 300 || strings.Contains(text, "range") && strings.Contains(text, "0") {
			return
		}
		for _, golang := range []bool{false, true} {
			e := newTestEngine(t, golang, nil)
			params := map[string]any{"a": value, "c": "x"}
			result, _, err := e.replace(text, params)
			again, _, _ := e.replace(text, params)
			switch {
			case err != nil:
			case again != result && !strings.Contains(text, "rand") && !strings.Contains(text, "uuid"):
				t.Errorf("%q becomes %q, then %q", text, result, again)
			case !strings.Contains(text, "{{") && result != text:
				t.Errorf("%q becomes %q", text, result)
			}
		}
		nested := "{{c}}"
		if result, _, err := newTestEngine(t, false, nil).replace("{{a}}", map[string]any{"a": nested, "c": "x"}); err != nil || result != nested {
			t.Errorf("a value is read as a template: %q, %v", result, err)
		}
	})
}
