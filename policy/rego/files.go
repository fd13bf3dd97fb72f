package rego

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// Files returns the .rego files at or below a name, sorted. It follows links, and
// returns a file once if several links lead to it. It also returns files that
// can't be read, so that reading them gives the error.
func Files(fsys fs.FS, name string) []string {
	w := fileWalk{fsys: fsys, dirs: make(map[string]bool), files: make(map[string]bool)}
	w.entry(name)
	return slices.Sorted(maps.Keys(w.files))
}

type fileWalk struct {
	fsys        fs.FS
	dirs, files map[string]bool
}

func (f *fileWalk) entry(name string) {
	real, err := render.Resolve(f.fsys, name)
	if err != nil {
		real = name
	}
	info, err := fs.Stat(f.fsys, real)
	switch {
	case err == nil && info.IsDir():
		f.dir(real)
	case strings.HasSuffix(name, ".rego"):
		f.files[real] = true
	}
}

func (f *fileWalk) dir(name string) {
	if f.dirs[name] || path.Base(name) == ".git" {
		return
	}
	f.dirs[name] = true
	entries, _ := fs.ReadDir(f.fsys, name)
	for _, e := range entries {
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 || strings.HasSuffix(e.Name(), ".rego") {
			f.entry(path.Join(name, e.Name()))
		}
	}
}
