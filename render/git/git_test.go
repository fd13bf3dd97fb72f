package git_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render/git"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// history is a repository with three commits on main, a merge and tags.
type history struct {
	dir           string
	repo          *gittest.Repository
	first, second string
	side, merge   string
}

func newHistory(t *testing.T) *history {
	t.Helper()
	h := &history{dir: t.TempDir()}
	var err error
	h.repo, err = gittest.Init(h.dir)
	rendertest.OK(t, err)
	write(t, h.dir, "apps/web.yaml", "a: 1\n")
	write(t, h.dir, "deep/er/x.yaml", "x: 1\n")
	h.first, err = h.repo.CommitAll("first")
	rendertest.OK(t, err)
	write(t, h.dir, "apps/web.yaml", "a: 2\n")
	h.second, err = h.repo.CommitAll("second")
	rendertest.OK(t, err)
	tree, err := h.repo.TreeOf(h.dir)
	rendertest.OK(t, err)
	h.side, err = h.repo.Commit(tree, "side", h.first)
	rendertest.OK(t, err)
	h.merge, err = h.repo.Commit(tree, "merge", h.second, h.side)
	rendertest.OK(t, err)
	rendertest.OK(t, h.repo.SetRef("refs/heads/main", h.merge))
	rendertest.OK(t, h.repo.SetRef("refs/remotes/origin/release", h.first))
	tag, err := h.repo.Object("tag", []byte("object "+h.second+"\ntype commit\ntag v1\ntagger A <a@b> 1 +0000\n\nm\n"))
	rendertest.OK(t, err)
	rendertest.OK(t, h.repo.SetRef("refs/tags/v1", tag))
	return h
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	rendertest.WriteFile(t, filepath.Join(dir, name), content)
}

