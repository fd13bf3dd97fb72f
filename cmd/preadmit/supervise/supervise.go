// Package supervise runs a command in a child of the same program, and reports
// when the child crashes.
//
// Go can't recover from a stack overflow or from memory exhaustion, and some libraries can't be
// stopped. So the parent reads nothing from the repository. It starts the child, and writes the
// child's output and files once the child has ended successfully. The child reports its running
// tasks, such as rendering a unit. If the child crashes, the next one does the same work without
// the task that ended it, which becomes an error in the report. Parent and child exchange frames
// over the child's standard input and output.
//
// A [Service] is for a command that continues after its evaluation, such as a
// screen: its child answers requests until the parent ends it.
//
// The parent runs before package main and its libraries are initialized, because
// that takes several times as long as everything that the parent does.
//
// parent.go runs children (process*.go) until one ends well, service.go those that answer.
// frame.go is what they exchange: what a child is told to leave out, and what it
// reports. spool.go holds its output back, terminal_*.go are about the screen.
package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Marker is argument zero of a child process. The child also requires an Order on standard input.
const Marker = "preadmit-supervised-child"

// commands lists the commands that run completely in a child.
var commands = []string{"check", "render", "explain", "test", "graph", "baseline", "policies", "fix", "init"}

// others lists the commands that run in this process; triage and lsp have a
// [Service].
var others = []string{"triage", "lsp", "mcp", "convert", "verify", "packs", "version", "help", "completion", "fetch", "__complete", "__completeNoDesc"}

// The variable runs the parent during initialization, see above. A child, a
// test or another command continues with package main.
var _ = supervised(os.Args)

func supervised(args []string) bool {
	if printVersion(args) {
		os.Exit(0)
	}
	if !wanted(args) {
		return false
	}
	p, err := newParent(args[1:])
	if err != nil {
		return false // no child can be started, so the command runs unsupervised
	}
	os.Exit(p.run())
	return true
}

// wanted reports whether a command line is run in a child.
func wanted(args []string) bool {
	if len(args) < 2 || args[0] == Marker || isTest(args[0]) {
		return false
	}
	for _, a := range args[1:] {
		switch {
		case a == "--" || a == "-h" || a == "--help" || strings.HasPrefix(a, "-test."):
			return false
		case slices.Contains(others, a):
			return false
		case slices.Contains(commands, a):
			return true
		}
	}
	return false
}

// isTest reports whether a program was built by go test.
func isTest(program string) bool {
	return strings.HasSuffix(strings.TrimSuffix(filepath.Base(program), ".exe"), ".test")
}

// An Incomplete error ends a run before it has read, rendered or evaluated everything.
type Incomplete struct{ Err error }

func (i *Incomplete) Error() string { return i.Err.Error() }
func (i *Incomplete) Unwrap() error { return i.Err }

// version is set by the release build (-ldflags -X .../supervise.version=...).
var version = "0.1.0"

// Version returns the program's version.
func Version() string { return version }

// VersionLine returns the output of the command version.
func VersionLine() string {
	return fmt.Sprintf("preadmit %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// printVersion prints the version and returns true if the command line asks for
// nothing else. It runs before the libraries initialize, which it does not need.
func printVersion(args []string) bool {
	if len(args) != 2 || args[1] != "version" || args[0] == Marker || isTest(args[0]) {
		return false
	}
	_, err := os.Stdout.WriteString(VersionLine())
	return err == nil
}

// mayWrite reports whether the parent may replace a file for a child: a file of the command line,
// or one in the repository outside .git. A configuration file can't allow others.
func (p *parent) mayWrite(name string) bool {
	if slices.ContainsFunc(p.args, func(a string) bool { return a == name || strings.HasSuffix(a, "="+name) }) {
		return true
	}
	real, err := filepath.Abs(name)
	if err == nil {
		real, err = realDir(filepath.Dir(real))
	}
	if err != nil {
		return false
	}
	return slices.ContainsFunc(append([]string{"."}, p.args...), func(dir string) bool {
		root := repository(dir)
		rel, err := filepath.Rel(root, filepath.Join(real, filepath.Base(name)))
		return root != "" && err == nil && filepath.IsLocal(rel) && rel != ".git" && !strings.HasPrefix(filepath.ToSlash(rel), ".git/")
	})
}

// realDir resolves the links in the path of a directory that may not exist.
func realDir(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) && filepath.Dir(dir) != dir {
		if _, gone := os.Lstat(dir); gone == nil {
			return "", err // a link to a missing target
		}
		real, err = realDir(filepath.Dir(dir))
		return filepath.Join(real, filepath.Base(dir)), err
	}
	return real, err
}

// repository returns the nearest directory at or above a path that contains .git, else the path's
// own directory. It returns "" if the path does not exist.
func repository(path string) string {
	dir, err := filepath.Abs(path)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	info, statErr := os.Stat(dir)
	if err != nil || statErr != nil {
		return ""
	}
	if !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
			return up
		}
		if filepath.Dir(up) == up {
			return dir
		}
	}
}
