package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestLock reads a lock and writes the same bytes, in whatever order its entries
// stood.
func TestLock(t *testing.T) {
	t.Parallel()
	want := rendertest.ReadFile(t, "testdata/lock.yaml")
	lock, err := ParseLock(want)
	rendertest.OK(t, err)
	turned := &Lock{Version: 1}
	for i := range lock.Entries {
		turned.Entries = append([]Entry{lock.Entries[i]}, turned.Entries...)
	}
	got, err := turned.Marshal()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n%s", err, got)
	}
	for wrong, replaced := range map[string][2]string{
		"version 2":          {"version: 1", "version: 2"},
		"kind \"ftp\"":       {"kind: git", "kind: ftp"},
		"name is missing":    {"    name: podinfo\n", ""},
		"digest":             {"sha256:ba7", "sha256:zzz"},
		"field":              {"size: 512", "sise: 512"},
		"there are two":      {"kind: oci\n    url: oci://ghcr.io/example/apps\n    requested: latest", "kind: git\n    url: https://github.com/example/platform\n    requested: main"},
		"url is missing":     {"    url: https://charts.example.org\n", "    url: \"\"\n"},
		"want sha256: and 6": {"sha256:2c26", "sha256:2C26"},
	} {
		_, err := ParseLock([]byte(strings.Replace(string(want), replaced[0], replaced[1], 1)))
		if err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func packedFiles(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range headers {
		h.Mode = 0o644
		rendertest.OK(t, w.WriteHeader(&h))
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	rendertest.OK(t, errors.Join(w.Close(), z.Close()))
	return b.Bytes()
}

func packedText(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	rendertest.OK(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
	_, err := w.Write([]byte(text))
	rendertest.OK(t, errors.Join(err, w.Close(), z.Close()))
	return b.Bytes()
}

// TestVerify refuses content that is not what it should be.
func TestVerify(t *testing.T) {
	t.Parallel()
	chart := Entry{Kind: render.HelmChart, URL: "https://charts.example.org", Name: "a", Requested: "1", Resolved: "1.0.0"}
	tree := Entry{Kind: render.GitTree, URL: "https://example.org/a"}
	for _, test := range []struct {
		name, wrong string
		entry       Entry
		data        []byte
	}{
		{"chart", "", chart, packedFiles(t, tar.Header{Name: "a/Chart.yaml"}, tar.Header{Name: "a/templates/x.yaml", Size: 3})},
		{"no chart", "no Chart.yaml", chart, packedFiles(t, tar.Header{Name: "a/values.yaml"})},
		{"another name", `lists it with the name "a", but its Chart.yaml says "b"`, chart, packedText(t, "a/Chart.yaml", "name: b\nversion: 1.0.0\n")},
		{"another version", `lists it with the version "1.0.0", but its Chart.yaml says "1.0.1"`, chart, packedText(t, "a/Chart.yaml", "name: a\nversion: v1.0.1\n")},
		{"the same chart", "", chart, packedText(t, "a/Chart.yaml", "name: a\nversion: v1.0.0\n")},
		{"two directories", "more than one directory", chart, packedFiles(t, tar.Header{Name: "a/Chart.yaml"}, tar.Header{Name: "b/Chart.yaml"})},
		{"outside", "outside of the chart's directory", chart, packedFiles(t, tar.Header{Name: "Chart.yaml"})},
		{"twice", "twice", chart, packedFiles(t, tar.Header{Name: "a/Chart.yaml"}, tar.Header{Name: "a/./Chart.yaml"})},
		{"file and directory", "as a file and as a directory", tree, packedFiles(t, tar.Header{Name: "a/x"}, tar.Header{Name: "a"})},
		{"leads out", "", tree, packedFiles(t, tar.Header{Name: "../../etc/x"})},
		{"no archive", "no tar archive", tree, []byte("<html>no</html>")},
		{"bomb", "larger than 100 MiB", chart, packedFiles(t, tar.Header{Name: "a/Chart.yaml"}, tar.Header{Name: "a/big", Size: 101 << 20})},
		{"many", "more than 20000 entries", tree, packedFiles(t, manyOf(tar.Header{Name: "d/", Typeflag: tar.TypeDir}, 20_001)...)},
		{"cut", "ends too early", chart, packedFiles(t, tar.Header{Name: "a/Chart.yaml"}, tar.Header{Name: "a/x", Size: 1 << 20})[:500]},
	} {
		test.entry.Digest = Digest(test.data)
		err := Verify(&test.entry, test.data, func(string) ([]byte, error) { return nil, ErrAbsent })
		if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	chart.Digest = Digest(nil)
	if err := Verify(&chart, []byte("other"), nil); err == nil {
		t.Error("content with another digest is taken")
	}
}

func manyOf(h tar.Header, n int) []tar.Header {
	all := make([]tar.Header, n)
	for i := range all {
		all[i] = h
	}
	return all
}

// TestStore finds the files of Remotes in a tree, and reads no content that has
// another digest.
func TestStore(t *testing.T) {
	t.Parallel()
	data := packedFiles(t, tar.Header{Name: "a/Chart.yaml"}, tar.Header{Name: "a/templates/x.yaml", Size: 3}, tar.Header{Name: "a/.helmignore"})
	lock := &Lock{Version: 1}
	entry := Entry{Kind: render.HelmChart, URL: "https://charts.example.org", Name: "a", Requested: "1.x", Resolved: "1.2.3", Digest: Digest(data)}
	lock.Put(entry)
	files := fstest.MapFS{BlobName(entry.Digest): {Data: data}}
	s := New(lock, Dirs{files}, nil, fstest.MapFS{})
	repo, err := s.Fetched(entry.Remote())
	rendertest.OK(t, err)
	if label, _, ok := render.Fetched(repo.Root); !ok || label != "chart a 1.2.3" {
		t.Errorf("the files are at %s", repo.Root)
	}
	mounts := s.Mounts()
	if len(mounts) != 1 || mounts[0].Name != repo.Root {
		t.Fatalf("mounts are %v", mounts)
	}
	if err := fstest.TestFS(mounts[0].FS, "Chart.yaml", "templates/x.yaml"); err != nil {
		t.Error(err)
	}
	if _, err := fs.Stat(mounts[0].FS, ".helmignore"); err == nil {
		t.Error(".helmignore of an archive is there")
	}
	other := *entry.Remote()
	other.Version = "2.x"
	var e *render.Error
	if _, err := s.Fetched(&other); !errors.As(err, &e) || !e.Missing || e.Remote == nil {
		t.Errorf("what is not locked: %v", err)
	}
	for name, dirs := range map[string]Dirs{"absent": {fstest.MapFS{}}, "wrong": {fstest.MapFS{BlobName(entry.Digest): {Data: []byte("other")}}}} {
		_, err := New(lock, dirs, nil, fstest.MapFS{}).Fetched(entry.Remote())
		if !errors.As(err, &e) || e.Missing != (name == "absent") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
