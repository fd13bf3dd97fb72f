package render

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// named returns the paths of this repository that an object of a controller names as
// sources, sorted: directories, charts and values files. asked are the objects that it
// refers to, such as its GitRepository. A path that is filled in later, such as
// "apps/{{.name}}", counts as the directory above. If the objects name other repositories
// alone, the result is empty.
func (f *following) named(asked []*Object, o *Object) []string {
	elsewhere, here, whole := false, false, false
	var dirs, files []string
	for i, x := range append([]*Object{o}, asked...) {
		for at, text := range Texts(x.Object, "") {
			key := fieldName(at)
			switch {
			case key == "repourl" || key == "url":
				if strings.Contains(text, "://") && !strings.Contains(text, "{{") {
					_, err := f.Outside.Repository(text, "")
					here, elsewhere = here || err == nil, elsewhere || err != nil
				}
				continue
			case i > 0, !strings.HasPrefix(at, "/spec/"), strings.ContainsAny(text, "\n:"), !strings.Contains(text, "/") && !strings.Contains(key, "path") && !strings.Contains(key, "file"):
				continue
			}
			if ref, name, ok := strings.Cut(text, "/"); ok && strings.HasPrefix(ref, "$") {
				text = name
			}
			if i := strings.IndexAny(text, "{*?["); i >= 0 {
				text = text[:strings.LastIndex(text[:i], "/")+1]
				if text == "" {
					whole = true
					continue
				}
			}
			name := strings.TrimPrefix(path.Join("/", text), "/")
			if strings.Contains(key, "file") {
				files = append(files, name)
			}
			dirs = append(dirs, orRoot(name))
		}
	}
	switch {
	case elsewhere && !here:
		return nil
	case whole && len(dirs) == 0:
		return []string{"."}
	}
	for _, dir := range slices.Clone(dirs) { // values files are relative to their chart
		for _, file := range files {
			dirs = append(dirs, path.Join(dir, file))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func orRoot(name string) string {
	if name == "" {
		return "."
	}
	return name
}

// fieldName returns the last key of a pointer in lower case, without indices of lists.
func fieldName(pointer string) string {
	for {
		name := path.Base(pointer)
		if _, err := strconv.Atoi(name); err != nil {
			return strings.ToLower(name)
		}
		pointer = path.Dir(pointer)
	}
}

// Below reports whether name is a path of list or lies below one.
func Below(list []string, name string) bool {
	return slices.ContainsFunc(list, func(dir string) bool { return dir == "." || name == dir || strings.HasPrefix(name, dir+"/") })
}
