package cache

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Key identifies an entry by everything that its content depends on.
type Key [sha256.Size]byte

// KeyOf returns the key for some parts. The first names the kind of entry.
func KeyOf(parts ...string) Key {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write([]byte(p))
	}
	return Key(h.Sum(nil))
}

// A Store keeps entries in a directory, one file each. Files are written under a temporary name and
// renamed, and a checksum covers key and content. So several runs may use the store at once, and a
// truncated, changed or foreign entry counts as missing. A nil Store is empty.
type Store struct {
	dir   string
	limit int64 // of a shard, in bytes
	now   time.Time

	mu      sync.Mutex
	wrote   map[string]bool // shards
	err     error           // the first of Put
	entries map[Key][]byte  // of a store without a directory
}

// NewStore returns an empty store in memory.
func NewStore() *Store { return &Store{entries: make(map[Key][]byte)} }

const (
	shards = 64
	// Limit is the size in bytes to which a store is trimmed when no run is
	// writing.
	Limit = 512 << 20
)

// format is the version of the format of all entries.
const format = "preadmit cache 4\n"

// Open returns the store in a directory, which it creates if needed. It fails
// if others than the owner may write to the directory, because entries are
// trusted. The age of entries is relative to now.
func Open(dir string, limit int64, now time.Time) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return nil, errors.New("others may write to it")
	}
	if !isOwn(info) {
		return nil, errors.New("another user owns it")
	}
	return &Store{dir: dir, limit: limit / shards, now: now, wrote: make(map[string]bool)}, nil
}

func (s *Store) file(k Key) (shard, name string) {
	shard = filepath.Join(s.dir, hex.EncodeToString([]byte{k[0] % shards}))
	return shard, filepath.Join(shard, hex.EncodeToString(k[:]))
}

// Get returns the entry of a key, if there is one.
func (s *Store) Get(k Key) ([]byte, bool) {
	if s == nil {
		return nil, false
	}
	if s.entries != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		data, ok := s.entries[k]
		return data, ok
	}
	_, name := s.file(k)
	data, written, err := readEntry(name, s.limit/2+int64(len(format)+sha256.Size))
	if err != nil || len(data) < len(format)+sha256.Size {
		return nil, false
	}
	content := data[len(format)+sha256.Size:]
	if seal := sealed(k, content); !bytes.Equal(seal, data[:len(seal)]) {
		return nil, false
	}
	s.use(name, written)
	return content, true
}

// errNoEntry is the error for a file that Put did not write.
var errNoEntry = errors.New("no entry")

// sealed returns the header of an entry.
func sealed(k Key, content []byte) []byte {
	h := sha256.New()
	h.Write(k[:])
	h.Write(content)
	return h.Sum([]byte(format))
}

// use sets the time of an entry to now if it is more than a day old.
func (s *Store) use(name string, written time.Time) {
	if s.now.Sub(written) > 24*time.Hour {
		_ = os.Chtimes(name, time.Time{}, s.now) // on failure the entry is only removed earlier
	}
}

// Put stores an entry, unless it is larger than half of a shard. Write errors
// do not affect the run; Err returns the first.
func (s *Store) Put(k Key, content []byte) {
	if s != nil && s.entries != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.entries[k] = content
		return
	}
	if s == nil || int64(len(content)) > s.limit/2 {
		return
	}
	shard, name := s.file(k)
	err := write(shard, name, append(sealed(k, content), content...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote[shard] = true
	s.err = cmp.Or(s.err, err)
}

// Dir returns the store's directory, or "" if it is in memory.
func (s *Store) Dir() string { return s.dir }

// Err returns the first error of Put.
func (s *Store) Err() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

const temporary = ".new-"

func write(shard, name string, data []byte) error {
	if err := os.MkdirAll(shard, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(shard, temporary+"*") // only its owner may read it
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Trim removes the entries longest unused of the shards that were written to,
// until each is within its limit.
func (s *Store) Trim() {
	if s == nil {
		return
	}
	for shard := range s.wrote {
		s.trim(shard)
	}
}

func (s *Store) trim(shard string) {
	entries, err := os.ReadDir(shard)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	var size int64
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case strings.HasPrefix(info.Name(), temporary):
			if s.now.Sub(info.ModTime()) > time.Hour { // left by a run that was killed
				os.Remove(filepath.Join(shard, info.Name()))
			}
		default:
			files = append(files, info)
			size += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if size <= s.limit {
			return
		}
		if os.Remove(filepath.Join(shard, f.Name())) == nil {
			size -= f.Size()
		}
	}
}
