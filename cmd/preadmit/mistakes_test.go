package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/tui"
)

var commitHash = regexp.MustCompile(`\b[0-9a-f]{40}\b`)

// leastMistakes is how many commands the tables hold at least.
const leastMistakes = 200

// TestMistakes runs the tables of typical mistakes in testdata/mistakes: what
// a person types, and all that is answered. A table is a txtar. A file NAME.said
// holds commands, after a dollar, with their answers; it runs in a directory of
// its own that has the files below all/ and NAME/. UPDATE_GOLDEN=1 rewrites the
// answers: read them aloud, as somebody who sees them for the first time.
func TestMistakes(t *testing.T) {
	tables, err := filepath.Glob("../../testdata/mistakes/*.txtar")
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	commands := 0
	for _, table := range tables {
		if table, err = filepath.Abs(table); err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(table), ".txtar"), func(t *testing.T) {
			commands += runTable(t, table)
		})
	}
	t.Logf("%d mistakes", commands)
	if commands < leastMistakes && !t.Failed() {
		t.Errorf("%d mistakes are in the tables, fewer than %d", commands, leastMistakes)
	}
}

// runTable compares one table and returns how many commands of preadmit it has.
func runTable(t *testing.T, file string) (commands int) {
	archive := rendertest.ParseArchive(t, file)
	was := txtar.Format(archive)
	for i, f := range archive.Files {
		name, ok := strings.CutSuffix(f.Name, ".said")
		if !ok {
			continue
		}
		said := transcript(t, mistakenTree(t, archive, name), string(f.Data))
		commands += strings.Count(said, "$ preadmit ")
		if d := cmp.Diff(string(f.Data), said); d != "" && os.Getenv("UPDATE_GOLDEN") == "" {
			t.Errorf("%s: -want +got (UPDATE_GOLDEN=1 writes it):\n%s", name, d)
		}
		archive.Files[i].Data = []byte(said)
	}
	if now := txtar.Format(archive); os.Getenv("UPDATE_GOLDEN") != "" && !bytes.Equal(was, now) {
		rendertest.OK(t, os.WriteFile(file, now, 0o644))
	}
	return commands
}

// mistakenTree writes the files of a case.
func mistakenTree(t *testing.T, archive *txtar.Archive, name string) (dir string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	rendertest.OK(t, err)
	for _, f := range archive.Files {
		rest, ok := strings.CutPrefix(f.Name, name+"/")
		if !ok {
			if rest, ok = strings.CutPrefix(f.Name, "all/"); !ok {
				continue
			}
		}
		to := filepath.Join(dir, rest)
		rendertest.OK(t, os.MkdirAll(filepath.Dir(to), 0o777))
		// A tab at the beginning of a line is written <tab>, which editors keep.
		data := strings.ReplaceAll(string(f.Data), "<tab>", "\t")
		rendertest.OK(t, os.WriteFile(to, []byte(data), 0o666))
	}
	return dir
}

// transcript runs the commands of a case and returns them with what is answered.
func transcript(t *testing.T, dir, said string) string {
	t.Chdir(dir)
	var out strings.Builder
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		fmt.Fprintln(&out, line)
		words, err := tui.EditorWords("command", command)
		rendertest.OK(t, err)
		if words[0] != "preadmit" {
			prepare(t, words)
			continue
		}
		var b bytes.Buffer
		code := run(context.Background(), words[1:], strings.NewReader(""), &b, &b)
		text := commitHash.ReplaceAllString(strings.ReplaceAll(b.String(), dir, "$WORK"), "$$HASH")
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		fmt.Fprintf(&out, "%s[exit %d]\n\n", text, code)
	}
	return out.String()
}

// prepare does what else a case needs: cp, mv, rm, mkdir and commit.
func prepare(t *testing.T, words []string) {
	var err error
	switch words[0] {
	case "cp":
		var data []byte
		if data, err = os.ReadFile(words[1]); err == nil {
			err = os.WriteFile(words[2], data, 0o666)
		}
	case "mv":
		err = os.Rename(words[1], words[2])
	case "rm":
		err = os.RemoveAll(words[1])
	case "mkdir":
		err = os.MkdirAll(words[1], 0o777)
	case "commit":
		var repo *gittest.Repository
		if repo, err = gittest.Init("."); err == nil {
			_, err = repo.CommitAll("a commit")
		}
	default:
		err = fmt.Errorf("unknown command %s", words[0])
	}
	rendertest.OK(t, err)
}
