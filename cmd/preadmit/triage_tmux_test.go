package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// A terminal is one of tmux's, with a program in it.
type terminal struct {
	t      *testing.T
	socket string
}

func newTerminal(t *testing.T, width, height int, dir, command string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux on PATH: the screen is not driven")
	}
	sockets, err := os.MkdirTemp("", "tmux") // a socket's path is short
	rendertest.OK(t, err)
	x := &terminal{t, filepath.Join(sockets, "s")}
	t.Cleanup(func() {
		x.tmux("kill-server")
		os.RemoveAll(sockets)
	})
	x.tmux("new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "-c", dir, command+"; echo left with $?; sleep 1000")
	x.tmux("set", "-s", "set-clipboard", "on")
	return x
}

func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", x.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && args[0] != "kill-server" && args[0] != "show-buffer" {
		x.t.Fatalf("tmux %v: %v %s", args, err, stderr.Bytes())
	}
	return string(out)
}

func (x *terminal) screen() string { return x.capture("-p") }

func (x *terminal) capture(how string) string {
	x.t.Helper()
	var b strings.Builder
	for l := range strings.Lines(x.tmux("capture-pane", how)) {
		b.WriteString(strings.TrimRight(l, " \n") + "\n")
	}
	return b.String()
}

// press presses keys as tmux calls them; what begins with ' is typed.
func (x *terminal) press(keys ...string) {
	x.t.Helper()
	for _, k := range keys {
		if text, ok := strings.CutPrefix(k, "'"); ok {
			x.tmux("send-keys", "-l", text)
		} else {
			x.tmux("send-keys", k)
		}
	}
}

// wait waits for texts to be on the screen, and returns it once it rests.
func (x *terminal) wait(texts ...string) string {
	x.t.Helper()
	last := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		got := x.screen()
		all := got == last
		for _, text := range texts {
			all = all && strings.Contains(got, text)
		}
		if all {
			return got
		}
		last = got
	}
	x.t.Fatalf("no %q on the screen:\n%s", texts, last)
	return ""
}

// shot compares a screen with that of testdata/screens. UPDATE_GOLDEN=1, or
// make screens, rewrites it.
func shot(t *testing.T, name, got string) {
	t.Helper()
	rendertest.Golden(t, filepath.Join("../../testdata/screens", name+".txt"), got)
}

