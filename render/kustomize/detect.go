package kustomize

import (
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// isKustomize reports whether a file named kustomization.yaml is a kustomization for kustomize.
// Flux has a kind Kustomization too, and some repositories keep such objects under this file name.
func (f *file) isKustomize() bool {
	group, _, ok := strings.Cut(apiVersionOf(f.doc), "/")
	return !ok || group == "kustomize.config.k8s.io" || !strings.HasSuffix(group, ".fluxcd.io")
}

func (f *file) component() bool { return f.spec.Kind == types.ComponentKind }

// uses returns the paths that a kustomization refers to directly, relative to
// the tree's root, without duplicates.
func uses(fsys fs.FS, dir string, f *file) []string {
	u := &usage{dir: dir, seen: map[string]bool{}}
	for _, r := range references(&f.spec) {
		u.add(r.text)
		if r.kind == refPlugin && r.at[0] == "generators" {
			u.generator(fsys, r.text)
		}
	}
	k := f.fixed()
	for i := range k.HelmCharts {
		c := &chart{HelmChart: k.HelmCharts[i]}
		if k.HelmGlobals != nil {
			c.HelmGlobals = *k.HelmGlobals
		}
		u.chart(c)
	}
	return u.names
}

// mentions returns the existing files and directories that the lines of
// kustomization files in dir name, for files that can't be decoded: the entries of
// lists, and words with a slash or a dot. It reads no file of over 1 MiB.
func mentions(fsys fs.FS, dir string, files []string) []string {
	u := &usage{dir: dir, seen: map[string]bool{}}
	for _, file := range files {
		data, err := render.ReadFile(fsys, file)
		if err != nil || len(data) > 1<<20 {
			continue
		}
		for line := range strings.Lines(string(data)) {
			entry, listed := strings.CutPrefix(strings.TrimSpace(line), "- ")
			words := strings.FieldsFunc(entry, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"'[]{},`, r) })
			for _, word := range words {
				if !strings.ContainsAny(word, "/.") && !(listed && len(words) == 1) {
					continue
				}
				if name, ok := inside(dir, word); ok && fs.ValidPath(name) {
					if _, err := fs.Stat(fsys, name); err == nil {
						u.add(word)
					}
				}
			}
		}
	}
	return u.names
}

type usage struct {
	dir   string
	names []string
	seen  map[string]bool
}

// add records a path, unless it is remote, leads out of the tree or is an
// inline document.
func (u *usage) add(text string) {
	if text == "" || remote(text) || strings.ContainsAny(text, "\n") {
		return
	}
	name, ok := inside(u.dir, text)
	if ok && name != u.dir && fs.ValidPath(name) && !u.seen[name] {
		u.seen[name] = true
		u.names = append(u.names, name)
	}
}

func (u *usage) chart(c *chart) {
	if c.Name != "" {
		u.add(path.Join(c.home(), c.Name))
	}
	if c.ChartHome != "" {
		u.add(c.ChartHome)
	}
	u.add(c.ValuesFile)
	for _, name := range c.AdditionalValuesFiles {
		u.add(name)
	}
}

// generator records the charts that a generator's file names.
func (u *usage) generator(fsys fs.FS, text string) {
	name, ok := inside(u.dir, text)
	if !ok || remote(text) {
		return
	}
	data, err := render.ReadFile(fsys, name)
	if err != nil {
		return
	}
	docs, _ := render.Documents(name, data, render.YAML12)
	for _, doc := range docs {
		c := &chart{}
		if data, err := json.Marshal(doc.Value); err == nil && kindOf(doc) == helmKind && json.Unmarshal(data, c) == nil {
			u.chart(c)
		}
	}
}
