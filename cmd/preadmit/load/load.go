// Package load renders the paths of a command line, and determines what is deployed to which
// cluster.
//
// Load takes Sources, which are the options of a run, and paths. It returns an Input, with
// the units to evaluate, the policies, the objects on the cluster, and results about files
// and units that could not be read or rendered. A comparison calls From for its other side.
//
//   - tree.go: the tree with fetched content; checkouts.go: other repositories
//   - deployed.go, clusters.go: the units that GitOps objects and the configuration deploy
//   - catalogue.go, rego.go: schemas, cluster descriptions, Rego modules
//   - cache.go: the cache of rendered units
//
// A comparison loads two trees, and each must see the files of
// its own side only, so everything is read through the Tree of the Input.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/git"
)

// An Input is everything a run has rendered.
type Input struct {
	Tree     *Tree
	Stdin    io.Reader
	Head     []*render.Unit   // units to evaluate
	Clusters []render.Cluster // declared clusters
	ClusterDirs
	Deployed *render.Deployment // by GitOps objects; has no units if there are none
	Given    []*render.Unit     // from --policy
	Modules  []rego.Module      // from --policy
	Data     []rego.Document
	Context  []*render.Unit // from --with
	Graph    *cache.Graph   // nil without a cache or base
	Skipped  []render.Skipped
	Found    []policy.Result // errors of loading
	Others   []*render.Unit  // units of other clusters, if this input is one cluster
	Anywhere []*render.Unit  // units with an unknown cluster, if this input is one cluster
	Partial  bool            // the paths are only a part of the tree; policies elsewhere in it are not read
	Notes    []string
	Assumed  []policy.Result // about templates that render more objects if an assumption is wrong

	Exempts       func(*render.Object) bool // objects whose state in the base counts, see change.Cluster
	Walked        render.Discovery          // of the paths of the command line
	Marked        map[string]bool           // set by Documents, for each of its files: whether it has the render.IgnoreMark
	treeDocuments []render.TreeDocument     // see Documents
}

// Load renders the paths of the command line.
func Load(ctx context.Context, o *Sources, args []string, stdin io.Reader) (*Input, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	t, err := Open(args)
	if err != nil {
		return nil, err
	}
	t.Edit(o.Texts)
	t.Paired, o.Configuration = o.Base != "", nil
	if !o.Again {
		o.Rendered = nil
	}
	if err := o.Confine(ctx, t, args, stdin); err != nil {
		return nil, err
	}
	o.Watch.Phase("rendering")
	if o.Watch.Disturbed() {
		o.Memory = nil // tasks that are skipped now may succeed in another run
	}
	in, err := From(ctx, o, t, args, stdin)
	if err != nil {
		return nil, err
	}
	if flag := o.chartFlag(); flag != "" && !slices.ContainsFunc(in.Head, func(u *render.Unit) bool { return u.Kind == "helm" }) {
		in.Notes = append(in.Notes, flag+" changes nothing: there is no chart among the paths")
	}
	for _, glob := range o.Selection.Exclude {
		if !in.excludes(glob) {
			in.Notes = append(in.Notes, "exclude "+glob+" changes nothing: no path in the repository matches it (paths begin at its root, * matches within a name, ** across directories)")
		}
	}
	return in, nil
}

// excludes reports whether a glob matches a path in the tree.
func (in *Input) excludes(glob string) bool {
	if slices.ContainsFunc(in.Skipped, func(s render.Skipped) bool { return s.Reason == "excluded by "+glob }) {
		return true // without another walk
	}
	only := render.Selection{Exclude: []string{glob}}
	found := false
	_ = fs.WalkDir(in.Tree, ".", func(name string, d fs.DirEntry, err error) error {
		if found = only.Excludes(name); found {
			return fs.SkipAll
		}
		if name == ".git" && err == nil && d.IsDir() {
			return fs.SkipDir
		}
		return nil // what can't be read is reported elsewhere
	})
	return found
}

