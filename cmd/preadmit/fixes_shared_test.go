package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/fixes"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestFixShared prints how many findings fix removes in published repositories, by published policies,
// and why not the others: `make fixes`. Each repository is written, and fixed and checked again: nothing
// more is to fix, and at least the findings that were fixed are gone.
func TestFixShared(t *testing.T) {
	only := os.Getenv("PREADMIT_FIXES")
	if only == "" {
		t.Skip("set PREADMIT_FIXES to a part of the names of repositories, or all")
	}
	shared, err := filepath.Abs("../../../shared")
	rendertest.OK(t, err)
	repos, _ := filepath.Glob(shared + "/repos/*/*") // the files and directories in each
	for i := range repos {
		repos[i] = filepath.Dir(repos[i])
	}
	if repos = slices.Compact(repos); len(repos) == 0 {
		t.Skip("../shared/repos is absent")
	}
	t.Logf("%-30s %-15s %8s %10s %8s %8s %6s %6s %8s", "repository", "policies", "findings", "determined", "template", "offered", "stays", "breaks", "unedited")
	for _, from := range repos {
		if only != "all" && !strings.Contains(filepath.Base(from), only) {
			continue
		}
		for _, library := range []struct{ name, glob string }{
			{"pod-security", "kyverno-policies/pod-security__*"},
			{"best-practices", "kyverno-policies/best-practices__*"},
			{"gatekeeper", "gatekeeper-library/general__*"},
		} {
			dir := t.TempDir()
			rendertest.OK(t, os.CopyFS(dir, os.DirFS(from)))
			rendertest.OK(t, os.MkdirAll(filepath.Join(dir, ".git"), 0o755))
			rendertest.OK(t, os.WriteFile(filepath.Join(dir, ".git/HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
			t.Chdir(dir)
			flags := []string{"--no-tree-policies"}
			policies, _ := filepath.Glob(filepath.Join(shared, "corpora", library.glob, "policies"))
			for _, p := range policies {
				flags = append(flags, "-p", p)
			}
			count := fixedIn(t, append(flags, "--write"))
			findings := 0
			for _, n := range count {
				findings += n
			}
			t.Logf("%-30s %-15s %8d %10d %8d %8d %6d %6d %8d", filepath.Base(from), library.name, findings, findings-count[fixes.NoValue],
				count[fixes.NoPlace], count[""], count[fixes.Stays]+count[fixes.TooLong], count[fixes.Breaks], count[fixes.Unedited])
			again := fixedIn(t, flags)
			left := 0
			for _, n := range again {
				left += n
			}
			if again[""] > 0 {
				t.Errorf("%s, %s: a second run fixes %d more", from, library.name, again[""])
			}
			if left > findings-count[""] {
				t.Errorf("%s, %s: %d of %d findings fixed, but %d are left", from, library.name, count[""], findings, left)
			}
		}
	}
}

// fixedIn runs fix and returns the number of findings for each reason.
func fixedIn(t *testing.T, flags []string) map[fixes.Reason]int {
	t.Helper()
	var stderr bytes.Buffer
	if code := run(t.Context(), append([]string{"fix", "--unsafe"}, flags...), nil, io.Discard, &stderr); code == exitUsage {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	count := make(map[fixes.Reason]int)
	for _, m := range regexp.MustCompile(`(?m)^  (\d+) not fixed: (.*)$|^preadmit: (\d+) of \d+ findings? fixed`).FindAllStringSubmatch(stderr.String(), -1) {
		n, _ := strconv.Atoi(m[1] + m[3])
		count[fixes.Reason(m[2])] = n
	}
	return count
}
