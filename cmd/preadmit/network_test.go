package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestOnlyFetchOpensConnections holds that of all commands only fetch can open
// connections: package render/fetch alone does so, package download alone imports
// it, the file fetch.go alone imports that, and other files use newFetchCommand
// only.
func TestOnlyFetchOpensConnections(t *testing.T) {
	t.Parallel()
	const (
		command  = module + "cmd/preadmit"
		download = command + "/download"
		room     = module + "render/fetch"
	)
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "../../...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	importers := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		for _, imported := range words[1:] {
			if imported == room || imported == download {
				importers[imported] = append(importers[imported], words[0])
			}
			if strings.HasPrefix(imported, "oras.land/oras-go/v2/registry/remote") && words[0] != room && words[0] != download {
				t.Errorf("%s imports %s", words[0], imported)
			}
		}
	}
	if !slices.Equal(importers[room], []string{download}) {
		t.Errorf("%s is imported by %v, want %s alone", room, importers[room], download)
	}
	if !slices.Equal(importers[download], []string{command}) {
		t.Errorf("%s is imported by %v, want the command alone", download, importers[download])
	}

	files, err := filepath.Glob("*.go")
	rendertest.OK(t, err)
	declared := make(map[string]bool) // in fetch.go, at the top
	var others []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		rendertest.OK(t, err)
		if name == "fetch.go" {
			declare(declared, f)
			continue
		}
		others = append(others, f)
		for _, i := range f.Imports {
			if p := strings.Trim(i.Path.Value, `"`); p == download || strings.HasPrefix(p, "oras.land/") {
				t.Errorf("%s imports %s", name, p)
			}
		}
	}
	if !declared["newFetchCommand"] || !declared["runFetch"] {
		t.Fatalf("fetch.go is another file now: it declares %v", declared)
	}
	for _, f := range others {
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && declared[id.Name] && id.Name != "newFetchCommand" {
				t.Errorf("%s uses %s, which leads to the network", f.Name, id.Name)
			}
			return true
		})
	}
}

// declare notes the functions and types that a file declares, not their methods.
func declare(declared map[string]bool, f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				declared[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					declared[s.Name.Name] = true
				}
			}
		}
	}
}
