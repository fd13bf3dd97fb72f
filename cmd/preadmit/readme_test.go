package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/cmd/preadmit/docs"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestReadme runs the commands of the console blocks in README.md and in the pages of docs, in a copy
// of testdata/repos/shop, and holds what they print. UPDATE_GOLDEN=1 rewrites it.
func TestReadme(t *testing.T) {
	root := t.TempDir()
	rendertest.OK(t, os.CopyFS(root, os.DirFS("../../testdata/repos/shop")))
	n := testConsole(t, root, "../../README.md")
	for _, p := range docs.Pages() {
		n += testConsole(t, root, "docs/"+p.Topic+".md")
	}
	if n < 2 {
		t.Fatal("README.md and docs show hardly a command")
	}
}

// testConsole holds the console blocks of a file, and returns how many there are.
func testConsole(t *testing.T, root, file string) int {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	blocks := strings.Split(string(data), "```console\n$ preadmit ")
	for i := 1; i < len(blocks); i++ {
		block, rest, ok := strings.Cut(blocks[i], "```\n")
		if !ok {
			t.Fatalf("block %d has no end", i)
		}
		command, _, _ := strings.Cut(block, "\n")
		want := command + "\n" + printed(t, root, strings.Fields(command))
		if os.Getenv("UPDATE_GOLDEN") == "" {
			if diff := cmp.Diff(want, block); diff != "" {
				t.Errorf("preadmit %s: says -, %s says +:\n%s", command, file, diff)
			}
		}
		blocks[i] = want + "```\n" + rest
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		rendertest.OK(t, os.WriteFile(file, []byte(strings.Join(blocks, "```console\n$ preadmit ")), 0o644))
	}
	return len(blocks) - 1
}

func printed(t *testing.T, dir string, args []string) string {
	t.Helper()
	old, err := os.Getwd()
	rendertest.OK(t, err)
	rendertest.OK(t, os.Chdir(dir))
	defer os.Chdir(old)
	var stdout, stderr bytes.Buffer
	run(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
	return stdout.String()
}

// TestReadmeScreen holds the screen in docs/editors.md against testdata/screens.
func TestReadmeScreen(t *testing.T) {
	t.Parallel()
	const file, begin, end = "docs/editors.md", "\n```text\n", "```\n"
	readme := rendertest.ReadFile(t, file)
	want := rendertest.ReadFile(t, "../../testdata/screens/explain.txt")
	before, rest, ok := strings.Cut(string(readme), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/editors.md shows no screen")
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		rendertest.OK(t, os.WriteFile(file, []byte(before+begin+string(want)+end+after), 0o644))
		return
	}
	rendertest.Equal(t, string(want), got)
}

// TestPages holds that README.md links to each page, that help prints it, and that its topic is not
// the name of a command, whose help it would hide.
func TestPages(t *testing.T) {
	t.Parallel()
	readme := string(rendertest.ReadFile(t, "../../README.md"))
	var code int
	root := newRootCommand(&code)
	for _, p := range docs.Pages() {
		if !strings.Contains(readme, "](cmd/preadmit/docs/"+p.Topic+".md)") {
			t.Errorf("README.md has no link to docs/%s.md", p.Topic)
		}
		if c, _, err := root.Find([]string{p.Topic}); err == nil && c != root {
			t.Errorf("%s is a command, too", p.Topic)
		}
		var stdout, stderr bytes.Buffer
		run(t.Context(), []string{"help", p.Topic}, strings.NewReader(""), &stdout, &stderr)
		rendertest.Equal(t, p.Text, stdout.String())
	}
}
