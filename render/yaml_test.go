package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigs "sigs.k8s.io/yaml"
)

// sigsDecode is what kubectl, Helm and Argo CD make of one document.
func sigsDecode(data []byte) (any, error) {
	j, err := sigs.YAMLToJSON(data)
	if err != nil {
		return nil, err
	}
	var v any
	err = utiljson.Unmarshal(j, &v)
	return v, err
}

// scalars are what people write, and what nobody should, in one place.
var scalars = []string{
	"", "~", "null", "Null", "NULL", "nUll", "true", "True", "TRUE", "tRue", "false", "yes", "Yes", "YES", "yEs", "no", "on", "On",
	"off", "OFF", "y", "Y", "n", "N", "0", "-0", "+0", "1", "+1", "-1", "00", "01", "-01", "010", "0777", "0o7", "0O7", "-0o7", "08", "0b1", "0b-1", "0b+1", "-0b-1", "0o-7", "0B11", "-0b1",
	"0b", "0x1F", "0X1f", "-0x1F", "0x", "0xg", "1_000", "1__0", "1_", "_1", "0_7", "60:30", "1:2:3", "1e3", "1E3", "1e+3", "1e-3", "1e", "e1", "+1e3",
	".5", "-.5", "+.5", "5.", ".", "..", "...x", ".5.", "1.0", "1.5", "1.50", "-1.0", "-0.0", "0.0", "1e21", "1e20", "1e19", "1e18", "123456789012345678901234567890",
	"9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
	"18446744073709551616", "99999999999999999999", "1e308", "1e309", "1e400", "-1e400", "1e-400", "0.1", "3.4028235e38", "1_0.5", "1.5_0", ".1_0",
	"2001-01-01", "2001-1-1", "2001-01-01T00:00:00Z", "2001-01-01t00:00:00z", "2001-01-01 00:00:00", "2001-13-01", "20010101", "2001-01-01T00:00:00+01:00",
	"--", "-a", "+", "-", "+a", "~a", "a b", "a #b", "a#b", "a: b", "<<", "=", "'y'", `"y"`, `"\u00e9"`, `"\x41"`, `"a\nb"`, `"a\
  b"`, "'it''s'", "Infinity", ".inf", "-.Inf", ".nan", "inf", "nan", "0.", "1.e3", "1..2", "0x1p4", "1e1_0", "0_x1", "0x_1", "0b_1", "0777_7",
	"!!str 5", "!!str", "!!int '5'", "!!int 5", "!!int x", "!!int 0x10", "!!float 5", "!!float 5.5", "!!float x", "!!float 18446744073709551615", "!!bool yes", `!!bool "yes"`, "!!bool x", "!!null ''",
	"!!null x", "!!binary aGk=", "!!binary x", "!!binary /w==", "!!timestamp 2001-01-01", "!!timestamp x", "!foo 5", "!!foo 5", "!foo", "!!map {}", "!!set {a, b}",
	"! 5", "! yes", "[yes, 010, 'a']", "{y: n}", "{1: a, 1.5: b, true: c, 0x10: d, 1e3: e, 2001-01-01: f}", "{~: a}", "{? [a]: b}", "{a: 1, a: 2}", "{.inf: a}", "{1e21: x}", "{123456789.5: x}", "{18446744073709551615: x}",
	"&a x", "[&a x, *a]", "[&a {x: y}, {<<: *a, z: 1}, {z: 1, x: 2, <<: *a}, {<<: [*a, {x: 3}], x: 4}, {<<: [{x: 3}, *a]}]", "{<<: {a: 1}, <<: {a: 2, b: 3}}", "{<<: 1}", "{<<: [1]}", "{<<: ~}",
	"{'<<': 1}", "{!!merge <<: {a: 1}}", "{&k a: *k}", "[&a [*a]]", "*x", "|\n  a\n  b\n", ">-\n  a\n  b\n\n  c\n", "|2\n   a\n", "|+\n  a\n\n", "a\n  b\n  c", "'a\n\n  b'",
	"{? a, b}", "{a b: c}", "{a: , b: }", "[a, , b]", "[,]", "{a}", "{\"a\":1}", "[a: b, c: d]", "é", "\"\\ud83d\"", "日本: 語", "a:\tb", "\"a\tb\"", "!!binary &a aGk=", "&a !!str 5", "@a", "`a", "%a", "a % b", "- a", "? a\n: b",
}

