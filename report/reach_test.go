package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// update is a change of n objects of a unit.
func update(unit string, n int) []Change {
	var all []Change
	for i := range n {
		all = append(all, Change{Operation: policy.Update, Object: render.Key{APIVersion: "v1", Kind: "ConfigMap", Namespace: "x", Name: fmt.Sprintf("c%d", i), Unit: unit}})
	}
	return all
}

func TestPicture(t *testing.T) {
	t.Parallel()
	units := []Unit{
		{ID: "root", Status: "rendered"},
		{ID: "apps", Owner: "root", Status: "rendered"},
		{ID: "web", Owner: "apps", Status: "failed"},
		{ID: "db", Owner: "apps", Status: "rendered", Cluster: "prod"},
		{ID: "unchanged", Owner: "root", Status: "rendered"},
		{ID: "self", Owner: "self", Status: "rendered"},
		{ID: "a", Owner: "b", Status: "rendered"},
		{ID: "b", Owner: "a", Status: "rendered"},
		{ID: "lost", Owner: "nowhere", Status: "suspended"},
	}
	denied := policy.Result{Policy: "p", Outcome: policy.Fail, Action: policy.Deny, Object: render.Key{Kind: "ConfigMap", Name: "c0", Unit: "db"}}
	for _, c := range []struct {
		name    string
		changes [][]Change
		most    int
		want    string
	}{
		{"there is no picture if no unit deploys another", [][]Change{update("self", 3), update("gone", 1), update("lost", 1)}, 30, ``},
		{"owners are above, and only those", [][]Change{update("db", 1), update("web", 1)}, 30, `
  n0["root"]
  n0 --> n1["apps"]
  n1 --> n2["db on prod: 1 object updated · 1 denied"]
  n2 --> n3(["updated: ConfigMap x/c0"])
  n1 --> n4["web: failed · 1 object updated"]
  n4 --> n5(["updated: ConfigMap x/c0"])`},
		{"without room for all objects, those of the first", [][]Change{update("db", 2), update("web", 1)}, 6, `
  n0["root"]
  n0 --> n1["apps"]
  n1 --> n2["db on prod: 2 objects updated · 1 denied"]
  n2 --> n3(["updated: ConfigMap x/c0"])
  n2 --> n4(["updated: ConfigMap x/c1"])
  n1 --> n5["web: failed · 1 object updated"]`},
		{"without room for all units, their number", [][]Change{update("db", 1), update("web", 1), update("lost", 1)}, 4, `
  n0["root"]
  n0 --> n1["apps"]
  n1 --> n2["db on prod: 1 object updated · 1 denied"]
  n3["and 2 more units"]`},
		{"many objects of a unit are counted", [][]Change{update("db", 6)}, 30, `
  n0["root"]
  n0 --> n1["apps"]
  n1 --> n2["db on prod: 6 objects updated · 1 denied"]`},
		{"units that deploy themselves, each other, or were deployed by what is gone", [][]Change{update("a", 1), update("self", 1), update("lost", 1), update("gone", 1)}, 8, `
  n0["b"]
  n0 --> n1["a: 1 object updated"]
  n1 --> n2(["updated: ConfigMap x/c0"])
  n3["gone: 1 object updated"]
  n3 --> n4(["updated: ConfigMap x/c0"])
  n5["lost: suspended · 1 object updated"]
  n5 --> n6(["updated: ConfigMap x/c0"])
  n7["self: 1 object updated"]`},
	} {
		d := newDigest(&Report{Units: units, Changes: slices.Concat(c.changes...), Results: []policy.Result{denied}})
		got := strings.TrimPrefix(mermaid(d.picture(c.most, 5)), "graph LR")
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// TestPictureIsBounded holds that a picture of many units fits into a comment, as nothing else does.
func TestPictureIsBounded(t *testing.T) {
	t.Parallel()
	r := flood(2_000)
	for i := range 300 {
		r.Units = append(r.Units, Unit{ID: fmt.Sprintf("chain-%d", i), Owner: fmt.Sprintf("chain-%d", i-1), Status: "rendered"})
	}
	r.Changes = append(r.Changes, update("chain-299", 300)...)
	for _, limit := range []int{MinMarkdown, 60_000} {
		out := string(write(t, "markdown", r, Options{Limit: limit}))
		_, rest, _ := strings.Cut(out, "```mermaid\n")
		picture, _, _ := strings.Cut(rest, "```")
		if n := strings.Count(picture, "\n"); limit == 60_000 && n != 1+maxPicture || len(out) > limit || !strings.Contains(out, "What this change reaches") {
			t.Errorf("limit %d: %d bytes, %d lines of picture", limit, len(out), n)
		}
		rendertest.OK(t, checkMarkdown(r, []byte(out), Options{}))
	}
	rendertest.OK(t, checkPage(r, write(t, "html", r, Options{}), Options{}))
}

// TestFoldedUnits holds that units are folded after the first, and that lists of their objects are cut.
func TestFoldedUnits(t *testing.T) {
	t.Parallel()
	r := &Report{}
	for i := range 25 {
		unit := fmt.Sprintf("unit-%02d", i)
		r.Changes = append(r.Changes, update(unit, 1+i%2*230)...)
		r.Results = append(r.Results, policy.Result{Policy: "p", Outcome: policy.Fail, Object: render.Key{Kind: "Pod", Name: "x", Unit: unit}, Message: unit})
	}
	out := string(write(t, "markdown", r, Options{}))
	for text, want := range map[string]int{
		"\n- `unit-": 50, "<details><summary>5 more units</summary>": 1, "<details><summary>231 objects</summary>": 2,
		"<details><summary>1 object</summary>": 3, "  - … and 211 more\n": 12, "<details>": 6, "</details>": 6,
	} {
		if got := strings.Count(out, text); got != want {
			t.Errorf("%q is there %d times, not %d", text, got, want)
		}
	}
	page := string(write(t, "html", r, Options{}))
	if open, all := strings.Count(page, `<details class="set" open>`), strings.Count(page, `<details class="set"`); open != 30 || all != 37 {
		t.Errorf("%d of %d sets are open", open, all)
	}
}

// TestMermaidText holds that a label has no sign that Mermaid, or Markdown and HTML in it, would act on.
func TestMermaidText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"prod:flux/flux-system/apps (12 objects)": "prod:flux/flux-system/apps (12 objects)",
		"名前 é ключ":                               "名前 é ключ",
		"a\"] --> b[\"":                           "a#34;#93; --#62; b#91;#34;",
		"`x` <b> &lt; #35; %%{init}%%":            "#96;x#96; #60;b#62; #38;lt#59; #35;35#59; #37;#37;#123;init#125;#37;#37;",
		"$$x$$ **y** _z_":                         "#36;#36;x#36;#36; #42;#42;y#42;#42; #95;z#95;",
	} {
		if got := MermaidText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
