package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestParseSuppressions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"good":           {"suppressions:\n- {rule: p, object: /Pod/a/b, reason: why, expires: 2027-03-31}\n", ""},
		"empty":          {"", ""},
		"no list":        {"suppressions:\n", ""},
		"not yaml":       {"suppressions: [", "s.yaml:1:15: the [ that opens here is never closed"},
		"two lists":      {"suppressions: []\nsuppressions: []\n", "s.yaml:2:1: suppressions is set twice"},
		"a list":         {"- a\n", "s.yaml:1:1: want the key suppressions"},
		"another key":    {"supressions: []\n", `s.yaml:1:1: unknown key "supressions"`},
		"unknown":        {"suppressions:\n- {rule: p, object: o, reason: r, expires: 2027-03-31, until: x}\n", `s.yaml:2:56: unknown key "until"`},
		"twice":          {"suppressions:\n- {rule: p, rule: q, object: o, reason: r, expires: 2027-03-31}\n", "s.yaml:2:13: rule is set twice"},
		"no reason":      {"suppressions:\n- rule: p\n  object: o\n  expires: 2027-03-31\n", "s.yaml:2:3: reason is required"},
		"empty reason":   {"suppressions:\n- {rule: p, object: o, reason: ' ', expires: 2027-03-31}\n", "s.yaml:2:3: reason is required"},
		"no date":        {"suppressions:\n- {rule: p, object: o, reason: r, expires: never}\n", `"never" is not a date`},
		"impossible day": {"suppressions:\n- {rule: p, object: o, reason: r, expires: 2027-02-30}\n", `"2027-02-30" is not a date`},
		"a list of text": {"suppressions:\n- p\n", "s.yaml:2:3: want a suppression"},
		"a nested value": {"suppressions:\n- {rule: [p], object: o, reason: r, expires: 2027-03-31}\n", "s.yaml:2:10: rule: want text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := ParseSuppressions("s.yaml", []byte(c.text))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %s", err, c.want)
			case name == "good" && (len(found) != 1 || found[0].Origin != render.Span{File: "s.yaml", Line: 2, Column: 3}):
				t.Errorf("%+v", found)
			}
		})
	}
}

func TestSuppress(t *testing.T) {
	t.Parallel()
	file := `suppressions:
- {rule: limits, object: apps/Deployment/prod/web, reason: sized elsewhere, expires: 2026-11-21}
- {rule: "limits/*", object: "**", path: "apps/web/**", reason: all of web, expires: 2027-01-01}
- {rule: limits, object: /Pod/prod/old, reason: over, expires: 2026-11-20}
- {rule: gone, object: "**", reason: nothing left, expires: 2027-01-01}
`
	all, err := ParseSuppressions("s.yaml", []byte(file))
	rendertest.OK(t, err)
	of := func(apiVersion, kind, name, unit, file string, o Outcome) Result {
		return Result{
			Policy: "limits", Rule: "validations[0]", Outcome: o, Object: render.Key{APIVersion: apiVersion, Kind: kind, Namespace: "prod", Name: name, Unit: unit},
			Origins: []render.Origin{{Span: render.Span{File: file}}},
		}
	}
	results := []Result{
		of("apps/v1", "Deployment", "web", "charts/web", "charts/web/values.yaml", Fail),
		of("apps/v1", "Deployment", "other", "apps/web/prod", "base/x.yaml", Fail),
		of("apps/v1", "Deployment", "third", "base", "apps/web/x.yaml", Unknown),
		of("v1", "Pod", "old", "x.yaml", "x.yaml", Fail),
		of("v1", "Pod", "web", "x.yaml", "x.yaml", Fail),
		of("apps/v1", "Deployment", "web", "charts/web", "charts/web/values.yaml", Pass),
	}
	over, unused := Suppress(results, nil, &Suppressions{Listed: all}, time.Date(2026, 11, 21, 23, 59, 0, 0, time.UTC))
	var got []string
	for _, r := range results {
		if r.Suppression == nil {
			got = append(got, "")
			continue
		}
		got = append(got, r.Suppression.Reason)
	}
	rendertest.Equal(t, []string{"sized elsewhere", "all of web", "all of web", "", "", ""}, got)
	if len(over) != 1 || over[0].Reason != "over" || len(unused) != 1 || unused[0].Rule != "gone" {
		t.Errorf("over %+v, unused %+v", over, unused)
	}
	Suppress(results, nil, &Suppressions{Listed: all}, time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC))
	if over, _ := Suppress(results[:1], nil, &Suppressions{Listed: all[:1]}, time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)); len(over) != 1 {
		t.Error("holds after its last day")
	}
}

func TestWriteSuppressionsReadsBack(t *testing.T) {
	t.Parallel()
	want := []Suppression{
		{Rule: "a/validations[0]", Object: "/Pod/prod/web", Reason: "see #123: it's \"fine\"\nreally", Expires: "2027-03-31", Owner: "team: web"},
		{Rule: "*", Object: "**", Path: "apps/*.yaml", Reason: "yes", Expires: "2027-03-31"},
	}
	data := WriteSuppressions(want)
	got, err := ParseSuppressions("s.yaml", data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	for i := range got {
		got[i].Origin = render.Span{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, data)
	}
}
