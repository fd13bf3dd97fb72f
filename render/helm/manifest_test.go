package helm

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
)

// TestManifestsAsHelm compares how output is divided into manifests with Helm's
// regular expression.
func TestManifestsAsHelm(t *testing.T) {
	t.Parallel()
	separator := regexp.MustCompile(`(?:^|\s*\n)---\s*`)
	tokens := []string{"---", "\n", "\n", " ", "\t", "a: b", "-", "#", "\r\n", "\u0085", "---\n---", "é", "\f", "\v"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(tokens[random.IntN(len(tokens))])
		}
		text := b.String()
		var want, got []string
		for _, doc := range separator.Split(strings.TrimSpace(text), -1) {
			if doc = strings.TrimSpace(doc); doc != "" {
				want = append(want, doc)
			}
		}
		for _, cut := range cuts(text, false) {
			got = append(got, text[cut[0]:cut[1]])
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%q (-regexp +ours):\n%s", text, d)
		}
	}
}

// TestUndeclaredValue holds that the value is named which keeps a template from writing its
// object although no values declare it.
func TestUndeclaredValue(t *testing.T) {
	t.Parallel()
	values := table{"Values": chartutil.Values{"a": map[string]any{"b": false}}}
	const object = "\napiVersion: v1\nkind: Pod\n{{ if .Values.later }}{{ end }}{{ end }}"
	for condition, want := range map[string]string{
		"{{ if .Values.a.b }}":                              "",
		"{{- if .Values.a.c }}":                             "in line 1 reads .Values.a.c,",
		"# x\n{{- with .Values.x }}":                        "in line 2 reads .Values.x,",
		"{{ range $k, $v := $.Values.list }}":               "in line 1 reads .Values.list,",
		`{{ if index .Values "my-key" }}`:                   "in line 1 reads .Values.my-key,",
		"{{ if and .Values.a.b (eq .Values.y.z 1) }}":       "in line 1 reads .Values.y.z,",
		"{{ if .Values.a.b.c }}":                            "in line 1 reads .Values.a.b.c,",
		"{{/* if .Values.x */}}{{ if .Release.IsUpgrade }}": "",
		"{{ if false }}{{ else if .Values.x }}":             "in line 1 reads .Values.x,",
	} {
		file := templateFile{templateText: templateText{text: condition + object}, values: values}
		if got := file.undeclared(); (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", condition, got, want)
		}
	}
}