func open(t *testing.T, dir string) *git.Repository {
	t.Helper()
	r, err := git.Open(dir)
	rendertest.OK(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func tree(t *testing.T, r *git.Repository, revision string) *git.Tree {
	t.Helper()
	c, err := r.Resolve(revision)
	rendertest.OK(t, err)
	files, err := r.Tree(c)
	rendertest.OK(t, err)
	return files
}

func TestResolve(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	r := open(t, h.dir)
	for revision, want := range map[string]string{
		"HEAD": h.merge, "@": h.merge, "main": h.merge, "heads/main": h.merge, "refs/heads/main": h.merge,
		"HEAD^": h.second, "HEAD^1": h.second, "HEAD^2": h.side, "HEAD^0": h.merge, "HEAD~": h.second, "HEAD~2": h.first,
		"HEAD^2~1": h.first, "HEAD^2^": h.first, "@~1^": h.first, "main^{commit}~1": h.second,
		"v1": h.second, "v1^{commit}": h.second, "v1~1": h.first, "tags/v1": h.second,
		"origin/release": h.first, h.first: h.first, h.first[:7]: h.first, strings.ToUpper(h.second): h.second, h.side[:40] + "~": h.first,
	} {
		c, err := r.Resolve(revision)
		if err != nil {
			t.Errorf("%s: %v", revision, err)
		} else if c.Hash != want {
			t.Errorf("%s is %s, want %s", revision, c.Hash, want)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	r := open(t, h.dir)
	for revision, want := range map[string]string{
		"": "is empty", "--upload-pack=x": "begins with a dash", "main..HEAD": "is a range", "main...HEAD": "is a range",
		"HEAD@{1}": "the log of references, which is not read", "main:apps": "is not the name of a commit", ":/first": "is not the name of a commit",
		"a\nb": "is not the name of a commit", "nowhere": "no such branch, tag or commit here", "HEAD^3": "has 2 parents",
		"HEAD~9": "has no parent", "HEAD^{tree}": "only ^{commit} is supported", "HEAD~1x": "is not the name of a commit",
		"HEAD~99999999999999999999": "goes back more than", strings.Repeat("0", 40): "no such commit here",
		"../../etc/passwd": "is a range", "deadbeef": "no such branch",
	} {
		if _, err := r.Resolve(revision); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", revision, err, want)
		}
	}
}

func TestTreeIsAFileSystem(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	write(t, h.dir, "run.sh", "#!/bin/sh\n")
	rendertest.OK(t, os.Symlink("apps/web.yaml", filepath.Join(h.dir, "link.yaml")))
	rendertest.OK(t, os.Symlink("../deep", filepath.Join(h.dir, "apps/deep")))
	_, err := h.repo.CommitAll("links")
	rendertest.OK(t, err)
	files := tree(t, open(t, h.dir), "HEAD")
	if err := fstest.TestFS(files, "apps/web.yaml", "deep/er/x.yaml", "run.sh"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"apps/web.yaml": "a: 2\n", "link.yaml": "a: 2\n", "apps/deep/er/x.yaml": "x: 1\n"} {
		data, err := fs.ReadFile(files, name)
		if err != nil || string(data) != want {
			t.Errorf("%s is %q (%v), want %q", name, data, err, want)
		}
	}
	old, err := fs.ReadFile(tree(t, open(t, h.dir), "v1~1"), "apps/web.yaml")
	if err != nil || string(old) != "a: 1\n" {
		t.Errorf("the first commit has %q (%v)", old, err)
	}
}

// TestHostileTree reads what no checkout would make.
func TestHostileTree(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	blob := func(s string) string {
		hash, err := h.repo.Object("blob", []byte(s))
		rendertest.OK(t, err)
		return hash
	}
	entries := []gittest.Entry{
		{Mode: "100644", Name: "a.yaml", Hash: blob("a: 1\n")},
		{Mode: "100644", Name: "a.yaml", Hash: blob("a: 2\n")},
		{Mode: "100644", Name: "..", Hash: blob("x")},
		{Mode: "100644", Name: ".GIT", Hash: blob("x")},
		{Mode: "100644", Name: "x/../../y", Hash: blob("x")},
		{Mode: "120000", Name: "out", Hash: blob("../../etc/passwd")},
		{Mode: "120000", Name: "root", Hash: blob("/etc/passwd")},
		{Mode: "120000", Name: "loop", Hash: blob("loop")},
		{Mode: "120000", Name: "nul", Hash: blob("a\x00b")},
		{Mode: "160000", Name: "module", Hash: strings.Repeat("1", 40)},
		{Mode: "100644", Name: "gone.yaml", Hash: strings.Repeat("2", 40)},
	}
	hash, err := h.repo.Tree(entries...)
	rendertest.OK(t, err)
	commit, err := h.repo.Commit(hash, "hostile")
	rendertest.OK(t, err)
	files := tree(t, open(t, h.dir), commit)
	list, err := fs.ReadDir(files, ".")
	rendertest.OK(t, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "a.yaml gone.yaml loop module nul out root" {
		t.Errorf("the root holds %s", got)
	}
	if data, _ := fs.ReadFile(files, "a.yaml"); string(data) != "a: 1\n" {
		t.Errorf("of two a.yaml %q counts", data)
	}
	for name, want := range map[string]string{
		"out": "path escapes from parent", "root": "path escapes from parent", "loop": "too many levels of symbolic links",
		"nul": "leads nowhere", "gone.yaml": "is not in the repository", "a.yaml/b": "not a directory", "nope": "file does not exist",
	} {
		if _, err := fs.ReadFile(files, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", name, err, want)
		}
	}
	if below, err := fs.ReadDir(files, "module"); err != nil || len(below) > 0 {
		t.Errorf("the submodule holds %v, %v", below, err)
	}
	if got := files.AbsentSubmodules(); len(got) != 1 || got[0] != "module" {
		t.Errorf("submodules are %v", got)
	}
}

// TestTreeOfTheSameTrees holds that a tree which has a billion files by a few
// objects is not gone through.
func TestTreeOfTheSameTrees(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	blob, err := h.repo.Object("blob", []byte("a: 1\n"))
	rendertest.OK(t, err)
	entries := []gittest.Entry{{Mode: "100644", Name: "a.yaml", Hash: blob}}
	hash := ""
	for range 10 {
		hash, err = h.repo.Tree(entries...)
		rendertest.OK(t, err)
		entries = nil
		for i := range 10 {
			entries = append(entries, gittest.Entry{Mode: "40000", Name: fmt.Sprintf("d%d", i), Hash: hash})
		}
	}
	hash, err = h.repo.Tree(entries...)
	rendertest.OK(t, err)
	commit, err := h.repo.Commit(hash, "bomb")
	rendertest.OK(t, err)
	files, seen := tree(t, open(t, h.dir), commit), 0
	_ = fs.WalkDir(files, ".", func(string, fs.DirEntry, error) error {
		if seen++; seen > 100_000 {
			return fs.SkipAll
		}
		return nil
	})
	if seen > 100_000 {
		t.Errorf("%d files were gone through", seen)
	}
	if err := files.Err(); err == nil || !strings.Contains(err.Error(), "the same directories again and again") {
		t.Error(err)
	}
}

func TestShallowClone(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	write(t, h.dir, ".git/shallow", h.second+"\n")
	r := open(t, h.dir)
	if _, err := r.Resolve("HEAD~1"); err != nil {
		t.Error(err)
	}
	for _, revision := range []string{"HEAD~2", "nowhere", strings.Repeat("0", 40)} {
		if _, err := r.Resolve(revision); err == nil || !strings.Contains(err.Error(), "shallow") {
			t.Errorf("%s: %v, want an error that says shallow", revision, err)
		}
	}
}

func TestFormatsThatCantBeRead(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"[extensions]\n\tobjectFormat = sha256\n":                      "sha256",
		"[core]\n\tx = 1\n[Extensions]\n\trefStorage=reftable\n":       "reftable",
		strings.Repeat("# nothing\n", 1<<17):                           "configuration has more than 1 MiB",
		"[extensions] objectformat = sha256\n[core]\n\tbare = false\n": "sha256",
	} {
		h := newHistory(t)
		write(t, h.dir, ".git/config", config)
		if _, err := git.Open(h.dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want an error with %q", config, err, want)
		}
	}
	if _, err := git.Open(t.TempDir()); err == nil || err.Error() != "not a git repository" {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestConfigurationIsIgnored reads a repository whose configuration would make
// git run programs.
func TestConfigurationIsIgnored(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	planted := filepath.Join(h.dir, "ran")
	write(t, h.dir, ".git/config", "[core]\n\tfsmonitor = touch "+planted+"\n\thooksPath = hooks\n[filter \"x\"]\n\tsmudge = touch "+planted+"\n[include]\n\tpath = /nowhere\n[broken\n")
	write(t, h.dir, ".gitattributes", "* filter=x\n")
	if _, err := fs.ReadFile(tree(t, open(t, h.dir), "HEAD"), "apps/web.yaml"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(planted); err == nil {
		t.Error("a program of the configuration ran")
	}
}

// TestBesideGit compares with git itself: packs with deltas, packed references,
// alternates and a linked work tree.
func TestBesideGit(t *testing.T) {
	t.Parallel()
	h, run := bigHistory(t)
	linked := filepath.Join(t.TempDir(), "linked")
	run(h.dir, "worktree", "add", "--quiet", linked, "HEAD~1")
	shallow := filepath.Join(t.TempDir(), "shallow")
	run(h.dir, "clone", "--quiet", "--depth", "5", "file://"+h.dir, shallow)
	sparse := filepath.Join(t.TempDir(), "sparse")
	run(h.dir, "clone", "--quiet", "--sparse", h.dir, sparse)
	for _, dir := range append(borrowing(t, h.dir, run), h.dir, linked, shallow, sparse) {
		for _, revision := range []string{"HEAD", "HEAD~1", "main", "v1", "main~2^2"} {
			if dir != h.dir && dir != linked {
				revision = strings.Replace(revision, "v1", "tags/v1", 1)
			}
			want := run(dir, "rev-parse", revision+"^{commit}")
			r := open(t, dir)
			c, err := r.Resolve(revision)
			if err != nil || c.Hash != want {
				t.Errorf("%s: %s is %v (%v), git says %s", dir, revision, c, err, want)
				continue
			}
			files := tree(t, r, revision)
			compare(t, files, want, func(args ...string) string { return run(dir, args...) })
			rendertest.OK(t, files.Err())
		}
	}
}

// bigHistory is a history with packs and deltas, made where git is installed,
// and what runs git in a directory.
func bigHistory(t *testing.T) (*history, func(dir string, args ...string) string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is absent: nothing to compare with")
	}
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "maintenance.auto=false", "-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	h := newHistory(t)
	var text strings.Builder
	for i := range 200 {
		text.WriteString(strings.Repeat("line", i%7) + "\n")
		write(t, h.dir, "apps/big.yaml", text.String())
	}
	_, err := h.repo.CommitAll("big")
	rendertest.OK(t, err)
	write(t, h.dir, "apps/big.yaml", text.String()+"more\n")
	_, err = h.repo.CommitAll("bigger")
	rendertest.OK(t, err)
	run(h.dir, "gc", "--aggressive", "--prune=now", "--quiet")
	run(h.dir, "pack-refs", "--all")
	return h, run
}

// borrowing are clones that have their objects from other repositories.
func borrowing(t *testing.T, from string, run func(dir string, args ...string) string) []string {
	t.Helper()
	dir := t.TempDir()
	clone := func(name string, args ...string) string {
		to := filepath.Join(dir, name)
		run(dir, append(append([]string{"clone", "--quiet"}, args...), to)...)
		return to
	}
	shared := clone("shared", "--shared", from)
	chained := clone("chained", "--shared", shared)
	referring := clone("referring", "--reference", from, "file://"+from)
	relative := clone("relative", "--shared", from)
	to, err := filepath.Rel(filepath.Join(relative, ".git/objects"), filepath.Join(from, ".git/objects"))
	rendertest.OK(t, err)
	write(t, relative, ".git/objects/info/alternates", "# relative\n"+to+"\n")
	run(relative, "fsck")
	return []string{shared, chained, referring, relative}
}

// TestMissingContent holds that content which a clone lacks is an error of the
// whole tree, not an absent file.
func TestMissingContent(t *testing.T) {
	t.Parallel()
	h, run := bigHistory(t)
	dir := t.TempDir()
	run(h.dir, "config", "uploadpack.allowFilter", "true")
	run(dir, "clone", "--quiet", "--filter=blob:none", "file://"+h.dir, "partial")
	run(dir, "clone", "--quiet", "--shared", h.dir, "moved")
	write(t, dir, "moved/.git/objects/info/alternates", "/nowhere/objects\n"+filepath.Join(h.dir, ".git/objects")+"\n")
	whole := tree(t, open(t, filepath.Join(dir, "moved")), "HEAD~2")
	if _, err := fs.ReadFile(whole, "apps/web.yaml"); err != nil || whole.Err() != nil {
		t.Errorf("beside an alternate that is gone: %v, %v", err, whole.Err())
	}
	partial := tree(t, open(t, filepath.Join(dir, "partial")), "HEAD~1")
	rendertest.OK(t, partial.Err())
	if _, err := fs.ReadFile(partial, "apps/big.yaml"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there is read: %v", err)
	}
	if err := partial.Err(); err == nil || !strings.Contains(err.Error(), "apps/big.yaml can't be read: object") || !strings.Contains(err.Error(), "partial clone") {
		t.Errorf("the tree's error is %v", err)
	}
	run(filepath.Join(dir, "partial"), "fetch", "--quiet", "--refetch", "--no-filter") // as the error advises
	if _, err := fs.ReadFile(tree(t, open(t, filepath.Join(dir, "partial")), "HEAD~1"), "apps/big.yaml"); err != nil {
		t.Error(err)
	}
	write(t, dir, "moved/.git/objects/info/alternates", "/nowhere/objects\n")
	if _, err := open(t, filepath.Join(dir, "moved")).Resolve("HEAD"); err == nil || !strings.Contains(err.Error(), "borrows objects from /nowhere/objects") {
		t.Errorf("without its alternate: %v", err)
	}
}

// TestOtherContent holds that an object whose content is that of another one is an error,
// whatever kind it has and wherever it is stored; the same object in an alternate is read.
func TestOtherContent(t *testing.T) {
	t.Parallel()
	others := map[string]string{
		"commit": "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nm\n",
		"tree":   "",
		"blob":   "a: 9\n",
		"tag":    "object %s\ntype commit\ntag v1\ntagger A <a@b> 1 +0000\n\nm\n",
	}
	for kind, other := range others {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			object := func(kind, content string) string {
				name, err := h.repo.Object(kind, []byte(content))
				rendertest.OK(t, err)
				return name
			}
			victim := map[string]string{"commit": h.second, "blob": object("blob", "a: 2\n"), "tag": strings.TrimSpace(read(t, filepath.Join(h.repo.Dir, "refs/tags/v1")))}[kind]
			if kind == "tree" {
				var err error
				victim, err = h.repo.TreeOf(h.dir)
				rendertest.OK(t, err)
			}
			file := func(dir, name string) string { return filepath.Join(dir, "objects", name[:2], name[2:]) }
			intact := read(t, file(h.repo.Dir, victim))
			name := object(kind, strings.Replace(other, "%s", h.first, 1))
			rendertest.OK(t, os.Rename(file(h.repo.Dir, name), file(h.repo.Dir, victim)))

			content := func() (string, error) {
				c, err := open(t, h.dir).Resolve("v1")
				if err != nil {
					return "", err
				}
				files, err := open(t, h.dir).Tree(c)
				if err != nil {
					return "", err
				}
				data, err := fs.ReadFile(files, "apps/web.yaml")
				return string(data), err
			}
			if got, err := content(); err == nil || !strings.Contains(err.Error(), "hash mismatch: it holds the content of "+name) {
				t.Errorf("read %q, %v", got, err)
			}
			store := filepath.Join(t.TempDir(), "store")
			write(t, store, filepath.Join("objects", victim[:2], victim[2:]), intact)
			write(t, h.repo.Dir, "objects/info/alternates", filepath.Join(store, "objects")+"\n")
			if got, err := content(); got != "a: 2\n" {
				t.Errorf("with an intact one in an alternate: %q, %v", got, err)
			}
		})
	}
}

// TestOtherContentPacked holds the same for an object in a pack whose index leads to another
// one.
func TestOtherContentPacked(t *testing.T) {
	t.Parallel()
	h, run := bigHistory(t)
	a, b := run(h.dir, "rev-parse", h.first+":apps/web.yaml"), run(h.dir, "rev-parse", h.second+":apps/web.yaml")
	found, err := filepath.Glob(filepath.Join(h.repo.Dir, "objects/pack/*.idx"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	index := []byte(read(t, found[0]))
	const head, fanout = 8, 1024
	count := int(binary.BigEndian.Uint32(index[head+fanout-4:]))
	offset := func(name string) []byte {
		raw, err := hex.DecodeString(name)
		rendertest.OK(t, err)
		i := (bytes.Index(index, raw) - head - fanout) / len(raw)
		at := head + fanout + count*(len(raw)+4) + i*4
		return index[at : at+4]
	}
	ofA, ofB := offset(a), offset(b)
	for i := range ofA {
		ofA[i], ofB[i] = ofB[i], ofA[i]
	}
	sum := sha1.Sum(index[:len(index)-sha1.Size])
	copy(index[len(index)-sha1.Size:], sum[:])
	rendertest.OK(t, os.Chmod(found[0], 0o600))
	rendertest.OK(t, os.WriteFile(found[0], index, 0o600))
	got, err := fs.ReadFile(tree(t, open(t, h.dir), h.second), "apps/web.yaml")
	if err == nil || !strings.Contains(err.Error(), "hash mismatch: it holds the content of "+a) {
		t.Errorf("read %q, %v", got, err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	return string(data)
}

// TestSubmodule holds that a submodule that is checked out has the files of the
// commit which the revision names, and one that is not is named.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	h, run := bigHistory(t)
	outer := t.TempDir()
	run(outer, "init", "--quiet", "-b", "main")
	run(outer, "submodule", "--quiet", "add", h.dir, "vendor/lib")
	run(filepath.Join(outer, "vendor/lib"), "checkout", "--quiet", "HEAD~1")
	run(outer, "add", ".")
	run(outer, "commit", "--quiet", "-m", "one")
	run(filepath.Join(outer, "vendor/lib"), "checkout", "--quiet", "-")
	files := tree(t, open(t, outer), "HEAD")
	data, err := fs.ReadFile(files, "vendor/lib/apps/big.yaml")
	if want := run(h.dir, "show", "HEAD~1:apps/big.yaml"); err != nil || strings.TrimSpace(string(data)) != want {
		t.Errorf("the submodule's file has %d bytes (%v), git shows %d", len(data), err, len(want))
	}
	rendertest.OK(t, files.Err())
	clone := filepath.Join(t.TempDir(), "clone")
	run(outer, "clone", "--quiet", outer, clone)
	files = tree(t, open(t, clone), "HEAD")
	if entries, err := fs.ReadDir(files, "vendor/lib"); err != nil || len(entries) > 0 {
		t.Errorf("the submodule holds %v, %v", entries, err)
	}
	if got := files.AbsentSubmodules(); len(got) != 1 || got[0] != "vendor/lib" {
		t.Errorf("absent submodules are %v", got)
	}
}

// compare holds a tree against git's list of files and their contents.
func compare(t *testing.T, files *git.Tree, commit string, run func(...string) string) {
	t.Helper()
	var got []string
	rendertest.OK(t, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, name)
			data, readErr := fs.ReadFile(files, name)
			if want := run("show", commit+":"+name); readErr != nil || strings.TrimSpace(string(data)) != want {
				t.Errorf("%s: %d bytes (%v), git shows %d", name, len(data), readErr, len(want))
			}
		}
		return err
	}))
	if want := run("ls-tree", "-r", "--name-only", commit); strings.Join(got, "\n") != want {
		t.Errorf("files are %v, git lists %s", got, want)
	}
}
