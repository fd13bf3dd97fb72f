package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mayWrite reports whether the parent may replace a file for a child: a file of the command line,
// or one in the repository outside .git. A configuration file can't allow others.
func (p *parent) mayWrite(name string) bool {
	if slices.ContainsFunc(p.args, func(a string) bool { return a == name || strings.HasSuffix(a, "="+name) }) {
		return true
	}
	real, err := filepath.Abs(name)
	if err == nil {
		real, err = realDir(filepath.Dir(real))
	}
	if err != nil {
		return false
	}
	return slices.ContainsFunc(append([]string{"."}, p.args...), func(dir string) bool {
		root := repository(dir)
		rel, err := filepath.Rel(root, filepath.Join(real, filepath.Base(name)))
		return root != "" && err == nil && filepath.IsLocal(rel) && rel != ".git" && !strings.HasPrefix(filepath.ToSlash(rel), ".git/")
	})
}

// realDir resolves the links in the path of a directory that may not exist.
func realDir(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) && filepath.Dir(dir) != dir {
		if _, gone := os.Lstat(dir); gone == nil {
			return "", err // a link to a missing target
		}
		real, err = realDir(filepath.Dir(dir))
		return filepath.Join(real, filepath.Base(dir)), err
	}
	return real, err
}

// repository returns the nearest directory at or above a path that contains .git, else the path's
// own directory. It returns "" if the path does not exist.
func repository(path string) string {
	dir, err := filepath.Abs(path)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	info, statErr := os.Stat(dir)
	if err != nil || statErr != nil {
		return ""
	}
	if !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
			return up
		}
		if filepath.Dir(up) == up {
			return dir
		}
	}
}
