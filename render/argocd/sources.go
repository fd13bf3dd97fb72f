package argocd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// A located is a source of an Application with the places of its fields.
type located struct {
	source
	app       *render.Object
	pointer   string // of the source in the Application
	overrides []override
	repo      render.Repository
	dir       string // the source's directory, from the repository's root
}

// An override is a file beside a source that changes its options, such as
// .argocd-source.yaml.
type override struct {
	value     any
	positions *render.Positions
}

// at returns where a field of the source is written.
func (l *located) at(pointer string) []render.Origin {
	for i := len(l.overrides) - 1; i >= 0; i-- {
		if _, ok := render.Lookup(l.overrides[i].value, pointer); ok {
			return l.overrides[i].positions.At(pointer)
		}
	}
	return l.app.At(l.pointer + pointer)
}

// values returns the places of a field as those of a value.
func (l *located) values(pointer string) []render.Origin {
	return render.WithRole(l.at(pointer), render.Value)
}

// line returns where line n, from 0, of a text is written, or else where the
// text is.
func (l *located) line(pointer string, n int, role render.Role) []render.Origin {
	for i := len(l.overrides) - 1; i >= 0; i-- {
		if _, ok := render.Lookup(l.overrides[i].value, pointer); ok {
			if places := l.overrides[i].positions.Line(pointer, n); len(places) > 0 {
				return render.WithRole(places, role)
			}
			return render.WithRole(l.overrides[i].positions.At(pointer), role)
		}
	}
	if places := l.app.Line(l.pointer+pointer, n); len(places) > 0 {
		return render.WithRole(places, role)
	}
	return render.WithRole(l.at(pointer), role)
}

// part returns the values that wrote a part of a text, if they are known.
func (l *located) part(pointer, part string) []render.Origin {
	for _, o := range l.overrides {
		if _, ok := render.Lookup(o.value, pointer); ok {
			return nil
		}
	}
	return render.WithRole(l.app.Part(l.pointer+pointer, part), render.Value)
}

// errorAt returns an error at a field of the source.
func (l *located) errorAt(pointer string, err error) *render.Error {
	var placed *render.Error
	if errors.As(err, &placed) && placed.Span != (render.Span{}) {
		return placed
	}
	e := &render.Error{Rule: "argocd-application", Err: err}
	if placed != nil {
		moved := *placed
		e = &moved
	}
	if places := l.at(pointer); len(places) > 0 {
		e.Span = places[0].Span
	}
	return e
}

// repositoryError adds the place to an error of World.Repository.
func (l *located) repositoryError(err error) *render.Error {
	var e *render.Error
	if errors.As(err, &e) && e.Rule == "missing-revision" && l.TargetRevision != "" {
		return l.errorAt("/targetRevision", err)
	}
	return l.errorAt("/repoURL", err)
}

// missing returns an error about something that is not in the tree.
func (l *located) missing(pointer, rule, hint string, err error) *render.Error {
	e := l.errorAt(pointer, err)
	e.Rule, e.Hint, e.Missing = rule, hint, true
	return e
}

// sources returns the sources of an Application that Argo CD renders: the dry source of
// sourceHydrator, or else those of sources, or else source.
func sources(o *render.Object, spec *applicationSpec) []*located {
	switch {
	case spec.SourceHydrator != nil:
		dry := spec.SourceHydrator.DrySource
		return []*located{{app: o, pointer: "/spec/sourceHydrator/drySource", source: source{
			RepoURL: dry.RepoURL, Path: dry.Path, TargetRevision: dry.TargetRevision,
			Helm: dry.Helm, Kustomize: dry.Kustomize, Directory: dry.Directory, Plugin: dry.Plugin,
		}}}
	case len(spec.Sources) > 0:
		all := make([]*located, len(spec.Sources))
		for i, s := range spec.Sources {
			all[i] = &located{app: o, pointer: render.Pointer("spec", "sources", i), source: s}
		}
		return all
	case spec.Source != nil:
		return []*located{{app: o, pointer: "/spec/source", source: *spec.Source}}
	}
	return nil
}

// open finds the directory of a source, and applies the files beside it that
// change its options.
func (l *located) open(w *render.World, name string) error {
	switch {
	case l.Chart != "":
		return l.fetched(w, "/chart", "remote-chart", l.remoteChart())
	case strings.HasPrefix(l.RepoURL, "oci://"):
		if err := l.fetched(w, "/repoURL", "remote-artifact", render.NewRemote(render.OCIArtifact, l.RepoURL, "", l.TargetRevision)); err != nil {
			return err
		}
		return l.directory()
	}
	var err error
	if l.repo, err = w.Repository(l.RepoURL, l.TargetRevision); err != nil {
		return l.repositoryError(err)
	}
	if err := l.directory(); err != nil {
		return err
	}
	return l.override(name)
}

// remoteChart returns the source's chart. Argo CD writes registries without a
// scheme.
func (l *located) remoteChart() *render.Remote {
	address := l.RepoURL
	if !strings.Contains(address, "://") {
		address = "oci://" + address
	}
	return render.NewChart(address, l.Chart, l.TargetRevision)
}

// fetched opens a source outside of the tree, if it was fetched.
func (l *located) fetched(w *render.World, pointer, rule string, remote *render.Remote) error {
	repo, err := w.Fetched(remote)
	if err != nil {
		e := l.errorAt(pointer, fmt.Errorf("%s is not in the tree", remote))
		e.Rule = rule
		return e.Needs(remote, err, "")
	}
	l.repo, l.dir = repo, "."
	return nil
}

