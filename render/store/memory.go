package store

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render/internal/artifact"
	"github.com/preadmit/preadmit/render/internal/memfile"
)

// A memory is a file system of unpacked regular files. It is read-only once it
// is filled.
type memory struct {
	files map[string][]byte
	dirs  map[string][]string // names of the entries
}

// add adds a file. A name may be added only once.
func (m *memory) add(name string, data []byte) error {
	if !fs.ValidPath(name) || name == "." {
		return fmt.Errorf("it has a file without a valid name: %q", name)
	}
	if _, ok := m.files[name]; ok {
		return fmt.Errorf("it has %q twice", name)
	}
	if _, ok := m.dirs[name]; ok {
		return fmt.Errorf("it has %q as a file and as a directory", name)
	}
	m.files[name] = data
	for child := name; child != "."; {
		dir := path.Dir(child)
		if _, ok := m.files[dir]; ok {
			return fmt.Errorf("it has %q as a file and as a directory", dir)
		}
		entries, known := m.dirs[dir]
		m.dirs[dir] = append(entries, path.Base(child))
		if known {
			break
		}
		child = dir
	}
	return nil
}

// addFiles adds the files of an artifact.
func (m *memory) addFiles(files []artifact.File, blob func(digest string) ([]byte, error)) error {
	for _, f := range files {
		data, err := blob(f.Digest)
		if err != nil {
			return err
		}
		if err := m.add(f.Name, data); err != nil {
			return err
		}
	}
	return nil
}

// Open implements fs.FS.
func (m *memory) Open(name string) (fs.File, error) {
	info, err := m.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		entries, err := m.readDir(name)
		return memfile.OpenDir(info, entries), err
	}
	return memfile.Open(path.Base(name), m.files[name]), nil
}

// Stat implements fs.StatFS.
func (m *memory) Stat(name string) (fs.FileInfo, error) {
	if data, ok := m.files[name]; ok {
		return memfile.Of(path.Base(name), data), nil
	}
	if _, ok := m.dirs[name]; ok {
		return memfile.OfDir(path.Base(name)), nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

func (m *memory) readDir(name string) ([]fs.DirEntry, error) {
	var entries []fs.DirEntry
	for _, base := range m.dirs[name] {
		info, err := m.Stat(path.Join(name, base))
		if err != nil {
			return nil, err
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
