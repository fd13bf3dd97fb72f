package argocd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/gotemplate"
)

// maxFiles is how many files of a repository a generator reads at most.
const maxFiles = 500_000

// A gitGenerator makes parameters from directories or files of a repository.
type gitGenerator struct {
	RepoURL         string            `json:"repoURL"`
	Revision        string            `json:"revision"`
	Directories     []gitPath         `json:"directories"`
	Files           []gitPath         `json:"files"`
	PathParamPrefix string            `json:"pathParamPrefix"`
	Values          map[string]string `json:"values"`
	Template        appTemplate       `json:"template"`
}

type gitPath struct {
	Path    string `json:"path"`
	Exclude bool   `json:"exclude"`
}

// A lister caches the file names of repositories.
type lister struct {
	ctx   context.Context
	known map[listing][]string
}

// A listing identifies a list of names: the directories or the files of a
// revision.
type listing struct{ url, revision, kind string }

func (g *generation) git(gen *gitGenerator, pointer string) ([]*paramSet, error) {
	if g.spec.Template.Spec.Project == "" {
		return nil, g.errorAt("/spec/template/spec", errors.New("template names no project, which Argo CD's git generator needs"))
	}
	if len(gen.Directories)+len(gen.Files) == 0 {
		return nil, g.errorAt(pointer, errors.New("git generator names neither directories nor files"))
	}
	repo, err := g.world.Repository(gen.RepoURL, gen.Revision)
	if err != nil {
		return nil, placed(g.set, pointer+"/repoURL", err)
	}
	if len(gen.Directories) > 0 {
		return g.directories(gen, repo, pointer)
	}
	return g.files(gen, repo, pointer)
}

// directories makes a set of parameters for each directory that a pattern
// matches and none excludes.
func (g *generation) directories(gen *gitGenerator, repo render.Repository, pointer string) ([]*paramSet, error) {
	all, err := g.list(repo, listing{gen.RepoURL, gen.Revision, directories})
	if err != nil {
		return nil, g.errorAt(pointer, err)
	}
	var params []*paramSet
	for _, dir := range all {
		matches := func(p gitPath) bool {
			ok, err := path.Match(p.Path, dir)
			return ok && err == nil
		}
		found := slices.IndexFunc(gen.Directories, func(p gitPath) bool { return !p.Exclude && matches(p) })
		if found < 0 || slices.ContainsFunc(gen.Directories, func(p gitPath) bool { return p.Exclude && matches(p) }) {
			continue
		}
		p := &paramSet{values: make(map[string]any)}
		places := func([]string) []render.Origin {
			return g.places(pointer + render.Pointer("directories", found, "path"))
		}
		g.pathParams(p, gen.PathParamPrefix, dir, "")
		p.layers = []layer{{p.values, places}}
		if err := g.addValues(p, gen.Values, pointer+"/values"); err != nil {
			return nil, err
		}
		params = append(params, p)
	}
	return params, nil
}

// pathParams adds the parameters with the path of a directory, or of a file in
// it.
func (g *generation) pathParams(p *paramSet, prefix, dir, file string) {
	segments := strings.Split(dir, "/")
	if g.golang {
		values := map[string]any{
			"path": dir, "basename": path.Base(dir), "basenameNormalized": gotemplate.Normalize(path.Base(dir)), "segments": segments,
		}
		if file != "" {
			values["filename"], values["filenameNormalized"] = file, gotemplate.Normalize(file)
		}
		if prefix != "" {
			p.values[prefix] = map[string]any{"path": values}
		} else {
			p.values["path"] = values
		}
		return
	}
	name := "path"
	if prefix != "" {
		name = prefix + ".path"
	}
	p.values[name] = dir
	p.values[name+".basename"], p.values[name+".basenameNormalized"] = path.Base(dir), gotemplate.Normalize(path.Base(dir))
	if file != "" {
		p.values[name+".filename"], p.values[name+".filenameNormalized"] = file, gotemplate.Normalize(file)
	}
	for i, segment := range segments {
		if segment != "" {
			p.values[name+"["+strconv.Itoa(i)+"]"] = segment
		}
	}
}

