package podsecurity

import (
	"strings"
	"testing"

	"k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestEveryControlIsKnown fails when a newer library brings a control that is
// not documented or not located here, and when one is that it no longer has.
func TestEveryControlIsKnown(t *testing.T) {
	t.Parallel()
	known := map[string]bool{labelsRule: true}
	for _, c := range psa.DefaultChecks() {
		known[string(c.ID)] = true
		d, ok := documents()[string(c.ID)]
		if !ok {
			t.Errorf("no document for %s", c.ID)
		}
		if d.Level != c.Level {
			t.Errorf("%s is documented as %s, but is %s", c.ID, d.Level, c.Level)
		}
	}
	for id := range documents() {
		if !known[id] {
			t.Errorf("%s is documented, but is no control", id)
		}
	}
	for id, d := range documents() {
		if d.Title == "" || d.Description == "" || d.Fix == "" || d.Severity == "" {
			t.Errorf("%s is not documented whole", id)
		}
	}
}

// TestExamples asks each control about its own examples.
func TestExamples(t *testing.T) {
	t.Parallel()
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	baseline := api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}
	all := newLevels(psa.DefaultChecks(), api.LatestVersion())
	tested := 0
	for _, c := range append(all.controls(baseline), all.controls(restricted)...) {
		for _, example := range []struct {
			yaml    string
			allowed bool
		}{{documents()[c.id].Bad, false}, {documents()[c.id].Good, true}} {
			var tree map[string]any
			if err := yaml.UnmarshalStrict([]byte(example.yaml), &tree); err != nil {
				t.Fatalf("%s: %v", c.id, err)
			}
			p, err := extract(integers(tree).(map[string]any), "")
			if err != nil {
				t.Fatalf("%s: %v", c.id, err)
			}
			if v := c.check(p.meta, p.spec); v.Allowed != example.allowed {
				t.Errorf("%s: %s is allowed: %v", c.id, example.yaml, v.Allowed)
			}
			tested++
		}
	}
	if tested < 2*len(documents()) {
		t.Errorf("only %d examples were tested", tested)
	}
}

func TestLabelExamples(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]policy.Outcome{documents()[labelsRule].Bad: policy.Fail, documents()[labelsRule].Good: policy.Pass} {
		o := object(t, "apiVersion: v1\nkind: Namespace\n"+text)
		e, err := New(Options{Level: "baseline"})
		rendertest.OK(t, err)
		got, err := e.Validate(t.Context(), request(t, policy.Create, o, nil))
		if err != nil || len(got) != 1 || got[0].Outcome != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
}

// TestRules: what is documented is what Validate answers by.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"baseline", "restricted"} {
		e, err := New(Options{Level: level})
		rendertest.OK(t, err)
		rules := e.Rules()
		want := map[string]bool{level + "/" + labelsRule: true}
		for _, r := range results(t, e, policy.Create, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n") {
			want[r.Policy+"/"+r.Rule] = true
		}
		for _, r := range rules {
			if !want[r.Policy+"/"+r.Name] {
				t.Errorf("%s/%s is documented, but gave no result", r.Policy, r.Name)
			}
			delete(want, r.Policy+"/"+r.Name)
			if r.Engine != policy.EnginePodSecurity || r.Action != policy.Deny || !strings.HasPrefix(r.URL, "https://kubernetes.io/docs/") || !strings.Contains(r.Help, "```yaml\n") {
				t.Errorf("odd rule %+v", r)
			}
		}
		if len(want) > 0 {
			t.Errorf("not documented: %v", want)
		}
	}
}
