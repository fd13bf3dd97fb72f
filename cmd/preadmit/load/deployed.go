package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/delivery"
	"github.com/preadmit/preadmit/render/git"
)

// A deployer finds the units that are deployed by GitOps objects or by the configuration, or else
// all units at the paths.
type deployer struct {
	*loader
	configuration *config.File
	declared      []*render.Unit // units to evaluate
	present       []*render.Unit // on the cluster without being evaluated
	found         []*render.Unit // at the paths
}

// deployed adds the units to evaluate to the input.
func (l *loader) deployed(ctx context.Context, o *Sources, args []string) error {
	s, err := o.readConfiguration(l.in.Tree)
	if err != nil {
		return err
	}
	if err := s.HasClusters(o.Clusters); err != nil {
		return err
	}
	l.in.Clusters = slices.DeleteFunc(s.RenderClusters(), func(c render.Cluster) bool { return !o.looksAt(c.Name) })
	d := &deployer{loader: l, configuration: s}
	if err := d.declare(ctx); err != nil {
		return config.InFile(s.Name, err)
	}
	if err := d.find(ctx, args); err != nil {
		return err
	}
	if err := config.InFile(s.Name, d.follow(ctx)); err != nil || len(s.Clusters) > 0 {
		return err
	}
	return l.in.hasClusters(o.Clusters)
}

// hasClusters returns an error if clusters are found in the tree, but one of names is not among
// them. If none is found it adds a note.
func (in *Input) hasClusters(names []string) error {
	found := slices.DeleteFunc(ClusterNames(in, &Input{Head: in.Others}), func(name string) bool { return name == "" })
	for _, name := range names {
		switch {
		case len(found) == 0:
			in.Notes = append(in.Notes, fmt.Sprintf("--cluster %s changes nothing: no cluster is declared in %s or found in the tree", name, config.Path))
		case !slices.Contains(found, name) && !in.Tree.Paired:
			return fmt.Errorf("--cluster %q: no such cluster in the tree; %s", name, render.Instead(name, found))
		}
	}
	return nil
}

// declare renders the clusters and deployments of the configuration.
func (d *deployer) declare(ctx context.Context) error {
	for _, c := range d.configuration.Clusters {
		entry, err := d.renderAt(ctx, c.Line, c.Entry)
		if err != nil {
			return err
		}
		with, err := d.renderAt(ctx, c.Line, c.With)
		if err != nil {
			return err
		}
		d.declareOn(c.Name, slices.Concat(entry, with))
		d.declared = append(d.declared, entry...)
		d.present = append(d.present, with...)
	}
	for _, x := range d.configuration.Deployments {
		units, err := d.deploy(ctx, x)
		if err != nil {
			return err
		}
		if err := d.distinct(x.Line, units); err != nil {
			return err
		}
		d.declared = append(d.declared, units...)
	}
	present := slices.DeleteFunc(slices.Clone(d.present), d.elsewhere)
	d.complain(present)
	d.in.Context = append(d.in.Context, present...)
	return nil
}

// distinct returns an error if a declared unit has the id of one that was declared before.
func (d *deployer) distinct(line int, units []*render.Unit) error {
	taken := make(map[string]bool)
	for _, u := range d.declared {
		taken[u.Identity()] = true
	}
	for _, u := range units {
		if id := u.Identity(); taken[id] {
			return config.Errorf(line, "deployments: another unit is called %q; give each a name", id)
		}
		taken[u.Identity()] = true
	}
	return nil
}

// declareOn sets the cluster of declared units, which several clusters may have alike, and
// their ids if there are several clusters.
func (d *deployer) declareOn(cluster string, units []*render.Unit) {
	onCluster(cluster, units)
	for _, u := range units {
		if len(d.configuration.Clusters) > 1 && cluster != "" {
			u.ID = cluster + ":" + u.Identity()
		}
	}
}

func onCluster(name string, units []*render.Unit) {
	for _, u := range units {
		u.Cluster = name
	}
}

// looksAt reports whether units of a cluster are evaluated.
func (o *Sources) looksAt(cluster string) bool {
	return len(o.Clusters) == 0 || slices.Contains(o.Clusters, cluster)
}

// elsewhere reports whether a unit is deployed to a cluster that is not
// evaluated. All clusters are followed all the same, so that such a unit does
// not count as undeployed.
func (d *deployer) elsewhere(u *render.Unit) bool {
	return u.Cluster != "" && !d.options.looksAt(u.Cluster)
}

