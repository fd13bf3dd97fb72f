package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// honest is a SARIF file in which all is true, with its tree. Its first result
// is at charts/web/values.yaml:5 and links to two locations.
func honest(t *testing.T) (any, fstest.MapFS) {
	t.Helper()
	r := sample(t)
	r.Results = r.Results[:12]
	tree := r.Tree.(fstest.MapFS)
	tree = maps.Clone(tree)
	tree["link.yaml"] = &fstest.MapFile{Data: []byte("charts/web/values.yaml"), Mode: os.ModeSymlink}
	tree["linked"] = &fstest.MapFile{Data: []byte("charts"), Mode: os.ModeSymlink}
	tree["weird/😀.yaml"] = &fstest.MapFile{Data: []byte("😀: 1\n")}
	var doc any
	dec := json.NewDecoder(bytes.NewReader(write(t, "sarif", r, Options{})))
	dec.UseNumber()
	rendertest.OK(t, dec.Decode(&doc))
	return doc, tree
}

// put sets the value at a JSON pointer; a pointer that ends in "-" appends,
// and a nil value takes away.
func put(t *testing.T, doc any, pointer string, value any) any {
	t.Helper()
	path := render.Path(pointer)
	if len(path) == 0 {
		return value
	}
	key, rest := path[0], "/"+strings.Join(path[1:], "/")
	if len(path) == 1 {
		rest = ""
	}
	switch d := doc.(type) {
	case map[string]any:
		if rest == "" && value == nil {
			delete(d, key)
			return d
		}
		child, ok := d[key]
		if !ok {
			child = map[string]any{}
		}
		d[key] = put(t, child, rest, value)
		return d
	case []any:
		if key == "-" {
			return append(d, value)
		}
		i, err := strconv.Atoi(key)
		if err != nil || i >= len(d) {
			t.Fatalf("%s is not in %v", pointer, doc)
		}
		d[i] = put(t, d[i], rest, value)
		return d
	default:
		t.Fatalf("%s is not in %v", pointer, doc)
		return nil
	}
}

func many(n int, value any) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = value
	}
	return all
}

type object = map[string]any

// located is a location.
func located(uri string, region object) object {
	return object{"physicalLocation": object{"artifactLocation": object{"uri": uri}, "region": region}}
}