// coloured keeps a screen with its colours, for a picture. Only the text is
// compared: versions of tmux write colours in different ways.
func coloured(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("../../testdata/screens", name+".ansi")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		rendertest.OK(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want := rendertest.ReadFile(t, file)
	if diff := cmp.Diff(withoutColours(string(want)), withoutColours(got)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

func withoutColours(screen string) string {
	var b strings.Builder
	for l := range strings.Lines(sgr.ReplaceAllString(screen, "")) {
		b.WriteString(strings.TrimRight(l, " \n") + "\n")
	}
	return b.String()
}

// shopTerminal is a copy of testdata/repos/shop, as a repository, and the program.
func shopTerminal(t *testing.T) (dir, program string) {
	t.Helper()
	program, err := exec.LookPath("preadmit") // which testscript put there
	rendertest.OK(t, err)
	dir = filepath.Join(t.TempDir(), "shop")
	for _, err := range []error{os.CopyFS(dir, os.DirFS("../../testdata/repos/shop")), os.MkdirAll(filepath.Join(dir, ".git"), 0o755)} {
		rendertest.OK(t, err)
	}
	return dir, program
}

// TestTriageInTerminal drives the program in a terminal: filter, explain,
// accept, undo, write, edit and what follows.
func TestTriageInTerminal(t *testing.T) {
	t.Parallel()
	dir, program := shopTerminal(t)
	editor := filepath.Join(t.TempDir(), "edit")
	script := "#!/bin/sh\necho \"$@\" >\"$0.args\"\nsed -i 's/count: 12/count: 3/' \"$1\"\n"
	rendertest.OK(t, os.WriteFile(editor, []byte(script), 0o755))
	x := newTerminal(t, 120, 32, dir, fmt.Sprintf("EDITOR=%s %s triage --theme dark --date 2026-11-21 --disable-admission-plugins PodSecurity -p policies --with infra apps charts", editor, program))
	shot(t, "list", x.wait("Open 3", "✗ denied images/validations[1]", "^^^^^^ denied"))

	x.press("/", "'rule:max")
	shot(t, "filter", x.wait("/rule:max", "count: 12", "^^ denied"))
	x.press("Enter", "x")
	shot(t, "explain", x.wait("is it enforced? yes"))
	coloured(t, "explain", x.capture("-pe"))
	x.press("2")
	shot(t, "object", x.wait("kustomization.yaml:14 >   replicas: 12"))

	x.press("1", "w", "'sized for the sale")
	shot(t, "accept", x.wait("reason   sized for the sale", "1 suppression:"))
	x.press("Enter")
	x.wait("staged 1 suppression")
	x.press("u")
	x.wait("took back: accepting 1 result; 0 decisions staged")
	x.press("C-r")
	x.wait("1 decision staged")
	x.press("W")
	shot(t, "write", x.wait("This would be written to .preadmit/suppressions.yaml", "reason: sized for the sale"))
	x.press("Enter")
	x.wait("Open 2", "Suppressed 1")
	data, err := os.ReadFile(filepath.Join(dir, ".preadmit/suppressions.yaml"))
	if err != nil || !strings.Contains(string(data), "max-replicas/validations[0]") {
		t.Fatalf("%s %v", data, err)
	}

	// The suppression goes again, the editor repairs the line, and what was
	// wrong is gone.
	x.press("]", "]")
	x.wait("accepted until 2027-02-19: sized for the sale")
	x.press("d", "W")
	x.wait("-- rule", "enter writes it")
	x.press("Enter")
	x.wait("Open 3", "Suppressed 0")
	x.press("[", "[")
	x.wait("count: 12")
	x.press("e")
	x.wait("Open 2", "Suppressed 0", "Nothing matches the filter")
	if args, err := os.ReadFile(editor + ".args"); err != nil || !strings.HasSuffix(strings.TrimSpace(string(args)), "apps/api/overlays/prod/kustomization.yaml") {
		t.Errorf("the editor was given %q %v", args, err)
	}

	// A file that changes is seen, and the place kept.
	x.press("Escape")
	x.wait("images/validations[1]", "newTag: latest")
	x.press("G")
	x.wait("✗ denied require-limits")
	kustomization := filepath.Join(dir, "apps/api/overlays/staging/kustomization.yaml")
	data = rendertest.ReadFile(t, kustomization)
	rendertest.OK(t, os.WriteFile(kustomization, bytes.ReplaceAll(data, []byte("newTag: latest"), []byte("newTag: 4.8.0")), 0o644))
	x.wait("Open 1", "✗ denied require-limits")

	x.press("y", "p")
	x.wait("copied the place: charts/web/values.yaml:43:3")
	if got := x.tmux("show-buffer"); got != "charts/web/values.yaml:43:3" {
		t.Errorf("the clipboard has %q", got)
	}
	x.tmux("resize-window", "-x", "60", "-y", "14")
	x.wait("? help  q quit", ">  ✗")
	x.press("Enter")
	shot(t, "narrow", x.wait("^^^^ denied", "esc back"))
	x.tmux("resize-window", "-x", "30", "-y", "8")
	x.wait("triage needs 40")
	x.tmux("resize-window", "-x", "120", "-y", "32")
	x.wait("? help  q quit", "│✗ denied")
	x.press("?")
	shot(t, "help", x.wait("review and write"))
	x.press("q", "q")
	x.wait("left with 0")
}

// TestTriageFix sees a proved fix, writes it and takes it back. A file that changes while the diff is
// shown is left.
func TestTriageFix(t *testing.T) {
	t.Parallel()
	_, program := shopTerminal(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "chart/values.yaml")
	was := writeTree(t, dir, func(s string) string { return s })["chart/values.yaml"]
	x := newTerminal(t, 120, 30, dir, program+" triage --watch=false "+strings.Join(fixFlags, " "))
	x.wait("denied restricted/")
	x.press("/", "'rule:allow file:values", "Enter", "f")
	shot(t, "fix", x.wait("Set allowPrivilegeEscalation: false (safe): this would be written to chart/values.yaml", "+  allowPriv"))
	x.press("Escape")
	x.wait("not written")
	x.press("f")
	x.wait("would be written")
	rendertest.WriteFile(t, file, was+"# mine\n")
	x.press("Enter")
	x.wait("nothing is written, since chart/values.yaml has changed")
	rendertest.Equal(t, was+"# mine\n", string(rendertest.ReadFile(t, file)))
	x.press("r")
	x.pressUntil("f", "+  allowPriv")
	x.press("Enter")
	x.wait("wrote the fix to chart/values.yaml; u takes the file back")
	if got := string(rendertest.ReadFile(t, file)); !strings.Contains(got, "allowPrivilegeEscalation: false\n") || !strings.HasSuffix(got, "# mine\n") {
		t.Errorf("written: %s", got)
	}
	x.press("u")
	x.wait("chart/values.yaml is as it was before the write")
	rendertest.Equal(t, was+"# mine\n", string(rendertest.ReadFile(t, file)))
	x.press("/", "C-u", "'rule:allow file:pod", "Enter")
	x.pressUntil("f", "no fix: no rule or standard determines the value")
	x.press("q")
	x.wait("left with 0")
}

// pressUntil presses a key each second until the screen has a text. While files that have changed are
// evaluated, a key that needs the results does nothing.
func (x *terminal) pressUntil(key, text string) {
	x.t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(x.screen(), text) && time.Now().Before(end); time.Sleep(time.Second) {
		x.press(key)
	}
	x.wait(text)
}

// TestTriageHandsBack leaves with a decision that is not written, which the
// terminal then has; an editor that fails loses nothing.
func TestTriageHandsBack(t *testing.T) {
	t.Parallel()
	dir, program := shopTerminal(t)
	x := newTerminal(t, 100, 30, dir, "NO_COLOR=1 EDITOR=false "+program+" triage --date 2026-11-21 --disable-admission-plugins PodSecurity -p policies --with infra apps charts")
	x.wait("Open 3", "✗ denied")
	x.press("e")
	x.wait("the editor failed")
	x.press("w", "'in the works", "Enter")
	x.wait("staged 1 suppression")
	if got := x.tmux("capture-pane", "-pe"); strings.Contains(got, "[38;5") || strings.Contains(got, "[31") {
		t.Errorf("colours despite NO_COLOR: %q", got)
	}
	x.press("q")
	x.wait("1 decision not written")
	x.press("C-c")
	x.wait("left with 0", "not written to the suppressions file: 1 decision", "reason: in the works")
	if _, err := os.Stat(filepath.Join(dir, ".preadmit")); err == nil {
		t.Error("it was written")
	}
}

// TestTriageSizes goes through the graph with keys and the mouse at four sizes, to
// a unit's results and back.
func TestTriageSizes(t *testing.T) {
	t.Parallel()
	_, program := shopTerminal(t)
	dir := filepath.Join(t.TempDir(), "flux")
	for _, err := range []error{os.CopyFS(dir, os.DirFS("../../testdata/repos/flux")), os.MkdirAll(filepath.Join(dir, ".git"), 0o755)} {
		rendertest.OK(t, err)
	}
	x := newTerminal(t, 120, 40, dir, program+" triage --theme dark --date 2026-11-21")
	x.wait("✗ denied", "Graph 23")
	x.press("t")
	for _, size := range []struct{ width, height int }{{120, 40}, {60, 20}, {80, 24}, {200, 60}} {
		x.tmux("resize-window", "-x", fmt.Sprint(size.width), "-y", fmt.Sprint(size.height))
		x.wait("cluster production", "1 of 25")
		x.click(12, 8) // the seventh row
		x.wait("7 of 25", "flux/flux-system/mail")
		shot(t, fmt.Sprintf("graph-%dx%d", size.width, size.height), x.wait("7 of 25"))
		x.click(12, 8)
		x.wait("✗", "Deployment", "results of production:flux")
		shot(t, fmt.Sprintf("unit-%dx%d", size.width, size.height), x.wait("results of production:flux"))
		x.press("T")
		x.wait("7 of 25")
		x.press("Escape")
		x.wait("/unit:=")
		x.press("t")
		x.wait("7 of 25")
		x.wheel(12, 8, -2)
		x.wait("1 of 25")
	}
	x.press(":", "'se")
	shot(t, "palette", x.wait(":se", "go to a section"))
	x.press("Escape")
	x.wait("1 of 25", "? help  q quit")
	x.press("q")
	x.wait("left with 0")
}

// click clicks with the left button, at a column and a line from 1.
func (x *terminal) click(column, line int) {
	x.t.Helper()
	x.tmux("send-keys", "-l", fmt.Sprintf("\x1b[<0;%d;%dM\x1b[<0;%d;%dm", column, line, column, line))
}

// wheel turns the wheel, up where by is less than 0.
func (x *terminal) wheel(column, line, by int) {
	x.t.Helper()
	for range max(by, -by) {
		button := 65
		if by < 0 {
			button = 64
		}
		x.tmux("send-keys", "-l", fmt.Sprintf("\x1b[<%d;%d;%dM", button, column, line))
	}
}

// TestTriageDumb wants a plain message where nothing can be drawn.
func TestTriageDumb(t *testing.T) {
	t.Parallel()
	dir, program := shopTerminal(t)
	x := newTerminal(t, 100, 30, dir, "TERM=dumb "+program+" triage apps")
	x.wait("or TERM is dumb", "left with 2")
}
