//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render/rendertest"
)

// slowTree is a repository of a denied Pod and charts that take seconds each.
func slowTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {hostNetwork: true, containers: [{name: a, image: a}]}\n"}
	for i := range 12 {
		files[fmt.Sprintf("c%d/Chart.yaml", i)] = "apiVersion: v2\nname: c\nversion: 0.1.0\n"
		files[fmt.Sprintf("c%d/templates/a.yaml", i)] = "{{ range until 1000 }}{{ range until 100000 }}{{ add 1 1 1 1 1 1 1 1 }}{{ end }}{{ end }}\n"
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		rendertest.WriteFile(t, name, text)
	}
	return dir
}

// TestTimeoutWhileRendering holds that what is rendered when --timeout comes
// near is evaluated, and the rest named.
func TestTimeoutWhileRendering(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("preadmit", "check", "--no-cache", "--pack", "pod-security-baseline", "--jobs", "1", "--timeout", "4s")
	cmd.Dir = slowTree(t)
	out, _ := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != exitDenied {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"= object: v1 Pod default/good in pod.yaml", "c11/templates/a.yaml:1:", "not rendered, or only partly: 12 units", "1 denied, 12 in error"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestTerminated holds that SIGTERM ends a run with a report of what is done,
// also when it comes twice at once, as timeout(1) sends it.
func TestTerminated(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("preadmit", "check", "--no-cache", "--pack", "pod-security-baseline")
	cmd.Dir = slowTree(t)
	var out bytes.Buffer
	cmd.Stdout = &out
	rendertest.OK(t, cmd.Start())
	time.Sleep(700 * time.Millisecond)
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitIncomplete {
		t.Errorf("exit code %d", code)
	}
	if want := "error: the run is incomplete: "; !strings.HasPrefix(out.String(), want) || !strings.Contains(out.String(), "signal") {
		t.Errorf("%q is not at the beginning of\n%s", want, out.String())
	}
}