// renderAt renders paths of the configuration, which are relative to the root.
func (d *deployer) renderAt(ctx context.Context, line int, paths []string) ([]*render.Unit, error) {
	srcs, err := d.sourcesAt(line, paths)
	if err != nil {
		return nil, err
	}
	return d.renderSources(ctx, srcs)
}

func (d *deployer) sourcesAt(line int, paths []string) ([]render.Source, error) {
	rooted := make([]string, len(paths))
	for i, p := range paths {
		rooted[i] = filepath.Join(d.in.Tree.Dir, filepath.FromSlash(p))
	}
	srcs, err := d.discover(rooted)
	if err != nil {
		return nil, config.Errorf(line, "%s", strings.ReplaceAll(err.Error(), d.in.Tree.Dir+string(filepath.Separator), ""))
	}
	return srcs, nil
}

// deploy renders a deployment of the configuration: each match of its path,
// once for each of its values files.
func (d *deployer) deploy(ctx context.Context, x config.Deployment) ([]*render.Unit, error) {
	name := cmp.Or(x.Cluster, d.configuration.Home())
	paths, err := d.glob(x)
	if err != nil {
		return nil, err
	}
	var all []*render.Unit
	for _, p := range paths {
		srcs, err := d.sourcesAt(x.Line, []string{p})
		if err != nil {
			return nil, err
		}
		srcs, ids, err := d.parameters(x, srcs, len(paths) > 1)
		if err != nil {
			return nil, err
		}
		units, err := d.renderSources(ctx, srcs)
		if err != nil {
			return nil, err
		}
		for i, u := range units {
			u.ID, u.State = ids[i], render.State(u.Status())
			if u.Kind == "helm" {
				u.Release = cmp.Or(u.Helm.ReleaseName, u.Name)
			}
		}
		all = append(all, units...)
	}
	d.declareOn(name, all)
	return all, d.unused(x, all)
}

// unused returns an error if a deployment has keys that none of its units uses.
func (d *deployer) unused(x config.Deployment, units []*render.Unit) error {
	charts := slices.DeleteFunc(slices.Clone(units), func(u *render.Unit) bool { return u.Kind != "helm" })
	given := x.Release != "" || x.ValuesEach != "" || len(x.Values) > 0 || len(x.Set) > 0
	switch {
	case len(units) == 0:
		return nil
	case given && len(charts) == 0:
		return config.Errorf(x.Line, "deployments: no chart is at %s, so release, values, values-each and set have no effect", x.Path)
	case x.ValuesEach != "" && !d.in.Tree.Paired && !slices.ContainsFunc(charts, func(u *render.Unit) bool { return len(u.Helm.ValueFiles) > len(x.Values) }):
		return config.Errorf(x.Line, "deployments: values-each: no file matches %s in %s", x.ValuesEach, x.Path)
	}
	return nil
}

// glob returns the directories, manifests and packed charts that match a
// deployment's path. As in a shell, a wildcard does not match a leading dot.
func (d *deployer) glob(x config.Deployment) ([]string, error) {
	if !strings.ContainsAny(x.Path, "*?[") {
		return []string{x.Path}, nil
	}
	pattern := path.Clean(x.Path)
	paths, err := fs.Glob(d.in.Tree, pattern)
	paths = slices.DeleteFunc(paths, func(p string) bool { return hiddenFrom(pattern, p) || !deployable(d.in.Tree, p) })
	switch {
	case err != nil:
		return nil, config.Errorf(x.Line, "deployments: path %q: %v", x.Path, err)
	case len(paths) == 0 && !d.in.Tree.Paired:
		return nil, config.Errorf(x.Line, "deployments: nothing is at %s", x.Path)
	}
	return paths, nil
}

// hiddenFrom reports whether an element of a path begins with a dot although the pattern's element
// does not.
func hiddenFrom(pattern, p string) bool {
	elements := strings.Split(pattern, "/")
	for i, e := range strings.Split(p, "/") {
		if strings.HasPrefix(e, ".") && !strings.HasPrefix(elements[i], ".") {
			return true
		}
	}
	return false
}

// deployable reports whether a path is a directory, or has the name of a manifest or a packed
// chart.
func deployable(tree fs.FS, p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".yaml", ".yml", ".json", ".tgz":
		return true
	}
	info, err := fs.Stat(tree, p)
	return err == nil && (info.IsDir() || strings.HasSuffix(p, ".tar.gz"))
}

