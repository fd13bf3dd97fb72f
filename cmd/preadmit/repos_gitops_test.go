package main

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
)

// TestGitOpsRepositories holds what check says about repositories that Argo CD and
// Flux deploy against what their READMEs say is wrong: each violation in its
// unit, with the whole way from the line to edit to the rendered field.
func TestGitOpsRepositories(t *testing.T) {
	for _, name := range []string{"argocd", "flux"} {
		t.Run(name, func(t *testing.T) {
			repo := "../../testdata/repos/" + name
			want := make(map[string]string)
			for _, row := range rows(t, path.Join(repo, "README.md"), 5) {
				first, _, _ := strings.Cut(row[4], " ")
				holds(t, repo, unquote(first), unquote(row[3]))
				want[strings.ReplaceAll(strings.Join(row[:3], " "), "`", "")] = strings.ReplaceAll(row[4], "`", "")
			}
			r := checked(t, repo, exitDenied, "check", ".")
			unreached := make(map[string]bool)
			for _, u := range r.Units {
				unreached[u.ID] = u.Status == "unreached"
			}
			got := make(map[string]string)
			for _, x := range r.Results {
				if x.Outcome == policy.Pass || x.Outcome == policy.Skip || unreached[x.Object.Unit] {
					continue
				}
				f := found(x)
				got[strings.Join([]string{f.rule, f.object, x.Object.Unit}, " ")] = way(x)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("README -, check +:\n%s", diff)
			}
			if r.Summary.Clusters != 2 || r.Summary.Rendered+r.Summary.Unreached != r.Summary.Discovered {
				t.Errorf("summary is %+v", r.Summary)
			}
		})
	}
}

// way is where a result's field comes from, the line to edit first.
func way(x policy.Result) string {
	var places []string
	for _, o := range x.Origins {
		places = append(places, fmt.Sprintf("%s:%d", o.File, o.Line))
	}
	return strings.Join(places, " ← ")
}

// TestBrokenGitOps holds that what keeps Argo CD and Flux from deploying is
// reported at its place, each once, and that it leaves out its own unit alone.
func TestBrokenGitOps(t *testing.T) {
	repo := "../../testdata/repos/broken-gitops"
	readme := path.Join(repo, "README.md")
	want := make(map[string]int)
	for _, row := range rows(t, readme, 5) {
		if place := unquote(row[3]); strings.Contains(place, ":") {
			holds(t, repo, place, unquote(row[4]))
		}
		want[strings.ReplaceAll(strings.Join(row[:4], " "), "`", "")]++
	}
	states := make(map[string]string)
	for _, row := range rows(t, readme, 2) {
		states[unquote(row[0])] = row[1]
	}
	r := checked(t, repo, exitIncomplete, "check", ".")
	got := make(map[string]int)
	for _, x := range r.Results {
		outcome := string(x.Outcome)
		switch {
		case x.Outcome == policy.Pass || x.Outcome == policy.Skip:
			continue
		case x.Outcome == policy.Fail:
			outcome = string(x.Action)
		}
		place := x.Origins[0].Span
		place.Column = 0
		got[strings.Join([]string{x.Object.Unit, x.Rule, outcome, place.String()}, " ")]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README -, check +:\n%s", diff)
	}
	units := make(map[string]string)
	for _, u := range r.Units {
		if u.Status != "rendered" && u.Status != "unreached" {
			units[u.ID] = u.Status
		}
	}
	if diff := cmp.Diff(states, units); diff != "" {
		t.Errorf("README -, units +:\n%s", diff)
	}
}
