package cache

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// A recorder is a view of a Tree that records the reads of one reader. It is safe for concurrent
// use.
type recorder struct {
	tree *Tree

	mu      sync.Mutex
	seen    map[access]string
	spoiled bool // the record is incomplete
}

func newRecorder(t *Tree) *recorder { return &recorder{tree: t, seen: make(map[access]string)} }

// A read is an access with its outcome.
type read struct {
	access
	outcome string
}

// reads returns the recorded reads, sorted. ok is false if the record is incomplete, because files
// changed in the meantime or were read in part.
func (r *recorder) reads() ([]read, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reads := make([]read, 0, len(r.seen))
	for a, out := range maps.All(r.seen) {
		if !r.implied(a, out) {
			reads = append(reads, read{a, out})
		}
	}
	sortReads(reads)
	return reads, !r.spoiled
}

// implied reports whether the content of a file already determines the outcome
// of an access.
func (r *recorder) implied(a access, out string) bool {
	if a.op != opOpen && a.op != opSize && (a.op != opStat || out != isFile) {
		return false
	}
	return strings.HasPrefix(r.seen[access{opRead, a.name}], content)
}

// len returns the number of recorded accesses, or 0 if the record is incomplete.
func (r *recorder) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spoiled {
		return 0
	}
	return len(r.seen)
}

func sortReads(reads []read) {
	slices.SortFunc(reads, func(a, b read) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.op, b.op))
	})
}

func (r *recorder) note(op op, name, outcome string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := access{op, name}
	if was, ok := r.seen[a]; ok && was != outcome || op == opRead && !strings.HasPrefix(outcome, content) {
		r.spoiled = true
	}
	r.seen[a] = outcome
}

// Open implements fs.FS.
func (r *recorder) Open(name string) (fs.File, error) {
	f, err := r.tree.Open(name)
	if err != nil {
		r.note(opOpen, name, failed(err))
		return nil, err
	}
	info, err := f.Stat()
	r.note(opOpen, name, kindOf(info, err))
	return &recorded{file: f.(*file), r: r, name: name}, nil
}

// Stat implements fs.StatFS.
func (r *recorder) Stat(name string) (fs.FileInfo, error) {
	info, err := r.tree.Stat(name)
	r.note(opStat, name, kindOf(info, err))
	return r.info(name, info), err
}

// Lstat implements fs.ReadLinkFS.
func (r *recorder) Lstat(name string) (fs.FileInfo, error) {
	info, err := r.tree.Lstat(name)
	r.note(opLstat, name, kindOf(info, err))
	return r.info(name, info), err
}

// ReadLink implements fs.ReadLinkFS.
func (r *recorder) ReadLink(name string) (string, error) {
	to, err := r.tree.ReadLink(name)
	if err != nil {
		r.note(opReadLink, name, failed(err))
	} else {
		r.note(opReadLink, name, content+to)
	}
	return to, err
}

// ReadDir implements fs.ReadDirFS.
func (r *recorder) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := r.tree.ReadDir(name)
	r.note(opReadDir, name, r.tree.list(name).outcome)
	for i, e := range entries {
		entries[i] = entry{e, r, path.Join(name, e.Name())}
	}
	return entries, err
}

func (r *recorder) info(name string, i fs.FileInfo) fs.FileInfo {
	if i == nil {
		return nil
	}
	return info{i, func() { r.note(opSize, name, sized(i)) }}
}

// recorded is a file whose reads are recorded.
type recorded struct {
	*file
	r    *recorder
	name string
}

func (r *recorded) Stat() (fs.FileInfo, error) {
	info, err := r.file.Stat()
	return r.r.info(r.name, info), err
}

func (r *recorded) Read(p []byte) (int, error) {
	if r.data != nil {
		return r.data.Read(p)
	}
	was := r.file.read
	r.file.read = func(out string) {
		was(out)
		r.r.note(opRead, r.name, out)
	}
	return r.file.Read(p)
}

func (r *recorded) ReadDir(n int) ([]fs.DirEntry, error) {
	r.r.note(opReadDir, r.name, r.r.tree.list(r.name).outcome)
	entries, err := r.file.ReadDir(n)
	for i, e := range entries {
		entries[i] = entry{e, r.r, path.Join(r.name, e.Name())}
	}
	return entries, err
}

// entry is a directory entry whose details are read through the recorder.
type entry struct {
	fs.DirEntry
	r    *recorder
	name string
}

func (e entry) Info() (fs.FileInfo, error) { return e.r.Lstat(e.name) }

// info exposes only the facts about a file that a recorder records.
type info struct {
	fs.FileInfo
	sized func()
}

func (i info) Mode() fs.FileMode {
	if i.IsDir() {
		return i.FileInfo.Mode().Type() | 0o755
	}
	return i.FileInfo.Mode().Type() | 0o644
}

func (i info) Size() int64 {
	if !i.FileInfo.Mode().IsDir() { // the size of a directory is not recorded
		i.sized()
	}
	return i.FileInfo.Size()
}

func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }
