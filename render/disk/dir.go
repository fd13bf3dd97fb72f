// Package disk reads directories as file systems that can't be left through links.
//
// [Open] takes a directory that was opened as an [os.Root] and returns a [Dir]: links and ".."
// can't lead outside, only regular files and directories can be opened, each directory is listed
// once, and the bytes that one run may read are limited (dir.go,
// beneath_linux.go). A [Tree] contains all that a run reads: the repository that [Root] finds, with
// places outside of it, standard input and other revisions as mounts (tree.go). root.go also
// converts the names of mounted files for reports.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/memfile"
)

// A Dir is a directory whose links and ".." can't lead outside. It is safe for concurrent use.
type Dir struct{ *dirs }

// Open returns the directory of root, which must stay open.
func Open(root *os.Root) Dir {
	held := &dirs{root: root, held: make(map[string]*os.Root), lists: make(map[string]listing)}
	held.left.Store(maxRead)
	if top, err := root.Open("."); err == nil {
		held.top, held.fd = top, int(top.Fd())
	}
	return Dir{held}
}

var errIrregular = errors.New("not a regular file")

// Open opens a regular file or a directory.
func (d Dir) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, info, ok := d.openBeneath(name)
	if !ok {
		var err error
		if f, info, err = d.openInRoot(name); err != nil {
			return nil, err
		}
	}
	var err error
	if info.Mode().IsRegular() && d.left.Add(-min(info.Size(), render.Limit)) < 0 {
		err = &fs.PathError{Op: "open", Path: name, Err: errReadEnough}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openInRoot opens a regular file or a directory. It follows links that stay within the root.
func (d *dirs) openInRoot(name string) (fs.File, fs.FileInfo, error) {
	// A pipe that nobody writes to would block here for ever otherwise.
	f, err := in(d, name, func(r *os.Root, name string) (*os.File, error) {
		return r.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	})
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: errIrregular}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// ReadLink implements fs.ReadLinkFS.
func (d Dir) ReadLink(name string) (string, error) { return in(d.dirs, name, (*os.Root).Readlink) }

// ReadDir implements fs.ReadDirFS. It reads each directory once.
func (d Dir) ReadDir(name string) ([]fs.DirEntry, error) {
	if l, ok := d.listing(name); ok {
		return l.entries(), nil
	}
	if fs.ValidPath(name) {
		if read, ok := d.listBeneath(name); ok {
			slices.SortFunc(read, func(a, b named) int { return strings.Compare(a.name, b.name) })
			return d.keep(name, read).entries(), nil
		}
	}
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.ErrUnsupported}
	}
	read, err := dir.ReadDir(-1)
	slices.SortFunc(read, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if err != nil {
		return read, err
	}
	all := make([]named, len(read))
	for i, e := range read {
		all[i] = named{e.Name(), e.Type()}
	}
	return d.keep(name, all).entries(), nil
}

// named is an entry of a directory.
type named struct {
	name string
	kind fs.FileMode
}

// Lstat implements fs.ReadLinkFS. It answers from a listing if it can.
func (d Dir) Lstat(name string) (fs.FileInfo, error) {
	e, known := d.listed(name)
	switch {
	case e != nil:
		return e.Info()
	case known:
		return nil, &fs.PathError{Op: "statat", Path: name, Err: syscall.ENOENT}
	}
	return in(d.dirs, name, (*os.Root).Lstat)
}

// Stat implements fs.StatFS. It answers from a listing if it can.
func (d Dir) Stat(name string) (fs.FileInfo, error) {
	e, known := d.listed(name)
	switch {
	case e != nil && e.kind&fs.ModeSymlink == 0:
		return e.Info()
	case known && e == nil:
		return nil, &fs.PathError{Op: "statat", Path: name, Err: syscall.ENOENT}
	}
	return in(d.dirs, name, (*os.Root).Stat)
}

// A File is a file system whose root is a single file, for standard input.
type File []byte

// Open implements fs.FS.
func (f File) Open(name string) (fs.File, error) {
	if name != "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return memfile.Open("-", f), nil
}

// Lstat implements fs.ReadLinkFS.
func (f File) Lstat(name string) (fs.FileInfo, error) { return fs.Stat(f, name) }

// ReadLink implements fs.ReadLinkFS: the file is no link.
func (f File) ReadLink(name string) (string, error) {
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
}

// A subtree is a directory of a file system. Its links are followed if and where the file system
// follows them.
type subtree struct {
	fs.FS
	dir string
}

// Sub returns the directory dir of a file system.
func Sub(files fs.FS, dir string) fs.FS { return subtree{files, dir} }

// Open implements fs.FS.
func (s subtree) Open(name string) (fs.File, error) { return s.FS.Open(path.Join(s.dir, name)) }

// Stat implements fs.StatFS.
func (s subtree) Stat(name string) (fs.FileInfo, error) { return fs.Stat(s.FS, path.Join(s.dir, name)) }

// ReadDir implements fs.ReadDirFS.
func (s subtree) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(s.FS, path.Join(s.dir, name))
}

// dirs keeps directories of a root open, so that files in them are opened in one step instead of
// from the root. If that fails, or the name leads out of its directory, the name is looked up from
// the root.
type dirs struct {
	root *os.Root
	top  *os.File // the root's directory; nil if it can't be opened
	fd   int      // of top

	mu    sync.Mutex
	held  map[string]*os.Root
	order []string // in which they were opened

	listMu  sync.RWMutex
	lists   map[string]listing
	entries int // of all lists

	left atomic.Int64 // bytes that may still be read
}

