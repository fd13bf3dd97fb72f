package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// An input is everything a run has rendered.
type input struct {
	tree     *tree
	stdin    io.Reader
	head     []*render.Unit     // what is evaluated
	clusters []render.Cluster   // that are declared
	deployed *render.Deployment // by GitOps objects; without units where there are none
	given    []*render.Unit     // from --policy
	modules  []rego.Module      // from --policy
	data     []rego.Document
	context  []*render.Unit // from --with
	graph    *cache.Graph   // nil where nothing is kept between runs
	skipped  []render.Skipped
	found    []policy.Result // what went wrong on the way
	others   []*render.Unit  // of other clusters, where this is one
	anywhere []*render.Unit  // whose cluster is unknown, if this input is one cluster
	notes    []string
	assumed  []policy.Result // about templates that write more where an assumption does not hold

	exempts       func(*render.Object) bool // what counts as the base has it, see change.Cluster
	walked        render.Discovery          // of the paths of the command line
	treeDocuments []render.TreeDocument     // see documents
}

// load renders what the command line names.
func load(ctx context.Context, o *loadOptions, args []string, stdin io.Reader) (*input, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	t, err := openTree(args)
	if err != nil {
		return nil, err
	}
	t.Edit(o.texts)
	t.Paired, o.configuration = o.base != "", nil
	if err := o.confine(ctx, t, args, stdin); err != nil {
		return nil, err
	}
	o.watch.Phase("rendering")
	if o.watch.Disturbed() {
		o.memory = nil // what is set apart now may be done another time
	}
	in, err := loadFrom(ctx, o, t, args, stdin)
	if err != nil {
		return nil, err
	}
	if flag := o.chartFlag(); flag != "" && !slices.ContainsFunc(in.head, func(u *render.Unit) bool { return u.Kind == "helm" }) {
		in.notes = append(in.notes, flag+" changes nothing: there is no chart among the paths")
	}
	return in, nil
}

// confine opens the cache and confines the process to reading the tree and what is
// named.
func (o *loadOptions) confine(ctx context.Context, t *tree, args []string, stdin io.Reader) error {
	if err := o.openCache(ctx, t); err != nil {
		return err
	}
	if _, err := o.readConfiguration(t); err != nil {
		return err
	}
	read := readable(t, stdin, o.named(t, args))
	if o.store != "" {
		read = append(read, o.store)
	}
	var err error
	o.watch, err = o.Limits.Begin(ctx, read, o.memory.dir(), o.notes)
	return err
}

// loadFrom renders what the command line names from a tree. In one of two that
// are compared a name may be missing.
func loadFrom(ctx context.Context, o *loadOptions, t *tree, args []string, stdin io.Reader) (*input, error) {
	s, err := o.readConfiguration(t)
	if err != nil {
		return nil, err
	}
	if err := t.openStore(o.store, s.Trust); err != nil {
		return nil, err
	}
	in := &input{tree: t, stdin: stdin}
	l := loader{in: in, stdin: stdin, options: o}
	l.graph, in.graph = o.graph(t, args)
	if err := l.rego(o); err != nil {
		return nil, err
	}
	for _, p := range o.policies {
		if strings.HasSuffix(p, ".rego") {
			continue
		}
		units, err := l.render(ctx, []string{p})
		if err != nil {
			return nil, err
		}
		l.holdPolicies(p, units)
		in.given = append(in.given, units...)
	}
	clusters, with, err := l.clusterResources(o.present(t))
	if err != nil {
		return nil, err
	}
	if in.context, err = l.render(ctx, with); err != nil {
		return nil, err
	}
	in.context = append(in.context, clusters...)
	if err := l.deployed(ctx, o, args); err != nil {
		return in, err
	}
	l.catalogued(o.kubeVersion, s.Fetch.CRDs)
	return in, nil
}

// present are the paths of --with, for graph without those that are still to be
// fetched.
func (o *loadOptions) present(t *tree) []string {
	if !o.sparse {
		return o.with
	}
	return slices.DeleteFunc(slices.Clone(o.with), func(p string) bool {
		if !render.IsAddress(p) {
			return false
		}
		_, err := t.name(p, nil)
		return err != nil
	})
}

type loader struct {
	objects int // rendered so far
	in      *input
	stdin   io.Reader
	graph   rendering
	options *loadOptions
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
	found := l.graph.Discover(l.in.tree, names...)
	l.walked = found
	if len(found.NotFound) > 0 && !l.in.tree.Paired {
		return nil, notFound(l.in.tree.Display(found.NotFound[0]), filepath.Join(l.in.tree.Dir, filepath.FromSlash(found.NotFound[0])))
	}
	l.in.skipped = append(l.in.skipped, found.Skipped...)
	l.in.found = append(l.in.found, policy.Errors(policy.EngineRender, nil, found.Err)...)
	return found.Sources, l.options.apply(l.in.tree, l.stdin, found.Sources)
}

