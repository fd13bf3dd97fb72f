package gotemplate

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestLines(t *testing.T) {
	t.Parallel()
	const text = `{{- if .on }}
a: 1
{{- end }}
b:
{{- range .list }}
- {{ . }}
{{- end }}
c: {{ .lines }}
d: {{ template "part" }}
{{- define "part" }}1
e: 2{{ end }}
`
	template, err := Parse(context.Background(), text, Options{})
	rendertest.OK(t, err)
	params := map[string]any{"on": true, "list": []string{"x", "y"}, "lines": "1\n  2"}
	got, err := template.Execute(params)
	if want := "\na: 1\nb:\n- x\n- y\nc: 1\n  2\nd: 1\ne: 2\n"; err != nil || got != want {
		t.Fatalf("%q, %v", got, err)
	}
	lines, err := template.Lines(params)
	if diff := cmp.Diff([]int{0, 1, 3, 5, 5, 7, 7, 8, 10, 11}, lines); diff != "" || err != nil {
		t.Errorf("%v: -want +got\n%s", err, diff)
	}
}