// lies are changes that make an honest file untrue, or one that GitHub refuses
// or does not show. Each is found where it is.
var lies = []struct {
	name, pointer string
	value         any
	where         string // "" is pointer
	says          string
}{
	// Paths.
	{"dot", result + uriAt, "./charts/web/values.yaml", "", "not clean"},
	{"dot-dot", result + uriAt, "../charts/web/values.yaml", "", "not clean"},
	{"dot-dot-inside", result + uriAt, "charts/../charts/web/values.yaml", "", "not clean"},
	{"dot-dot-encoded", result + uriAt, "charts/%2E%2E/charts/web/values.yaml", "", "not clean"},
	{"slash-twice", result + uriAt, "charts//web/values.yaml", "", "not clean"},
	{"slash-at-end", result + uriAt, "charts/web/values.yaml/", "", "not clean"},
	{"root", result + uriAt, ".", "", "not clean"},
	{"absolute", result + uriAt, "/charts/web/values.yaml", "", "is absolute"},
	{"host", result + uriAt, "//charts/web/values.yaml", "", "is absolute"},
	{"file-scheme", result + uriAt, "file:///charts/web/values.yaml", "", "has a scheme"},
	{"https", result + uriAt, "https://example.com/values.yaml", "", "has a scheme"},
	{"oci", result + uriAt, "oci://registry/chart", "", "has a scheme"},
	{"colon-in-first-segment", result + uriAt, "a:b.yaml", "", "has a scheme"},
	{"drive", result + uriAt, "C:/charts/web/values.yaml", "", "has a scheme"},
	{"backslash", result + uriAt, `charts\web\values.yaml`, "", "backslash"},
	{"space", result + uriAt, "charts/my web/values.yaml", "", "percent-encoded"},
	{"hash", result + uriAt, "charts/web/values.yaml#5", "", "fragment"},
	{"query", result + uriAt, "charts/web/values.yaml?raw", "", "query"},
	{"not-ascii", result + uriAt, "weird/😀.yaml", "", "percent-encoded"},
	{"broken-encoding", result + uriAt, "charts/%zz.yaml", "", "broken percent-encoding"},
	{"encoded-slash", result + uriAt, "charts%2Fweb%2Fvalues.yaml", "", "encodes a character"},
	{"encoded-nul", result + uriAt, "charts/web/values.yaml%00", "", "encodes a character"},
	{"not-there", result + uriAt, "charts/web/value.yaml", "", "is not in the tree"},
	{"chart-name-for-directory", result + uriAt, "web/values.yaml", "", "is not in the tree"},
	{"other-case", result + uriAt, "charts/web/Values.yaml", "", "is not in the tree"},
	{"below-a-file", result + uriAt, "charts/web/values.yaml/x", "", "is not in the tree"},
	{"directory", result + uriAt, "charts/web", "", "not a regular file"},
	{"symlink", result + uriAt, "link.yaml", "", "symbolic link"},
	{"through-symlink", result + uriAt, "linked/web/values.yaml", "", "symbolic link"},
	{"no-uri", result + uriAt, nil, "", "no artifactLocation.uri"},
	{"uri-is-a-number", result + uriAt, 5, "", "no artifactLocation.uri"},
	{"related-not-there", result + "/relatedLocations/0/physicalLocation/artifactLocation/uri", "gone.yaml", "", "is not in the tree"},
	{"flow-not-there", result + "/codeFlows/0/threadFlows/0/locations/0/location/physicalLocation/artifactLocation/uri", "gone.yaml", "", "is not in the tree"},
	{"base-moves-it", "/runs/0/originalUriBaseIds/%SRCROOT%/uri", "charts/", result + uriAt, "is not in the tree"},

	// Regions.
	{"line-99999", result + regionAt, object{"startLine": 99999}, result + regionAt + "/startLine", "has 7 lines, not 99999"},
	{"line-one-too-far", result + regionAt, object{"startLine": 8}, result + regionAt + "/startLine", "has 7 lines"},
	{"end-line-too-far", result + regionAt, object{"startLine": 5, "endLine": 50}, result + regionAt + "/endLine", "has 7 lines"},
	{"line-0", result + regionAt, object{"startLine": 0}, result + regionAt + "/startLine", "no number from 1"},
	{"line-negative", result + regionAt, object{"startLine": -1}, result + regionAt + "/startLine", "no number from 1"},
	{"line-is-text", result + regionAt, object{"startLine": "5"}, result + regionAt + "/startLine", "no number from 1"},
	{"line-is-a-fraction", result + regionAt, object{"startLine": 5.5}, result + regionAt + "/startLine", "no number from 1"},
	{"no-region", result + regionAt, nil, "", "no startLine"},
	{"no-start-line", result + regionAt + "/startLine", nil, result + regionAt, "no startLine"},
	{"column-too-far", result + regionAt + "/startColumn", 15, result + regionAt, "ends before it begins"},
	{"column-past-the-end", result + regionAt, object{"startLine": 5, "startColumn": 15}, result + regionAt + "/startColumn", "has no column 15"},
	{"end-column-too-far", result + regionAt + "/endColumn", 16, "", "has no column 16"},
	{"column-0", result + regionAt + "/startColumn", 0, "", "no number from 1"},
	{"ends-before-it-begins", result + regionAt, object{"startLine": 5, "endLine": 4}, result + regionAt, "ends before"},
	{"offset-too-far", result + regionAt + "/byteOffset", 4000, "", "not that long"},
	{"utf16-column-of-code-points", result + "/locations/0", located("weird/%F0%9F%98%80.yaml", object{"startLine": 1, "startColumn": 7}), result + regionAt + "/startColumn", "has no column 7"},

	// Snippets.
	{"snippet-of-another-line", result + regionAt + "/snippet/text", "replicas: 2", "", "differs from the file"},
	{"snippet-of-rendered-text", result + regionAt + "/snippet/text", "resources: {} ", "", "differs from the file"},
	{"snippet-too-short", result + regionAt + "/snippet/text", "resources", "", "differs from the file"},
	{"snippet-stays-when-line-moves", result + regionAt + "/startLine", 6, "", ""},
	{"related-snippet", result + "/relatedLocations/0/physicalLocation/region/snippet/text", "x", "", "differs from the file"},
	{"context-elsewhere", result + "/locations/0/physicalLocation/contextRegion", object{"startLine": 1, "endLine": 2}, "", "not around"},
	{"context-is-the-region", result + "/locations/0/physicalLocation/contextRegion", object{"startLine": 5, "startColumn": 1, "endLine": 5, "endColumn": 14}, "", "not around"},
	{"context-snippet", result + "/locations/0/physicalLocation/contextRegion", object{"startLine": 4, "endLine": 6, "snippet": object{"text": "x"}}, result + "/locations/0/physicalLocation/contextRegion/snippet/text", "differs from the file"},
	{"context-too-far", result + "/locations/0/physicalLocation/contextRegion", object{"startLine": 4, "endLine": 60}, result + "/locations/0/physicalLocation/contextRegion/endLine", "has 7 lines"},

	// Fingerprints.
	{"hash-of-nothing", result + "/partialFingerprints/primaryLocationLineHash", "0:1", "", "fingerprint of the line is"},
	{"hash-counted-twice", result + "/partialFingerprints/primaryLocationLineHash", "c129715d7a2bc9a3:2", "", "fingerprint of the line is"},
	{"hash-is-a-number", result + "/partialFingerprints/primaryLocationLineHash", 5, "", "fingerprint of the line is"},

	// Links.
	{"dangling-link", result + "/message/text", "See [x](9). [a](1) [b](2)", "", "leads to no location"},
	{"dangling-link-in-markdown", result + "/message/markdown", "See [x](9).", "", "leads to no location"},
	{"link-to-a-path", result + "/message/text", "See [x](values.yaml). [a](1) [b](2)", "", "leads to no location"},
	{"id-not-linked", result + "/message/text", "See [a](1).", result + "/relatedLocations/1/id", "no link to the location 2"},
	{"no-id", result + "/relatedLocations/1/id", nil, result + "/relatedLocations/1", "has no id"},
	{"id-twice", result + "/relatedLocations/1/id", 1, "", "have the id 1"},
	{"related-101", result + "/relatedLocations", many(101, object{"id": 1}), "", "keeps 100"},

	// Rules.
	{"rule-unknown", result + "/ruleId", "no/such", result + "/ruleIndex", `not "no/such"`},
	{"rule-unknown-without-index", result, object{"ruleId": "no/such", "message": object{"text": "x"}, "locations": []any{located("charts/web/values.yaml", object{"startLine": 1})}}, result + "/ruleId", "no rule"},
	{"rule-index-of-another", result + "/ruleIndex", 0, "", "not \"require-limits/validations[0]\""},
	{"rule-index-too-far", result + "/ruleIndex", 99, "", "no rule with the index 99"},
	{"rule-index-negative", result + "/ruleIndex", -7, "", "no rule with the index -7"},
	{"rule-none", result, object{"message": object{"text": "x"}, "locations": []any{located("charts/web/values.yaml", object{"startLine": 1})}}, result + "/ruleId", "names no rule"},
	{"rule-twice", rules + "/-", object{"id": "require-limits/validations[0]"}, rules + "/4/id", "two rules"},
	{"rule-without-id", rules + "/0/id", nil, "", "no id"},
	{"tags-11", rules + "/0/properties/tags", many(11, "x"), "", "keeps 10"},
	{"tags-25", rules + "/0/properties/tags", many(25, "x"), "", "refuses more than 20"},
	{"security-severity-word", rules + "/0/properties/security-severity", "high", "", "not a string with a number"},
	{"security-severity-number", rules + "/0/properties/security-severity", 7.5, "", "not a string with a number"},
	{"security-severity-11", rules + "/0/properties/security-severity", "11", "", "not a string with a number"},
	{"security-severity-nan", rules + "/0/properties/security-severity", "NaN", "", "not a string with a number"},
	{"precision", rules + "/0/properties/precision", "perfect", "", "none of"},
	{"problem-severity", rules + "/0/properties/problem.severity", "critical", "", "none of"},
	{"rule-level", rules + "/0/defaultConfiguration/level", "fatal", "", "none of"},
	{"description-too-long", rules + "/0/shortDescription/text", strings.Repeat("é", 1025), "", "1025 characters"},
	{"full-description-too-long", rules + "/0/fullDescription/text", strings.Repeat("x", 2000), "", "2000 characters"},
	{"name-too-long", rules + "/0/name", strings.Repeat("x", 256), "", "256 characters"},
	{"too-many-rules", rules, many(25001, object{"id": "x"}), "", "refuses more than 25,000"},
	{"too-many-extensions", "/runs/0/tool/extensions", many(101, object{}), "", "refuses more than 100"},

	// Results.
	{"level", result + "/level", "fatal", "", "none of"},
	{"open-with-level", result + "/kind", "open", result + "/level", "can't have the level"},
	{"pass-with-level", result + "/kind", "pass", result + "/level", "can't have the level"},
	{"no-message", result + "/message", nil, result + "/message/text", "no message.text"},
	{"message-by-id", result + "/message", object{"id": "default"}, result + "/message/text", "no message.text"},
	{"no-locations", result + "/locations", nil, "", "no location"},
	{"empty-locations", result + "/locations", []any{}, "", "no location"},
	{"too-many-locations", result + "/locations", many(1001, located("charts/web/values.yaml", object{"startLine": 5})), "", "refuses more than 1,000"},
	{"suppressed", result + "/suppressions", []any{object{"kind": "external"}}, "", "open it as an alert"},
	{"suppression-accepted", result + "/suppressions", []any{object{"kind": "inSource", "status": "accepted"}}, "", "open it as an alert"},
	{"absent", result + "/baselineState", "absent", "", "open it as an alert"},
	{"same-rule-and-line", results + "/-", object{
		"ruleId": "require-limits/validations[0]", "message": object{"text": "x"},
		"locations": []any{located("charts/web/values.yaml", object{"startLine": 5, "startColumn": 3})},
	}, results + "/1", "of one rule at one line"},
	{"results-null", results, nil, "", "no array of results"},
	{"results-is-an-object", results, object{}, "", "no array of results"},
	{"flow-too-long", result + "/codeFlows/0/threadFlows/0/locations", many(10001, object{"location": located("charts/web/values.yaml", object{"startLine": 5})}), "", "refuses more than 10,000"},

	// Runs.
	{"version", "/version", "2.2", "", "reads 2.1.0 alone"},
	{"no-schema", "/$schema", nil, "", "names no schema"},
	{"other-schema", "/$schema", "https://json.schemastore.org/sarif-2.0.0.json", "", "names no schema"},
	{"no-runs", "/runs", nil, "", "no array of runs"},
	{"empty-runs", "/runs", []any{}, "", "no run"},
	{"too-many-runs", "/runs", many(21, object{}), "", "refuses more than 20"},
	{"no-tool-name", "/runs/0/tool/driver/name", nil, "", "has no name"},
	{"same-category", "/runs/-", object{
		"tool": object{"driver": object{"name": "preadmit"}}, "automationDetails": object{"id": "preadmit/second"}, "results": []any{},
	}, "/runs/1/automationDetails/id", "same tool and category"},
	{"column-kind", "/runs/0/columnKind", "bytes", "", "columnKind"},
	{"failed-for-findings", "/runs/0/invocations/0", object{"executionSuccessful": false}, "/runs/0/invocations/0/executionSuccessful", "findings are no failure"},
	{"success-not-given", "/runs/0/invocations/0/executionSuccessful", nil, "", "not given"},
	{"notification-elsewhere", "/runs/0/invocations/0/toolExecutionNotifications/0/descriptor/index", 40, "", "no notification with the index 40"},
	{"notification-of-another-rule", "/runs/0/invocations/0/toolExecutionNotifications/0/associatedRule", object{"id": "x"}, "/runs/0/invocations/0/toolExecutionNotifications/0/associatedRule/id", "no rule"},
	{"notification-not-there", "/runs/0/invocations/0/toolExecutionNotifications/0/locations/0/physicalLocation/artifactLocation/uri", "gone", "", "is not in the tree"},
}

