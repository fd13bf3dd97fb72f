package render

import (
	"path"
	"slices"
	"strings"
)

// A Selection chooses the deployed part of a tree. The zero value leaves out
// directories whose name begins with a dot, and fixtures of test suites.
type Selection struct {
	Exclude []string // globs from the root: * within a name, ** across; a match includes everything below it
	Hidden  bool     // hidden directories and fixtures are deployed too
}

// excluded returns the glob that leaves out name or a directory above it, or
// "".
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

// globsPath is Glob for paths: "**/" also matches no directory at all.
func globsPath(glob, name string) bool {
	return Glob(glob, name) || Glob(strings.TrimPrefix(glob, "**/"), name) ||
		Glob(strings.ReplaceAll(glob, "/**/", "/"), name)
}

// around returns the selection below a path that is given by name. Globs that
// would leave out the path itself do not apply.
func (s Selection) around(name string) Selection {
	s.Exclude = slices.DeleteFunc(slices.Clone(s.Exclude), func(glob string) bool {
		return Selection{Exclude: []string{glob}}.excluded(name) != ""
	})
	return s
}

// leaves returns why a directory with this name is not deployed, and the state of the documents in
// it. The reason is "" if the directory is deployed.
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
