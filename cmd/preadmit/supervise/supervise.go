// Package supervise lets a command do its work in a child of the same program,
// and outlives whatever that comes to.
//
// Go can't recover from a stack overflow or from memory exhaustion, and some
// libraries can't be stopped. So the parent reads nothing that a repository
// holds. It starts the child, hands on what the child writes once it has ended
// well, and replaces the files that the child reports into. The child says which
// task is in flight, such as a unit that is rendered. When a child ends on the
// way, the next one does the same without the task that ended it, which is then
// an error of the report. Child and parent speak in frames over the child's
// standard input and output.
//
// A [Service] is for a command that goes on after its evaluation, as a screen
// does: its child answers questions until the parent ends it.
//
// The parent works before package main and its libraries are initialized: that
// takes several times as long as all that a parent does.
package supervise

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Marker is the name under which a child is started: argument zero, which is
// not a user's to give by accident. What counts is the order that follows.
const Marker = "preadmit-supervised-child"

// commands are the commands that run wholly in a child.
var commands = []string{"check", "render", "explain", "test", "graph", "baseline", "policies"}

// others are the commands that work by themselves; triage and lsp have a [Service].
var others = []string{"triage", "lsp", "convert", "verify", "packs", "version", "help", "completion", "fetch", "__complete", "__completeNoDesc"}

// The variable is what has the parent's work done at initialization, see above.
// A child, a test or another command goes on to package main.
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
		return false // no child can be started: better unsupervised than not at all
	}
	os.Exit(p.run())
	return true
}

// wanted reports whether a command line is one for a child.
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

// isTest reports whether a program is one of go test.
func isTest(program string) bool {
	return strings.HasSuffix(strings.TrimSuffix(filepath.Base(program), ".exe"), ".test")
}

// An Incomplete error ends a run before it has read, rendered or evaluated everything.
type Incomplete struct{ Err error }

func (i *Incomplete) Error() string { return i.Err.Error() }
func (i *Incomplete) Unwrap() error { return i.Err }