const (
	results  = "/runs/0/results"
	result   = "/runs/0/results/0"
	rules    = "/runs/0/tool/driver/rules"
	uriAt    = "/locations/0/physicalLocation/artifactLocation/uri"
	regionAt = "/locations/0/physicalLocation/region"
)

func TestVerifyFindsLies(t *testing.T) {
	t.Parallel()
	for _, lie := range lies {
		t.Run(lie.name, func(t *testing.T) {
			t.Parallel()
			doc, tree := honest(t)
			if got := verified(t, doc, tree); len(got) > 0 {
				t.Fatalf("not honest: %v", got)
			}
			where := lie.where
			if where == "" {
				where = lie.pointer
			}
			got := verified(t, put(t, doc, lie.pointer, lie.value), tree)
			found := false
			for _, p := range got {
				found = found || p.Pointer == where && strings.Contains(p.Message, lie.says)
			}
			if lie.says == "" {
				found = len(got) > 0
			}
			if !found {
				t.Errorf("at %s nothing says %q: %v", where, lie.says, got)
			}
		})
	}
}

func verified(t *testing.T, doc any, tree fstest.MapFS) []Problem {
	t.Helper()
	data, err := json.Marshal(doc)
	rendertest.OK(t, err)
	return Verify(data, tree)
}

