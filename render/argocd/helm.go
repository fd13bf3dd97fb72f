package argocd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/strvals"

	"github.com/preadmit/preadmit/render"
	mergevalues "github.com/preadmit/preadmit/render/internal/values"
)

// inlineValues is the name, in the tree's root, of the file with the values
// written in the Application.
const inlineValues = ".preadmit-argocd-values"

// helm renders a chart in the tree.
func (d *deployment) helm(l *located) ([]*render.Object, error) {
	options := l.Helm
	if options == nil {
		options = &helmOptions{}
	}
	r := &release{d: d, located: l, env: newEnvironment(d.object.GetName(), d.spec, &l.source), overlay: render.NewOverlay(l.repo.FS, nil)}
	r.helm = render.Helm{
		Version: d.helmVersion(), ReleaseName: options.ReleaseName, SkipCRDs: options.SkipCrds, SkipTests: true, SkipSchema: options.SkipSchemaValidation,
		KubeVersion: options.KubeVersion, APIVersions: options.APIVersions,
	}
	if v := options.Version; v != "" && v != "v3" && v != "v4" {
		return nil, l.errorAt("/helm/version", fmt.Errorf("Argo CD doesn't support version %s of Helm", v))
	}
	r.helm.ReleaseName = cmp.Or(r.helm.ReleaseName, d.object.GetName())
	r.helm.KubeVersion = cmp.Or(r.helm.KubeVersion, d.target.KubeVersion)
	if len(r.helm.APIVersions) == 0 {
		r.helm.APIVersions = d.world.APIVersions(d.target, d.object, l.repo.FS, l.root())
	}
	namespace := d.spec.Destination.Namespace
	if options.Namespace != "" {
		namespace = options.Namespace
	}
	r.files(options)
	r.inline(options)
	r.parameters(options)
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	d.unit.Release, d.unit.Values = r.helm.ReleaseName, r.values
	return d.rendered(l, r.overlay, render.Source{Kind: kindHelm, Namespace: namespace, Helm: &r.helm})
}

// helmVersion returns the version of Helm that is part of Argo CD: since 3.5 it is 4.
func (d *deployment) helmVersion() string {
	switch version := d.world.Cluster.ArgoCDVersion; {
	case render.Since(version, 3, 6):
		return "v4.3.1"
	case render.Since(version, 3, 5):
		return "v4.2.1"
	}
	return ""
}

// A release collects the parameters for rendering a chart.
type release struct {
	*located
	d       *deployment
	env     environment
	overlay *render.Overlay
	helm    render.Helm
	values  map[string]any // merged values, without the chart's own
	errs    []error
}

func (r *release) fail(pointer string, err error) { r.errs = append(r.errs, r.errorAt(pointer, err)) }

// add adds a values file.
func (r *release) add(name string, values map[string]any) {
	r.helm.ValueFiles = append(r.helm.ValueFiles, name)
	r.values = mergevalues.Merge(r.values, values)
}

// files finds the values files, in order. A file that several entries name counts once: where it is
// named without a pattern, else at the first one.
func (r *release) files(options *helmOptions) {
	type entry struct {
		repo *located
		name string
		err  error
	}
	type file struct{ url, name string }
	entries := make([]entry, len(options.ValueFiles))
	explicit, seen := make(map[file]bool), make(map[file]bool)
	for i, text := range options.ValueFiles {
		e := &entries[i]
		if e.repo, e.name, e.err = r.resolve(text); e.err == nil && !isGlob(e.name) {
			explicit[file{e.repo.RepoURL, e.name}] = true
			r.askForClusters(e.repo, e.name, i)
		}
	}
	for i, e := range entries {
		names := []string{e.name}
		if e.err == nil && isGlob(e.name) {
			names, e.err = matching(e.repo.repo, e.name)
		}
		if e.err != nil {
			r.fail(render.Pointer("helm", "valueFiles", i), e.err)
			continue
		}
		r.include(e.repo, names, i, options, func(name string) bool {
			f := file{e.repo.RepoURL, name}
			skip := seen[f] || isGlob(e.name) && explicit[f]
			seen[f] = seen[f] || !skip
			return skip
		})
	}
}

