package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCacheCost prints what a first and a second run over 300 units take, the
// second with one values file changed, with and without --base: `make recall`.
func TestCacheCost(t *testing.T) {
	if os.Getenv("PREADMIT_RECALL") == "" {
		t.Skip("set PREADMIT_RECALL=1 to measure")
	}
	dir, kept := t.TempDir(), t.TempDir()
	bin := filepath.Join(dir, "preadmit")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	repo := filepath.Join(dir, "repo")
	for _, part := range []string{"policies", "infra"} {
		copyDir(t, filepath.Join(repo, part), part)
	}
	for i := range 100 {
		for _, part := range []string{"apps", "charts"} {
			copyDir(t, filepath.Join(repo, fmt.Sprintf("team-%03d", i), part), part)
		}
	}
	made, err := gittest.Init(repo)
	if err == nil {
		_, err = made.CommitAll("base")
	}
	rendertest.OK(t, err)
	values := filepath.Join(repo, "team-050/charts/web/values.yaml")
	original := rendertest.ReadFile(t, values)
	edit := func(replicas string) {
		t.Helper()
		data := bytes.Replace(original, []byte("replicaCount: 2"), []byte(replicas), 1)
		if err := os.WriteFile(values, data, 0o644); err != nil || replicas == "" || bytes.Equal(data, original) != (replicas == "replicaCount: 2") {
			t.Fatalf("no edit: %v", err)
		}
	}
	for _, args := range [][]string{
		{"-o", "text"},
		{"-o", "json"},
		{"-o", "text", "--pack", "best-practices"},
		{"--base", "HEAD", "-o", "text"},
		{"--base", "HEAD", "-o", "json"},
		{"--base", "HEAD", "-o", "text", "--pack", "best-practices"},
	} {
		edit("replicaCount: 2")
		args = append([]string{"check", repo, "-q", "--cache", filepath.Join(kept, fmt.Sprint(args))}, args...)
		first := measured(t, bin, args)
		same := measured(t, bin, args)
		edit("replicaCount: 3")
		changed := measured(t, bin, args)
		without := measured(t, bin, append(args, "--no-cache"))
		if !bytes.Equal(changed.out, without.out) {
			t.Error("the reports differ")
		}
		t.Logf("%v\n  without    %v\n  first      %v\n  unchanged  %v, 1/%.1f of first\n  one values file changed  %v, 1/%.1f of first, 1/%.1f on the clock", args[5:],
			without, first, same, ratio(first.cpu, same.cpu), changed, ratio(first.cpu, changed.cpu), ratio(first.clock, changed.clock))
	}
}

func copyDir(t *testing.T, to, part string) {
	t.Helper()
	rendertest.OK(t, os.CopyFS(to, os.DirFS(filepath.Join("../../testdata/repos/shop", part))))
}

func ratio(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

// taken is what a process took.
type taken struct {
	cpu, clock time.Duration
	out        []byte
}

func (t taken) String() string {
	return fmt.Sprintf("%.2fs CPU, %.2fs", t.cpu.Seconds(), t.clock.Seconds())
}

func measured(t *testing.T, bin string, args []string) taken {
	t.Helper()
	cmd := exec.Command(bin, args...)
	start := time.Now()
	out, err := cmd.Output()
	clock := time.Since(start)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return taken{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), clock, out}
}
