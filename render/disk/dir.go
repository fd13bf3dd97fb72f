// Package disk reads directories as file systems that can't be left through links.
//
// [Open] takes a directory that was opened as an [os.Root] and returns a [Dir]: links and ".."
// can't lead outside, only regular files and directories can be opened, each directory is listed
// once, and the bytes that one run may read are limited (dir.go, held.go, listing.go,
// beneath_linux.go). A [Tree] contains all that a run reads: the repository that [Root] finds, with
// places outside of it, standard input and other revisions as mounts (tree.go). root.go also
// converts the names of mounted files for reports.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
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