func TestDecodesAsSigs(t *testing.T) {
	t.Parallel()
	for _, s := range scalars {
		for _, doc := range []string{"v: " + strings.ReplaceAll(s, "\n", "\n  ") + "\n", "- " + s + "\n", s + "\n"} {
			compareWithSigs(t, "table.yaml", []byte(doc))
		}
		compareWithSigs(t, "table.yaml", []byte(s+": 1\n"))
	}
}

// kustomizeDecode is what kustomize and Flux make of one document.
func kustomizeDecode(data []byte) (v any, err error) {
	if err := yaml.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	j, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	v = nil
	err = utiljson.Unmarshal(j, &v)
	return v, err
}

// Where kustomize refuses a document and we don't, it is for a map whose keys
// are no strings, or that has one twice; Documents reports the latter.
func TestDecodesAsKustomize(t *testing.T) {
	t.Parallel()
	for _, s := range scalars {
		for _, doc := range []string{"v: " + strings.ReplaceAll(s, "\n", "\n  ") + "\n", "- " + s + "\n", s + "\n", "a: {b: 1}\n<<: {c: " + s + "}\n"} {
			want, wantErr := kustomizeDecode([]byte(doc))
			docs, err := Documents("table.yaml", []byte(doc), YAML12)
			if wantErr != nil {
				continue
			}
			if len(docs) == 0 && want != nil {
				t.Errorf("%q: %v, kustomize gives %v", doc, err, want)
			}
			if len(docs) == 1 {
				if d := cmp.Diff(want, docs[0].Value); d != "" {
					t.Errorf("%q: -kustomize +ours:\n%s", doc, d)
				}
			}
		}
	}
}

// compareWithSigs checks a file of one document.
func compareWithSigs(t *testing.T, name string, data []byte) {
	t.Helper()
	docs, err := Documents(name, data, YAML11)
	want, wantErr := sigsDecode(data)
	if wantErr != nil && isJSON(data) {
		wantErr = utiljson.Unmarshal(data, &want) // kubectl's way with JSON, after which sigs' is the second
	}
	switch {
	case wantErr != nil && len(docs) > 0:
		t.Errorf("%s: %q: got %v, sigs says %v", name, abbreviate(data), docs[0].Value, wantErr)
	case wantErr == nil && len(docs) == 0 && want != nil && !rejectedOnPurpose(err):
		t.Errorf("%s: %q: got error %v, sigs gives %v", name, abbreviate(data), err, want)
	case wantErr == nil && len(docs) == 1:
		if d := cmp.Diff(want, docs[0].Value); d != "" {
			t.Errorf("%s: %q: -sigs +ours:\n%s", name, abbreviate(data), d)
		}
	}
}

// rejectedOnPurpose tells errors on what sigs reads, in part or not as it is
// written.
func rejectedOnPurpose(err error) bool {
	for _, e := range Errors(err) {
		switch e.Rule {
		case "encoding", "trailing-content", "line-break", "too-deep", "alias-expansion", "document-separator":
			return true
		}
	}
	return false
}

func abbreviate(b []byte) string {
	if len(b) > 100 {
		return string(b[:100]) + "…"
	}
	return string(b)
}

// eachShared calls f with every YAML and JSON file of the corpora.
func eachShared(tb testing.TB, f func(name string, data []byte)) {
	tb.Helper()
	root := filepath.Join("..", "..", "shared")
	if _, err := os.Stat(root); err != nil {
		tb.Skip("no corpora beside the module")
	}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch filepath.Ext(p) {
		case ".yaml", ".yml", ".json":
		default:
			return err
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if len(data) <= Limit {
			f(p, data)
		}
		return nil
	})
	ok(tb, err)
}

func TestDecodesCorporaAsSigs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads every file of the corpora")
	}
	files, docs, errs, rules := 0, 0, 0, map[string]int{}
	eachShared(t, func(name string, data []byte) {
		files++
		src := newSource(name, data)
		for _, c := range src.split() {
			if c.err != nil {
				continue
			}
			got, err := Documents(name, c.text, YAML11)
			docs += len(got)
			for _, e := range Errors(err) {
				errs++
				rules[e.Rule]++
			}
			compareWithSigs(t, fmt.Sprintf("%s:%d", name, c.line+1), c.text)
		}
	})
	t.Logf("%d files, %d documents, %d errors %v", files, docs, errs, rules)
}

// isJSON tells what kubectl reads as JSON.
func isJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return json.Valid(data) && (data[0] == '{' || data[0] == '[')
}