// directory finds the source's directory in its repository.
func (l *located) directory() error {
	l.dir = path.Clean(l.Path)
	if path.IsAbs(l.Path) || strings.HasPrefix(l.dir, "../") || l.dir == ".." {
		return l.errorAt("/path", fmt.Errorf("path leads out of the repository: %s", l.Path))
	}
	if info, err := fs.Stat(l.repo.FS, l.root()); err != nil || !info.IsDir() {
		return l.errorAt("/path", fmt.Errorf("there is no directory %s in the repository", l.dir))
	}
	return nil
}

// root returns the source's directory in the repository's tree.
func (l *located) root() string { return l.repo.Path(l.dir) }

// override merges .argocd-source.yaml and .argocd-source-NAME.yaml into the
// options of the source. They can't change its location.
func (l *located) override(name string) error {
	for _, file := range []string{".argocd-source.yaml", ".argocd-source-" + name + ".yaml"} {
		file = path.Join(l.root(), file)
		if info, err := fs.Stat(l.repo.FS, file); err != nil || info.IsDir() {
			continue
		}
		data, err := render.ReadFile(l.repo.FS, file)
		if err != nil {
			return err
		}
		docs, _ := render.Documents(file, data, render.YAML11)
		merged, err := mergeOverride(l.source, data)
		if err != nil {
			return &render.Error{Span: render.Span{File: file}, Rule: "argocd-application", Err: errors.New("file is no source of an Application that Argo CD could merge")}
		}
		merged.Chart, merged.Path, merged.RepoURL, merged.TargetRevision = l.Chart, l.Path, l.RepoURL, l.TargetRevision
		l.source = merged
		if len(docs) > 0 {
			l.overrides = append(l.overrides, override{docs[0].Value, docs[0].Positions})
		}
	}
	return nil
}

func mergeOverride(s source, data []byte) (merged source, err error) {
	base, err := json.Marshal(s)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(base, &merged); err != nil { // what the file sets to null stays
		return s, err
	}
	patch, err := yaml.YAMLToJSON(data)
	if err != nil {
		return s, err
	}
	if base, err = jsonpatch.MergePatch(base, patch); err != nil {
		return s, err
	}
	return merged, json.Unmarshal(base, &merged)
}

// The kinds of sources, as in the graph.
const (
	kindHelm      = "helm"
	kindKustomize = "kustomize"
	kindDirectory = "directory"
	kindPlugin    = "plugin"
)

// kind returns the kind of source: the one whose options are set, else the one
// that its directory contains. enabled reports the kinds that Argo CD renders.
func (l *located) kind(enabled func(kind string) bool) (string, error) {
	kind, err := l.explicit()
	if err != nil {
		return "", err
	}
	if kind == "" {
		kind = l.discovered(enabled)
	}
	if kind != kindPlugin && !enabled(kind) {
		return kindDirectory, nil
	}
	return kind, nil
}

// explicit returns the kind whose options are set. Empty options don't count.
func (l *located) explicit() (string, error) {
	var kinds []string
	if h := l.Helm; h != nil && !emptyOptions(h) {
		kinds = append(kinds, kindHelm)
	}
	if k := l.Kustomize; k != nil && !emptyOptions(k) {
		kinds = append(kinds, kindKustomize)
	}
	if d := l.Directory; d != nil && (d.Recurse || d.Include != "" || d.Exclude != "" || !emptyOptions(&d.Jsonnet)) {
		kinds = append(kinds, kindDirectory)
	}
	if l.Plugin != nil {
		kinds = append(kinds, kindPlugin)
	}
	switch len(kinds) {
	case 0:
		return "", nil
	case 1:
		return kinds[0], nil
	}
	return "", l.errorAt("/"+kinds[1], fmt.Errorf("source has options of %s; Argo CD allows only one kind", strings.Join(kinds, " and of ")))
}

func emptyOptions(options any) bool {
	tree, err := encode(options)
	return err == nil && len(tree) == 0
}

func (l *located) discovered(enabled func(kind string) bool) string {
	kind := kindDirectory
	entries, err := fs.ReadDir(l.repo.FS, l.root())
	if err != nil {
		return kind
	}
	for _, e := range entries { // the last one wins
		switch {
		case strings.HasSuffix(e.Name(), "Chart.yaml") && enabled(kindHelm):
			kind = kindHelm
		case slices.Contains(kustomizationFiles, e.Name()) && enabled(kindKustomize):
			kind = kindKustomize
		}
	}
	return kind
}

var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// An environment holds the values of `$NAME` and `${NAME}` in options.
type environment map[string]string

// revision replaces the commit that Argo CD deploys, which is not known before
// the merge. It is the same before and after a change.
const revision = "0000000000000000000000000000000000000000"

func newEnvironment(name string, spec *applicationSpec, s *source) environment {
	return environment{
		"ARGOCD_APP_NAME": name, "ARGOCD_APP_NAMESPACE": spec.Destination.Namespace, "ARGOCD_APP_PROJECT_NAME": spec.Project,
		"ARGOCD_APP_REVISION": revision, "ARGOCD_APP_REVISION_SHORT": revision[:7], "ARGOCD_APP_REVISION_SHORT_8": revision[:8],
		"ARGOCD_APP_SOURCE_REPO_URL": s.RepoURL, "ARGOCD_APP_SOURCE_PATH": s.Path,
		"ARGOCD_APP_SOURCE_TARGET_REVISION": s.TargetRevision,
	}
}

// namesCommit reports whether a text names a variable that holds the commit.
func namesCommit(text string) (found bool) {
	os.Expand(text, func(name string) string {
		found = found || strings.HasPrefix(name, "ARGOCD_APP_REVISION")
		return ""
	})
	return found
}

// expand expands variables in a text. `$$` becomes `$`, and an unknown variable
// "".
func (e environment) expand(text string) string {
	return os.Expand(text, func(name string) string {
		if name == "$" {
			return "$"
		}
		return e[name]
	})
}
