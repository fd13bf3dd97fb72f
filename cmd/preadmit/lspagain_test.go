//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestLSPAgain edits repositories at random, in an editor and on disk. After each edit, the server must
// show the same findings as a new server, with and without --base. It must keep its child until the
// configuration changes; with --base the configuration of the base counts.
func TestLSPAgain(t *testing.T) {
	t.Parallel()
	for repo, base := range map[string]string{"shop": "HEAD", "argocd": "", "flux": ""} {
		t.Run(repo, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rendertest.OK(t, os.CopyFS(dir, os.DirFS("../../testdata/repos/"+repo)))
			rendertest.WriteFile(t, filepath.Join(dir, tick), "")
			commitFiles(t, dir)
			w := &workshop{t: t, dir: dir, base: base, random: rand.New(rand.NewPCG(47, uint64(len(repo)))), open: make(map[string]string)}
			e := newEditor(t, dir, "--base", base)
			w.show(e, 0)
			child := childOf(t, e.cmd.Process.Pid)
			for n := 1; n <= 8; n++ {
				w.edit(e, n)
				w.compare(e, n)
			}
			if now := childOf(t, e.cmd.Process.Pid); now != child {
				t.Errorf("child %s evaluates, not %s", now, child)
			}
			e.write(".preadmit/config.yaml", "pack: [pod-security-restricted]\n")
			w.compare(e, 9)
			if now := childOf(t, e.cmd.Process.Pid); (now == child) != (base != "") { // whose configuration counts then
				t.Errorf("child %s evaluates with the changed configuration, and %s did before", now, child)
			}
			e.quit()
		})
	}
}

// tick is a file whose finding names the number of the step. Its diagnostics are published last.
const tick = "zz-tick.yaml"

// A workshop edits a repository.
type workshop struct {
	t      *testing.T
	dir    string
	base   string // what is compared with; "" for nothing
	random *rand.Rand
	open   map[string]string // texts of open files
}

// show opens the texts, or changes those that are open, and waits until the findings of step n are shown.
func (w *workshop) show(e *editor, n int) {
	w.t.Helper()
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: tick}\nspec: {tick%d: 1, containers: [{name: a, image: a}]}\n", n)
	if w.open[tick] == "" {
		e.open(tick, text)
	} else {
		e.change(tick, n+1, text)
	}
	w.open[tick] = text
	for !strings.Contains(fmt.Sprint(e.shown[tick]), fmt.Sprintf(`spec.tick%d"`, n)) {
		e.next()
	}
}

var plainValue = regexp.MustCompile(`(?m)^(\s*(?:- )?[A-Za-z.-]+: )([A-Za-z0-9./:-]+)$`)

// edit replaces a scalar of a file: in the editor, or on disk if the file is not open.
func (w *workshop) edit(e *editor, n int) {
	w.t.Helper()
	var files []string
	rendertest.OK(w.t, fs.WalkDir(os.DirFS(w.dir), ".", func(name string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".yaml") && name != tick && !strings.HasPrefix(name, ".") {
			files = append(files, name)
		}
		return err
	}))
	for {
		name := files[w.random.IntN(len(files))]
		text, isOpen := w.open[name]
		if !isOpen {
			data, err := os.ReadFile(filepath.Join(w.dir, name))
			rendertest.OK(w.t, err)
			text = string(data)
		}
		at := plainValue.FindAllStringSubmatchIndex(text, -1)
		if len(at) == 0 {
			continue
		}
		m := at[w.random.IntN(len(at))]
		values := []string{"1", "99", "true", "other", "v1", "apps/v1", "Pod", "latest"}
		text = text[:m[4]] + values[w.random.IntN(len(values))] + text[m[5]:]
		w.t.Logf("step %d: %s: %s", n, name, text[m[2]:strings.Index(text[m[2]:]+"\n", "\n")+m[2]])
		switch {
		case isOpen:
			e.change(name, n+1, text)
		case w.random.IntN(3) == 0:
			e.write(name, text)
			return
		default:
			e.open(name, text)
		}
		w.open[name] = text
		return
	}
}

// compare compares what a server shows of step n with what a new one shows.
func (w *workshop) compare(e *editor, n int) {
	w.t.Helper()
	w.show(e, n)
	fresh := newEditor(w.t, w.dir, "--base", w.base)
	other := &workshop{t: w.t, dir: w.dir, open: make(map[string]string)}
	for name, text := range maps.All(w.open) {
		if name != tick {
			fresh.open(name, text)
		}
	}
	other.show(fresh, n)
	fresh.quit()
	if !reflect.DeepEqual(e.shown, fresh.shown) {
		for name := range maps.All(w.open) {
			w.t.Logf("open: %s", name)
		}
		w.t.Fatalf("step %d shows\n%s\nand a new server\n%s", n, lines(e.shown), lines(fresh.shown))
	}
}

func lines(shown map[string][]string) string {
	return strings.ReplaceAll(fmt.Sprint(shown), "] ", "]\n")
}

// childOf returns the child of a process.
func childOf(t *testing.T, pid int) string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	rendertest.OK(t, err)
	for _, name := range tasks {
		data, _ := os.ReadFile(name)
		if child := strings.TrimSpace(string(data)); child != "" {
			return child
		}
	}
	t.Fatal("there is no child")
	return ""
}
