package cache

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// A Tree is a file system that caches reads, so that each file is read and hashed once in a run. It
// is safe for concurrent use.
type Tree struct {
	fsys  fs.FS
	apart string // a directory that listings do not show completely
	other *Tree  // the tree of the other side of a change, or nil

	mu       sync.Mutex
	lists    map[string]*listing
	outcomes map[access]string
	infos    map[access]found
	contents map[string]*contents // by name: files that are cached
	room     int64                // bytes left in the cache
}

// Limits of the cache of files. Many units of one chart read the same files.
const (
	maxKept = 1 << 20  // bytes of a file
	allKept = 64 << 20 // bytes of all files
)

// found is the result of Stat or Lstat.
type found struct {
	info fs.FileInfo
	err  error
}

// contents holds the bytes of a file. It implements fs.File for reading them.
type contents struct {
	info    fs.FileInfo
	data    []byte
	outcome string
}

// Stat implements fs.File.
func (c *contents) Stat() (fs.FileInfo, error) { return c.info, nil }

// Read implements fs.File.
func (c *contents) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements fs.File.
func (c *contents) Close() error { return nil }

// NewTree returns a Tree over a file system. Listings of fsys must be complete,
// except for names at and below apart.
func NewTree(fsys fs.FS, apart string) *Tree {
	return &Tree{
		fsys: fsys, apart: apart, lists: make(map[string]*listing), outcomes: make(map[access]string),
		infos: make(map[access]found), contents: make(map[string]*contents), room: allKept,
	}
}

// An access is a question to a file system.
type access struct {
	op   op
	name string
}

type op uint8

const (
	opStat op = iota + 1
	opLstat
	opReadLink
	opReadDir
	opOpen
	opSize
	opRead
)

// Outcomes of accesses: the type of a file, or a prefix of other outcomes.
const (
	isFile    = "f"
	isDir     = "d"
	isLink    = "l"
	isMissing = "-"
	isOther   = "o"
	content   = "c"
	failure   = "!"
)

// outcome returns a description of the result of an access. Accesses with equal outcomes have equal
// results.
func (t *Tree) outcome(a access) string {
	if a.op == opStat || a.op == opLstat { // as fast as looking up the outcome
		if out := t.listed(a.name); out != "" && (out != isLink || a.op == opLstat) {
			return out
		}
	}
	t.mu.Lock()
	out, ok := t.outcomes[a]
	t.mu.Unlock()
	if !ok {
		out = t.look(a)
		t.remember(a, out)
	}
	return out
}

func (t *Tree) remember(a access, out string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes[a] = out
}

func (t *Tree) look(a access) string {
	switch a.op {
	case opStat:
		return kindOf(fs.Stat(t.fsys, a.name))
	case opLstat:
		return kindOf(fs.Lstat(t.fsys, a.name))
	case opReadLink:
		to, err := fs.ReadLink(t.fsys, a.name)
		if err != nil {
			return failed(err)
		}
		return content + to
	case opReadDir:
		return t.list(a.name).outcome
	}
	if sum, size, ok := t.digest(a.name); ok {
		switch a.op {
		case opOpen:
			return isFile
		case opSize:
			return sizeOf(size)
		case opRead:
			return content + sum
		}
	}
	f, err := t.fsys.Open(a.name)
	if err != nil {
		return failed(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if a.op == opOpen || err != nil || !info.Mode().IsRegular() {
		return kindOf(info, err)
	}
	if a.op == opSize {
		return sized(info)
	}
	data, out := readAll(f, info)
	if data != nil {
		t.keep(a.name, &contents{info, data, out})
	}
	return out
}

func failed(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return isMissing
	}
	return failure + err.Error()
}

func kindOf(info fs.FileInfo, err error) string {
	if err != nil {
		return failed(err)
	}
	return typeOf(info.Mode().Type())
}

func typeOf(t fs.FileMode) string {
	switch t {
	case 0:
		return isFile
	case fs.ModeDir:
		return isDir
	case fs.ModeSymlink:
		return isLink
	}
	return isOther + t.String()
}

func sized(info fs.FileInfo) string { return sizeOf(uint64(info.Size())) }

func sizeOf(n uint64) string {
	var e Encoder
	e.Uint(n)
	return content + string(e.data)
}

// digest returns the SHA-256 and the size of a file, if the file system knows them.
func (t *Tree) digest(name string) (sum string, size uint64, ok bool) {
	d, ok := t.fsys.(interface {
		Digest(name string) (string, uint64, bool)
	})
	if !ok {
		return "", 0, false
	}
	sum, size, ok = d.Digest(name)
	return sum, size, ok && size <= render.Limit
}

// readAll reads a file and describes the outcome. A file above the size limit
// is a failure.
func readAll(f io.Reader, info fs.FileInfo) (data []byte, outcome string) {
	data = make([]byte, 0, min(info.Size(), render.Limit)+1) // one more byte, so that the last read returns io.EOF
	for {
		n, err := f.Read(data[len(data):cap(data)])
		switch data = data[:len(data)+n]; {
		case err == io.EOF:
			sum := sha256.Sum256(data)
			return data, content + string(sum[:])
		case err != nil:
			return nil, failed(err)
		case len(data) > render.Limit:
			return nil, failure + "too large"
		case len(data) == cap(data):
			data = slices.Grow(data, bytes.MinRead)
		}
	}
}

// A listing holds the entries of a directory.
type listing struct {
	once    sync.Once
	entries []fs.DirEntry
	err     error
	outcome string

	fold   sync.Once
	folded map[string]bool // names in lower case
}

func (t *Tree) list(dir string) *listing {
	t.mu.Lock()
	l := t.lists[dir]
	if l == nil {
		l = new(listing)
		t.lists[dir] = l
	}
	t.mu.Unlock()
	l.once.Do(func() {
		l.entries, l.err = fs.ReadDir(t.fsys, dir)
		var text []byte // names and types, each followed by a zero byte
		for _, x := range l.entries {
			if x.Name() == ".git" { // not in the tree of a revision, and not used for rendering
				continue
			}
			text = append(append(text, x.Name()...), 0)
			text = append(append(text, typeOf(x.Type())...), 0)
		}
		if l.err != nil {
			text = append(text, failed(l.err)...)
		}
		sum := sha256.Sum256(text)
		l.outcome = content + string(sum[:])
	})
	return l
}

// listed determines a name's outcome from the listing of its directory, if
// possible. It is not possible if the listing has a name that differs only in
// case or Unicode composition, which the file system may treat as equal.
func (t *Tree) listed(name string) string {
	if !fs.ValidPath(name) || name == "." || t.isApart(name) {
		return ""
	}
	dir, base := path.Split(name)
	l := t.list(path.Clean(dir))
	if l.err != nil {
		return ""
	}
	if i, ok := slices.BinarySearchFunc(l.entries, base, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) }); ok {
		return typeOf(l.entries[i].Type())
	}
	if l.alike(base) || strings.ContainsFunc(base, func(r rune) bool { return r >= 0x80 }) {
		return ""
	}
	return isMissing
}

