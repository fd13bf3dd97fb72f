package flux

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
	mergevalues "github.com/preadmit/preadmit/render/internal/values"
)

// Limits of one artifact.
const (
	maxArtifactFiles = 100_000
	maxAlternatives  = 20 // commas in the braces of a pattern, as Flux allows
)

// generatedRoot is the directory, in artifact.fsys only, of artifacts that are
// composed of files of others.
const generatedRoot = ".preadmit-artifacts"

// generatorSpec is the spec of an ArtifactGenerator.
type generatorSpec struct {
	Sources []struct {
		Alias     string `json:"alias"`
		reference `json:",inline"`
	} `json:"sources"`
	PathPattern string           `json:"pathPattern"`
	Artifacts   []outputArtifact `json:"artifacts"`
}

type outputArtifact struct {
	Name string          `json:"name"`
	Copy []copyOperation `json:"copy"`
}

type copyOperation struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Exclude  []string `json:"exclude"`
	Strategy string   `json:"strategy"`
	Optional bool     `json:"optional"`
}

// external returns the artifact of an ExternalArtifact: the folder that the
// configuration declares for it, else what an ArtifactGenerator makes.
func (s sources) external(ref reference) (artifact, error) {
	if _, declared := s.world.Source(ref.Kind, ref.Namespace, ref.Name); declared {
		return s.fetched(ref)
	}
	for _, o := range s.world.Objects(schema.GroupKind{Group: extensionsGroup, Kind: "ArtifactGenerator"}) {
		if o.GetNamespace() != ref.Namespace {
			continue
		}
		g := &generator{sources: s, object: o, found: make(map[string]artifact)}
		if made, ok, err := g.artifact(ref.Name); err != nil || ok {
			s.world.Object(o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()) // records that it is used
			return made, err
		}
	}
	e := s.missing(s.at, "missing-source", "there is no %s, and no ArtifactGenerator makes it", ref)
	e.Hint = folderHint
	return artifact{}, e
}

// A generator builds the artifacts of an ArtifactGenerator.
type generator struct {
	sources
	object *render.Object
	spec   generatorSpec
	found  map[string]artifact // by alias
}

// artifact returns the artifact of a name, if the generator makes it.
func (g *generator) artifact(name string) (artifact, bool, error) {
	if err := decodeSpec(g.object, &g.spec); err != nil {
		return artifact{}, false, err
	}
	outputs := g.spec.Artifacts
	if g.spec.PathPattern != "" {
		var err error
		if outputs, err = g.expand(); err != nil {
			return artifact{}, false, err
		}
	}
	i := slices.IndexFunc(outputs, func(out outputArtifact) bool { return out.Name == name })
	if i < 0 {
		return artifact{}, false, nil
	}
	made, err := g.build(outputs[i])
	return made, true, err
}

// source returns the artifact of an alias.
func (g *generator) source(alias string) (artifact, error) {
	if a, ok := g.found[alias]; ok {
		return a, nil
	}
	for _, source := range g.spec.Sources {
		if source.Alias != alias {
			continue
		}
		ref := source.reference
		ref.Namespace = cmp.Or(ref.Namespace, g.object.GetNamespace())
		a, err := g.sources.find(ref)
		g.found[alias] = a
		return a, err
	}
	return artifact{}, g.failure("source alias %s is not defined", alias)
}

func (g *generator) failure(format string, args ...any) *render.Error {
	return errorAt(g.object, "/spec", "invalid-artifact", "ArtifactGenerator "+g.object.GetNamespace()+"/"+g.object.GetName()+": "+format, args...)
}

// expand returns the artifacts for each directory that matches the path
// pattern. Names are in lower case, paths are unchanged.
func (g *generator) expand() ([]outputArtifact, error) {
	alias, pattern, ok := strings.Cut(strings.TrimPrefix(g.spec.PathPattern, "@"), "/")
	if !ok || !strings.HasPrefix(g.spec.PathPattern, "@") {
		return nil, g.failure("pathPattern %s is not @alias/path", g.spec.PathPattern)
	}
	a, err := g.source(alias)
	if err != nil {
		return nil, err
	}
	expression := "^" + capture.ReplaceAllString(regexp.QuoteMeta(pattern), `(?P<$1>[^/]+)`) + "$"
	matcher, err := regexp.Compile(expression)
	if err != nil {
		return nil, g.failure("pathPattern %s has a variable twice or a brace too many", g.spec.PathPattern)
	}
	var all []outputArtifact
	seen := make(map[string]bool)
	err = fs.WalkDir(a.fsys, a.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		values := matcher.FindStringSubmatch(relative(a.root, name))
		if values == nil {
			return nil
		}
		for _, out := range g.spec.Artifacts {
			out = out.with(matcher.SubexpNames(), values)
			if seen[out.Name] {
				return g.failure("two directories make the artifact %s", out.Name)
			}
			seen[out.Name] = true
			all = append(all, out)
		}
		return nil
	})
	return all, err
}