// askForClusters asks how the Application of each cluster differs that has a values file where entry i names one
// for in-cluster.
func (r *release) askForClusters(repo *located, name string, i int) {
	if !strings.Contains(name, inCluster) || !r.d.forAnyCluster() {
		return
	}
	others, _ := matching(repo.repo, strings.ReplaceAll(name, inCluster, "*"))
	at, n := strings.Index(name, inCluster), strings.Count(name, inCluster)
	for _, other := range others {
		length := (len(other) - len(name) + n*len(inCluster)) / n // of the cluster's name
		if length <= 0 {
			continue
		}
		if cluster := other[at : at+length]; cluster != inCluster && other == strings.ReplaceAll(name, inCluster, cluster) {
			r.d.world.Ask(render.Question{Subject: render.AsksCluster, API: cluster, Span: r.errorAt(render.Pointer("helm", "valueFiles", i), nil).Span})
		}
	}
}

func isGlob(name string) bool { return strings.ContainsAny(name, "*?[") }

// noValues returns an error for an entry of valueFiles that matches no file.
func noValues(entry string, names []string) error {
	ref, _, _ := strings.Cut(entry, "/")
	switch {
	case isGlob(entry):
		return fmt.Errorf("no values file matches %s", entry)
	case strings.HasPrefix(entry, "$"):
		return fmt.Errorf("there is no values file %s: no source of the Application has the ref %s, or it has no such file", entry, ref[1:])
	}
	return fmt.Errorf("there is no values file %s", names[0])
}

