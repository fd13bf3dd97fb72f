package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// TestPublishedRemovals rehearses the upgrade to the release that removed a version of
// an API, for each that Kubernetes published. The object is newly refused, with
// the version that replaces it. What the oldest known release already lacks is
// refused before and after.
func TestPublishedRemovals(t *testing.T) {
	data := rendertest.ReadFile(t, "../../testdata/removals.txt")
	line := regexp.MustCompile(`(?m)^1\.(\d+) (\S+) (\S+): (.+)$`)
	removals := line.FindAllStringSubmatch(string(data), -1)
	if len(removals) < 20 {
		t.Fatalf("only %d removals", len(removals))
	}
	for _, m := range removals {
		minor, _ := strconv.Atoi(m[1])
		dir := t.TempDir()
		object := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: a}\n", m[2], m[3])
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(object), 0o666))
		want := policy.New
		from, to := minor-1, minor
		if minor <= 29 {
			want, from, to = policy.Unchanged, 29, 30
		}
		args := []string{"check", "--from-kube-version", fmt.Sprintf("1.%d", from), "--kube-version", fmt.Sprintf("1.%d", to), "--no-cache", "--pack", "best-practices", "-o", "json", "a.yaml"}
		var r report.Report
		if err := json.Unmarshal([]byte(printed(t, dir, args)), &r); err != nil {
			t.Errorf("%v: %v", m[0], err)
			continue
		}
		message := fmt.Sprintf("Kubernetes 1.%s removed it; use %s", m[1], m[4])
		found := false
		for _, x := range r.Results {
			found = found || strings.HasSuffix(x.Message, message) && x.Baseline == want && x.Action == policy.Deny && x.Outcome == policy.Fail && x.Origins[0].Line == 1
		}
		if !found {
			t.Errorf("%s: no %s refusal %q: %+v", m[0], want, message, r.Results)
		}
	}
}
