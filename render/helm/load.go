package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/ignore"

	"github.com/preadmit/preadmit/render"
)

// A file is a chart's file before loading.
type file struct {
	name string // below the chart's directory
	data []byte
	at   place
}

// A reader loads one chart with all subcharts and dependencies. They share one budget, since a
// chart could evade limits per archive with more archives.
type reader struct {
	fsys    fs.FS
	store   render.Store // nil if nothing was fetched
	bytes   int
	entries int
	// places holds the places of all files of all charts. The pointer is the
	// key because it stays the same when charts are copied and renamed.
	places map[*chart.File]place
	// missing holds the dependencies without a chart in the tree.
	missing []missingDependency
	helm4   bool
}

func newReader(fsys fs.FS) *reader {
	return &reader{fsys: fsys, places: map[*chart.File]place{}}
}

// load loads the chart at a directory or archive of the tree, with its file://
// dependencies.
func (r *reader) load(name string, local []string) (*chart.Chart, error) {
	info, err := fs.Stat(r.fsys, name)
	if err != nil || !info.IsDir() {
		return r.loadArchive(name)
	}
	files, err := r.directory(name)
	if err != nil {
		return nil, err
	}
	c, err := r.assemble(files, place{file: name}, 0)
	if err != nil {
		return nil, err
	}
	return c, r.local(c, name, append(local, name))
}

func (r *reader) loadArchive(name string) (*chart.Chart, error) {
	data, err := render.ReadFile(r.fsys, name)
	if err != nil {
		return nil, err
	}
	at := place{file: name}
	files, err := r.archive(at, data)
	if err != nil {
		return nil, err
	}
	c, err := r.assemble(files, at, 1)
	if err != nil {
		return nil, err
	}
	return c, r.local(c, "", nil)
}

// directory reads the files of a chart's directory, except for those that its
// .helmignore leaves out. Links are followed only within the tree.
func (r *reader) directory(dir string) ([]file, error) {
	rules, err := r.ignored(dir)
	if err != nil {
		return nil, err
	}
	w := walk{reader: r, rules: rules}
	err = w.dir(dir, "", 0, 0)
	return w.files, err
}

func (r *reader) ignored(dir string) (*ignore.Rules, error) {
	rules := ignore.Empty()
	name := path.Join(dir, ignore.HelmIgnore)
	data, err := render.ReadFile(r.fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if rules, err = ignore.Parse(bytes.NewReader(data)); err != nil {
			return nil, place{file: name}.errorAt("helm-chart", 0, 0, errors.New(sentence(err.Error())))
		}
	}
	rules.AddDefaults()
	return rules, nil
}

// A walk visits a chart's directory in the order of names.
type walk struct {
	*reader
	rules *ignore.Rules
	files []file
}