// parameters sets a deployment's parameters in sources, and returns the unit
// ids.
func (d *deployer) parameters(x config.Deployment, srcs []render.Source, several bool) (all []render.Source, ids []string, err error) {
	for _, src := range srcs {
		src.Namespace = cmp.Or(x.Namespace, src.Namespace)
		id := src.Path
		if x.Name != "" {
			id = x.Name
			if several || len(srcs) > 1 {
				id += "/" + src.Path
			}
		}
		if src.Helm == nil || src.Kind != "helm" {
			all, ids = append(all, src), append(ids, id)
			continue
		}
		helm := *src.Helm
		helm.ReleaseName = cmp.Or(x.Release, helm.ReleaseName)
		helm.ValueFiles = slices.Concat(helm.ValueFiles, x.Values)
		helm.KubeVersion = cmp.Or(helm.KubeVersion, d.configuration.Cluster(x.Cluster).KubeVersion)
		set, places := d.configuration.HelmSet(x)
		helm.SetAt = append(make([]render.Span, len(helm.Set)), places...)
		helm.Set = slices.Concat(helm.Set, set)
		src.Helm = &helm
		if x.ValuesEach == "" {
			all, ids = append(all, src), append(ids, id)
			continue
		}
		each, names, err := d.valuesEach(x, src.Path)
		if err != nil {
			return nil, nil, err
		}
		if len(each) == 0 {
			all, ids = append(all, src), append(ids, id)
		}
		for i, file := range each {
			one, h := src, helm
			h.ValueFiles = append(slices.Clone(helm.ValueFiles), file)
			one.Helm = &h
			all, ids = append(all, one), append(ids, id+":"+names[i])
		}
	}
	return all, ids, nil
}

// valuesEach returns the values files that values-each matches from a chart's path, and their
// names in unit ids: the last elements of their paths, or the whole paths if two are equal.
func (d *deployer) valuesEach(x config.Deployment, chart string) (files, names []string, err error) {
	if files, err = fs.Glob(d.in.Tree, path.Join(config.GlobOf(chart), x.ValuesEach)); err != nil {
		return nil, nil, config.Errorf(x.Line, "deployments: values-each: %v", err)
	}
	for _, file := range files {
		if name := path.Base(file); slices.Contains(names, name) {
			return files, files, nil
		} else {
			names = append(names, name)
		}
	}
	return files, names, nil
}

// find renders the paths of the command line. With --gitops only, units at the paths are not needed
// if the configuration declares entries.
func (d *deployer) find(ctx context.Context, args []string) error {
	if d.options.GitOps == GitOpsOnly && d.configuration.HasEntries() {
		names, err := d.names(args)
		d.in.Walked = d.graph.Discover(d.in.Tree, names...)
		return err
	}
	srcs, err := d.discover(args)
	if err != nil {
		return err
	}
	d.in.Walked = d.walked
	taken := make(map[string]bool)
	for _, u := range d.declared {
		taken[u.Path] = true
	}
	srcs = slices.DeleteFunc(srcs, func(s render.Source) bool { return taken[s.Path] })
	if d.found, err = d.renderSources(ctx, srcs); err != nil {
		return err
	}
	onCluster(d.configuration.Home(), d.found)
	if len(d.configuration.Clusters) == 0 && d.options.GitOps != GitOpsOff {
		d.in.ClusterDirs = inferClusters(d.found, d.options.Resolvers(), d.options.ClustersThere)
	}
	return nil
}

