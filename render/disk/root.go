package disk

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