// Other tools write differently what is true all the same.
func TestVerifyTakesWhatIsTrue(t *testing.T) {
	t.Parallel()
	lines := func(first, last int, text string) object {
		return object{"startLine": first, "endLine": last, "snippet": object{"text": text}}
	}
	for _, c := range []struct {
		name, pointer string
		value         any
	}{
		{"nothing-changed", "/version", "2.1.0"},
		{"whole-line-with-its-end", result + regionAt, lines(5, 5, "resources: {}\n")},
		{"several-lines", result + regionAt, lines(5, 6, "resources: {}\nreplicas: 2")},
		{"several-lines-from-windows", result + regionAt, lines(5, 6, "resources: {}\r\nreplicas: 2\r\n")},
		{"context", result + "/locations/0/physicalLocation/contextRegion", lines(4, 6, "  tag: latest\nresources: {}\nreplicas: 2")},
		{"insertion-point", result + regionAt, object{"startLine": 5, "startColumn": 3, "endLine": 5, "endColumn": 3}},
		{"no-columns-kind", "/runs/0/columnKind", nil},
		{"no-fingerprint", result + "/partialFingerprints", nil},
		{"rule-index-minus-one", result + "/ruleIndex", -1},
		{"sub-rule", result + "/ruleId", "require-limits/validations[0]/deep"},
		{"web-link", result + "/message/text", "[a](1) [b](2) [docs](https://example.com)"},
		{"brackets", result + "/message/text", "a[0] (1) [] [a](1) [b](2)"},
		{"suppression-rejected", result + "/suppressions", []any{object{"kind": "external", "status": "rejected"}}},
		{"other-category", "/runs/-", object{
			"tool": object{"driver": object{"name": "preadmit"}}, "automationDetails": object{"id": "other/"}, "results": []any{},
		}},
		{"other-tool", "/runs/-", object{"tool": object{"driver": object{"name": "x"}}, "automationDetails": object{"id": "preadmit/"}, "results": []any{}}},
		{"base-with-absolute-uri", "/runs/0/originalUriBaseIds/%SRCROOT%/uri", "file:///home/runner/"},
		{"related-whole-file", result + "/relatedLocations/0/physicalLocation/region", nil},
		{"open-without-level", result, object{
			"ruleId": "require-limits/validations[0]", "kind": "open", "level": "none", "message": object{"text": "x"},
			"locations": []any{located("weird/%F0%9F%98%80.yaml", object{"startLine": 1, "startColumn": 1, "endColumn": 5})},
		}},
		{"extension-rule", "/runs/0/tool/extensions", []any{object{"name": "pack", "rules": []any{object{"id": "x"}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			doc, tree := honest(t)
			if got := verified(t, put(t, doc, c.pointer, c.value), tree); len(got) > 0 {
				t.Errorf("%v", got)
			}
		})
	}
}

// Columns are counted as the run says.
func TestVerifyColumnKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind any
		end  int
		want int
	}{
		{"unicodeCodePoints", 2, 0},
		{"utf16CodeUnits", 2, 1},
		{nil, 2, 0},
		{"unicodeCodePoints", 3, 1},
		{"utf16CodeUnits", 3, 0},
		{nil, 3, 0},
		{nil, 4, 1},
	} {
		doc, tree := honest(t)
		put(t, doc, "/runs/0/columnKind", c.kind)
		put(t, doc, "/runs/0/results", []any{object{
			"ruleId": "require-limits/validations[0]", "message": object{"text": "x"},
			"locations": []any{located("weird/%F0%9F%98%80.yaml", object{"startLine": 1, "startColumn": 1, "endColumn": c.end, "snippet": object{"text": "😀"}})},
		}})
		if got := verified(t, doc, tree); len(got) != c.want {
			t.Errorf("%v to column %d: %v", c.kind, c.end, got)
		}
	}
}

