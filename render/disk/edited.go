package disk

import (
	"io/fs"
	"path"

	"github.com/preadmit/preadmit/render/internal/memfile"
)

// edited is a directory in which some files have texts other than on disk. A text without a file
// can be opened by its name, but is not listed.
type edited struct {
	Dir
	texts map[string]string
}

// Open implements fs.FS.
func (e edited) Open(name string) (fs.File, error) {
	if text, ok := e.texts[name]; ok {
		return memfile.Open(path.Base(name), []byte(text)), nil
	}
	return e.Dir.Open(name)
}

// Lstat implements fs.ReadLinkFS.
func (e edited) Lstat(name string) (fs.FileInfo, error) {
	if text, ok := e.texts[name]; ok {
		return memfile.Of(path.Base(name), []byte(text)), nil
	}
	return e.Dir.Lstat(name)
}

// ReadLink implements fs.ReadLinkFS.
func (e edited) ReadLink(name string) (string, error) {
	if _, ok := e.texts[name]; ok {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return e.Dir.ReadLink(name)
}

// Stat implements fs.StatFS.
func (e edited) Stat(name string) (fs.FileInfo, error) {
	if text, ok := e.texts[name]; ok {
		return memfile.Of(path.Base(name), []byte(text)), nil
	}
	return e.Dir.Stat(name)
}