var capture = regexp.MustCompile(`\\\{([A-Za-z_][A-Za-z0-9_]*)\\\}`)

// with returns the artifact with variables replaced.
func (o outputArtifact) with(names, values []string) outputArtifact {
	var exact, lower []string
	for i, name := range names {
		if name != "" {
			exact = append(exact, "{"+name+"}", values[i])
			lower = append(lower, "{"+name+"}", strings.ToLower(values[i]))
		}
	}
	o.Name = strings.NewReplacer(lower...).Replace(o.Name)
	o.Copy = slices.Clone(o.Copy)
	for i := range o.Copy {
		o.Copy[i].From = strings.NewReplacer(exact...).Replace(o.Copy[i].From)
		o.Copy[i].To = strings.NewReplacer(exact...).Replace(o.Copy[i].To)
	}
	return o
}

// A staging is an artifact that copy operations build. Its files are links to
// files of the sources, except for merged and extracted ones.
type staging struct {
	root  string
	files map[string]staged // by path in the artifact
}

type staged struct {
	from artifact
	name string // name of a file in from
	data []byte // content of a merged or extracted file, instead of name
	at   render.Provenance
}

func (s staged) read() ([]byte, error) {
	if s.name == "" {
		return s.data, nil
	}
	return render.ReadFile(s.from.fsys, s.name)
}

// isDir reports whether a path of the artifact is a directory.
func (s *staging) isDir(name string) bool {
	if name == "." {
		return true
	}
	for f := range s.files {
		if strings.HasPrefix(f, name+"/") {
			return true
		}
	}
	return false
}

func (g *generator) build(out outputArtifact) (artifact, error) {
	st := &staging{root: path.Join(generatedRoot, g.object.GetNamespace(), out.Name), files: make(map[string]staged)}
	for _, op := range out.Copy {
		if err := g.copy(st, op); err != nil {
			return artifact{}, err
		}
		if len(st.files) > maxArtifactFiles {
			return artifact{}, g.failure("artifact %s has more than %d files", out.Name, maxArtifactFiles)
		}
	}
	overlay := render.NewOverlay(noFiles{}, nil)
	a := artifact{fsys: overlay, root: st.root}
	layers := make(map[*render.Overlay]bool)
	packed := newFilter(noFiles{}, ".", nil)
	for _, name := range slices.Sorted(maps.Keys(st.files)) {
		if packed.matches(name, false) {
			continue // default exclusions apply to generated artifacts too
		}
		f := st.files[name]
		for _, l := range f.from.layers {
			if !layers[l] {
				layers[l] = true
				a.layers = append(a.layers, l)
			}
		}
		if err := f.lay(overlay, path.Join(st.root, name)); err != nil {
			return artifact{}, g.failure("file %s can't be written", name)
		}
	}
	a.layers = append(a.layers, overlay)
	return a, nil
}

// lay adds the file to an overlay.
func (s staged) lay(to *render.Overlay, name string) error {
	switch {
	case s.name != "":
		to.LinkTo(name, s.from.fsys, s.name)
	case s.at == nil:
		to.WriteText(name, s.data, nil)
	default:
		var v any
		if err := yaml.Unmarshal(s.data, &v); err != nil {
			return err
		}
		return to.WriteFrom(name, v, s.at)
	}
	return nil
}

// copy applies one operation, by the rules of cp.
func (g *generator) copy(st *staging, op copyOperation) error {
	alias, pattern, ok := strings.Cut(strings.TrimPrefix(op.From, "@"), "/")
	to, within := strings.CutPrefix(op.To, "@artifact/")
	switch {
	case !ok || !strings.HasPrefix(op.From, "@"):
		return g.failure("copy from %s is not @alias/path", op.From)
	case !within || strings.Contains("/"+to+"/", "/../") || path.IsAbs(to):
		return g.failure("copy to %s is not below @artifact/", op.To)
	case strings.Count(pattern+strings.Join(op.Exclude, ""), ",") > maxAlternatives:
		return g.failure("copy from %s has more than %d alternatives", op.From, maxAlternatives)
	}
	for _, p := range op.Exclude {
		if !doublestar.ValidatePattern(p) {
			return g.failure("exclude %s is no pattern", p)
		}
	}
	from, err := g.source(alias)
	if err != nil {
		return err
	}
	root, err := fs.Sub(from.fsys, from.root)
	if err != nil {
		return g.failure("source %s can't be read", alias)
	}
	c := &copier{generator: g, staging: st, op: op, from: from, root: root}
	if strings.ContainsAny(pattern, "*?[]") {
		return c.glob(pattern, path.Clean(to))
	}
	return c.single(path.Clean(pattern), to)
}

// A copier copies from one source to the staging.
type copier struct {
	*generator
	staging *staging
	op      copyOperation
	from    artifact
	root    fs.FS
}

