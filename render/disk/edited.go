package disk

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render/internal/memfile"
)

// edited is a directory in which some files have texts other than on disk, or are not on disk yet.
type edited struct {
	Dir
	texts map[string]string
	added map[string][]fs.DirEntry // by directory: what only texts have
}

func newEdited(d Dir, texts map[string]string) edited {
	e := edited{d, texts, make(map[string][]fs.DirEntry)}
	for name, text := range texts {
		for info := memfile.Of(path.Base(name), []byte(text)); fs.ValidPath(name) && name != "."; info = memfile.OfDir(path.Base(name)) {
			if _, err := d.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				break
			}
			dir := path.Dir(name)
			if !slices.ContainsFunc(e.added[dir], func(x fs.DirEntry) bool { return x.Name() == info.Name() }) {
				e.added[dir] = append(e.added[dir], fs.FileInfoToDirEntry(info))
			}
			name = dir
		}
	}
	return e
}

// info describes a text, or a directory that is not on disk.
func (e edited) info(name string) (fs.FileInfo, bool) {
	if text, ok := e.texts[name]; ok {
		return memfile.Of(path.Base(name), []byte(text)), true
	}
	for _, x := range e.added[path.Dir(name)] {
		if x.Name() == path.Base(name) {
			info, err := x.Info()
			return info, err == nil
		}
	}
	return nil, false
}

// Open implements fs.FS.
func (e edited) Open(name string) (fs.File, error) {
	if text, ok := e.texts[name]; ok {
		return memfile.Open(path.Base(name), []byte(text)), nil
	}
	if info, ok := e.info(name); ok {
		return memfile.OpenDir(info, e.added[name]), nil
	}
	return e.Dir.Open(name)
}

// ReadDir implements fs.ReadDirFS. It leaves out what editors write beside the files with texts.
func (e edited) ReadDir(name string) ([]fs.DirEntry, error) {
	var entries []fs.DirEntry
	if _, only := e.info(name); !only {
		var err error
		if entries, err = e.Dir.ReadDir(name); err != nil {
			return entries, err
		}
	}
	entries = slices.DeleteFunc(append(slices.Clone(entries), e.added[name]...), func(x fs.DirEntry) bool {
		return IsByproduct(path.Join(name, x.Name()), e.texts)
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Lstat implements fs.ReadLinkFS.
func (e edited) Lstat(name string) (fs.FileInfo, error) {
	if info, ok := e.info(name); ok {
		return info, nil
	}
	return e.Dir.Lstat(name)
}

// ReadLink implements fs.ReadLinkFS.
func (e edited) ReadLink(name string) (string, error) {
	if _, ok := e.info(name); ok {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return e.Dir.ReadLink(name)
}

// Stat implements fs.StatFS.
func (e edited) Stat(name string) (fs.FileInfo, error) {
	if info, ok := e.info(name); ok {
		return info, nil
	}
	return e.Dir.Stat(name)
}

// byproduct matches files that editors write beside a file while it is open: locks, unsaved texts and
// backups of Emacs, swap, undo and backup files of Vim, and the new and old files that JetBrains' editors and VS Code
// rename when they save.
var byproduct = regexp.MustCompile(`^(?:\.#(.+)|#(.+)#|(.+)\.~\d+~|\.(.+)\.(?:sw[a-z]|un~)|(.+)___jb_(?:tmp|old)___|(.+)\.vsctmp|(.+)~)$`)

// IsByproduct reports whether an editor writes a file beside one of the open ones. If that
// file is not open, the name means nothing.
func IsByproduct(name string, open map[string]string) bool {
	dir, base := path.Split(name)
	if _, is := open[name]; is || len(open) == 0 {
		return false
	}
	groups := byproduct.FindStringSubmatch(base)
	return groups != nil && slices.ContainsFunc(groups[1:], func(of string) bool {
		_, is := open[dir+of]
		return of != "" && is
	})
}
