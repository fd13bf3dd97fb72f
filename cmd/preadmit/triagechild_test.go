//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A conversation is a run of triage --plain that a test talks to.
type conversation struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

func newConversation(t *testing.T, dir string, args ...string) *conversation {
	t.Helper()
	d := &conversation{t: t, cmd: exec.Command("preadmit", append([]string{"triage", "--plain", "--no-cache", "--pack", "pod-security-baseline"}, args...)...)}
	d.cmd.Dir, d.cmd.Stderr = dir, &d.errs
	var err error
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	rendertest.OK(t, err)
	d.out = bufio.NewReader(out)
	rendertest.OK(t, d.cmd.Start())
	t.Cleanup(func() { d.cmd.Process.Kill(); d.cmd.Wait() })
	return d
}

// say gives a line, "" for none, and returns all up to the next prompt.
func (d *conversation) say(line string) string {
	d.t.Helper()
	if line != "" {
		fmt.Fprintln(d.in, line)
	}
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "triage> ") {
		c, err := d.out.ReadByte()
		if err != nil {
			d.t.Fatalf("after %q: %v\n%s%s", line, err, b.String(), d.errs.String())
		}
		b.WriteByte(c)
	}
	return b.String()
}

func (d *conversation) expect(line, want string) {
	d.t.Helper()
	if got := d.say(line); !strings.Contains(got, want) {
		d.t.Errorf("%s: want %q in\n%s", line, want, got)
	}
}

// TestTriageSupervised holds that the process with the screen outlives its child: a
// unit that takes too much is set apart, and a killed child is replaced.
func TestTriageSupervised(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		".git/HEAD":                "ref: refs/heads/main\n",
		"good.yaml":                "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: a, image: a, securityContext: {privileged: true}}]}\n",
		"large/Chart.yaml":         "apiVersion: v2\nname: large\nversion: 0.1.0\n",
		"large/templates/all.yaml": "{{- range until 100 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x{{ . }}}\ndata: {a: \"{{ repeat 550000 \"x\" }}\"}\n{{- end }}\n",
	} {
		file := filepath.Join(dir, name)
		rendertest.WriteFile(t, file, text)
	}
	d := newConversation(t, dir, "--task-memory", "160")
	d.expect("", "1. denied: Pod default/good")
	d.expect("s undecided", "large")
	d.expect("1", "rendering it needs more than 160 MiB of memory: it is skipped")
	d.say("s open")
	for range 2 { // the second is asked of the child that took the first one's place
		if !killChild(d.cmd.Process.Pid) {
			t.Fatal("there is no child")
		}
		time.Sleep(100 * time.Millisecond)
		d.expect("x 1", "verdict of")
		d.expect("o 1", "privileged: true")
		d.expect("1", "line: spec:")
	}
	d.expect("r", "1. denied: Pod default/good")
	status := rendertest.ReadFile(t, fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		var kb int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 && kb > 300<<10 {
			t.Errorf("the process with the screen takes %d MiB", kb>>10)
		}
	}
	fmt.Fprintln(d.in, "q")
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, d.errs.String())
	}
}

// TestTriageTimeout holds that a run that --timeout cuts short is shown, and that the
// exit code says so.
func TestTriageTimeout(t *testing.T) {
	t.Parallel()
	d := newConversation(t, slowTree(t), "--timeout", "1ms")
	d.expect("", "Type ? for what can be done here.")
	d.expect("s undecided", "render/incomplete-run, 1 result:")
	fmt.Fprintln(d.in, "q")
	_ = d.cmd.Wait()
	if code := d.cmd.ProcessState.ExitCode(); code != exitIncomplete || !strings.Contains(d.errs.String(), "the run is incomplete") {
		t.Errorf("exit code %d\n%s", code, d.errs.String())
	}
}

// TestTriageSavedConfined holds that the child that reads a saved report can read
// only what the run is about.
func TestTriageSavedConfined(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace on PATH: what processes do is not seen")
	}
	preadmit, err := exec.LookPath("preadmit")
	rendertest.OK(t, err)
	dir := slowTree(t)
	saved := filepath.Join(t.TempDir(), "saved.json")
	check := exec.Command(preadmit, "check", "--no-cache", "--sandbox", "require", "-o", "json="+saved, "pod.yaml")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Skipf("no process can be confined here: %v\n%s", err, out)
	}
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command(strace, "-qq", "-f", "-e", "trace=landlock_restrict_self", "-o", log, preadmit, "triage", "--plain", saved)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader("1\nr\nq\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("strace: %v\n%s", err, out)
	}
	if n := strings.Count(string(out), "Pod default/good"); n < 2 {
		t.Errorf("the report is shown %d times, not again when it is read again:\n%s", n, out)
	}
	trace := rendertest.ReadFile(t, log)
	if !strings.Contains(string(trace), "landlock_restrict_self(") {
		t.Error("its child may read every file")
	}
}

// TestTriageReadsNothing holds that the process with the screen opens no file of
// the repository: its child does.
func TestTriageReadsNothing(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace on PATH: what processes open is not seen")
	}
	dir := t.TempDir()
	rendertest.OK(t, os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {hostPID: true, containers: [{name: a, image: a}]}\n"), 0o644))
	log := filepath.Join(t.TempDir(), "log")
	preadmit, err := exec.LookPath("preadmit")
	rendertest.OK(t, err)
	cmd := exec.Command(strace, "-qq", "-f", "-ff", "-e", "trace=openat,openat2,execve,clone,clone3", "-o", log, preadmit, "triage", "--plain", "--no-cache", "--sandbox=off", "--pack", "pod-security-baseline")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader("1\nx 1\no 1\nq\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("strace: %v\n%s", err, out)
	}
	logs := make(map[string]string) // of threads
	files, _ := filepath.Glob(log + ".*")
	for _, f := range files {
		data := rendertest.ReadFile(t, f)
		logs[filepath.Ext(f)[1:]] = string(data)
	}
	ofChild := make(map[string]bool)
	for id, text := range logs {
		if strings.Contains(text, `["`+supervise.Marker) {
			threadsOf(id, logs, ofChild)
		}
	}
	opened := 0
	for id, text := range logs {
		if strings.Contains(text, "pod.yaml") {
			opened++
			if !ofChild[id] {
				t.Errorf("thread %s of the process with the screen opens the manifest", id)
			}
		}
	}
	if opened == 0 {
		t.Error("nobody opens the manifest")
	}
}

var cloned = regexp.MustCompile(`(?m)clone3?\(.*= (\d+)$`)

// threadsOf collects a thread and those that it starts, and so on.
func threadsOf(id string, logs map[string]string, all map[string]bool) {
	if all[id] {
		return
	}
	all[id] = true
	for _, m := range cloned.FindAllStringSubmatch(logs[id], -1) {
		threadsOf(m[1], logs, all)
	}
}
