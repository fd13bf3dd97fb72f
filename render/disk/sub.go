package disk

import (
	"io/fs"
	"path"
)

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