// Confine opens the cache, and restricts the process to reading the tree and the files named on the
// command line.
func (o *Sources) Confine(ctx context.Context, t *Tree, args []string, stdin io.Reader) error {
	if err := o.OpenCache(ctx, t); err != nil {
		return err
	}
	if _, err := o.readConfiguration(t); err != nil {
		return err
	}
	read := Readable(t, stdin, o.named(t, args))
	if o.Store != "" {
		read = append(read, o.Store)
	}
	var err error
	o.Watch, err = o.Limits.Begin(ctx, read, o.Memory.dir(), o.Notes)
	return err
}

// From renders the paths of the command line in a tree. If two trees are
// compared, a path may be missing in one.
func From(ctx context.Context, o *Sources, t *Tree, args []string, stdin io.Reader) (*Input, error) {
	s, err := o.readConfiguration(t)
	if err != nil {
		return nil, err
	}
	if err := t.OpenStore(o.Store, s.Trust); err != nil {
		return nil, err
	}
	in := &Input{Tree: t, Stdin: stdin, Partial: !t.HoldsAll(args)}
	l := loader{in: in, stdin: stdin, options: o}
	l.graph, in.Graph = o.graph(t, args)
	if err := l.rego(o); err != nil {
		return nil, err
	}
	for _, p := range o.Policies {
		if strings.HasSuffix(p, ".rego") {
			continue
		}
		units, err := l.render(ctx, []string{p})
		if err != nil {
			return nil, err
		}
		l.holdPolicies(p, units)
		in.Given = append(in.Given, units...)
	}
	clusters, with, err := l.clusterResources(o.present(t))
	if err != nil {
		return nil, err
	}
	if in.Context, err = l.render(ctx, with); err != nil {
		return nil, err
	}
	in.Context = append(in.Context, clusters...)
	if err := l.deployed(ctx, o, args); err != nil {
		return in, err
	}
	l.catalogued(o.KubeVersion, s.Fetch.CRDs)
	in.Notes = append(in.Notes, t.unreadConfigurations(args)...)
	return in, nil
}

// present returns the paths of --with. With Sparse it leaves out addresses that are not fetched
// yet.
func (o *Sources) present(t *Tree) []string {
	if !o.Sparse {
		return o.With
	}
	return slices.DeleteFunc(slices.Clone(o.With), func(p string) bool {
		if !render.IsAddress(p) {
			return false
		}
		_, err := t.NameOf(p, nil)
		return err != nil
	})
}

type loader struct {
	objects int // rendered so far
	in      *Input
	stdin   io.Reader
	graph   rendering
	options *Sources
	walked  render.Discovery // by the last render
}

// render renders paths of the command line.
func (l *loader) render(ctx context.Context, paths []string) ([]*render.Unit, error) {
	sources, err := l.discover(paths)
	if err != nil {
		return nil, err
	}
	units, err := l.renderSources(ctx, sources)
	l.complain(units)
	return units, err
}

// discover finds the sources at paths of the command line.
func (l *loader) discover(paths []string) ([]render.Source, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	names, err := l.names(paths)
	if err != nil {
		return nil, err
	}
	found := l.graph.Discover(l.in.Tree, names...)
	l.walked = found
	if len(found.NotFound) > 0 && !l.in.Tree.Paired {
		return nil, NotFound(l.in.Tree.Display(found.NotFound[0]), filepath.Join(l.in.Tree.Dir, filepath.FromSlash(found.NotFound[0])))
	}
	l.in.Skipped = append(l.in.Skipped, found.Skipped...)
	l.in.Found = append(l.in.Found, policy.Errors(policy.EngineRender, nil, found.Err)...)
	return found.Sources, l.options.apply(l.in.Tree, l.stdin, found.Sources)
}

// names returns the names in the tree of paths of the command line.
func (l *loader) names(paths []string) ([]string, error) {
	names := make([]string, len(paths))
	for i, p := range paths {
		name, err := l.in.Tree.NameOf(p, l.stdin)
		if err != nil {
			return nil, err
		}
		names[i] = name
	}
	return names, nil
}