// follow follows the GitOps objects in rendered units, and collects the units
// to evaluate.
func (d *deployer) follow(ctx context.Context) error {
	leaves := func(o *render.Object) bool { why, _ := delivery.LeavesAlone(o); return why != "" }
	f := render.Follower{Clusters: d.configuration.RenderClusters(), Several: len(d.options.ClustersThere.above) > 0, Leaves: leaves}
	if d.options.GitOps != GitOpsOff {
		f.Resolvers = d.options.Watch.Resolvers(d.options.Resolvers(), d.in.Tree.side())
		if d.in.Graph != nil {
			f.Resolvers = d.in.Graph.Resolvers(f.Resolvers)
		}
		outside, err := newCheckouts(d.options, d.in.Tree, d.configuration, render.Graph{Renderers: d.options.Progress.renderers(d.options.Renderers()), Store: d.in.Tree.Store})
		if err != nil {
			return err
		}
		f.Outside = outside
	}
	var err error
	present := slices.Concat(d.declared, d.present, d.given())
	d.in.Deployed, err = f.Follow(ctx, present, slices.DeleteFunc(slices.Clone(d.found), func(u *render.Unit) bool { return d.options.Dropped[u.Path] != "" }))
	if tasks.IsTimeUp(ctx, err) {
		d.in.Deployed, err = &render.Deployment{}, nil
		d.in.Found = append(d.in.Found, policy.Incomplete(context.Cause(ctx).Error()+": Argo CD and Flux objects are not followed", "")...)
	}
	if err != nil {
		return err
	}
	d.in.Found = append(d.in.Found, policy.Errors(policy.EngineRender, nil, d.in.Deployed.Err)...)
	d.objects = BoundObjects(d.in.Deployed.Units, d.objects, maxObjects) // those at paths are counted already
	units := d.units(f)
	if !d.options.Flat {
		held := heldUnits(units, f)
		d.objects = BoundObjects(held, d.objects, maxObjects)
		units = append(units, held...)
	}
	for _, u := range units {
		if delivery.SetAside(u); d.elsewhere(u) {
			d.in.Others = append(d.in.Others, u)
		} else {
			d.in.Head = append(d.in.Head, u)
		}
	}
	d.absentModules()
	maps.DeleteFunc(d.in.Deployed.Roots, func(u *render.Unit, _ bool) bool { return d.elsewhere(u) })
	d.complain(d.in.Head)
	if d.options.GitOps == GitOpsOnly && len(d.in.Deployed.Units) == 0 && !d.configuration.HasEntries() {
		d.in.Notes = append(d.in.Notes, "--gitops only changes nothing: no object of Argo CD or Flux is at these paths, so everything in them is evaluated")
	}
	if d.options.chartFlag() == "" {
		d.in.Notes = append(d.in.Notes, rootCharts(d.in, d.found)...)
	}
	return nil
}

// absentModules adds an error to each deployed unit in whose directory a submodule lies that is not
// checked out. The error names the submodule's commit, so that another one is another error.
func (d *deployer) absentModules() {
	data, err := render.ReadFile(d.in.Tree, ".gitmodules")
	if err != nil {
		return
	}
	repo, err := git.Open(d.in.Tree.Dir)
	if err != nil {
		return // there is no repository
	}
	defer repo.Close()
	absent := repo.AbsentModules(d.in.Tree)
	for _, module := range slices.Sorted(maps.Keys(absent)) {
		commit := absent[module]
		if files, name, err := d.in.Tree.Locate("hash", module); err == nil {
			if base, ok := files.(*git.Tree); ok {
				commit, _ = base.Hash(name)
			}
		}
		before, _, _ := strings.Cut(string(data), "path = "+module)
		line := 1 + strings.Count(before, "\n")
		for _, u := range d.in.Head {
			if u.State == render.Unreached || u.Kind == "manifest" || !render.Below([]string{u.Path}, module) {
				continue
			}
			u.Err = errors.Join(u.Err, &render.Error{
				Span: render.Span{File: ".gitmodules", Line: line, Column: 1, EndLine: line, EndColumn: 1}, Rule: "absent-submodule", Missing: true,
				Err:  fmt.Errorf("the submodule %s at commit %.12s is not checked out, so what it holds is not checked", module, cmp.Or(commit, "unknown")),
				Hint: "run `git submodule update --init`",
			})
		}
	}
}

// heldUnits returns the units for objects that are contained in other objects. It leaves out
// policies, which may be for another cluster, and reports GitOps objects as not followed.
func heldUnits(units []*render.Unit, f render.Follower) []*render.Unit {
	all := render.Held(units)
	for _, u := range all {
		u.Objects = slices.DeleteFunc(u.Objects, func(o *render.Object) bool {
			e := &render.Error{Span: o.Span(""), Warning: true}
			what := fmt.Sprintf("%s %s, which %s holds", o.GetKind(), o.Key().Name, u.Owner.GetKind()+" "+u.Owner.Key().Name)
			switch {
			case lint.IsPolicy(o):
				e.Rule, e.Err = "held-policy", fmt.Errorf("%s, checks nothing here: it may be for another cluster", what)
			case f.Follows(o):
				e.Rule, e.Undecided, e.Err = "not-followed", true, fmt.Errorf("%s, is not followed: what it deploys is not checked", what)
			default:
				return false
			}
			u.Err = errors.Join(u.Err, e)
			return lint.IsPolicy(o)
		})
	}
	return all
}

