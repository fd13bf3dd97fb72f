package disk

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// shown returns the name in reports of a file below the mount: for a revision commit:path, as git
// writes it, and for fetched content a name that no path of the repository can have.
func (m *Mount) shown(rest string) string {
	if m.Fetched {
		return m.Display + "//" + rest
	}
	if strings.HasSuffix(m.Display, ":") {
		return m.Display + rest
	}
	return path.Join(m.Display, rest)
}

// Display converts a name in the tree to the form of reports.
func (t *Tree) Display(name string) string {
	for _, m := range t.Mounts() {
		if name == m.Name {
			return m.Display
		}
		if rest, ok := strings.CutPrefix(name, m.Name+"/"); ok {
			return m.shown(rest)
		}
	}
	return name
}

// DisplayIn replaces the names of mounts in a text as Display does.
func (t *Tree) DisplayIn(text string) string {
	if !strings.Contains(text, Outside) {
		return text
	}
	for _, m := range t.Mounts() {
		if m.Fetched {
			text = strings.ReplaceAll(text, m.Name+"/", m.shown(""))
		}
		if strings.HasSuffix(m.Display, ":") {
			text = strings.ReplaceAll(text, m.Name+"/", m.Display)
			continue
		}
		text = strings.ReplaceAll(text, m.Name, m.Display)
	}
	return text
}

// Find is the inverse of Display.
func (t *Tree) Find(display string) string {
	for _, m := range t.Mounts() {
		if m.Fetched {
			continue
		}
		if display == m.Display {
			return m.Name
		}
		if rest, ok := strings.CutPrefix(display, m.shown("")); ok && (strings.HasSuffix(m.Display, ":") || strings.HasPrefix(rest, "/")) {
			return path.Join(m.Name, rest)
		}
	}
	return display
}

// Shown is a Tree whose names are those of reports.
type Shown struct{ *Tree }

// Open implements fs.FS.
func (s Shown) Open(name string) (fs.File, error) { return s.Tree.Open(s.Find(name)) }

// ReadDir implements fs.ReadDirFS.
func (s Shown) ReadDir(name string) ([]fs.DirEntry, error) { return s.Tree.ReadDir(s.Find(name)) }

// Stat implements fs.StatFS.
func (s Shown) Stat(name string) (fs.FileInfo, error) { return s.Tree.Stat(s.Find(name)) }

// Lstat implements fs.ReadLinkFS.
func (s Shown) Lstat(name string) (fs.FileInfo, error) { return s.Tree.Lstat(s.Find(name)) }

// ReadLink implements fs.ReadLinkFS.
func (s Shown) ReadLink(name string) (string, error) { return s.Tree.ReadLink(s.Find(name)) }

// Path returns the path on this machine of a file, given its name in reports. It returns an error
// for files of a revision, of the store and of standard input, which have no path.
func (t *Tree) Path(display string) (string, error) {
	name, dir := t.Find(display), t.Dir
	for _, m := range t.Mounts() {
		if rest, ok := strings.CutPrefix(name, m.Name+"/"); ok && m.Dir != "" {
			dir, name = m.Dir, rest
		}
	}
	if info, err := fs.Stat(Shown{t}, display); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: there is no such file here to edit", display)
	}
	return filepath.Join(dir, filepath.FromSlash(name)), nil
}