func (l *loader) renderSources(ctx context.Context, srcs []render.Source) ([]*render.Unit, error) {
	if len(srcs) == 0 {
		return nil, nil
	}
	l.options.Progress.expect(len(srcs))
	l.options.Watch.Expect(supervise.RenderTask, len(srcs))
	units, err := l.graph.Render(ctx, srcs...)
	if tasks.IsTimeUp(ctx, err) {
		err = nil
		cutShort(units, srcs, context.Cause(ctx))
	}
	if err == nil {
		l.objects = BoundObjects(units, l.objects, maxObjects)
	}
	return units, err
}

// cutShort sets an error in the units that were not rendered in time.
func cutShort(units []*render.Unit, srcs []render.Source, why error) {
	for i, u := range units {
		if u != nil && !errors.Is(u.Err, context.DeadlineExceeded) && !errors.Is(u.Err, context.Canceled) {
			continue
		}
		units[i] = &render.Unit{Source: srcs[i], Name: path.Base(srcs[i].Path), Err: &render.Error{
			Span: render.Span{File: srcs[i].Path}, Rule: policy.RuleOutOfTime, Err: fmt.Errorf("not rendered: %w", why),
		}}
	}
}

// TimeToRender returns a context that ends after three quarters of the run's
// time, so that the rest remains for evaluation.
func TimeToRender(ctx context.Context) (context.Context, context.CancelFunc) {
	until, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, until.Add(-time.Until(until)/4), errors.New("three quarters of --timeout are over, and the rest is for evaluating"))
}

// maxObjects limits the objects of a run.
const maxObjects = 500_000

// BoundObjects removes the units that would bring the total number of objects,
// including count, above most. It returns the new count.
func BoundObjects(units []*render.Unit, count, most int) int {
	for _, u := range units {
		if count+len(u.Objects) <= most {
			count += len(u.Objects)
			continue
		}
		u.Err = errors.Join(u.Err, &render.Error{
			Span: render.Span{File: u.Path}, Rule: "too-many-objects",
			Err: fmt.Errorf("%s left out: a run evaluates %d", policy.Plural(len(u.Objects), "object"), most),
		})
		u.Objects = nil
	}
	return count
}

// complain adds the errors of rendering units to the results.
func (l *loader) complain(units []*render.Unit) {
	for _, u := range units {
		for _, r := range policy.Errors(policy.EngineRender, u, u.Err) {
			if r.Rule == render.AssumedVersion || r.Rule == render.AssumedRelease {
				l.in.Assumed = append(l.in.Assumed, r)
			} else {
				l.in.Found = append(l.in.Found, r)
			}
		}
	}
}

// holdPolicies adds an error if a path of --policy has no policies, because silence would look like
// a pass.
func (l *loader) holdPolicies(p string, units []*render.Unit) {
	name, _ := l.in.Tree.NameOf(p, l.stdin)
	if slices.ContainsFunc(render.Objects(units), lint.IsPart) || len(regoFiles(l.in.Tree, name)) > 0 {
		return
	}
	for _, u := range units {
		if u.Err != nil {
			return // their error is more specific
		}
	}
	l.in.Found = append(l.in.Found, policy.Errors(policy.EngineCompile, nil, &render.Error{
		Span: render.Span{File: name}, Rule: "no-policies", Err: errors.New("no policy was found here"),
		Hint: "give objects that policies need, such as parameters, by --with",
	})...)
}

// Side returns the input as one side of a comparison.
func (in *Input) Side() *change.Side {
	unread, _ := in.Unread()
	return &change.Side{
		Tree: in.Tree, Units: in.Head, Given: in.Given, Context: in.Context, Anywhere: in.Anywhere, Others: in.Others,
		Deployed: in.Deployed, Walked: in.Walked, Unread: unread, Documents: in.Documents,
	}
}

// Unread returns the files and directories that could not be read, each with the reason.
func (in *Input) Unread() (names, reasons []string) {
	for i := range in.Found {
		if r := &in.Found[i]; r.Object.Unit == "" && r.Outcome == policy.Error && r.Rule != render.UnfollowedTool && len(r.Origins) > 0 {
			names, reasons = append(names, r.Origins[0].File), append(reasons, r.Message)
		}
	}
	return names, reasons
}

