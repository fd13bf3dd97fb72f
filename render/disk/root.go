package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Root returns the directory to open for paths: the nearest parent of cwd with .git, else cwd
// itself. If the first path lies outside of it, Root returns the repository or directory of that
// path instead. For a path that does not exist the error is an [fs.PathError] with that path.
func Root(cwd string, paths []string) (string, error) {
	cwd, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		return "", err
	}
	root := cmp.Or(repository(cwd), cwd)
	for _, p := range paths {
		if p == "-" {
			continue
		}
		real, err := realPath(p)
		if abs, absErr := filepath.Abs(p); err != nil && absErr == nil {
			if _, ok := Within(root, abs); ok {
				return root, nil // where the path is looked for
			}
		}
		if err != nil {
			return "", err
		}
		if _, ok := Within(root, real); ok {
			return root, nil
		}
		return holder(real), nil
	}
	return root, nil
}

// repository returns the nearest directory, from dir upwards, that contains .git, or "".
func repository(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// holder returns the directory to open for a path outside of the tree: its repository, else its
// directory.
func holder(real string) string {
	dir := real
	if info, err := os.Stat(real); err == nil && !info.IsDir() {
		dir = filepath.Dir(real)
	}
	if repo := repository(dir); repo != "" {
		return repo
	}
	return dir
}

func realPath(p string) (string, error) {
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	}
	return real, err
}

// Within returns the slash-separated name of file relative to dir, and whether file is below dir.
// Both are paths of this machine; links are not followed.
func Within(dir, file string) (string, bool) {
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

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
