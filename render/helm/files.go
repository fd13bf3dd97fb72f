package helm

import (
	"encoding/base64"
	"path"
	"strings"
	"unsafe"

	"github.com/gobwas/glob"
	"helm.sh/helm/v3/pkg/chart"
)

// files holds a chart's files other than templates, which templates access as
// .Files. The methods are Helm's.
type files map[string][]byte

func newFiles(list []*chart.File) files {
	f := make(files, len(list))
	for _, file := range list {
		f[file.Name] = file.Data
	}
	return f
}

// GetBytes returns the content of a file of the chart. It is empty if there is no such file.
func (f files) GetBytes(name string) []byte {
	if data, ok := f[name]; ok {
		return data
	}
	return []byte{}
}

// Get returns the content of a file as a string. The string shares the content's memory, so that
// its address identifies the file when the origin of a line is looked up. The content is never
// changed.
func (f files) Get(name string) string {
	return unsafe.String(unsafe.SliceData(f[name]), len(f[name]))
}

// Glob returns the files whose names match; an invalid pattern matches all.
func (f files) Glob(pattern string) files {
	g, err := glob.Compile(pattern, '/')
	if err != nil {
		g = glob.MustCompile("**")
	}
	found := files{}
	for name, data := range f {
		if g.Match(name) {
			found[name] = data
		}
	}
	return found
}

// AsConfig returns the files as the data of a ConfigMap, under their base
// names. If two files have the same one, the last counts.
func (f files) AsConfig() string {
	return f.as(func(data []byte) string { return string(data) })
}

// AsSecrets returns the files as the data of a Secret.
func (f files) AsSecrets() string { return f.as(base64.StdEncoding.EncodeToString) }

func (f files) as(encode func([]byte) string) string {
	if f == nil {
		return ""
	}
	m := map[string]string{}
	for _, name := range sortedKeys(f) {
		m[path.Base(name)] = encode(f[name])
	}
	return toYAML(m)
}

// Lines returns the lines of a file.
func (f files) Lines(name string) []string {
	if len(f[name]) == 0 {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(f.Get(name), "\n"), "\n")
}