// include adds values files of a repository, except those that skip returns true for.
func (r *release) include(repo *located, names []string, i int, options *helmOptions, skip func(name string) bool) {
	pointer := render.Pointer("helm", "valueFiles", i)
	found := 0
	for _, name := range names {
		file := repo.repo.Path(name)
		if _, err := fs.Stat(repo.repo.FS, file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found++
		if skip(name) {
			continue
		}
		if err := r.file(repo, file); err != nil {
			r.fail(pointer, err)
		}
	}
	if found == 0 && !options.IgnoreMissingValueFiles {
		r.fail(pointer, noValues(options.ValueFiles[i], names))
	}
}

// file adds one values file. A file of another repository is copied beside the
// chart and keeps its places.
func (r *release) file(repo *located, file string) error {
	data, err := render.ReadFile(repo.repo.FS, file)
	if err != nil {
		return err
	}
	docs, err := render.Documents(file, data, render.YAML11)
	values := map[string]any{}
	if len(docs) > 0 {
		values, _ = docs[0].Value.(map[string]any)
	}
	if repo.RepoURL == r.RepoURL && repo.TargetRevision == r.TargetRevision {
		r.add(file, values) // the renderer reports errors
		return nil
	}
	if len(docs) == 0 {
		return err
	}
	name := inlineValues + "-ref-" + strconv.Itoa(len(r.helm.ValueFiles)) + ".yaml"
	positions := docs[0].Positions
	r.add(name, values)
	return r.overlay.Write(name, docs[0].Value, func(pointer string) []render.Origin {
		return render.WithRole(positions.At(pointer), render.Value)
	})
}

// resolve returns the repository of an entry of valueFiles or fileParameters,
// and the file's path from the root there.
func (r *release) resolve(entry string) (*located, string, error) {
	base, repo := r.dir, r.located
	if ref, rest, ok := strings.Cut(strings.TrimPrefix(entry, "$"), "/"); ok && strings.HasPrefix(entry, "$") {
		if found, err := r.d.ref(ref); err != nil {
			return nil, "", err
		} else if found != nil {
			repo, base, entry = found, ".", rest
		}
	}
	if namesCommit(entry) {
		return nil, "", errors.New("values file is named by the commit that Argo CD deploys, which is not known before the merge")
	}
	name := r.env.expand(entry)
	if scheme, _, ok := strings.Cut(name, "://"); ok {
		if scheme != "http" && scheme != "https" {
			return nil, "", fmt.Errorf("values file has a scheme that Argo CD doesn't allow: %s", scheme)
		}
		return r.fetchedFile(name)
	}
	if path.IsAbs(name) {
		base = "."
		name = strings.TrimLeft(name, "/")
	}
	name = path.Join(base, name)
	if !fs.ValidPath(name) {
		return nil, "", errors.New("values file lies outside of the repository")
	}
	return repo, name, nil
}

// fetchedFile returns a values file at a URL, if it was fetched.
func (r *release) fetchedFile(address string) (*located, string, error) {
	remote := render.NewRemote(render.URLFile, address, "", "")
	repo, err := r.d.world.Fetched(remote)
	if err != nil {
		e := &render.Error{Rule: "missing-values", Err: errors.New("values file is remote"), Missing: true}
		return nil, "", e.Needs(remote, err, "")
	}
	entries, err := fs.ReadDir(repo.FS, repo.Root)
	if err != nil || len(entries) != 1 {
		return nil, "", errors.New("values file that was fetched can't be read")
	}
	l := &located{source: source{RepoURL: remote.URL}, app: r.app, pointer: r.pointer, repo: repo, dir: "."}
	return l, entries[0].Name(), nil
}

// inline adds the values written in the Application: an object, else a text.
func (r *release) inline(options *helmOptions) {
	const name = inlineValues + ".yaml"
	if len(options.ValuesObject) > 0 && string(options.ValuesObject) != "null" {
		values, err := encode(options.ValuesObject)
		if err == nil {
			err = r.overlay.WriteFrom(name, values, optionPlaces{r.located, "/helm/valuesObject"})
		}
		if err != nil {
			r.fail("/helm/valuesObject", errors.New("valuesObject is no map"))
			return
		}
		r.add(name, values)
		return
	}
	if options.Values == "" {
		return
	}
	const pointer = "/helm/values"
	docs, err := render.Documents("", []byte(options.Values), render.YAML11)
	var values map[string]any
	if len(docs) > 0 {
		values, _ = docs[0].Value.(map[string]any)
	}
	if values == nil {
		if len(docs) > 0 && docs[0].Value != nil || err != nil {
			r.fail(pointer, errors.New("values is no YAML map"))
		}
		return
	}
	positions := docs[0].Positions
	err = r.overlay.Write(name, values, func(p string) []render.Origin {
		at := positions.At(p)
		return r.line(pointer, at[len(at)-1].Line-1, render.Value)
	})
	if err != nil {
		r.fail(pointer, err)
		return
	}
	r.add(name, values)
}

// parameters adds the values that `--set` and similar flags would set. They
// become a values file, so that a field leads to its parameter. Parameters that
// change an item of a list remain flags, since a file would replace the list.
func (r *release) parameters(options *helmOptions) {
	values, at := map[string]any{}, map[string]int{}
	given := map[string]any{} // by files and earlier parameters
	maps.Copy(given, render.Copy(r.values).(map[string]any))
	for _, force := range []bool{false, true} {
		for i, p := range options.Parameters {
			if p.ForceString == force && !overridden(options.Parameters, i) {
				r.parameter(p, i, given, values, at)
			}
		}
	}
	if len(values) > 0 {
		const name = inlineValues + "-parameters.yaml"
		err := r.overlay.WriteFrom(name, values, parameterPlaces{r.located, at})
		if err != nil {
			r.fail("/helm/parameters", err)
		}
		r.add(name, values)
	}
	for i, p := range options.FileParameters {
		repo, name, err := r.resolve(p.Path)
		if err == nil && (repo.RepoURL != r.RepoURL || repo.TargetRevision != r.TargetRevision) {
			name, err = r.copied(repo, name)
		} else if err == nil {
			name = repo.repo.Path(name)
		}
		if err != nil {
			r.fail(render.Pointer("helm", "fileParameters", i, "path"), err)
			continue
		}
		r.helm.SetFile = append(r.helm.SetFile, p.Name+"="+strings.ReplaceAll(name, ",", `\,`))
	}
}

// optionPlaces is the Provenance of values that are written in a field of the
// source.
type optionPlaces struct {
	l     *located
	field string
}

// At implements render.Provenance.
func (o optionPlaces) At(pointer string) []render.Origin { return o.l.values(o.field + pointer) }

// Line is called by [render.Object.Line].
func (o optionPlaces) Line(pointer string, n int) []render.Origin {
	return o.l.line(o.field+pointer, n, render.Value)
}

// Part is called by [render.Object.Part].
func (o optionPlaces) Part(pointer, part string) []render.Origin {
	return o.l.part(o.field+pointer, part)
}

// parameterPlaces is the Provenance of values that parameters set. at holds the
// parameters' indices by the pointers of the values.
type parameterPlaces struct {
	l  *located
	at map[string]int
}

// of returns the field of the source that sets a value.
func (p parameterPlaces) of(pointer string) string {
	for ; pointer != ""; pointer = pointer[:strings.LastIndexByte(pointer, '/')] {
		if i, ok := p.at[pointer]; ok {
			return render.Pointer("helm", "parameters", i, "value")
		}
	}
	return "/helm/parameters"
}

// At implements render.Provenance.
func (p parameterPlaces) At(pointer string) []render.Origin { return p.l.values(p.of(pointer)) }

// Part is called by [render.Object.Part].
func (p parameterPlaces) Part(pointer, part string) []render.Origin {
	return p.l.part(p.of(pointer), part)
}

// overridden reports whether a later parameter has the same name and kind.
func overridden(all []helmParameter, i int) bool {
	return slices.ContainsFunc(all[i+1:], func(p helmParameter) bool {
		return p.Name == all[i].Name && p.ForceString == all[i].ForceString
	})
}

// copied copies a file of another repository beside the chart.
func (r *release) copied(repo *located, name string) (string, error) {
	file := repo.repo.Path(name)
	data, err := render.ReadFile(repo.repo.FS, file)
	if err != nil {
		return "", err
	}
	target := inlineValues + "-file-" + strconv.Itoa(len(r.helm.SetFile))
	r.overlay.WriteText(target, data, []render.Origin{{Span: render.Span{File: file}, Role: render.Value}})
	return target, nil
}

func (r *release) parameter(p helmParameter, i int, given, values map[string]any, at map[string]int) {
	set := p.Name + "=" + commas(r.env.expand(p.Value))
	if namesCommit(p.Value) {
		r.helm.AtCommit = append(r.helm.AtCommit, p.Name[strings.LastIndexByte(p.Name, '.')+1:])
	}
	parse, into := strvals.Parse, strvals.ParseInto
	if p.ForceString {
		parse, into = strvals.ParseString, strvals.ParseIntoString
	}
	one, err := parse(set)
	if err != nil {
		r.fail(render.Pointer("helm", "parameters", i), errors.New("Helm can't parse this parameter"))
		return
	}
	if into(set, given) != nil {
		r.fail(render.Pointer("helm", "parameters", i), errors.New("Helm can't set this parameter: the values already hold something else than a map or list above it"))
		return
	}
	if strings.Contains(p.Name, "[") {
		if p.ForceString {
			r.helm.SetString = append(r.helm.SetString, set)
		} else {
			r.helm.Set = append(r.helm.Set, set)
		}
		return
	}
	maps.Copy(values, mergevalues.Merge(values, one))
	var leaves func(tree map[string]any, pointer string)
	leaves = func(tree map[string]any, pointer string) {
		for key, v := range tree {
			if m, ok := v.(map[string]any); ok && len(m) > 0 {
				leaves(m, pointer+render.Pointer(key))
			} else {
				at[pointer+render.Pointer(key)] = i
			}
		}
	}
	leaves(one, "")
}

var bareComma = regexp.MustCompile(`([^\\]),`)

// commas escapes the commas in a parameter's value, as Argo CD does, unless it
// is a list.
func commas(value string) string {
	if strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") {
		return value
	}
	return bareComma.ReplaceAllString(value, `$1\,`)
}