// Unreadable returns a function that says why the objects in a file can't be known:
// the file is not YAML, for example encrypted, or it belongs to a submodule that is
// not checked out. A file that is no YAML at base either, such as a chart's template,
// hides nothing.
func (in *Input) Unreadable(repo *git.Repository, base fs.FS) func(file string) string {
	absent := repo.AbsentModules(in.Tree)
	left, _ := repo.LeftOut(in.Tree) // the error is reported during evaluation
	return func(file string) string {
		if _, is := slices.BinarySearch(left, file); is {
			return "left out of this sparse checkout"
		}
		for module := range absent {
			if strings.HasPrefix(file, module+"/") {
				return "in the submodule " + module + " now, which is not checked out"
			}
		}
		if render.Unreadable(in.Tree, file) && !render.Unreadable(base, file) && !in.rendersTemplate(file) {
			return "no YAML that can be read now, such as a file that is encrypted or binary"
		}
		return ""
	}
}

// rendersTemplate reports whether a file is a template of a chart that is rendered whole, so that an
// object of it that is not rendered is not deployed.
func (in *Input) rendersTemplate(file string) bool {
	return slices.ContainsFunc(in.Head, func(u *render.Unit) bool {
		inside, ok := strings.CutPrefix(file, strings.TrimPrefix(u.Path+"/", "./"))
		return ok && (u.Kind == "helm" || u.Renderer == "helm") && u.State != render.Unreached && len(render.Failures(u.Err)) == 0 && strings.Contains("/"+inside, "/templates/")
	})
}

// File reads a file of the command line. It returns the file's name in the tree, or "" on errors.
func (in *Input) File(p string) (name string, data []byte, err error) {
	if name, err = in.Tree.NameOf(p, in.Stdin); err != nil {
		return "", nil, err
	}
	data, err = render.ReadFile(in.Tree, name)
	return name, data, err
}

// Readable returns the directories that a run may read: the tree, the mounts of the named paths,
// and the directories of Git. Missing paths are left out; reading them later returns the error.
func Readable(t *Tree, stdin io.Reader, named []string) []string {
	for _, p := range named {
		if p != "" && p != "-" && !render.IsAddress(p) {
			_, _ = t.NameOf(p, stdin)
		}
	}
	dirs := append([]string{t.Dir}, git.Dirs(t.Dir)...)
	for _, m := range t.Mounts() {
		if m.Dir != "" {
			dirs = append(dirs, m.Dir)
		}
	}
	return dirs
}

// named returns the paths that the command line and the configuration name.
func (o *Sources) named(t *Tree, args []string) []string {
	paths := slices.Concat(args, o.Policies, o.With, o.Values, DataFiles(o.Data), []string{o.AsFile, o.Config, o.Suppressions, o.Authorizer})
	for _, kv := range o.SetFile {
		_, file, _ := strings.Cut(kv, "=")
		paths = append(paths, file)
	}
	for _, s := range o.Configuration.Sources {
		paths = append(paths, filepath.Join(t.Dir, filepath.FromSlash(s.Path)))
	}
	return paths
}

// Documents returns the states of the tree's documents, computed once.
func (in *Input) Documents() []render.TreeDocument {
	if in.treeDocuments == nil {
		in.treeDocuments, in.Marked = in.Walked.Documents(slices.Concat(in.Head, in.Others))
		in.Graph.Rest() // this was the last use of most files
	}
	return in.treeDocuments
}

// Without returns the input without some objects of its units.
func (in *Input) Without(left func(*render.Object) bool) *Input {
	less := *in
	for _, units := range []*[]*render.Unit{&less.Head, &less.Anywhere} {
		*units = slices.Clone(*units)
		for i, u := range *units {
			if slices.ContainsFunc(u.Objects, left) {
				copied := *u
				copied.Objects = slices.DeleteFunc(slices.Clone(u.Objects), left)
				(*units)[i] = &copied
			}
		}
	}
	return &less
}

// Only returns the objects for which holds returns true.
func Only(objects []*render.Object, holds func(*render.Object) bool) []*render.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o *render.Object) bool { return !holds(o) })
}
