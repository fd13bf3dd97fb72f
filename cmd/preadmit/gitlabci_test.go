package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestGitLabCI runs the script of the GitLab CI template as a runner would, on
// checkouts of a repository.
func TestGitLabCI(t *testing.T) {
	t.Parallel()
	data := rendertest.ReadFile(t, "../../.github/gitlab-ci.yml")
	var file struct {
		Job struct {
			Script    []string
			Artifacts struct {
				Paths   []string
				Reports map[string]string
			}
		} `yaml:"preadmit"`
	}
	rendertest.OK(t, yaml.Unmarshal(data, &file))
	s := newShop(t)
	for _, test := range []struct {
		name string
		env  []string
		code int
		says string
	}{
		{"merge request", []string{"CI_MERGE_REQUEST_IID=7", "CI_MERGE_REQUEST_DIFF_BASE_SHA=" + s.first, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA=" + s.main}, 1, "result: 1 denied; 2 passed, 1 unchanged"},
		{"merge request, not merged", []string{"CI_MERGE_REQUEST_IID=7", "CI_MERGE_REQUEST_DIFF_BASE_SHA=" + s.main}, 1, "result: 1 denied; 2 passed, 1 unchanged"},
		{"merge request without a base", []string{"CI_MERGE_REQUEST_IID=7"}, 3, "no commit to compare with"},
		{"merge request, base not here", []string{"CI_MERGE_REQUEST_IID=7", "CI_MERGE_REQUEST_DIFF_BASE_SHA=" + strings.Repeat("de", 20)}, 2, "--base"},
		{"push", []string{"CI_COMMIT_BEFORE_SHA=" + s.main}, 1, "result: 1 denied; 2 passed, 1 unchanged"},
		{"first push", []string{"CI_COMMIT_BEFORE_SHA=" + zeros}, 1, "result: 2 denied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newActionCase(t, s).checkout(newestMerge)
			cmd := exec.Command("sh", "-e", "-c", strings.Join(file.Job.Script, "\n"))
			cmd.Dir = c.at
			cmd.Env = append(test.env, "PATH="+filepath.Dir(c.job.Inputs["binary-path"])+string(os.PathListSeparator)+os.Getenv("PATH"), "PREADMIT_ARGS=apps --policy policies",
				"CI_PROJECT_URL=https://gitlab.example/acme/shop", "CI_COMMIT_SHA="+s.merge)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.says) {
				t.Errorf("exit code %d, want %d and %q\n%s", code, test.code, test.says, out)
			}
			if test.code != 1 {
				return
			}
			if page, err := os.ReadFile(filepath.Join(c.at, "preadmit.html")); err != nil || !strings.Contains(string(page), "https://gitlab.example/acme/shop/-/blob/"+s.merge+"/apps/web.yaml#L7") {
				t.Errorf("no link to the line in the page: %v", err)
			}
			for _, kept := range append(file.Job.Artifacts.Paths, file.Job.Artifacts.Reports["codequality"], file.Job.Artifacts.Reports["junit"]) {
				if info, err := os.Stat(filepath.Join(c.at, kept)); err != nil || info.Size() == 0 {
					t.Errorf("%s: %v", kept, err)
				}
			}
		})
	}
}
