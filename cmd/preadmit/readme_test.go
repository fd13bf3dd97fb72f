package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestReadme runs the commands of README.md's console blocks in a copy of
// testdata/repos/shop and holds what they print. UPDATE_GOLDEN=1 rewrites it.
func TestReadme(t *testing.T) {
	const file = "../../README.md"
	data := rendertest.ReadFile(t, file)
	root := t.TempDir()
	rendertest.OK(t, os.CopyFS(root, os.DirFS("../../testdata/repos/shop")))
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
				t.Errorf("preadmit %s: says -, README says +:\n%s", command, diff)
			}
		}
		blocks[i] = want + "```\n" + rest
	}
	if len(blocks) < 2 {
		t.Fatal("README.md shows no command")
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		rendertest.OK(t, os.WriteFile(file, []byte(strings.Join(blocks, "```console\n$ preadmit ")), 0o644))
	}
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

// TestReadmeScreen holds the screen in README.md against testdata/screens.
func TestReadmeScreen(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../README.md", "\n```text\n", "```\n"
	readme := rendertest.ReadFile(t, file)
	want := rendertest.ReadFile(t, "../../testdata/screens/explain.txt")
	before, rest, ok := strings.Cut(string(readme), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("README.md shows no screen")
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		rendertest.OK(t, os.WriteFile(file, []byte(before+begin+string(want)+end+after), 0o644))
		return
	}
	rendertest.Equal(t, string(want), got)
}
