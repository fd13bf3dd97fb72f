package disk

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestTreeConfines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rendertest.WriteFile(t, filepath.Join(dir, "secret"), "outside")
	repo := filepath.Join(dir, "repo")
	rendertest.WriteFile(t, filepath.Join(repo, "in.yaml"), "inside")
	for link, target := range map[string]string{
		"up":       "../secret",
		"absolute": filepath.Join(dir, "secret"),
		"back":     "../repo/in.yaml",
		"self":     "self",
		"environ":  "/proc/self/environ",
		"dir":      "..",
	} {
		rendertest.OK(t, os.Symlink(target, filepath.Join(repo, link)))
	}
	tr := treeOf(t, repo)
	for _, name := range []string{"up", "absolute", "back", "self", "environ", "dir/secret", "../secret", "/etc/passwd"} {
		if data, err := fs.ReadFile(tr, name); err == nil {
			t.Errorf("%s: read %q", name, data)
		}
	}
	if data, err := fs.ReadFile(tr, "in.yaml"); err != nil || string(data) != "inside" {
		t.Errorf("in.yaml: %q, %v", data, err)
	}
}

func TestTreeFollowsLinksInside(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	rendertest.WriteFile(t, filepath.Join(repo, "a/in.yaml"), "inside")
	rendertest.OK(t, os.Symlink("a/in.yaml", filepath.Join(repo, "link.yaml")))
	tr := treeOf(t, repo)
	if data, err := fs.ReadFile(tr, "link.yaml"); err != nil || string(data) != "inside" {
		t.Errorf("link.yaml: %q, %v", data, err)
	}
	if target, err := fs.ReadLink(tr, "link.yaml"); err != nil || target != "a/in.yaml" {
		t.Errorf("ReadLink: %q, %v", target, err)
	}
}

func TestTreeIsAFileSystem(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	rendertest.WriteFile(t, filepath.Join(repo, "a/b/c.yaml"), "x: 1\n")
	rendertest.WriteFile(t, filepath.Join(repo, "d.yaml"), "y: 2\n")
	if err := fstest.TestFS(treeOf(t, repo), "a/b/c.yaml", "d.yaml"); err != nil {
		t.Error(err)
	}
}

func TestTreeMounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rendertest.WriteFile(t, filepath.Join(dir, "repo/in.yaml"), "inside")
	rendertest.WriteFile(t, filepath.Join(dir, "policies/p.yaml"), "policy")
	tr := treeOf(t, filepath.Join(dir, "repo"))

	name, err := tr.Name(filepath.Join(dir, "policies/p.yaml"), nil)
	rendertest.OK(t, err)
	if data, err := fs.ReadFile(tr, name); err != nil || string(data) != "policy" {
		t.Errorf("%s: %q, %v", name, data, err)
	}
	if got := tr.Display(name); got != "../policies/p.yaml" {
		t.Errorf("display: %s", got)
	}
	if data, err := fs.ReadFile(Shown{tr}, "../policies/p.yaml"); err != nil || string(data) != "policy" {
		t.Errorf("shown: %q, %v", data, err)
	}

	name, err = tr.Name("-", strings.NewReader("from stdin"))
	rendertest.OK(t, err)
	if data, err := fs.ReadFile(tr, name); err != nil || string(data) != "from stdin" {
		t.Errorf("%s: %q, %v", name, data, err)
	}
	if got := tr.Display(name); got != "-" {
		t.Errorf("display: %s", got)
	}
	if entries, err := fs.ReadDir(tr, "."); err != nil || len(entries) != 1 {
		t.Errorf("the mounts show in the repository: %v, %v", entries, err)
	}
}

func TestTreeRoot(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	rendertest.OK(t, err)
	rendertest.WriteFile(t, filepath.Join(dir, "repo/.git/HEAD"), "ref: refs/heads/main")
	rendertest.WriteFile(t, filepath.Join(dir, "repo/apps/web/x.yaml"), "")
	rendertest.WriteFile(t, filepath.Join(dir, "plain/x.yaml"), "")
	for path, want := range map[string]string{
		"repo/apps/web":        "repo",
		"repo/apps/web/x.yaml": "repo",
		"plain":                "plain",
		"plain/x.yaml":         "plain",
	} {
		got, err := Root(t.TempDir(), []string{filepath.Join(dir, path)})
		if err != nil || got != filepath.Join(dir, want) {
			t.Errorf("Root(%s) = %s, %v", path, got, err)
		}
	}
	if _, err := Root(t.TempDir(), []string{filepath.Join(dir, "none")}); err == nil {
		t.Error("a path that is not there: no error")
	}
}

func treeOf(t *testing.T, dir string) *Tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	rendertest.OK(t, err)
	tree, err := OpenTree(dir)
	rendertest.OK(t, err)
	t.Cleanup(func() { tree.Close() })
	return tree
}
