package git_test

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/preadmit/preadmit/render/git"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestFacts holds that what one run learns about a repository's objects answers another
// that can't read them.
func TestFacts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "a: 1\n", "sub/b.yaml": "b: 2\n", "sub/deep/c.yaml": ""} {
		rendertest.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	made, err := gittest.Init(dir)
	rendertest.OK(t, err)
	commit, err := made.CommitAll("all")
	rendertest.OK(t, err)
	read := func(facts *git.Facts) map[string]string {
		repo, err := git.Open(dir)
		rendertest.OK(t, err)
		defer repo.Close()
		repo.Remember(facts)
		c, err := repo.Resolve(commit)
		rendertest.OK(t, err)
		tree, err := repo.Tree(c)
		rendertest.OK(t, err)
		sums := make(map[string]string)
		err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if sum, _, ok := tree.Digest(name); ok {
				sums[name] = sum
			}
			return nil
		})
		rendertest.OK(t, err)
		return sums
	}
	facts := git.NewFacts(nil)
	want := read(facts)
	if b := sha256.Sum256([]byte("b: 2\n")); len(want) != 3 || want["sub/b.yaml"] != string(b[:]) {
		t.Fatalf("%q", want)
	}
	used, changed := facts.Used()
	if len(used) != 6 || !changed {
		t.Errorf("%d facts, changed: %v", len(used), changed)
	}

	// A blob of another content in the place of one, and one that is gone.
	other, err := made.Object("blob", []byte("b: 3\n"))
	rendertest.OK(t, err)
	object := func(name string) string { return filepath.Join(made.Dir, "objects", name[:2], name[2:]) }
	b, err := made.Object("blob", []byte("b: 2\n"))
	rendertest.OK(t, err)
	a, err := made.Object("blob", []byte("a: 1\n"))
	rendertest.OK(t, err)
	os.Remove(object(b))
	rendertest.OK(t, os.Rename(object(other), object(b)))
	rendertest.OK(t, os.Remove(object(a)))
	again := git.NewFacts(used)
	if got := read(again); len(got) != 3 || got["sub/b.yaml"] != want["sub/b.yaml"] || got["a.yaml"] != want["a.yaml"] {
		t.Errorf("with facts: %q, want %q", got, want)
	}
	if _, changed := again.Used(); changed {
		t.Error("nothing was learned, and yet the facts changed")
	}
	wrong := git.NewFacts(nil)
	read(wrong)
	learned, _ := wrong.Used()
	for _, f := range learned {
		if sum := sha256.Sum256([]byte("b: 3\n")); f.Digest == string(sum[:]) {
			t.Error("learned the content of an object of another name")
		}
	}
}
