package gatekeeper

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestImplied evaluates what expansion templates make of objects, with the lines
// of what they are made from.
func TestImplied(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata/implied", rendertest.Twice(func(t *testing.T, a *txtar.Archive) string {
		policies, objects := parseAll(t, string(a.Files[0].Data)), rendertest.Parse(t, "objects.yaml", a.Files[1].Data)
		e, err := New(policies, Options{Kinds: bareKinds{}, Cluster: policy.NewCluster(append(policies, objects...)...)})
		var b strings.Builder
		for _, e := range render.Errors(err) {
			fmt.Fprintf(&b, "! %s [%s]\n", e, e.Rule)
		}
		chain := policy.Chain{Kinds: bareKinds{}, Validators: []policy.Validator{e}}
		results, err := chain.Review(t.Context(), policy.Requests(nil, objects))
		rendertest.OK(t, err)
		for _, r := range results {
			place := "nowhere"
			if len(r.Origins) > 0 {
				place = r.Origins[0].String()
			}
			fmt.Fprintf(&b, "%s %s %s/%s %s %s: %s\n", r.Outcome, r.Action, r.Rule, r.Policy, strings.Join(r.Fields, ","), place, r.Message)
			for _, s := range r.Assumed {
				fmt.Fprintf(&b, "  assumed: %s\n", s)
			}
		}
		return b.String()
	}))
}

// TestImpliedBesideGator asks about the same objects as gator does, and compares
// with what `gator test` v3.23.1 said, which is recorded in files of their own;
// GATOR=path/to/gator UPDATE_GOLDEN=1 records it anew.
func TestImpliedBesideGator(t *testing.T) {
	t.Parallel()
	records, err := filepath.Glob("testdata/implied/*.gator")
	if err != nil || len(records) == 0 {
		t.Fatal("no records", err)
	}
	for _, record := range records {
		a := rendertest.ParseArchive(t, strings.TrimSuffix(record, ".gator")+".txtar")
		policies, objects := a.Files[0].Data, evaluated(t, a.Files[1].Data)
		if bin := os.Getenv("GATOR"); bin != "" && os.Getenv("UPDATE_GOLDEN") != "" {
			rendertest.OK(t, os.WriteFile(record, testWithGator(t, bin, policies, objects), 0o600))
		}
		want := rendertest.ReadFile(t, record)
		if diff := cmp.Diff(string(want), reviewAll(t, policies, objects)); diff != "" {
			t.Errorf("%s: %s", record, diff)
		}
	}
}

// evaluated are the objects that gator does not refuse to look at.
func evaluated(t *testing.T, objects []byte) []byte {
	t.Helper()
	before, _, _ := strings.Cut(string(objects), "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: empty")
	return []byte(before)
}

// testWithGator gives the violations that gator finds, sorted.
func testWithGator(t *testing.T, bin string, policies, objects []byte) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "input.yaml")
	rendertest.OK(t, os.WriteFile(file, slices.Concat(policies, []byte("---\n"), objects), 0o600))
	out, _ := exec.Command(bin, "test", "--filename", file, "--output", "json").Output() // fails where there are violations
	var found []struct {
		Msg               string
		EnforcementAction string
		Constraint        struct {
			Kind     string
			Metadata struct{ Name string }
		}
		ViolatingObject struct {
			Kind     string
			Metadata struct{ Name string }
		}
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var lines []string
	for _, f := range found {
		lines = append(lines, fmt.Sprintf("%s/%s %s %s/%s: %s\n", f.ViolatingObject.Kind, f.ViolatingObject.Metadata.Name, f.EnforcementAction, f.Constraint.Kind, f.Constraint.Metadata.Name, f.Msg))
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}

// reviewAll gives the violations that the engine finds as gator.
func reviewAll(t *testing.T, policies, objects []byte) string {
	t.Helper()
	e, err := New(parseAll(t, string(policies)), Options{Written: true, EnforcementPoint: PointGator})
	rendertest.OK(t, err)
	var lines []string
	for _, o := range rendertest.Parse(t, "objects.yaml", objects) {
		responses, err := e.Review(t.Context(), Review{Object: o})
		rendertest.OK(t, err)
		for _, r := range responses {
			lines = append(lines, fmt.Sprintf("%s/%s %s %s/%s: %s\n", o.GetKind(), o.GetName(), strings.Join(r.Actions, ","), r.Constraint.GetKind(), r.Constraint.GetName(), r.Message))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
