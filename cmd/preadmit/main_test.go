package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/render/git"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"preadmit": func() {
			stderr := quietLibraries()
			cutOff()
			os.Exit(run(load.WithUserCache(context.Background()), os.Args[1:], os.Stdin, os.Stdout, stderr))
		},
		supervise.Marker: func() { os.Exit(runChild()) },
		"try-sandbox":    trySandbox,
		"without":        runWithout,
	})
}

// TestScript runs the command line's goldens. UPDATE_GOLDEN=1 rewrites them.
func TestScript(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	rendertest.OK(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_GOLDEN") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "copytree": copyTree, "commit": commit, "forget": forget},
		Condition: func(name string) (bool, error) {
			if name != "unshare" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return exec.Command("unshare", "-n", "true").Run() == nil, nil
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("ROOT", root)
			env.Setenv("XDG_CACHE_HOME", filepath.Join(filepath.Dir(env.WorkDir), "cache", filepath.Base(env.WorkDir)))
			return nil
		},
	})
}

// exits runs a program that must end with the given code, which testscript's
// exec can't tell apart: exits CODE program args...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// copytree copies a directory of the project into the script's: copytree SRC DST
func copyTree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: copytree SRC DST")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// commit commits all files of a directory, which it makes a Git repository if
// it is none: commit DIR MESSAGE
func commit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: commit DIR MESSAGE")
	}
	repo, err := gittest.Init(ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = repo.CommitAll(args[1])
	ts.Check(err)
}

// forget takes the committed content of a file out of a repository, as a
// partial clone has it: forget DIR FILE
func forget(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: forget DIR FILE")
	}
	dir := ts.MkAbs(args[0])
	repo, err := git.Open(dir)
	ts.Check(err)
	defer repo.Close()
	head, err := repo.Resolve("HEAD")
	ts.Check(err)
	files, err := repo.Tree(head)
	ts.Check(err)
	hash, err := files.Hash(args[1])
	ts.Check(err)
	ts.Check(os.Remove(filepath.Join(dir, ".git", "objects", hash[:2], hash[2:])))
}