// given returns the units of --with without those that the configuration declares, after setting
// their cluster to that of the tree's objects.
func (d *deployer) given() []*render.Unit {
	var all []*render.Unit
	for _, u := range d.in.Context {
		if u.Cluster == "" && !slices.Contains(d.present, u) {
			all = append(all, u)
		}
	}
	onCluster(d.configuration.Home(), all)
	return all
}

// units returns all units: those that objects deploy, those that the configuration
// declares, and those found in the tree that neither includes.
func (d *deployer) units(f render.Follower) []*render.Unit {
	made := d.in.Deployed.Units
	all := slices.Clone(made)
	builders := make(map[string]bool)
	for _, builder := range d.options.Dropped {
		builders[builder] = true
	}
	for _, u := range d.declared {
		if u.ID != "" || !d.in.Deployed.Reaches(&u.Source) {
			all = append(all, u)
		}
	}
	for _, u := range d.found {
		switch {
		case len(made) == 0 && !d.in.Walked.Beside(u.Path):
		case d.in.Deployed.Reaches(&u.Source):
			continue
		case !d.in.Deployed.Roots[u] && !d.in.Deployed.Sources[u] && !builders[u.Path] && !d.mayBeRoot(u, f):
			if d.options.GitOps == GitOpsOnly {
				continue
			}
			u.State = render.Unreached
		}
		all = append(all, u)
	}
	slices.SortStableFunc(all, func(a, b *render.Unit) int {
		return cmp.Or(compareReach(a, b), strings.Compare(a.Identity(), b.Identity()), strings.Compare(a.Kind, b.Kind))
	})
	return all
}

// mayBeRoot reports whether a manifest that can't be read seems to hold objects that f follows,
// judged by the kinds in its text. What these deploy is unknown, so the errors count.
func (d *deployer) mayBeRoot(u *render.Unit, f render.Follower) bool {
	if u.Kind != (render.Manifests{}).Kind() || len(render.Failures(u.Err)) == 0 {
		return false
	}
	data, err := fs.ReadFile(d.in.Tree, u.Path)
	return err == nil && slices.ContainsFunc(render.Headings(data), f.Follows)
}

// compareReach orders deployed units before those that nothing deploys. If objects have the same
// identity, the first one is taken as the one on the cluster.
func compareReach(a, b *render.Unit) int {
	switch last := b.State == render.Unreached; {
	case (a.State == render.Unreached) == last:
		return 0
	case last:
		return -1
	}
	return 1
}

// readConfiguration reads the configuration file. With a base it is the base's
// file, so that a change can't choose how it is evaluated.
func (o *Sources) readConfiguration(t *Tree) (*config.File, error) {
	if o.Configuration != nil {
		return o.Configuration, nil
	}
	file := config.Path
	if o.Config != "" {
		var err error
		if file, err = ConfigName(t, o.Config); err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
	}
	if o.Base != "" {
		b, err := OpenBase(t, o.Base)
		if err != nil {
			return nil, err
		}
		defer b.Repo.Close()
		t = b.Tree
	}
	s, err := config.Read(t, file)
	o.Configuration = s
	return s, err
}

// Unreached returns the units that nothing found in the tree deploys.
func (in *Input) Unreached() map[string]bool {
	all := make(map[string]bool)
	for _, u := range in.Head {
		if u.State == render.Unreached {
			all[u.Identity()] = true
		}
	}
	return all
}

// ConfigName returns the name in the tree of the file of --config. The file must exist in the work
// tree, but not in a base.
func ConfigName(t *Tree, path string) (string, error) {
	name, err := t.NameOf(path, nil)
	if err != nil {
		return "", err
	}
	if _, err = render.ReadFile(t, name); err != nil {
		return "", Places(t, err)
	}
	return name, nil
}

// rootCharts returns a note about charts with objects of Argo CD or Flux that
// nothing in the tree deploys. They are rendered with their own values, but a
// bootstrap script may use others.
func rootCharts(in *Input, found []*render.Unit) []string {
	var charts []string
	for _, u := range found {
		if u.Kind == "helm" && in.Deployed.Roots[u] {
			charts = append(charts, in.Tree.Display(u.Path))
		}
	}
	if len(charts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s with Argo CD or Flux objects that nothing found here deploys, rendered with default values: %s. If a person or script deploys with other values, name these under deployments in .preadmit/config.yaml",
		policy.Plural(len(charts), "chart"), policy.Few(charts))}
}
