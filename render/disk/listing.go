package disk

import (
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"sync/atomic"
)

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
