package disk

import (
	"bytes"
	"io/fs"
	"time"
)

// A File is a file system whose root is a file: standard input.
type File []byte

// Open implements fs.FS.
func (f File) Open(name string) (fs.File, error) {
	if name != "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &openFile{Reader: bytes.NewReader(f), size: int64(len(f))}, nil
}

// Lstat implements fs.ReadLinkFS.
func (f File) Lstat(name string) (fs.FileInfo, error) { return fs.Stat(f, name) }

// ReadLink implements fs.ReadLinkFS: the file is no link.
func (f File) ReadLink(name string) (string, error) {
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
}

type openFile struct {
	*bytes.Reader
	size int64
}

func (f *openFile) Close() error               { return nil }
func (f *openFile) Stat() (fs.FileInfo, error) { return fileInfo(f.size), nil }

type fileInfo int64

func (fileInfo) Name() string       { return "-" }
func (i fileInfo) Size() int64      { return int64(i) }
func (fileInfo) Mode() fs.FileMode  { return 0o444 }
func (fileInfo) ModTime() time.Time { return time.Time{} }
func (fileInfo) IsDir() bool        { return false }
func (fileInfo) Sys() any           { return nil }