// files makes sets of parameters from the content of files.
func (g *generation) files(gen *gitGenerator, repo render.Repository, pointer string) ([]*paramSet, error) {
	all, err := g.list(repo, listing{gen.RepoURL, gen.Revision, files})
	if err != nil {
		return nil, g.errorAt(pointer, err)
	}
	var with, without []func(name string) bool
	for i, p := range gen.Files {
		match, err := g.fileGlob(repo, p.Path)
		if err != nil {
			return nil, g.errorAt(pointer+render.Pointer("files", i, "path"), err)
		}
		if p.Exclude {
			without = append(without, match)
		} else {
			with = append(with, match)
		}
	}
	var params []*paramSet
	for _, name := range all {
		matches := func(match func(string) bool) bool { return match(name) }
		if !slices.ContainsFunc(with, matches) || slices.ContainsFunc(without, matches) {
			continue
		}
		more, err := g.file(gen, repo, name)
		if err != nil {
			return nil, err
		}
		for _, p := range more {
			if err := g.addValues(p, gen.Values, pointer+"/values"); err != nil {
				return nil, err
			}
		}
		if params = append(params, more...); len(params) > maxElements {
			return nil, g.errorAt(pointer, errElements)
		}
	}
	return params, nil
}

// file makes the parameters of one file, which holds a map or a list of maps.
func (g *generation) file(gen *gitGenerator, repo render.Repository, name string) ([]*paramSet, error) {
	data, err := render.ReadFile(repo.FS, repo.Path(name))
	if err != nil {
		return nil, err
	}
	docs, err := render.Documents(repo.Path(name), data, render.YAML11)
	var value any = map[string]any{}
	var positions *render.Positions
	if len(docs) > 0 && docs[0].Index == 0 {
		value, positions = docs[0].Value, docs[0].Positions
	} else if err != nil {
		return nil, err
	}
	whole := render.Origin{Span: render.Span{File: repo.Path(name)}, Role: render.Generated}
	items := []any{value}
	prefix := func(int) string { return "" }
	if list, ok := value.([]any); ok {
		items, prefix = list, func(i int) string { return render.Pointer(i) }
	}
	var params []*paramSet
	for i, item := range items {
		m, ok := item.(map[string]any)
		if item != nil && !ok {
			return nil, &render.Error{Span: whole.Span, Rule: "invalid-parameters", Err: errors.New("file holds neither a map nor a list of maps, so Argo CD's git generator can't read it")}
		}
		p := g.fileParams(m, func(pointer string) []render.Origin {
			if positions == nil {
				return []render.Origin{whole}
			}
			return render.WithRole(positions.At(prefix(i)+pointer), render.Generated)
		})
		own := p.values
		p.values = make(map[string]any, len(own)+8)
		for k, v := range own {
			p.values[k] = v
		}
		dir, base := path.Split(name)
		g.pathParams(p, gen.PathParamPrefix, path.Clean(dir), base)
		p.layers = append(p.layers, layer{p.values, func([]string) []render.Origin { return []render.Origin{whole} }})
		params = append(params, p)
	}
	return params, nil
}

// fileParams makes parameters from a map: unchanged, or flattened to texts.
func (g *generation) fileParams(m map[string]any, places func(pointer string) []render.Origin) *paramSet {
	if g.golang {
		values, _ := plain(m).(map[string]any)
		if values == nil {
			values = make(map[string]any)
		}
		return &paramSet{values: values, layers: []layer{{values, func(path []string) []render.Origin { return places(render.PathPointer(path)) }}}}
	}
	tree, _ := plain(m).(map[string]any)
	values := make(map[string]any)
	for key, text := range flatten(tree) {
		values[key] = text
	}
	return &paramSet{values: values, layers: []layer{{values, func(path []string) []render.Origin {
		// A file's key may contain dots itself; this leads to the nearest
		// place.
		return places(render.PathPointer(strings.Split(path[0], ".")))
	}}}}
}

