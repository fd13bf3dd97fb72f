package git

import (
	"bytes"
	"compress/zlib"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestLoose holds that objects with files of their own are read as go-git reads them, and
// that a broken one is left to go-git.
func TestLoose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "a: 1\n", "b/empty": "", "c": strings.Repeat("long ", 20_000)} {
		rendertest.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	made, err := gittest.Init(dir)
	rendertest.OK(t, err)
	if _, err := made.CommitAll("all"); err != nil {
		t.Fatal(err)
	}
	repo, err := Open(dir)
	rendertest.OK(t, err)
	defer repo.Close()
	read := 0
	for name, h := range looseFiles(t, dir) {
		want, err := repo.store.EncodedObject(plumbing.AnyObject, h)
		rendertest.OK(t, err)
		text, err := repo.objects.content(want.Type(), h)
		rendertest.OK(t, err)
		l, ok := repo.objects.loose(h)
		if !ok || l.kind != want.Type() || l.size != want.Size() {
			t.Fatalf("%s: %v, %v of %d bytes, want %v of %d", h, ok, l.kind, l.size, want.Type(), want.Size())
		}
		if data, ok := l.content(want.Type()); !ok || !bytes.Equal(data, text) {
			t.Errorf("%s: %v, %.40q, want %.40q", h, ok, data, text)
		}
		if l, ok := repo.objects.loose(h); ok {
			if _, ok := l.content(plumbing.TagObject); ok {
				t.Errorf("%s: read as a tag", h)
			}
		}
		read++
		for what, broken := range map[string][]byte{
			"no zlib":      text,
			"cut short":    deflated("blob 100\x00short"),
			"longer":       deflated("blob 2\x00longer"),
			"negative":     deflated("blob -1\x00"),
			"without type": deflated("5\x00short"),
			"endless":      deflated("blob 5" + strings.Repeat("0", 100)),
			"checksum":     append(deflated("blob 5\x00short")[:12], 0, 0, 0, 0, 0, 0, 0, 0),
		} {
			rendertest.OK(t, os.Chmod(name, 0o600))
			rendertest.OK(t, os.WriteFile(name, broken, 0o600))
			l, ok := repo.objects.loose(h)
			if !ok {
				continue
			}
			if data, ok := l.content(plumbing.BlobObject); ok {
				t.Errorf("%s: read %q", what, data)
			}
		}
	}
	if read < 6 { // a commit, two trees, three files
		t.Errorf("%d objects", read)
	}
}

// looseFiles returns the objects with files of their own, by file.
func looseFiles(t *testing.T, dir string) map[string]plumbing.Hash {
	t.Helper()
	files := make(map[string]plumbing.Hash)
	objects := filepath.Join(dir, ".git/objects")
	err := filepath.WalkDir(objects, func(name string, e fs.DirEntry, err error) error {
		rest, _ := filepath.Rel(objects, name)
		if digits := strings.ReplaceAll(filepath.ToSlash(rest), "/", ""); err == nil && plumbing.IsHash(digits) {
			files[name] = plumbing.NewHash(digits)
		}
		return err
	})
	rendertest.OK(t, err)
	return files
}

func deflated(text string) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}
