package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

const module = "github.com/preadmit/preadmit/"

// rooms in the order in which data flows: a package imports to its left.
var rooms = []string{"render", "policy", "report", "tui", "cmd"}

// TestImports holds the one rule: a package may import rooms to its left, its
// own parent, and the internal packages that Go lets it import in its room: its
// own and the room's. It never imports another child, a sibling or a room to its
// right. Only cmd may import children.
//
// What the room's internal packages hold is shared: each has two importers
// outside of internal, or else belongs below its only one.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "../../...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < len(rooms)-1 {
		t.Fatalf("go list found %d packages only", len(lines))
	}
	users := make(map[string]map[string]bool) // of the rooms' internal packages
	for _, line := range lines {
		words := strings.Fields(line)
		from := strings.TrimPrefix(words[0], module)
		for _, imported := range words[1:] {
			to, ours := strings.CutPrefix(imported, module)
			if ours && !mayImport(from, to) {
				t.Errorf("%s imports %s", from, to)
			}
			if parts := strings.Split(to, "/"); ours && len(parts) == 3 && parts[1] == "internal" && parts[0] != "cmd" {
				if users[to] == nil {
					users[to] = make(map[string]bool)
				}
				users[to][from] = true
			}
		}
	}
	for shared, by := range users {
		if room, _, _ := strings.Cut(shared, "/"); len(by) < 2 && !by[room] {
			t.Errorf("%s has one user: it belongs below %v", shared, slices.Collect(maps.Keys(by)))
		}
	}
}

// TestDrawing holds that the drawing in CONTRIBUTING.md names every child of the
// rooms, and that the page stays short.
func TestDrawing(t *testing.T) {
	t.Parallel()
	text := rendertest.ReadFile(t, "../../CONTRIBUTING.md")
	parts := strings.SplitN(string(text), "```", 3)
	drawn := strings.Fields(parts[1])
	for _, room := range rooms[:len(rooms)-1] {
		entries, err := os.ReadDir("../../" + room)
		rendertest.OK(t, err)
		for _, e := range entries {
			name := e.Name()
			code, _ := filepath.Glob("../../" + room + "/" + name + "/*.go")
			if len(code) > 0 && name != "rendertest" && !slices.Contains(drawn, name) {
				t.Errorf("%s/%s is not in the drawing of CONTRIBUTING.md", room, name)
			}
		}
	}
	inner, err := filepath.Glob("../../policy/internal/*")
	rendertest.OK(t, err)
	own, err := filepath.Glob("../../policy/*/internal/*")
	rendertest.OK(t, err)
	for _, dir := range append(inner, own...) {
		if !strings.Contains(string(text), "`"+filepath.Base(dir)+"`") {
			t.Errorf("%s is not in CONTRIBUTING.md", dir)
		}
	}
	if n := strings.Count(string(text), "\n"); n >= 150 {
		t.Errorf("CONTRIBUTING.md has %d lines: keep it under 150", n)
	}
}

func TestMayImport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"policy", "render", true},
		{"policy/crd", "policy", true},
		{"policy/crd", "render", true},
		{"policy/crd", "policy/internal/cel", true},
		{"policy/internal/cel", "policy", true},
		{"policy/kyverno", "policy/kyverno/internal/overlay", true},
		{"cmd/preadmit", "render/helm", true},
		{"render", "policy", false},
		{"render", "render/helm", false},
		{"render/helm", "render/kustomize", false},
		{"policy/crd", "policy/rego", false},
		{"policy", "render/helm", false},
		{"policy/crd", "render/internal/x", false},
		{"utils", "render", false},
	} {
		if got := mayImport(c.from, c.to); got != c.want {
			t.Errorf("mayImport(%q, %q) = %v", c.from, c.to, got)
		}
	}
}

func mayImport(from, to string) bool {
	fromRoom, _, fromChild := strings.Cut(from, "/")
	toRoom, toRest, toChild := strings.Cut(to, "/")
	l, r := room(fromRoom), room(toRoom)
	switch {
	case l < 0 || r < 0 || r > l:
		return false
	case fromRoom == "cmd":
		return true
	case !toChild:
		return l > r || fromChild // a room to the left, or the parent
	default:
		return l == r && strings.Contains("/"+toRest, "/internal/")
	}
}

func room(name string) int {
	for i, r := range rooms {
		if r == name {
			return i
		}
	}
	return -1
}

// TestChapters holds that the comment of a package with many files says what some of
// them are for, and names no file that is not there.
func TestChapters(t *testing.T) {
	t.Parallel()
	const many = 12
	named := regexp.MustCompile(`(?:^|[^/\w*])([a-z0-9_*]+\.go)\b`)
	dirs := map[string][]string{}
	for _, room := range rooms {
		rendertest.OK(t, fs.WalkDir(os.DirFS("../.."), room, func(file string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "testdata" {
				return fs.SkipDir
			}
			if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
				dirs[path.Dir(file)] = append(dirs[path.Dir(file)], path.Base(file))
			}
			return err
		}))
	}
	for dir, files := range dirs {
		told := false
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), path.Join("../..", dir, file), nil, parser.PackageClauseOnly|parser.ParseComments)
			rendertest.OK(t, err)
			for _, m := range named.FindAllStringSubmatch(parsed.Doc.Text(), -1) {
				told = true
				if !slices.ContainsFunc(files, func(f string) bool { ok, _ := path.Match(m[1], f); return ok }) {
					t.Errorf("%s: the package's comment names %s, which is not there", dir, m[1])
				}
			}
		}
		if len(files) > many && !told {
			t.Errorf("%s has %d files, and its comment names none", dir, len(files))
		}
	}
}