// single copies a file or directory that is named without a pattern. A
// directory is copied into the target; so is a file if the target ends in a
// slash or is a directory, else the file becomes the target.
func (c *copier) single(name, to string) error {
	clean := path.Clean(to)
	info, err := fs.Stat(c.root, name)
	switch {
	case !fs.ValidPath(name) || err != nil:
		if c.op.Optional {
			return nil
		}
		return c.failure("source %s has no %s", strings.SplitN(c.op.From, "/", 2)[0], name)
	case info.IsDir() && c.op.Strategy == "Extract":
		return c.failure("%s is a directory, which can't be extracted", name)
	case info.IsDir():
		return c.tree(name, path.Join(clean, path.Base(name)), name)
	case c.excluded(name, "."):
		return nil
	case c.op.Strategy == "Extract":
		return c.extract(name, clean)
	case to == "" || strings.HasSuffix(to, "/") || c.staging.isDir(clean):
		return c.file(name, path.Join(clean, path.Base(name)))
	}
	return c.file(name, clean)
}

// glob copies what a pattern matches. For dir/** the target paths begin below
// dir.
func (c *copier) glob(pattern, to string) error {
	find := fs.Glob
	if c.op.Strategy == "Extract" {
		find = func(fsys fs.FS, pattern string) ([]string, error) { return doublestar.Glob(fsys, pattern) }
	}
	matches, err := find(c.root, pattern)
	if err != nil {
		return c.failure("%s is no pattern", pattern)
	}
	base := literalRoot(pattern)
	matches = slices.DeleteFunc(matches, func(name string) bool { return name == "." || c.excluded(name, base) })
	if len(matches) == 0 {
		if c.op.Optional {
			return nil
		}
		return c.failure("no file matches %s", c.op.From)
	}
	for _, name := range matches {
		if c.op.Strategy == "Extract" {
			if isTarball(name) {
				err = c.extract(name, to)
			}
		} else {
			target := name
			if dir, ok := strings.CutSuffix(pattern, "/**"); ok {
				target = strings.TrimPrefix(name, dir+"/")
			}
			err = c.tree(name, path.Join(to, target), base)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// literalRoot returns the part of a pattern before its first element with a
// wildcard.
func literalRoot(pattern string) string {
	parts := strings.Split(path.Clean(pattern), "/")
	n := slices.IndexFunc(parts, func(p string) bool { return strings.ContainsAny(p, "*?[]") })
	return path.Join(append([]string{"."}, parts[:max(0, n)]...)...)
}

// tree copies a file, or a directory with everything below it.
func (c *copier) tree(name, to, base string) error {
	return fs.WalkDir(c.root, name, func(n string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return c.failure("%s can't be read", n)
		case n != name && c.excluded(n, base):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		return c.file(n, path.Join(to, relative(name, n)))
	})
}

// file copies a file, or merges it into the one at the target.
func (c *copier) file(name, to string) error {
	f := staged{from: c.from, name: c.from.path(name)}
	if have, ok := c.staging.files[to]; ok && c.op.Strategy == "Merge" {
		merged, err := mergeFiles(have, f)
		if err != nil {
			return c.failure("%s can't be merged into %s: %w", name, to, err)
		}
		f = merged
	}
	c.staging.files[to] = f
	return nil
}

// mergeFiles merges the documents of YAML files, the second over the first.
func mergeFiles(under, over staged) (staged, error) {
	all := &composed{values: map[string]any{}}
	for _, f := range []staged{under, over} {
		data, err := f.read()
		if err != nil {
			return staged{}, errors.New("it can't be read")
		}
		docs, err := render.Documents(f.name, data, render.YAML11)
		if len(render.Failures(err)) > 0 {
			return staged{}, errors.New("it is not YAML")
		}
		for _, doc := range docs {
			m, ok := doc.Value.(map[string]any)
			if !ok && doc.Value != nil {
				return staged{}, fmt.Errorf("a document is no map")
			}
			all.values = mergevalues.Merge(all.values, m)
			places := f.at
			if places == nil {
				places = f.from.provenance(doc.Positions)
			}
			all.layers = append(all.layers, valuesLayer{values: m, places: places})
		}
	}
	data, err := yaml.Marshal(all.values)
	return staged{from: over.from, data: data, at: all}, err
}

// excluded reports whether a pattern of the operation excludes a path, relative
// to the source's root or to base. A pattern without a slash matches file
// names.
func (c *copier) excluded(name, base string) bool {
	for _, p := range c.op.Exclude {
		if doublestar.MatchUnvalidated(p, name) || !strings.Contains(p, "/") && doublestar.MatchUnvalidated(p, path.Base(name)) {
			return true
		}
		if name != base && base != "." && within(name, base) && doublestar.MatchUnvalidated(p, relative(base, name)) {
			return true
		}
	}
	return false
}
