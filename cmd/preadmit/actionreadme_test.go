package main

import (
	"bytes"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render/rendertest"
)

// A workflow has the keys that README.md's has.
type workflow struct {
	Name string
	On   struct {
		PullRequest any `yaml:"pull_request"`
		MergeGroup  any `yaml:"merge_group"`
		Push        struct{ Branches []string }
	}
	Permissions map[string]string
	Jobs        map[string]struct {
		RunsOn      string `yaml:"runs-on"`
		Permissions map[string]string
		Steps       []struct {
			Uses string
			With map[string]string
		}
	}
}

// testActionReadme runs the workflow that README.md shows on each event that
// it names.
func testActionReadme(t *testing.T, s *shop) {
	w := readmeWorkflow(t)
	if len(w.Jobs) != 1 || len(w.On.Push.Branches) != 1 || w.On.Push.Branches[0] != "main" || len(w.Permissions) != 0 {
		t.Fatalf("the workflow is %+v", w)
	}
	for _, event := range []string{"pull_request", "push", "merge_group"} {
		for _, job := range w.Jobs {
			if len(job.Steps) != 2 || job.Permissions["contents"] != "read" || job.Permissions["security-events"] != "write" {
				t.Fatalf("the job is %+v", job)
			}
			checkout, check := job.Steps[0], job.Steps[1]
			if !strings.HasPrefix(checkout.Uses, "actions/checkout@") || !strings.HasPrefix(check.Uses, "preadmit/preadmit@") {
				t.Fatalf("the steps are %+v", job.Steps)
			}
			c := newActionCase(t, s).event(event, "acme/shop", s.main).checkout(newestMerge, "--depth="+checkout.With["fetch-depth"])
			program := c.job.Inputs["binary-path"]
			c.job.Inputs = check.With
			c.job.Inputs["binary-path"] = program
			want(t, c.run(), outputsOf{"exit-code": "1", "base": s.main, "denied": "1", "unchanged": "1"})
			checkUpload(t, c)
		}
	}
}

// readmeWorkflow is the workflow in README.md. A key that it does not know is
// an error.
func readmeWorkflow(t *testing.T) workflow {
	t.Helper()
	data := rendertest.ReadFile(t, "../../README.md")
	for block := range strings.SplitSeq(string(data), "```yaml\n") {
		text, _, _ := strings.Cut(block, "```\n")
		if !strings.Contains(text, "\njobs:\n") {
			continue
		}
		var w workflow
		d := yaml.NewDecoder(bytes.NewReader([]byte(text)))
		d.KnownFields(true)
		rendertest.OK(t, d.Decode(&w))
		return w
	}
	t.Fatal("README.md has no workflow")
	return workflow{}
}