// names are the names in the tree of paths of the command line.
func (l *loader) names(paths []string) ([]string, error) {
	names := make([]string, len(paths))
	for i, p := range paths {
		name, err := l.in.tree.name(p, l.stdin)
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
	l.options.progress.expect(len(srcs))
	l.options.watch.Expect(supervise.RenderTask, len(srcs))
	units, err := l.graph.Render(ctx, srcs...)
	if tasks.IsTimeUp(ctx, err) {
		err = nil
		cutShort(units, srcs, context.Cause(ctx))
	}
	if err == nil {
		l.objects = boundObjects(units, l.objects, maxObjects)
	}
	return units, err
}

// cutShort gives the units that were not rendered when the time was over an
// error that says so.
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

// timeToRender leaves a quarter of a run's time for evaluating what is rendered
// by then.
func timeToRender(ctx context.Context) (context.Context, context.CancelFunc) {
	until, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, until.Add(-time.Until(until)/4), errors.New("three quarters of --timeout are over, and the rest is for evaluating"))
}

// maxObjects bounds the objects of a run.
const maxObjects = 500_000

// boundObjects leaves out the units whose objects would be more than most
// together with the count of those before, and returns the count.
func boundObjects(units []*render.Unit, count, most int) int {
	for _, u := range units {
		if count+len(u.Objects) <= most {
			count += len(u.Objects)
			continue
		}
		u.Err = errors.Join(u.Err, &render.Error{
			Span: render.Span{File: u.Path}, Rule: "too-many-objects",
			Err: fmt.Errorf("its %d objects are left out: a run evaluates %d", len(u.Objects), most),
		})
		u.Objects = nil
	}
	return count
}

// complain notes what went wrong in rendering units.
func (l *loader) complain(units []*render.Unit) {
	for _, u := range units {
		for _, r := range policy.Errors(policy.EngineRender, u, u.Err) {
			if r.Rule == render.AssumedVersion || r.Rule == render.AssumedRelease {
				l.in.assumed = append(l.in.assumed, r)
			} else {
				l.in.found = append(l.in.found, r)
			}
		}
	}
}

// holdPolicies says that a path given for its policies has none: silence would
// look like a verdict.
func (l *loader) holdPolicies(p string, units []*render.Unit) {
	name, _ := l.in.tree.name(p, l.stdin)
	if slices.ContainsFunc(render.Objects(units), lint.IsPart) || len(regoFiles(l.in.tree, name)) > 0 {
		return
	}
	for _, u := range units {
		if u.Err != nil {
			return // which says more
		}
	}
	l.in.found = append(l.in.found, policy.Errors(policy.EngineCompile, nil, &render.Error{
		Span: render.Span{File: name}, Rule: "no-policies", Err: errors.New("no policy was found here"),
		Hint: "objects that policies need, such as parameters, come with --with",
	})...)
}

// side returns the input as one side of a comparison.
func (in *input) side() *change.Side {
	return &change.Side{
		Tree: in.tree, Units: in.head, Given: in.given, Context: in.context, Anywhere: in.anywhere,
		Deployed: in.deployed, Unread: in.unread(),
	}
}

// unread are the files and directories that could not be read.
func (in *input) unread() []string {
	var names []string
	for i := range in.found {
		if r := &in.found[i]; r.Object.Unit == "" && r.Outcome == policy.Error && len(r.Origins) > 0 {
			names = append(names, r.Origins[0].File)
		}
	}
	return names
}

// unreadable returns a function that says why a file may hold objects which
// can't be seen: it is no YAML, such as an encrypted file, or belongs to a
// submodule that is not checked out.
func (in *input) unreadable(repo *git.Repository) func(file string) string {
	absent := repo.AbsentModules(in.tree)
	return func(file string) string {
		for _, module := range absent {
			if strings.HasPrefix(file, module+"/") {
				return "in the submodule " + module + " now, which is not checked out"
			}
		}
		if render.Unreadable(in.tree, file) {
			return "no YAML that can be read now, such as a file that is encrypted or binary"
		}
		return ""
	}
}

// file reads a file that the command line names. The name is "" when there is
// none.
func (in *input) file(p string) (name string, data []byte, err error) {
	if name, err = in.tree.name(p, in.stdin); err != nil {
		return "", nil, err
	}
	data, err = render.ReadFile(in.tree, name)
	return name, data, err
}

// readable are the directories that a run reads: the tree with what is named
// beside it, and those of Git. What can't be found is left to whoever looks for
// it again and says so.
func readable(t *tree, stdin io.Reader, named []string) []string {
	for _, p := range named {
		if p != "" && p != "-" && !render.IsAddress(p) {
			_, _ = t.name(p, stdin)
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

// named are the paths that the command line and the configuration name.
func (o *loadOptions) named(t *tree, args []string) []string {
	paths := slices.Concat(args, o.policies, o.with, o.values, dataFiles(o.data), []string{o.asFile, o.config, o.suppressions, o.authorizer})
	for _, kv := range o.setFile {
		_, file, _ := strings.Cut(kv, "=")
		paths = append(paths, file)
	}
	for _, s := range o.configuration.Sources {
		paths = append(paths, filepath.Join(t.Dir, filepath.FromSlash(s.Path)))
	}
	return paths
}

// documents says, once, what happens to the documents of the tree.
func (in *input) documents() []render.TreeDocument {
	if in.treeDocuments == nil {
		in.treeDocuments = in.walked.Documents(slices.Concat(in.head, in.others))
	}
	return in.treeDocuments
}

// only returns the objects for which something holds.
func only(objects []*render.Object, holds func(*render.Object) bool) []*render.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o *render.Object) bool { return !holds(o) })
}
