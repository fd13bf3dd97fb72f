package gotemplate

import (
	"strings"
	"testing"
)

func TestExecute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		options    Options
		want       string
		err        string
	}{
		{"field", "{{ .a.b }}", Options{}, "x", ""},
		{"own delimiters", "<< .a.b | upper >> {{ .a.b }}", Options{Left: "<<", Right: ">>"}, "X {{ .a.b }}", ""},
		{"parameters by name", "<< inputs.a.b >>", Options{Left: "<<", Right: ">>", Data: "inputs"}, "x", ""},
		{"missing key", "{{ .c }}", Options{Options: []string{"missingkey=error"}}, "", "no entry for key"},
		{"unknown option", "{{ .c }}", Options{Options: []string{"missingkey=no"}}, "", "don't know"},
		{"endless", "{{ range until 90000 }}{{ range until 90000 }}{{ end }}{{ end }}", Options{}, "", "more than 1000000 steps"},
		{"recursive", `{{ define "a" }}{{ range until 9 }}{{ template "a" }}{{ end }}{{ end }}{{ template "a" }}`, Options{}, "", "call each other to a depth"},
		{"long", `{{ repeat 9999999 "ab" }}`, Options{}, "", "more than 1 MiB"},
		{"large list", "{{ until 999999999 }}", Options{}, "", "more than 100000 items"},
		{"environment", `{{ env "HOME" }}`, Options{}, "", "not defined"},
		{"keys", `{{ keys .a | first }}{{ index (values .a) 0 }}`, Options{}, "bx", ""},
		{"keys in any order", `{{ first (keys .a (dict "c" 1)) }}`, Options{}, "", "different order each time"},
		{"values in any order", `{{ range values (dict "c" 1 "d" 2) }}{{ . }}{{ end }}`, Options{}, "", "different order each time"},
		{"keys in any order, and others sorted", `{{ first (keys (dict "c" 1 "d" 2)) | list | sortAlpha }}`, Options{}, "", "different order each time"},
		{"sorted keys", `{{ keys (dict "d" 1 "c" 2) | sortAlpha | first }}{{ range sortAlpha (concat (keys .a) (list "a")) }}{{ . }}{{ end }}`, Options{}, "cab", ""},
		{"keys counted", `{{ $d := dict "d" 1 "c" 2 }}{{ if keys $d }}{{ len (keys $d) }}{{ has "c" (keys $d) }}{{ end }}`, Options{}, "2true", ""},
		{"clock", `{{ now }}`, Options{}, "", "different value each time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := Parse(t.Context(), c.text, c.options)
			got := ""
			if err == nil {
				got, err = tmpl.Execute(map[string]any{"a": map[string]any{"b": "x"}})
			}
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}
