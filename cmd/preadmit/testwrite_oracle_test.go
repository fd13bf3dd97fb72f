package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestWrittenTests has tests written for published policies from published objects,
// and the real programs run them.
func TestWrittenTests(t *testing.T) {
	for _, lib := range []struct {
		name, variable, program, args, suite string
		policies, objects                    []string
		least                                int
	}{
		{
			name: "kyverno", variable: "PREADMIT_KYVERNO", program: "kyverno", args: "test", suite: "kyverno-test.yaml", least: 9,
			policies: []string{"kyverno-policies/best-practices/*/*.yaml"}, objects: []string{"kyverno-policies/best-practices/*/.kyverno-test/*resource*.yaml"},
		},
		{
			name: "gatekeeper", variable: "PREADMIT_GATOR", program: "gator", args: "verify", suite: "suite.yaml", least: 10,
			policies: []string{"gatekeeper-library/library/general/*/template.yaml", "gatekeeper-library/library/general/*/samples/*/constraint.yaml"},
			objects:  []string{"gatekeeper-library/library/general/*/samples/*/example*.yaml"},
		},
	} {
		t.Run(lib.name, func(t *testing.T) {
			program := needProgram(t, lib.variable, lib.program)
			dir := t.TempDir()
			rendertest.OK(t, os.Mkdir(filepath.Join(dir, ".git"), 0o755))
			copyCorpora(t, filepath.Join(dir, "policies"), lib.policies)
			copyCorpora(t, filepath.Join(dir, "objects"), lib.objects)
			var out, errOut bytes.Buffer
			tests := filepath.Join(dir, "tests")
			args := []string{"test", "--write", tests, "-p", filepath.Join(dir, "policies"), filepath.Join(dir, "objects")}
			if code := run(context.Background(), args, nil, &out, &errOut); code != exitOK {
				t.Fatalf("exit code %d: %s%s", code, errOut.String(), out.String())
			}
			suites, _ := filepath.Glob(filepath.Join(tests, "*", lib.suite))
			if len(suites) < lib.least {
				t.Errorf("%d tests are written, not %d: %s", len(suites), lib.least, out.String())
			}
			accepted := 0
			for _, suite := range suites {
				said, err := exec.Command(program, lib.args, filepath.Dir(suite)).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v: %s", suite, err, said)
					continue
				}
				accepted++
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			t.Logf("table written tests of %s: %d / %d accepted; %s", lib.name, accepted, len(suites), lines[len(lines)-1])
		})
	}
}

// copyCorpora copies published files to a directory, under names of which no two are
// alike.
func copyCorpora(t *testing.T, to string, globs []string) {
	t.Helper()
	rendertest.SkipWithout(t, gatekeeperCorpora)
	for _, glob := range globs {
		files, err := filepath.Glob(gatekeeperCorpora + glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", glob, len(files), err)
		}
		for _, file := range files {
			rel, err := filepath.Rel(gatekeeperCorpora, file)
			rendertest.OK(t, err)
			data := rendertest.ReadFile(t, file)
			name := filepath.Join(to, strings.ReplaceAll(filepath.ToSlash(rel), "/.", "/"))
			rendertest.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
			rendertest.OK(t, os.WriteFile(name, data, 0o644))
		}
	}
}
