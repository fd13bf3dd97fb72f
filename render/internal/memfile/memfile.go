// Package memfile implements files and directories in memory, for the file systems of render.
package memfile

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// An Info describes a file in memory.
type Info struct {
	name string
	size int64
	mode fs.FileMode
}

// New returns an Info.
func New(name string, size int64, mode fs.FileMode) Info { return Info{name, size, mode} }

// Of returns the Info of a file with the given content.
func Of(name string, data []byte) Info { return Info{name, int64(len(data)), 0o444} }

// OfDir returns the Info of a directory.
func OfDir(name string) Info { return Info{name, 0, fs.ModeDir | 0o555} }

// Name implements fs.FileInfo, as do the methods below.
func (i Info) Name() string       { return i.name }
func (i Info) Size() int64        { return i.size }
func (i Info) Mode() fs.FileMode  { return i.mode }
func (i Info) ModTime() time.Time { return time.Time{} }
func (i Info) IsDir() bool        { return i.mode.IsDir() }
func (i Info) Sys() any           { return nil }

type file struct {
	*bytes.Reader
	info Info
}

// Open opens a file with the given content.
func Open(name string, data []byte) fs.File { return OpenAs(Of(name, data), data) }

// OpenAs opens a file with the given Info and content.
func OpenAs(info Info, data []byte) fs.File { return &file{bytes.NewReader(data), info} }

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

type dir struct {
	entries []fs.DirEntry
	info    fs.FileInfo
}

// OpenDir opens a directory with the given entries.
func OpenDir(info fs.FileInfo, entries []fs.DirEntry) fs.ReadDirFile { return &dir{entries, info} }

func (d *dir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dir) Close() error               { return nil }
func (d *dir) Read([]byte) (int, error)   { return 0, fmt.Errorf("%s is a directory", d.info.Name()) }

func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.entries) {
		n = len(d.entries)
	}
	head := d.entries[:n]
	d.entries = d.entries[n:]
	return head, nil
}
