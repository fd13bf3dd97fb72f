package cache

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/preadmit/preadmit/render/rendertest"
)

func open(t *testing.T, dir string, limit int64, now time.Time) *Store {
	t.Helper()
	s, err := Open(dir, limit, now)
	rendertest.OK(t, err)
	return s
}

func TestStoreIsSharedByRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var runs sync.WaitGroup
	for range 8 {
		s := open(t, dir, Limit, time.Now())
		runs.Go(func() {
			for i := range 100 {
				key, want := KeyOf("k", fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, 10_000)
				s.Put(key, want)
				if got, ok := s.Get(key); !ok || !bytes.Equal(got, want) {
					t.Errorf("entry %d is not what was put", i)
				}
			}
			s.Trim()
		})
	}
	runs.Wait()
}

func TestStoreIgnoresForeignEntries(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Limit, time.Now())
	a, b := KeyOf("a"), KeyOf("b")
	s.Put(a, []byte("of a"))
	s.Put(b, []byte("of b"))
	_, from := s.file(a)
	_, to := s.file(b)
	rendertest.OK(t, os.Rename(from, to))
	if got, ok := s.Get(b); ok {
		t.Errorf("the entry of another key is taken: %q", got)
	}
}

// TestStoreIsBounded puts more than fits and holds that what was used last
// stays.
func TestStoreIsBounded(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	const limit = 64 * 10_000
	var last Key
	for i := range 400 {
		s := open(t, dir, limit, now)
		last = KeyOf(fmt.Sprint(i))
		s.Put(last, make([]byte, 3_000))
		_, name := s.file(last)
		then := now.Add(time.Duration(i) * time.Second)
		rendertest.OK(t, os.Chtimes(name, then, then))
		s.Trim()
	}
	var size int64
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	rendertest.OK(t, err)
	for _, f := range files {
		info, err := os.Stat(f)
		rendertest.OK(t, err)
		size += info.Size()
	}
	if size > limit || size < limit/2 {
		t.Errorf("%d bytes are kept, want up to %d", size, limit)
	}
	s := open(t, dir, limit, now)
	if _, ok := s.Get(last); !ok {
		t.Error("the youngest entry is gone")
	}
	s.Put(KeyOf("large"), make([]byte, limit))
	if _, ok := s.Get(KeyOf("large")); ok {
		t.Error("an entry larger than a shard is kept")
	}
}

func TestValuesComeBack(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"nil": nil, "true": true, "false": false, "int": int64(math.MinInt64), "float": 1.0, "large": math.MaxFloat64,
		"text": "a\x00b", "same": "a\x00b", "": "", "list": []any{int64(1), "1", nil}, "none": []any{}, "map": map[string]any{},
		"no list": []any(nil), "no map": map[string]any(nil),
	}
	var e Encoder
	e.Value(want)
	data, err := e.Data()
	rendertest.OK(t, err)
	d := NewDecoder(data)
	got := d.Value()
	rendertest.OK(t, d.End())
	rendertest.Equal(t, any(want), got)
	for i := range data { // whatever is cut off, it says so
		d := NewDecoder(data[:i])
		d.Value()
		if d.End() == nil {
			t.Errorf("%d of %d bytes are taken for all", i, len(data))
		}
	}
	e.Value(int(1))
	if _, err := e.Data(); err == nil {
		t.Error("a value of a type that objects don't have is kept")
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte{7, 2, 3, 'a', 5, 3, 'b'})
	f.Fuzz(func(_ *testing.T, data []byte) {
		NewDecoder(data).Value()
		var c []variantOfTest
		NewDecoder(data).Plain(&c)
	})
}

type variantOfTest struct {
	A string
	B []string
	C *variantOfTest
	D []variantOfTest
}

// TestEachReadIsRecorded holds that each way to read a tree is recorded, and that a
// record does not fit other answers.
func TestEachReadIsRecorded(t *testing.T) {
	t.Parallel()
	files := func() fstest.MapFS {
		return fstest.MapFS{"d/a": {Data: []byte("1")}, "d/b": {Data: []byte("2")}}
	}
	r := newRecorder(NewTree(files(), ".outside"))
	if _, err := r.ReadDir("d"); err != nil {
		t.Fatal(err)
	}
	_, _ = r.Stat("d/none")
	f, err := r.Open("d/a")
	rendertest.OK(t, err)
	if _, err := f.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	reads, ok := r.reads()
	if !ok || len(reads) != 3 {
		t.Fatalf("reads are %v, %v", reads, ok)
	}
	for what, c := range map[string]struct {
		change func(fstest.MapFS)
		holds  bool
	}{
		"nothing":        {func(fstest.MapFS) {}, true},
		"another's file": {func(m fstest.MapFS) { m["d/b"].Data = []byte("3") }, true},
		"content":        {func(m fstest.MapFS) { m["d/a"].Data = []byte("3") }, false},
		"a file more":    {func(m fstest.MapFS) { m["d/c"] = &fstest.MapFile{} }, false},
		"a file less":    {func(m fstest.MapFS) { delete(m, "d/b") }, false},
		"missing found":  {func(m fstest.MapFS) { m["d/none"] = &fstest.MapFile{} }, false},
		"another kind":   {func(m fstest.MapFS) { delete(m, "d/b"); m["d/b/c"] = &fstest.MapFile{} }, false},
	} {
		m := files()
		c.change(m)
		if got := NewTree(m, ".outside").holds(reads); got != c.holds {
			t.Errorf("%s: holds is %v", what, got)
		}
	}
}

// TestStoreOfAnotherUser: what another user can write to is not believed.
func TestStoreOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a directory that another user owns")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Skip(err)
	}
	if _, err := Open(dir, Limit, time.Now()); err == nil || err.Error() != "another user owns it" {
		t.Errorf("it is opened: %v", err)
	}
}

// TestStoreReadsNoOtherFiles holds that a file which Put can't have written is no
// entry and is not opened: a link, a directory or one that is too large.
func TestStoreReadsNoOtherFiles(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	dir := t.TempDir()
	s, err := Open(dir, limit, time.Now())
	rendertest.OK(t, err)
	for what, replace := range map[string]func(name string) error{
		"link":      func(name string) error { return os.Symlink("/dev/zero", name) },
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
		"too large": func(name string) error {
			f, err := os.Create(name)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(1 << 40) // without a block on the disk
		},
	} {
		k := KeyOf(what)
		s.Put(k, []byte("content"))
		if _, ok := s.Get(k); !ok {
			t.Fatalf("%s: the entry is not kept", what)
		}
		_, name := s.file(k)
		rendertest.OK(t, os.Remove(name))
		if err := replace(name); err != nil {
			t.Skip(what, err)
		}
		if data, ok := s.Get(k); ok {
			t.Errorf("%s is taken for an entry of %d bytes", what, len(data))
		}
	}
}