// maxRead limits the bytes that a run reads of a tree; a file that is read twice counts twice. No
// real repository needs more.
const maxRead = 2 << 30

var errReadEnough = fmt.Errorf("not read: the run has read %d GiB already", maxRead>>30)

const maxHeld = 128

// of returns an open directory that contains name, and the rest of the name in it.
func (d *dirs) of(name string) (*os.Root, string) {
	dir, base := path.Split(name)
	if dir == "" {
		return d.root, name
	}
	if r := d.open(strings.TrimSuffix(dir, "/")); r != nil {
		return r, base
	}
	return d.root, filepath.FromSlash(name)
}

// open opens a directory below its nearest open parent. It returns nil on failure, also if a link
// is in between.
func (d *dirs) open(dir string) *os.Root {
	d.mu.Lock()
	r := d.held[dir]
	d.mu.Unlock()
	if r != nil {
		return r
	}
	parent, rest := d.of(dir)
	// To open a named pipe as a directory waits for a writer.
	if info, err := parent.Lstat(rest); err != nil || !info.IsDir() {
		return nil
	}
	r, err := parent.OpenRoot(rest)
	if err != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if other := d.held[dir]; other != nil {
		r.Close()
		return other
	}
	if len(d.order) == maxHeld {
		d.held[d.order[0]].Close() // a concurrent reader of it fails and looks from the root
		delete(d.held, d.order[0])
		d.order = d.order[1:]
	}
	d.held[dir], d.order = r, append(d.order, dir)
	return r
}

// in calls do with the open directory that holds name, and if that fails with
// the root. On Windows a name with a backslash or a device's name is an error.
func in[T any](d *dirs, name string, do func(r *os.Root, name string) (T, error)) (v T, err error) {
	local, err := filepath.Localize(name)
	if err != nil {
		return v, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if r, base := d.of(name); r != d.root {
		v, err = do(r, base)
		var pe *fs.PathError
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, fs.ErrNotExist) && errors.As(err, &pe):
			return v, &fs.PathError{Op: pe.Op, Path: name, Err: pe.Err}
		}
	}
	return do(d.root, local)
}

// maxListed limits the directory entries that a Dir keeps. An entry takes about 100 bytes, and 200
// more once it has a FileInfo.
const maxListed = 1 << 17

// A listing holds a directory's entries, sorted by name.
type listing []listedFile

// A listedFile is an entry of a directory at the time when the directory was read. Its FileInfo is
// read when first needed.
type listedFile struct {
	in   *dirs
	path string
	kind fs.FileMode
	info atomic.Pointer[fs.FileInfo]
}

func (l listing) entries() []fs.DirEntry {
	entries := make([]fs.DirEntry, len(l))
	for i := range l {
		entries[i] = &l[i]
	}
	return entries
}

// listing returns the stored listing of a directory.
func (d *dirs) listing(dir string) (listing, bool) {
	d.listMu.RLock()
	defer d.listMu.RUnlock()
	l, ok := d.lists[dir]
	return l, ok
}

// keep returns the listing of a directory with the given entries, sorted by name. It stores the
// listing unless maxListed is reached.
func (d *dirs) keep(dir string, read []named) listing {
	l := make(listing, len(read))
	for i, e := range read {
		l[i].in, l[i].path, l[i].kind = d, path.Join(dir, e.name), e.kind
	}
	d.listMu.Lock()
	defer d.listMu.Unlock()
	if was, ok := d.lists[dir]; ok {
		return was
	}
	if d.entries+len(l) < maxListed {
		d.lists[dir] = l
		d.entries += len(l) + 1
	}
	return l
}

// listed looks up a name in the stored listing of its directory. known is false if the answer must
// come from the file system: if the directory is not listed, or if no entry has exactly this name
// but the file system may treat one as equal, because it differs in case or Unicode composition.
func (d *dirs) listed(name string) (f *listedFile, known bool) {
	if !fs.ValidPath(name) || name == "." {
		return nil, false
	}
	dir, base := path.Split(name)
	l, ok := d.listing(path.Clean(dir))
	if !ok {
		return nil, false
	}
	if i := sort.Search(len(l), func(i int) bool { return l[i].Name() >= base }); i < len(l) && l[i].Name() == base {
		return &l[i], true
	}
	const few = 256 // comparing more names takes longer than looking
	if len(l) > few || strings.ContainsFunc(base, func(r rune) bool { return r >= 0x80 || r == '~' }) {
		return nil, false
	}
	for i := range l {
		if strings.EqualFold(l[i].Name(), base) {
			return nil, false
		}
	}
	return nil, true
}

// Name implements fs.DirEntry, as do the methods below.
func (f *listedFile) Name() string      { return f.path[strings.LastIndexByte(f.path, '/')+1:] }
func (f *listedFile) IsDir() bool       { return f.kind.IsDir() }
func (f *listedFile) Type() fs.FileMode { return f.kind }
func (f *listedFile) String() string    { return fs.FormatDirEntry(f) }

func (f *listedFile) Info() (fs.FileInfo, error) {
	if info := f.info.Load(); info != nil {
		return *info, nil
	}
	info, ok := f.in.infoBeneath(f.path)
	if !ok {
		var err error
		if info, err = in(f.in, f.path, (*os.Root).Lstat); err != nil {
			return nil, err
		}
	}
	f.info.CompareAndSwap(nil, &info)
	return *f.info.Load(), nil
}
