package render

import (
	"path"
	"slices"
	"strings"
)

// A Selection says which part of a tree is deployed. The zero value leaves out
// directories whose name begins with a dot, and fixtures of test suites.
type Selection struct {
	Exclude []string // globs from the root: * within a name, ** across; each takes what is below it too
	Hidden  bool     // hidden directories and fixtures are deployed
}

// excluded returns the glob that leaves out name or a directory above it, or "".
func (s Selection) excluded(name string) string {
	for _, glob := range s.Exclude {
		clean := strings.TrimPrefix(path.Clean(glob), "/")
		for dir := name; dir != "."; dir = path.Dir(dir) {
			if globsPath(clean, dir) {
				return glob
			}
		}
	}
	return ""
}

// Excludes reports whether a glob of the selection leaves out the file name.
func (s Selection) Excludes(name string) bool { return s.excluded(name) != "" }

// globsPath is Glob for paths, in which "**/" also stands for no directory.
func globsPath(glob, name string) bool {
	return Glob(glob, name) || Glob(strings.TrimPrefix(glob, "**/"), name) ||
		Glob(strings.ReplaceAll(glob, "/**/", "/"), name)
}

// around is the selection below a path that is given by name: what would leave
// out the path itself does not count there.
func (s Selection) around(name string) Selection {
	s.Exclude = slices.DeleteFunc(slices.Clone(s.Exclude), func(glob string) bool {
		return Selection{Exclude: []string{glob}}.excluded(name) != ""
	})
	return s
}

// leaves returns why the directory name is not deployed, by its name alone.
// The reason is "" where it is.
func (s Selection) leaves(name string) (reason string, state DocumentState) {
	base := path.Base(name)
	switch {
	case s.excluded(name) != "":
		return "excluded by " + s.excluded(name), DocExcluded
	case s.Hidden:
	case base == "testdata" || base == ".chainsaw-test" || base == ".kyverno-test":
		return "fixtures of a test suite", DocFixture
	case strings.HasPrefix(base, "."):
		return "hidden directory", DocExcluded
	}
	return "", ""
}
