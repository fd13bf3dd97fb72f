package lsp

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// pathOf returns the path on this machine of a file's URI.
func pathOf(uri string) (string, error) {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "", fmt.Errorf("%.200q is no URI", uri)
	case u.Scheme != "file":
		return "", fmt.Errorf("%.200q is no file", uri)
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("%.200q is a file of another machine", uri)
	}
	p := u.Path
	if len(p) > 2 && p[0] == '/' && filepath.VolumeName(filepath.FromSlash(p[1:])) != "" {
		p = p[1:] // a drive of Windows
	}
	if p = filepath.FromSlash(p); !filepath.IsAbs(p) || strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("%.200q has no path from the root", uri)
	}
	return filepath.Clean(p), nil
}

// uriOf returns the URI of a file by its path.
func uriOf(file string) string {
	p := filepath.ToSlash(file)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Path: p}).String()
}

// A root is the directory of the repository: its real path, and the path that the editor uses,
// which may contain a link.
type root struct{ real, named string }

// newRoot returns the root of the repository at dir. folder is the directory in it that the editor
// opened.
func newRoot(dir, folder string) root {
	r := root{dir, dir}
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return r
	}
	rel, err := filepath.Rel(dir, real)
	if err != nil || !filepath.IsLocal(rel) {
		return r
	}
	if rel == "." {
		r.named = folder
	} else if named, ok := strings.CutSuffix(folder, string(filepath.Separator)+rel); ok {
		r.named = named
	}
	return r
}

// name returns the slash-separated name in the repository of a file with the editor's URI.
func (r root) name(uri string) (string, error) {
	file, err := pathOf(uri)
	if err != nil {
		return "", err
	}
	for _, dir := range []string{r.named, r.real} {
		if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), nil
		}
	}
	return "", fmt.Errorf("%.200q is not in %s", uri, r.named)
}

// uri returns the URI of a file in the repository, or "" if the name leads outside.
func (r root) uri(name string) string {
	rel := filepath.FromSlash(name)
	if !filepath.IsLocal(rel) {
		return ""
	}
	return uriOf(filepath.Join(r.named, rel))
}