// alike reports whether a listing has a name that equals base except for case.
func (l *listing) alike(base string) bool {
	const few = 32
	if len(l.entries) <= few {
		return slices.ContainsFunc(l.entries, func(e fs.DirEntry) bool { return strings.EqualFold(e.Name(), base) })
	}
	l.fold.Do(func() {
		l.folded = make(map[string]bool, len(l.entries))
		for _, e := range l.entries {
			l.folded[strings.ToLower(e.Name())] = true
		}
	})
	return l.folded[strings.ToLower(base)]
}

// isApart reports whether a name is at or below the directory that fills up
// during a run.
func (t *Tree) isApart(name string) bool {
	return name == t.apart || strings.HasPrefix(name, t.apart+"/")
}

// Open implements fs.FS.
func (t *Tree) Open(name string) (fs.File, error) {
	read := func(out string) { t.remember(access{opRead, name}, out) }
	kept, other := t.kept(name)
	if kept == nil && other != nil {
		kept = t.keptBy(other, name)
	}
	if kept != nil {
		return &file{File: kept, kept: kept, read: read}, nil
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, read: read, keep: func(c *contents) { t.keep(name, c) }}, nil
}

// kept returns the cached content of a file, or nil, and the tree of the other side.
func (t *Tree) kept(name string) (*contents, *Tree) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.contents[name], t.other
}

// keptBy returns the content that the other side has cached, if the file is the same here. That saves
// unpacking it.
func (t *Tree) keptBy(other *Tree, name string) *contents {
	kept, _ := other.kept(name)
	if kept == nil {
		return nil
	}
	if sum, _, ok := t.digest(name); !ok || kept.outcome != content+sum {
		return nil
	}
	return kept
}

// keep caches a file's content if there is room.
func (t *Tree) keep(name string, c *contents) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := int64(len(c.data)); n <= min(maxKept, t.room) && t.contents[name] == nil {
		t.contents[name] = c
		t.room -= n
	}
}

// settle ends the use of the other side's contents.
func (t *Tree) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.other = nil
}

// empty forgets the contents of files.
func (t *Tree) empty() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.contents, t.room = make(map[string]*contents), allKept
}

// Stat implements fs.StatFS.
func (t *Tree) Stat(name string) (fs.FileInfo, error) { return t.info(opStat, name, fs.Stat) }

// Lstat implements fs.ReadLinkFS.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) { return t.info(opLstat, name, fs.Lstat) }

func (t *Tree) info(op op, name string, ask func(fs.FS, string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	a := access{op, name}
	t.mu.Lock()
	f, ok := t.infos[a]
	kept := t.contents[name]
	t.mu.Unlock()
	switch {
	case ok:
		return f.info, f.err
	case kept != nil && op == opStat:
		return kept.info, nil
	}
	f.info, f.err = ask(t.fsys, name)
	if !t.isApart(name) {
		t.mu.Lock()
		t.infos[a] = f
		t.mu.Unlock()
	}
	return f.info, f.err
}

// ReadLink implements fs.ReadLinkFS.
func (t *Tree) ReadLink(name string) (string, error) { return fs.ReadLink(t.fsys, name) }

// ReadDir implements fs.ReadDirFS.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	l := t.list(name)
	return slices.Clone(l.entries), l.err
}

// A file is read completely at the first Read.
type file struct {
	fs.File
	read func(outcome string) // called with the outcome of reading it
	keep func(*contents)      // called with the content
	kept *contents            // cached content, or nil
	data *bytes.Reader
}

// ReadDir implements fs.ReadDirFile.
func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	d, ok := f.File.(fs.ReadDirFile)
	if !ok {
		return nil, errors.New("not a directory")
	}
	return d.ReadDir(n)
}

// Read implements fs.File.
func (f *file) Read(p []byte) (int, error) {
	if f.data == nil && f.kept != nil {
		f.read(f.kept.outcome)
		f.data = bytes.NewReader(f.kept.data)
	}
	if f.data == nil {
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() || info.Size() > render.Limit {
			f.read(failure + "read in part")
			return f.File.Read(p)
		}
		data, out := readAll(f.File, info)
		f.read(out)
		if data == nil {
			return 0, errors.New("file could not be read, or grew")
		}
		f.keep(&contents{info, data, out})
		f.data = bytes.NewReader(data)
	}
	return f.data.Read(p)
}