// list returns the names of a repository's directories or files, sorted. Like
// Argo CD it leaves out directories whose name begins with a dot. Git has no empty directories,
// although a work tree keeps those whose files are removed.
func (l *lister) list(repo render.Repository, key listing) ([]string, error) {
	if names, ok := l.known[key]; ok {
		return names, nil
	}
	seen, held := 0, make(map[string]bool) // directories that hold files
	var names []string
	err := fs.WalkDir(repo.FS, repo.Path("."), func(name string, d fs.DirEntry, err error) error {
		if seen++; seen > maxFiles {
			return fmt.Errorf("repository has more than %d files", maxFiles)
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(name, repo.Path(".")), "/")
		switch {
		case err != nil || rel == "" || name == ".":
			return l.ctx.Err()
		case d.IsDir() && (key.kind == directories && strings.HasPrefix(d.Name(), ".") || d.Name() == ".git"):
			return fs.SkipDir
		case d.IsDir():
		case key.kind == files:
			names = append(names, rel)
		default:
			for dir := path.Dir(rel); dir != "." && !held[dir]; dir = path.Dir(dir) {
				held[dir] = true
			}
		}
		return l.ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	names = append(names, slices.Collect(maps.Keys(held))...)
	slices.Sort(names)
	if l.known == nil {
		l.known = make(map[listing][]string)
	}
	l.known[key] = names
	return names, nil
}

// The kinds of listings.
const (
	directories = "directories"
	files       = "files"
)

// fileGlob compiles a pattern for files: with git's rules for paths on its
// command line or, if Argo CD's parameters select that, with a * that stays
// within a directory.
func (g *generation) fileGlob(repo render.Repository, pattern string) (func(name string) bool, error) {
	if setting(g.world, g.namespace, "argocd-cmd-params-cm", "applicationsetcontroller.enable.new.git.file.globbing") == "true" {
		return globstar(repo, pattern)
	}
	if path.IsAbs(pattern) || !fs.ValidPath(path.Clean(pattern)) {
		return nil, errors.New("path leads out of the repository")
	}
	if strings.HasPrefix(pattern, ":") {
		return nil, errors.New("path begins with a colon, which git reads as a special pattern that preadmit doesn't know")
	}
	if path.Clean(pattern) == "." {
		return func(string) bool { return true }, nil
	}
	expr, err := globExpr(path.Clean(pattern))
	if err != nil {
		return nil, err
	}
	if !strings.ContainsAny(pattern, `*?[\`) {
		expr += "(?:/.*)?" // a directory matches everything below it
	}
	re, err := regexp.Compile("^(?s:" + expr + ")$")
	if err != nil {
		return nil, errPattern
	}
	return re.MatchString, nil
}

// globstar compiles a pattern in which ** matches any directories. Argo CD reads all that it
// matches, and fails at a directory.
func globstar(repo render.Repository, pattern string) (func(name string) bool, error) {
	names, err := matching(repo, path.Clean(strings.TrimLeft(pattern, "/")))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if info, err := fs.Stat(repo.FS, repo.Path(name)); err == nil && info.IsDir() {
			return nil, fmt.Errorf("path matches the directory %s, which Argo CD can't read as a file", name)
		}
	}
	return func(name string) bool { return slices.Contains(names, name) }, nil
}

// matching returns what a pattern matches in a repository, in the order of Argo CD.
func matching(repo render.Repository, pattern string) ([]string, error) {
	fsys, err := fs.Sub(repo.FS, repo.Path("."))
	if err != nil {
		return nil, err
	}
	if pattern == "." { // which doublestar doesn't know
		return []string{"."}, nil
	}
	names, err := doublestar.Glob(fsys, pattern)
	if err != nil {
		return nil, errPattern
	}
	return names, nil
}

var errPattern = errors.New("is no valid pattern")

// globExpr converts a pattern of git to a regular expression.
func globExpr(pattern string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			b.WriteString(".*")
		case c == '?':
			b.WriteString(".")
		case c == '[':
			end := strings.IndexByte(pattern[min(i+2, len(pattern)):], ']')
			if end < 0 {
				return "", errPattern
			}
			class := pattern[i+1 : i+2+end]
			if class[0] == '!' || class[0] == '^' {
				class = "^" + class[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(class, `\`, `\\`) + "]")
			i += end + 2
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	return b.String(), nil
}
