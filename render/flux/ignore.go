package flux

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
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
	fsys   fs.FS
	root   string
	ignore []gitignore.Pattern // of the source's spec.ignore
	custom func() bool         // whether the source or any .sourceignore file has a pattern

	vcs           []gitignore.Pattern // excluded unless a pattern includes it
	vcsAndDefault gitignore.Matcher   // excluded if there are no patterns

	mu       sync.Mutex
	known    map[string]bool
	patterns map[string][]gitignore.Pattern // by directory: of the .sourceignore files there and above
}

// newFilter returns the filter of the directory root of fsys. ignore is the
// source's spec.ignore, or nil.
func newFilter(fsys fs.FS, root string, ignore *string) *filter {
	f := &filter{
		fsys: fsys, root: root, vcs: sourceignore.VCSPatterns(nil), vcsAndDefault: sourceignore.NewDefaultMatcher(nil, nil),
		known: map[string]bool{root: false}, patterns: make(map[string][]gitignore.Pattern),
	}
	if ignore != nil {
		f.ignore = sourceignore.ReadPatterns(strings.NewReader(*ignore), nil)
	}
	f.custom = sync.OnceValue(func() bool { return len(f.ignore) > 0 || f.anyPattern(root) })
	return f
}

// patternsFor returns the patterns of .sourceignore files that apply to the names in a directory.
// The domain of a pattern is the path of its file's directory from the repository's root.
func (f *filter) patternsFor(dir string) []gitignore.Pattern {
	if known, ok := f.patterns[dir]; ok {
		return known
	}
	var all []gitignore.Pattern
	if dir != f.root {
		all = slices.Clip(f.patternsFor(path.Dir(dir)))
	}
	all = append(all, f.patternsOf(dir)...)
	f.patterns[dir] = all
	return all
}

// patternsOf returns the patterns of the .sourceignore file in a directory.
func (f *filter) patternsOf(dir string) []gitignore.Pattern {
	domain := f.parts(dir)
	name := path.Join(dir, sourceignore.IgnoreFile)
	if info, err := fs.Lstat(f.fsys, name); err != nil || !info.Mode().IsRegular() || len(domain) > maxDepth || slices.Contains(domain, ".git") {
		return nil
	}
	data, err := render.ReadFile(f.fsys, name)
	if err != nil {
		return nil
	}
	return sourceignore.ReadPatterns(bytes.NewReader(data), domain)
}

// anyPattern reports whether a .sourceignore file in or below a directory has a pattern.
func (f *filter) anyPattern(dir string) bool {
	if len(f.patternsOf(dir)) > 0 {
		return true
	}
	entries, err := fs.ReadDir(f.fsys, dir)
	return err == nil && len(f.parts(dir)) < maxDepth && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() && e.Name() != ".git" && f.anyPattern(path.Join(dir, e.Name()))
	})
}

// parts returns the names of the directories that lead from the root to name, and its own.
func (f *filter) parts(name string) []string {
	if name == f.root {
		return nil
	}
	return strings.Split(relative(f.root, name), "/")
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

// matches reports whether patterns exclude a name. Flux's default exclusions apply only if no pattern
// exists anywhere, which is rarely asked because it reads all directories.
func (f *filter) matches(name string, dir bool) bool {
	own, parts := slices.Concat(f.vcs, f.patternsFor(path.Dir(name)), f.ignore), f.parts(name)
	if len(own) == len(f.vcs) && f.vcsAndDefault.Match(parts, dir) && !f.custom() {
		return true
	}
	return sourceignore.NewMatcher(own).Match(parts, dir)
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
