package rego

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const several = `
-- b.yaml --
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
---
{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {selector: {app: none}}}
-- a.yaml --
{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}}
-- c.yaml --
{apiVersion: v1, kind: Secret, metadata: {name: key}, stringData: {password: hunter2hunter2}}
`

// together is what is said about all objects together, by object.
func together(t *testing.T, text string) string {
	t.Helper()
	e, objects := engine(t, several+text)
	c := e.Combine(objects)
	said := ""
	for _, o := range objects {
		said += lines(o.GetKind()+" "+o.GetName(), validate(t, c, o))
	}
	rest, err := c.Rest(t.Context())
	rendertest.OK(t, err)
	return said + lines("rest", rest)
}

func TestCombined(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, rego, want string }{
		{
			"the input is as conftest gives it",
			`deny contains sprintf("%v", [[x | some o in input; x := [o.path, o.contents.metadata.name]]])`,
			"rest: fail deny main.deny a.rego:2:1 \"[[\\\"a.yaml\\\", \\\"web\\\"], [\\\"b.yaml\\\", \\\"web\\\"], [\\\"b.yaml\\\", \\\"db\\\"], [\\\"c.yaml\\\", \\\"key\\\"]]\"\n",
		},
		{
			"details name the object",
			`deny contains {"msg": "x", "path": "c.yaml"}
warn contains {"msg": "y", "kind": "Service", "name": "web", "field": "spec.selector"}
violation contains {"msg": "z", "pointer": "/2/contents/spec/selector/app"}`,
			"Service web: fail warn main.warn a.rego:3:1 \"y\" /spec/selector\n" +
				"Service db: fail deny main.violation a.rego:4:1 \"z\" /spec/selector/app\n" +
				"Secret key: fail deny main.deny a.rego:2:1 \"x\"\n",
		},
		{
			"what the rule read names the object",
			`deny contains msg if {
	some i
	input[i].contents.kind == "Service"
	app := input[i].contents.spec.selector.app
	not labelled(app)
	msg := sprintf("no Pod has the label %s", [app])
}
labelled(app) if input[_].contents.metadata.labels.app == app
warn contains msg if {
	some i, j
	i < j
	input[i].contents.metadata.name == input[j].contents.metadata.name
	msg := sprintf("there are two called %s", [input[i].contents.metadata.name])
}`,
			"Service db: fail deny main.deny a.rego:2:1 \"no Pod has the label none\" /spec/selector/app\n" +
				"Pod web: fail warn main.warn a.rego:10:1 \"there are two called web\" /metadata/name " +
				"[all objects are checked together, and the violation depends on this one, with Service web]\n",
		},
		{
			"no value of a Secret is told",
			`deny contains {"msg": o.contents.stringData.password, "path": "a.yaml"} if some o in input`,
			"Pod web: fail deny main.deny a.rego:2:1 \"" + opa.Hidden + "\"\n",
		},
		{
			"what breaks is about no object",
			`deny contains "x" if x > 1
x := 1 if input[0]
x := 2 if input[1]
exception contains ["y"] if count(input) == 4
warn_y contains "y"`,
			"rest: error deny main.deny a.rego:4:1 \"main.deny can't be evaluated: rule data.main.x produced conflicting values\"\n" +
				"rest: skip warn main.warn_y a.rego:6:1 \"exempted by a.rego:5:1\"\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := together(t, "-- a.rego --\npackage main\n"+tt.rego+"\n")
			if diff := cmp.Diff(tt.want, withoutPasses(got)); diff != "" {
				t.Errorf("%s\n%s", diff, got)
			}
		})
	}
}

func TestCombinedPassesWhatIsNotViolated(t *testing.T) {
	t.Parallel()
	e, objects := engine(t, several+"-- a.rego --\npackage main\ndeny contains {\"msg\": \"x\", \"path\": \"c.yaml\"}\n")
	c := e.Combine(objects)
	rendertest.Equal(t, e.Rules(), c.Rules())
	passes := 0
	for _, o := range objects {
		for _, r := range validate(t, c, o) {
			if r.Outcome == policy.Pass {
				passes++
			}
		}
	}
	if passes != 3 {
		t.Errorf("%d objects of 4 pass, want 3", passes)
	}
	if got := validate(t, c, &render.Object{}); got != nil {
		t.Errorf("of another object it says %v", got)
	}
}