func (w *walk) dir(dir, rel string, depth, links int) error {
	if depth > maxPathDepth || links > maxLinks {
		return place{file: dir}.errorAt("helm-chart", 0, 0, errors.New("directories of the chart lead into one another without end"))
	}
	entries, err := fs.ReadDir(w.fsys, dir)
	if err != nil {
		return place{file: dir}.errorAt("unreadable", 0, 0, errors.New("directory can't be read"))
	}
	for _, e := range entries {
		if err := w.entry(e, path.Join(dir, e.Name()), path.Join(rel, e.Name()), depth, links); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(e fs.DirEntry, name, rel string, depth, links int) error {
	info, err := e.Info()
	if err != nil {
		return place{file: name}.errorAt("unreadable", 0, 0, errors.New("file can't be read"))
	}
	if e.Type()&fs.ModeSymlink != 0 {
		links++
		if w.rules.Ignore(rel, info) {
			return nil
		}
		if info, err = fs.Stat(w.fsys, name); err != nil {
			_, err := render.ReadFile(w.fsys, name) // the error says why
			return err
		}
	}
	switch {
	case w.rules.Ignore(rel, info):
		return nil
	case info.IsDir():
		return w.dir(name, rel, depth+1, links)
	}
	data, err := render.ReadFile(w.fsys, name)
	if err != nil {
		return err
	}
	at := place{file: name}
	if err := w.count(at, len(data)); err != nil {
		return err
	}
	w.files = append(w.files, file{rel, bytes.TrimPrefix(data, byteOrderMark), at})
	return nil
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// count charges a file to the budget.
func (r *reader) count(at place, size int) error {
	r.entries++
	r.bytes += size
	switch {
	case size > maxFile:
		return at.errorAt("helm-chart", 0, 0, fmt.Errorf("file of a chart is larger than %d MiB", maxFile>>20))
	case r.entries > maxEntries:
		return at.errorAt("helm-chart", 0, 0, fmt.Errorf("chart and its dependencies have more than %d files", maxEntries))
	case r.bytes > maxTreeBytes:
		return at.errorAt("helm-chart", 0, 0, fmt.Errorf("chart and its dependencies are larger than %d MiB", maxTreeBytes>>20))
	}
	return nil
}

// assemble loads a chart from its files and adds the charts in its charts/
// directory, in the order of their names. Helm's own loader gets each chart
// alone: it would unpack archives without a common budget, and in random order.
func (r *reader) assemble(files []file, at place, nesting int) (*chart.Chart, error) {
	own, below := split(files)
	c, err := r.one(own, at)
	if err != nil {
		return nil, err
	}
	for _, name := range below.names {
		if strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
			continue
		}
		sub, err := r.sub(name, below.files[name], at.join("charts/"+name), nesting)
		if err != nil {
			return nil, err
		}
		c.AddDependency(sub)
	}
	return c, nil
}

// sub loads the chart of one entry of charts/.
func (r *reader) sub(name string, files []file, at place, nesting int) (*chart.Chart, error) {
	if path.Ext(name) != ".tgz" {
		return r.assemble(files, at, nesting)
	}
	if len(files) != 1 || files[0].name != "" {
		return nil, at.errorAt("helm-chart", 0, 0, errors.New("is a directory with the name of an archive"))
	}
	if nesting >= maxNesting {
		return nil, at.errorAt("helm-chart", 0, 0, fmt.Errorf("archives are nested more than %d deep", maxNesting))
	}
	unpacked, err := r.archive(files[0].at, files[0].data)
	if err != nil {
		return nil, err
	}
	return r.assemble(unpacked, at, nesting+1)
}

// subfiles holds the files below charts/, by entry.
type subfiles struct {
	names []string
	files map[string][]file
}

func split(files []file) (own []file, below subfiles) {
	below.files = map[string][]file{}
	for _, f := range files {
		rest, ok := strings.CutPrefix(f.name, "charts/")
		if !ok || path.Ext(f.name) == ".prov" {
			own = append(own, f)
			continue
		}
		name, inner, isDir := strings.Cut(rest, "/")
		if _, ok := below.files[name]; !ok {
			below.names = append(below.names, name)
			below.files[name] = nil
		}
		if isDir || path.Ext(name) == ".tgz" {
			below.files[name] = append(below.files[name], file{inner, f.data, f.at})
		}
	}
	slices.Sort(below.names)
	return own, below
}

// one loads a chart without its subcharts.
func (r *reader) one(files []file, at place) (*chart.Chart, error) {
	buffered := make([]*loader.BufferedFile, len(files))
	places := make(map[string]place, len(files))
	for i, f := range files {
		if err := check(f); err != nil {
			return nil, err
		}
		buffered[i] = &loader.BufferedFile{Name: f.name, Data: f.data}
		places[f.name] = f.at
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, loadError(err, at, files)
	}
	for _, list := range [][]*chart.File{c.Raw, c.Templates, c.Files} {
		for _, f := range list {
			r.places[f] = places[f.Name]
		}
	}
	return c, nil
}

// check refuses a file that would overflow the loader or the parser.
func check(f file) error {
	switch f.name {
	case "Chart.yaml", "Chart.lock", "values.yaml", "requirements.yaml", "requirements.lock":
		if line, err := guardYAML(f.data); err != nil {
			return f.at.errorAt("helm-chart", line, 0, err)
		}
	}
	return nil
}

// loadError places an error of Helm's loader at the file that it names.
func loadError(err error, at place, files []file) error {
	named := func(name string) int { return slices.IndexFunc(files, func(f file) bool { return f.name == name }) }
	manifest := named("Chart.yaml")
	if manifest < 0 {
		return at.errorAt("helm-chart", 0, 0, errors.New("Chart.yaml is missing"))
	}
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "cannot load "); ok {
		name, _, _ := strings.Cut(rest, ":")
		if i := named(name); i >= 0 {
			line, cleaned := yamlError(files[i].data, err)
			return files[i].at.errorAt("helm-chart", line, 0, cleaned)
		}
	}
	text = strings.TrimPrefix(text, "validation: ")
	if key, ok := strings.CutSuffix(text, " is required"); ok {
		text = strings.TrimPrefix(key, "chart.metadata.") + " is missing"
	}
	return files[manifest].at.errorAt("helm-chart", 0, 0, errors.New(sentence(text)))
}

// chartFile returns the place of a chart's file; ok is false if the chart has
// no such file.
func (r *reader) chartFile(c *chart.Chart, name string) (at place, data []byte, ok bool) {
	for _, f := range c.Raw {
		if f.Name == name {
			return r.places[f], f.Data, true
		}
	}
	return place{}, nil, false
}

// manifestOf returns the place of a chart's Chart.yaml.
func (r *reader) manifestOf(c *chart.Chart) place {
	at, _, _ := r.chartFile(c, "Chart.yaml")
	return at
}
