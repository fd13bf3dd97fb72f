//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// TestChaos kills the child of a run at random. The report is that of a run
// that nobody disturbs, or names what was set apart, and it is written whole.
// PREADMIT_CHAOS is how often, 200 for a release.
func TestChaos(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("children are found in /proc")
	}
	kills, _ := strconv.Atoi(os.Getenv("PREADMIT_CHAOS"))
	kills = max(kills, 5)
	dir := chaosTree(t)
	began := time.Now()
	undisturbed, _ := chaosRun(t, dir, nil)
	long := time.Since(began)
	seed := rand.NewPCG(1, 2)
	random := rand.New(seed)
	same := 0
	for i := range kills {
		killed := false
		data, stderr := chaosRun(t, dir, func(parent int) {
			time.Sleep(time.Duration(random.Int64N(int64(long))))
			killed = killChild(parent)
		})
		if bytes.Equal(data, undisturbed) {
			same++
			continue
		}
		var r report.Report
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("kill %d (%v): the report is broken: %v\n%s", i, killed, err, stderr)
		}
		if !strings.Contains(string(data), "set-apart") && !strings.Contains(string(data), "incomplete-run") {
			t.Errorf("kill %d (%v): another report that names nothing: %+v\n%s", i, killed, r.Summary, stderr)
		}
	}
	t.Logf("%d of %d runs gave the undisturbed report", same, kills)
	if same == 0 {
		t.Error("no run came through")
	}
}

// chaosTree is a repository of charts and manifests.
func chaosTree(t *testing.T) string {
	dir := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		rendertest.WriteFile(t, name, text)
	}
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {hostNetwork: true, containers: [{name: a, image: a}]}\n"
	for i := range 30 {
		write(fmt.Sprintf("m%d.yaml", i), fmt.Sprintf(pod, i))
		write(fmt.Sprintf("c%d/Chart.yaml", i), "apiVersion: v2\nname: c\nversion: 0.1.0\n")
		write(fmt.Sprintf("c%d/templates/p.yaml", i), "{{ range until 20000 }}{{ end }}\n"+fmt.Sprintf(pod, 100+i))
	}
	return dir
}

// chaosRun is a run, with its JSON report; disturb is called with its process.
func chaosRun(t *testing.T, dir string, disturb func(pid int)) (data []byte, stderr string) {
	t.Helper()
	cmd := exec.Command("preadmit", "check", "--no-cache", "--pack", "pod-security-baseline", "-o", "json")
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	rendertest.OK(t, cmd.Start())
	if disturb != nil {
		disturb(cmd.Process.Pid)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitDenied && code != exitIncomplete {
		t.Errorf("exit code %d\n%s", code, errs.String())
	}
	return out.Bytes(), errs.String()
}

func killChild(parent int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, name := range tasks {
		data, _ := os.ReadFile(name)
		for _, word := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(word); err == nil {
				return syscall.Kill(pid, syscall.SIGKILL) == nil
			}
		}
	}
	return false
}
