package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadme runs the commands of README.md's console blocks in a copy of
// testdata/repos/shop and holds what they print. UPDATE_GOLDEN=1 rewrites it.
func TestReadme(t *testing.T) {
	const file = "../../README.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../testdata/repos/shop")); err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(file, []byte(strings.Join(blocks, "```console\n$ preadmit ")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func printed(t *testing.T, dir string, args []string) string {
	t.Helper()
	old, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		t.Fatal(err)
	}
	defer os.Chdir(old)
	var stdout, stderr bytes.Buffer
	run(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
	return stdout.String()
}

// TestReadmeScreen holds the screen in README.md against testdata/screens.
func TestReadmeScreen(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../README.md", "\n```text\n", "```\n"
	readme, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../testdata/screens/explain.txt")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(readme), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("README.md shows no screen")
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(before+begin+string(want)+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}
