package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestReadIsIdentity(t *testing.T) {
	t.Parallel()
	r := sample(t)
	got, err := Read(bytes.NewReader(write(t, "json", r, Options{})))
	rendertest.OK(t, err)
	want := sample(t)
	want.Results, want.Rules, want.Tree = sorted(want.Results), sortedRules(want), nil
	want.fill()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

// The keys and their order are a contract.
func TestJSONContract(t *testing.T) {
	t.Parallel()
	top := []string{"schema", "tool", "units", "summary", "results", "rules", "notes"}
	unit := []string{"id", "path", "kind", "renderer", "name", "namespace", "cluster", "owner", "status", "objects", "reason"}
	summary := []string{"units", "rendered", "discovered", "failed", "notRendered", "suspended", "foreign", "unreached", "excluded", "clusters", "objects", "policies", "rules", "pass", "fail", "skip", "unknown", "error", "new", "suppressed"}
	result := []string{"engine", "policy", "rule", "operation", "object", "outcome", "action", "severity", "message", "fields", "origins", "policyOrigin", "assumed", "baseline", "suppression", "fingerprint"}
	origin := []string{"file", "line", "column", "endLine", "endColumn", "role"}
	optional := []string{"hint", "reason"}

	r := &Report{Units: make([]Unit, 1), Results: []policy.Result{{Outcome: policy.Fail, Origins: make([]render.Origin, 1)}, {Outcome: policy.Pass}}}
	data := write(t, "json", r, Options{})
	var doc map[string]json.RawMessage
	var results, units []json.RawMessage
	for _, err := range []error{json.Unmarshal(data, &doc), json.Unmarshal(doc["results"], &results), json.Unmarshal(doc["units"], &units)} {
		rendertest.OK(t, err)
	}
	var first struct{ Origins []json.RawMessage }
	for _, raw := range results {
		if err := json.Unmarshal(raw, &first); err != nil || len(first.Origins) > 0 {
			break
		}
	}
	for _, c := range []struct {
		what string
		raw  []byte
		want []string
	}{
		{"report", data, top},
		{"tool", doc["tool"], []string{"name", "version"}},
		{"unit", units[0], unit},
		{"summary", doc["summary"], summary},
		{"result", results[0], result},
		{"origin", first.Origins[0], origin},
	} {
		got := slices.DeleteFunc(keys(t, c.raw), func(k string) bool { return c.what == "result" && slices.Contains(optional, k) })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
	if n := strings.Count(string(data), "null"); n != 2 || strings.Count(string(data), `"suppression":null`) != 2 {
		t.Errorf("%d nulls in\n%s", n, data)
	}
}

// keys are an object's, in order.
func keys(t *testing.T, raw []byte) []string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	var all []string
	for dec.More() {
		key, err := dec.Token()
		rendertest.OK(t, err)
		all = append(all, key.(string))
		var skip json.RawMessage
		rendertest.OK(t, dec.Decode(&skip))
	}
	return all
}

// An empty report is whole too.
func TestJSONEmpty(t *testing.T) {
	t.Parallel()
	data := write(t, "json", &Report{}, Options{})
	for _, key := range []string{"units", "results", "rules", "notes"} {
		if !bytes.Contains(data, []byte(`"`+key+`": []`)) {
			t.Errorf("%s is no empty array in\n%s", key, data)
		}
	}
	if _, err := Read(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
}

// HTML stays as it is, and what a terminal would act on does not.
func TestJSONEscapes(t *testing.T) {
	t.Parallel()
	r := &Report{Notes: []string{"<a&b>", "\x1b\u009b\u202e\x7f\U000e0001", "##[x]", "é😀\u2028"}}
	data := write(t, "json", r, Options{})
	for _, want := range []string{`"<a&b>"`, `"\u001b\u009b\u202e\u007f\udb40\udc01"`, `"#\u0023[x]"`, `"é😀\u2028"`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("%s is not in\n%s", want, data)
		}
	}
	got, err := Read(bytes.NewReader(data))
	if err != nil || !reflect.DeepEqual(got.Notes, r.Notes) {
		t.Errorf("read %q, %v", got.Notes, err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	whole := string(write(t, "json", sample(t), Options{}))
	for _, c := range []struct{ name, in, want string }{
		{"empty", " \n", "the report is empty"},
		{"yaml", "schema: preadmit.report/v1\n", "line 1 is not JSON"},
		{"cut", whole[:len(whole)/2], "is not JSON"},
		{"two", whole + whole, "is not JSON"},
		{"array", "[]", "it is a JSON array"},
		{"null", "null", "not a preadmit report"},
		{"other-json", `{"kind":"List"}`, `it has no schema "preadmit.report/v1"`},
		{"sarif", string(write(t, "sarif", sample(t), Options{})), "this is a SARIF file"},
		{"test-report", `{"schema":"preadmit.test/v1"}`, "this is a preadmit.test/v1, not a preadmit.report/v1"},
		{
			"other-version", `{"tool":{"name":"preadmit","version":"9.1"},"units":{},"schema":"preadmit.report/v2"}`,
			"this report is a preadmit.report/v2 made by preadmit 9.1, and this preadmit reads preadmit.report/v1",
		},
		{"schema-is-a-number", `{"schema":1}`, "it has no schema"},
		{"hostile-schema", `{"schema":"\u001b[2J"}`, `this is a \u{1b}[2J, not`},
		{"wrong-type", strings.Replace(whole, `"units":4`, `"units":"4"`, 1), "summary.units is a JSON string"},
		{"outcome", strings.Replace(whole, `"outcome":"pass"`, `"outcome":"maybe"`, 1), `has the outcome "maybe", which is none of`},
		{"no-outcome", strings.Replace(whole, `"outcome":"pass",`, ``, 1), `has the outcome ""`},
		{"action", strings.Replace(whole, `"action":"audit"`, `"action":"shout"`, 1), `has the action "shout"`},
	} {
		r, err := Read(strings.NewReader(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: %q is not safe to show", c.name, err)
		}
		if err != nil && r != nil {
			t.Errorf("%s: there is a report too", c.name)
		}
	}
}

// TestReadAcceptsNewerFields holds that a report with fields of a later version is
// read.
func TestReadAcceptsNewerFields(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"more-keys": `{"later":{},"schema":"preadmit.report/v1","results":[{"outcome":"fail","later":1}]}`,
		"nulls":     `{"schema":"preadmit.report/v1","results":[{"outcome":"fail","fields":null}],"units":null}`,
		"bom":       "\ufeff" + `{"schema":"preadmit.report/v1","results":[{"outcome":"fail"}]}`,
	} {
		r, err := Read(strings.NewReader(in))
		if err != nil || len(r.Results) != 1 || r.Results[0].Fields == nil || r.Units == nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestResultsInParts holds the results that are written in parts against encoding
// each whole.
func TestResultsInParts(t *testing.T) {
	t.Parallel()
	var results []*policy.Result
	add := func(change func(*policy.Result)) {
		x := &policy.Result{
			Engine: "Kyverno", Policy: "limits", Rule: "memory", Operation: policy.Create, Outcome: policy.Pass, Action: policy.Deny,
			Object: render.Key{APIVersion: "v1", Kind: "Pod", Name: "a", Unit: "u"}, Fingerprint: "00ff",
		}
		change(x)
		results = append(results, x)
	}
	origin := render.Origin{Span: render.Span{File: "##[a]\u202e<b>.yaml", Line: 1, Column: 2, EndLine: 3, EndColumn: 4}, Role: render.Value}
	for range 2 {
		for _, change := range []func(*policy.Result){
			func(*policy.Result) {},
			func(x *policy.Result) { x.Object.Name = `"object":{"apiVersion":"","kind":""}##[` },
			func(x *policy.Result) { x.Origins = []render.Origin{origin} },
			func(x *policy.Result) { x.Origins = []render.Origin{origin, {}} },
			func(x *policy.Result) { x.Origins = []render.Origin{} },
			func(x *policy.Result) {
				x.Object, x.Message = render.Key{}, `"origins":[] "fingerprint":"" <&>`+"\x00\u2028"
			},
			func(x *policy.Result) { x.Hint, x.Reason, x.Only = "##[hint", "Invalid", "only on upgrade" },
			func(x *policy.Result) { x.Unreached, x.Baseline, x.Severity = true, policy.New, policy.High },
			func(x *policy.Result) { x.PolicyOrigin = origin.Span },
			func(x *policy.Result) { x.Fingerprint = "no\"hex" },
			func(x *policy.Result) { x.Fingerprint = "" },
			func(x *policy.Result) { x.Fields = []string{"/spec"} },
			func(x *policy.Result) { x.Fields, x.Origins = []string{"/a", `"origins":[]`}, []render.Origin{origin} },
			func(x *policy.Result) { x.Assumed = []string{""} },
			func(x *policy.Result) { x.Assumed = []string{"a"} },
			func(x *policy.Result) { x.Assumed = []string{"a", "b"} },
			func(x *policy.Result) { x.Assumed = []string{"a\x00b"} },
			func(x *policy.Result) { x.Outcome = policy.Fail },
			func(x *policy.Result) { x.Missing = []policy.Missing{{Kind: policy.MissingSource, Name: "a"}} },
			func(x *policy.Result) { x.Suppression = &policy.Suppression{Reason: "later"} },
			func(x *policy.Result) { x.Cost = &policy.RuleCost{Policy: 3} },
		} {
			add(change)
		}
	}
	for i := range reflect.TypeFor[policy.Result]().NumField() { // each field alone differs from the result before
		add(func(*policy.Result) {})
		add(func(x *policy.Result) {
			v := reflect.ValueOf(x).Elem().Field(i)
			switch v.Kind() {
			case reflect.String:
				v.SetString("other")
			case reflect.Bool:
				v.SetBool(true)
			case reflect.Pointer:
				v.Set(reflect.New(v.Type().Elem()))
			case reflect.Slice:
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
		})
	}
	var got, want bytes.Buffer
	j, w := newJSONWriter(&got), newJSONWriter(&want)
	inParts := 0
	for _, x := range results {
		if j.inParts(x) {
			inParts++
		} else {
			j.value(whole(*x))
		}
		w.value(whole(*x))
		j.text("\n")
		w.text("\n")
	}
	rendertest.OK(t, errors.Join(j.flush(), w.flush()))
	if diff := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("(-whole +in parts):\n%s", diff)
	}
	if inParts < len(results)*3/4 || inParts == len(results) {
		t.Errorf("%d of %d results are written in parts", inParts, len(results))
	}
}
