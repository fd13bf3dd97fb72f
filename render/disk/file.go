package disk

import (
	"io/fs"

	"github.com/preadmit/preadmit/render/internal/memfile"
)

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