func TestVerifyNotSARIF(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                 "the JSON ends early",
		"{":                "the JSON ends early",
		"[]":               "no JSON object",
		"null":             "no JSON object",
		"{}\n{}":           "more after",
		"{\n\"a\": tru\n}": "line 2 is not JSON",
		"\ufeff{}":         "line 1 is not JSON",
	} {
		got := Verify([]byte(in), fstest.MapFS{})
		if len(got) != 1 || !strings.Contains(got[0].String(), want) {
			t.Errorf("%q: %v", in, got)
		}
	}
}

// A nil tree leaves out what needs one, and nothing else.
func TestVerifyWithoutTree(t *testing.T) {
	t.Parallel()
	doc, _ := honest(t)
	put(t, doc, result+uriAt, "gone.yaml")
	put(t, doc, result+"/ruleIndex", 99)
	data, err := json.Marshal(doc)
	rendertest.OK(t, err)
	if got := Verify(data, nil); len(got) != 1 || !strings.Contains(got[0].Message, "index 99") {
		t.Errorf("%v", got)
	}
}

// Whatever a file says, Verify ends, and says nothing that a terminal acts on.
func FuzzVerify(f *testing.F) {
	r := sample(f)
	f.Add(write(f, "sarif", r, Options{}))
	f.Add([]byte(`{"version":"\u001b[2J","runs":[{"results":[{"locations":[{"physicalLocation":{"artifactLocation":{"uri":"\u001b::"},"region":{"startLine":9223372036854775807}}}]}]}]}`))
	tree := sampleTree(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, p := range Verify(data, tree) {
			if bad := unsafeLine(p.String()); bad != "" {
				t.Errorf("%q: %s", p.String(), bad)
			}
		}
	})
}
