package flux

import (
	"bytes"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/fluxcd/pkg/sourceignore"
	"github.com/fluxcd/pkg/sourceignore/gitignore"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/tarball"
)

// A filter reports which files of a repository source-controller packs into an artifact. It is safe
// for concurrent use.
type filter struct {
	fsys    fs.FS
	root    string
	matcher gitignore.Matcher

	mu    sync.Mutex
	known map[string]bool
}

// newFilter returns the filter of the directory root of fsys. ignore is the
// source's spec.ignore, or nil. Flux's default exclusions apply only if neither
// that nor any .sourceignore file has a pattern.
func newFilter(fsys fs.FS, root string, ignore *string) *filter {
	patterns := ignoreFiles(fsys, root, nil)
	if ignore != nil {
		patterns = append(patterns, sourceignore.ReadPatterns(strings.NewReader(*ignore), nil)...)
	}
	matcher := sourceignore.NewDefaultMatcher(nil, nil)
	if len(patterns) > 0 {
		matcher = sourceignore.NewMatcher(append(sourceignore.VCSPatterns(nil), patterns...))
	}
	return &filter{fsys: fsys, root: root, matcher: matcher, known: map[string]bool{root: false}}
}

// ignoreFiles reads the .sourceignore files in and below a directory. The
// domain of a pattern is the path of its file's directory from the repository's
// root.
func ignoreFiles(fsys fs.FS, dir string, domain []string) []gitignore.Pattern {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil
	}
	var own, below []gitignore.Pattern
	for _, e := range entries {
		switch name := path.Join(dir, e.Name()); {
		case e.Name() == sourceignore.IgnoreFile && e.Type().IsRegular():
			if data, err := render.ReadFile(fsys, name); err == nil {
				own = sourceignore.ReadPatterns(bytes.NewReader(data), domain)
			}
		case e.IsDir() && e.Name() != ".git" && len(domain) < maxDepth:
			below = append(below, ignoreFiles(fsys, name, append(domain[:len(domain):len(domain)], e.Name()))...)
		}
	}
	return append(own, below...)
}

// maxDepth is how many levels of directories are searched.
const maxDepth = 64

// hides reports whether the artifact lacks a name of fsys: it is outside of the
// repository, excluded, or not a regular file, such as a symbolic link.
func (f *filter) hides(name string) bool {
	if !within(name, f.root) {
		return !within(f.root, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hidden(name)
}

// hidden is hides with the lock held.
func (f *filter) hidden(name string) bool {
	if hidden, ok := f.known[name]; ok {
		return hidden
	}
	hidden := f.hidden(path.Dir(name)) && !f.isDir(path.Dir(name)) || f.excluded(name)
	f.known[name] = hidden
	return hidden
}

func (f *filter) isDir(name string) bool {
	info, err := fs.Lstat(f.fsys, name)
	return err == nil && info.IsDir()
}

// excluded reports whether a name itself is excluded. An excluded directory is
// present if a file below it is included again.
func (f *filter) excluded(name string) bool {
	info, err := fs.Lstat(f.fsys, name)
	switch {
	case err != nil:
		return true
	case info.IsDir():
		return f.matches(name, true) && !f.holds(name)
	}
	return !info.Mode().IsRegular() || f.matches(name, false)
}

func (f *filter) matches(name string, dir bool) bool {
	return f.matcher.Match(strings.Split(relative(f.root, name), "/"), dir)
}

func (f *filter) holds(dir string) bool {
	found := false
	_ = fs.WalkDir(f.fsys, dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !f.matches(name, false) {
			found = true
			return fs.SkipAll
		}
		return err
	})
	return found
}

// within reports whether name is dir or below it.
func within(name, dir string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

// relative returns the path of name relative to dir, which contains it.
func relative(dir, name string) string {
	switch {
	case name == dir:
		return "."
	case dir == ".":
		return name
	}
	return strings.TrimPrefix(name, dir+"/")
}

// extracted limits the unpacked size of an archive.
var extracted = tarball.Limits{Bytes: 64 << 20, Entries: 10_000}

func isTarball(name string) bool {
	return strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}

// extract unpacks an archive into a directory of the staging. Its files have no
// lines in the tree.
func (c *copier) extract(name, to string) error {
	if !isTarball(name) {
		return c.failure("%s is no archive: only .tar.gz and .tgz can be extracted", name)
	}
	data, err := render.ReadFile(c.from.fsys, c.from.path(name))
	if err == nil {
		err = tarball.Each(data, extracted, func(file string, data []byte) error {
			c.staging.files[path.Join(to, file)] = staged{from: c.from, data: data}
			return nil
		})
	}
	if err != nil {
		return c.failure("%s can't be extracted: %w", name, err)
	}
	return nil
}
