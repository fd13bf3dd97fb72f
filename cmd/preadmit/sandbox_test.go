package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/render/rendertest"
)

// trySandbox is a command of scripts that tries, in the sandbox of a child, what
// is to be denied. It prints what was not.
func trySandbox() {
	w := &tasks.Watch{}
	w.ConfineCalls(nil)
	cache := os.Args[1]
	here, err := os.Getwd()
	if err == nil {
		err = w.ConfineFiles("require", []string{here}, cache, nil)
	}
	if err != nil {
		fmt.Println("no sandbox here:", err)
		return
	}
	attempts := map[string]func() error{
		"a connection": func() error { _, err := net.Dial("tcp", "127.0.0.1:9"); return err },
		"a listener":   func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err },
		"a program":    func() error { return exec.Command("/bin/true").Run() },
		"a new file":   func() error { return os.WriteFile("written", nil, 0o644) },
		"a directory":  func() error { return os.Mkdir("made", 0o755) },
		"a change":     func() error { return os.WriteFile("file", []byte("changed"), 0o644) },
		"a cut":        func() error { return os.Truncate("file", 0) },
		"a mode":       func() error { return os.Chmod("file", 0o666) },
		"an owner":     func() error { return os.Lchown("file", os.Getuid(), os.Getgid()) },
		"a removal":    func() error { return os.Remove("file") },
		"reading":      func() error { _, err := os.ReadFile("/etc/passwd"); return err },
		"listing":      func() error { _, err := os.ReadDir("/proc"); return err },
		"its memory":   func() error { _, err := os.ReadFile("/proc/self/environ"); return err },
		"a process":    startProcess,
	}
	for name, attempt := range attempts {
		done := make(chan error)
		go func() { done <- attempt() }() // on some other thread
		if err := <-done; !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EACCES) {
			fmt.Printf("%s is not denied: %v\n", name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(cache, "kept"), nil, 0o644); err != nil {
		fmt.Println("the cache is denied:", err)
	}
	if _, err := os.ReadFile("file"); err != nil {
		fmt.Println("reading is denied:", err)
	}
}

// TestConfined holds that a child can't connect, run programs or write.
func TestConfined(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the sandbox is Linux's")
	}
	dir := t.TempDir()
	cache := t.TempDir()
	rendertest.OK(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	cmd := exec.Command("try-sandbox", cache)
	cmd.Dir = dir
	out, err := cmd.Output()
	if strings.HasPrefix(string(out), "no sandbox here") {
		t.Skip(string(out))
	}
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestSandboxRequired holds that a kernel without a part of the sandbox is an error where
// the sandbox is required, and otherwise said under -v.
func TestSandboxRequired(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the sandbox is Linux's")
	}
	dir := t.TempDir()
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n"
	rendertest.OK(t, os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte(pod), 0o644))
	for lacks, why := range map[string]string{
		"landlock_create_ruleset": "the kernel has no Landlock",
		"landlock_restrict_self":  "Landlock: ",
		"seccomp":                 "seccomp is not supported by the kernel",
	} {
		for mode, want := range map[string]struct {
			code int
			text string
		}{
			"require": {exitIncomplete, "preadmit: --sandbox require: "}, "auto": {0, "sandbox: "},
		} {
			cmd := exec.Command("without", lacks, "preadmit check --no-cache -v --sandbox "+mode)
			cmd.Dir = dir
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, _ := cmd.Output()
			if strings.HasPrefix(string(out), "no such kernel here") {
				t.Skip(string(out))
			}
			if code := cmd.ProcessState.ExitCode(); code != want.code || !strings.Contains(stderr.String(), want.text) || !strings.Contains(stderr.String(), why) {
				t.Errorf("without %s, --sandbox %s: exit code %d, %s", lacks, mode, code, &stderr)
			}
		}
	}
}
