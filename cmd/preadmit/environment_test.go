package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// timeLimits are the files outside cmd that may read the clock: they measure how
// long something takes, to end it.
var timeLimits = []string{
	"policy/chain.go", "policy/gatekeeper/evaluate.go", "policy/internal/rego/bound.go", "policy/internal/rego/compile.go", "policy/rego/compile.go", "policy/rego/evaluate.go",
}

// clock and environment list the functions that make results differ between two
// runs or two machines.
var (
	clock       = []string{"time.Now", "time.Since", "time.Until", "time.After", "time.Tick"}
	environment = []string{"os.Getenv", "os.LookupEnv", "os.Environ", "os.Getwd", "os.Hostname", "os.UserHomeDir"}
)

// TestSurroundings holds that cmd alone reads the clock, the environment and the
// working directory.
func TestSurroundings(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, room := range rooms {
		if room == "cmd" {
			continue
		}
		err := fs.WalkDir(os.DirFS("../.."), room, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || isTool(file) {
				return err
			}
			for name, place := range calls(t, file) {
				switch {
				case slices.Contains(environment, name):
					t.Errorf("%s: only cmd may call %s", place, name)
				case slices.Contains(clock, name) && !slices.Contains(timeLimits, file):
					t.Errorf("%s: only cmd may call %s", place, name)
				case slices.Contains(clock, name):
					used[file] = true
				}
			}
			return nil
		})
		rendertest.OK(t, err)
	}
	for _, file := range timeLimits {
		if !used[file] {
			t.Errorf("%s does not read the clock: remove it from timeLimits", file)
		}
	}
}

// calls returns the functions of other packages that a file names, such as
// time.Now, with a place of each.
func calls(t *testing.T, file string) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path.Join("../..", file), nil, 0)
	rendertest.OK(t, err)
	imports := map[string]string{}
	for _, i := range parsed.Imports {
		full, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(full)
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = full
	}
	found := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && imports[x.Name] != "" {
				found[imports[x.Name]+"."+s.Sel.Name] = set.Position(s.Pos()).String()
			}
		}
		return true
	})
	return found
}

// isTool reports whether a file belongs to tests, or to a program that makes data
// or compares with the original.
func isTool(file string) bool {
	return slices.ContainsFunc([]string{"/gen/", "/rendertest/", "/gittest/", "/testdata/"}, func(dir string) bool { return strings.Contains(file, dir) })
}
