package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/git"
	"github.com/preadmit/preadmit/report"
)

// changeFlags say what to compare with.
type changeFlags struct {
	base            string
	requireComplete bool
}

func (o *changeFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.base, "base", "", "compare with git revision `REV` and evaluate the change by the policies there; only new failures count")
	f.BoolVar(&o.requireComplete, "require-complete", false, "exit 3 if anything could not be rendered or decided, even if it was so at --base")
}

// change judges the change from --base, and returns what is there.
func (j *evaluation) change(ctx context.Context, o *checkOptions, in *input, args []string, stdin io.Reader, s benchOptions) (*input, error) {
	b, err := openBase(in.tree, o.base)
	if err != nil {
		return nil, err
	}
	if err := b.load(ctx, o, args, stdin); err != nil {
		return nil, err
	}
	if err := b.held(in.tree, slices.Concat(args, o.policies, o.with)...); err != nil {
		return nil, err
	}
	j.base = &report.Base{Revision: o.base, Commit: b.commit}
	j.shard.divide(b.in, in)
	err = j.eachCluster(ctx, s, b.in, in, func(j *evaluation, s benchOptions, on func(*input) *input) error {
		one := *b
		one.in = on(b.in)
		return j.compare(ctx, o, &one, on(in), s)
	})
	if err == nil {
		configured, notes := b.reconfigured(ctx, o, in, args, stdin)
		j.results = append(j.results, j.shard.once(b.hidden(o, in, j.results), b.swapped(in), configured, newlyAssumed(b.in, in))...)
		j.notes = append(j.notes, notes...)
	}
	return b.in, err
}

// A base is the revision that the work tree is compared with.
type base struct {
	in     *input
	repo   *git.Repository
	files  *git.Tree
	commit string
}

// openBase opens the tree of --base: the same names, from the repository's
// objects.
func openBase(head *tree, revision string) (*base, error) {
	fail := func(err error) (*base, error) { return nil, fmt.Errorf("--base: %w", err) }
	repo, err := git.Open(head.Dir)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", head.Dir, err))
	}
	commit, err := repo.Resolve(revision)
	if err != nil {
		return fail(err)
	}
	files, err := repo.Tree(commit)
	if err != nil {
		return fail(err)
	}
	t := &tree{Tree: head.At(files)}
	return &base{in: &input{tree: t}, repo: repo, files: files, commit: commit.Hash}, nil
}

// load renders the base as the head was.
func (b *base) load(ctx context.Context, o *checkOptions, args []string, stdin io.Reader) error {
	if len(args) == 0 {
		args = []string{"."}
	}
	in, err := loadFrom(ctx, o, b.in.tree, args, stdin)
	if err != nil {
		return fmt.Errorf("--base: %w", err)
	}
	if err := b.files.Err(); err != nil {
		return &exitError{exitIncomplete, fmt.Errorf("--base %s: %w", o.base, err)}
	}
	b.in = in
	return nil
}

// held says of paths that neither side has that they are not there.
func (b *base) held(head *tree, paths ...string) error {
	for _, p := range paths {
		name, err := head.name(p, nil)
		if err != nil {
			return err
		}
		_, inHead := fs.Stat(head, name)
		if _, inBase := fs.Stat(b.in.tree, name); inHead != nil && inBase != nil {
			return notFound(p, p)
		}
	}
	return nil
}

// compare judges the change from the base to the head by the base's policies,
// and says which results it brings in. What stays as it is is judged once.
func (j *evaluation) compare(ctx context.Context, o *checkOptions, b *base, in *input, s benchOptions) error {
	var err error
	if j.bench, err = newBench(in, b.trusted(in), s); err != nil {
		return err
	}
	reqs := policy.Requests(comparable(b.in, in))
	reqs, left := policy.Pruned(s.by(reqs), unitIDs(b.in), unitIDs(in))
	j.notes = append(j.notes, left...)
	j.changes = changes(reqs, halves(b.in, in), newChangeDiffs(b.in, in))
	moved := policy.Moves(reqs)
	same, changed := policy.Divide(reqs)
	standing := notFollowed(applied(same), o.gitops != gitopsOff)
	same, changed = j.shard.requests(same), j.shard.requests(changed)
	if o.combine { // what stays as it is, too, is judged among what changes
		same, changed = nil, reqs
	}
	written := policy.OldObjects(changed)
	for _, part := range [][]policy.Request{same, changed} {
		if err := j.bench.chain.StoreOld(ctx, part); err != nil {
			return err
		}
	}
	o.watch.expect(supervise.EvaluateTask, len(same)+2*len(changed)) // as they are, and as they were
	kept, err := j.bench.chain.Review(ctx, same)
	if err != nil {
		return err
	}
	now, err := j.bench.chain.Review(ctx, changed)
	if err != nil {
		return err
	}
	variants := j.shard.requests(s.by(policy.VariantRequests(in.head)))
	only, err := j.bench.chain.Review(ctx, variants)
	if err != nil {
		return err
	}
	now = policy.WithoutRepeats(slices.Concat(now, only), kept...)
	exempted, err := b.exempted(ctx, s, in, slices.Concat(same, changed), slices.Concat(kept, now))
	if err != nil {
		return err
	}
	before := j.bench.among(objects(b.in.head))
	was, err := before.chain.Review(ctx, policy.Reapplying(changed, written))
	if err != nil {
		return err
	}
	onlyWas, err := before.chain.Review(ctx, j.shard.requests(s.by(policy.VariantRequests(b.in.head))))
	if err != nil {
		return err
	}
	was = policy.WithoutRepeats(slices.Concat(was, onlyWas), kept...)
	rest, err := j.bench.rest(ctx)
	if err != nil {
		return err
	}
	restWas, err := before.rest(ctx)
	if err != nil {
		return err
	}
	c := policy.Comparison{Moved: moved, Incomparable: halves(b.in, in)}
	c.Base = slices.Concat(j.shard.once(b.in.found, j.bench.results, c.InBase(standing), onlyInVariants(b.in.head)), c.InBase(kept), was, restWas)
	again := changedInputs(b.in, in)
	j.results = c.Compare(slices.Concat(j.shard.once(in.found, j.bench.results, notFollowed(objects(in.head), o.gitops != gitopsOff), onlyInVariants(in.head)), kept, now, exempted, rest))
	for i := range j.results {
		r := &j.results[i]
		if r.Engine == policy.EngineRender && r.Baseline == policy.Unchanged && r.Undecided() && again[r.Object.Unit] {
			r.Baseline = policy.New
		}
		if r.Baseline == policy.Absent || r.Operation == policy.Delete {
			r.Origins = slices.Clone(r.Origins)
			for k := range r.Origins {
				r.Origins[k].File = b.name(r.Origins[k].File)
			}
		}
	}
	j.results = append(j.results, j.shard.once(b.vanished(in, reqs), b.newlyExcluded(o, in))...)
	j.notes = append(j.notes, b.notes(in)...)
	return j.propose(ctx, s, b, in, slices.Concat(same, changed, variants), slices.Concat(kept, now))
}

// trustedCluster is what policies of a base look at: what the base has counts
// as it is there, so that a change of a parameter or a Role decides nothing
// about the change, and what the head brings in is there too. Namespaces are
// the head's: their labels are what the change makes them.
//
// Where base.exempts is set, the objects that it selects, Namespaces among them,
// are taken from the base.
func trustedCluster(head, base *input) *policy.Cluster {
	if base.exempts != nil {
		was := slices.Concat(objects(base.head), objects(base.judges), objects(base.context))
		now := slices.Concat(objects(head.head), objects(head.judges), objects(head.context), objects(head.anywhere))
		return clusterOf(was, asInBase(now, was, base.exempts))
	}
	isNamespace := func(o *render.Object) bool {
		return o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
	}
	first := slices.DeleteFunc(slices.Concat(objects(base.head), objects(base.judges), objects(base.context)), isNamespace)
	return clusterOf(first, objects(head.head), objects(head.judges), objects(head.context), objects(head.anywhere), objects(base.head))
}

// clusterOf is a cluster of the first of each object in lists.
func clusterOf(lists ...[]*render.Object) *policy.Cluster {
	all := slices.Concat(lists...)
	seen := make(map[render.Key]bool, len(all))
	return policy.NewCluster(slices.DeleteFunc(all, func(o *render.Object) bool {
		k := unversioned(o)
		again := seen[k]
		seen[k] = true
		return again
	})...)
}

// trusted is the base as the judge of the head: each object that the head has
// just as it is stands at the head's lines, which a reader can look up, and the
// others at places of the base's commit.
func (b *base) trusted(head *input) *input {
	held := func(old, now []*render.Unit) []*render.Unit {
		same := make(map[*render.Object]*render.Object)
		for _, r := range policy.Requests(objects(old), objects(now)) {
			if r.Unchanged() {
				same[r.OldObject] = r.Object
			}
		}
		units := make([]*render.Unit, len(old))
		for i, u := range old {
			moved := *u
			moved.Objects = slices.Clone(u.Objects)
			for k, o := range moved.Objects {
				if now := same[o]; now != nil {
					moved.Objects[k] = now
					continue
				}
				was := *o
				was.Provenance = b.places(o.Provenance)
				moved.Objects[k] = &was
			}
			units[i] = &moved
		}
		return units
	}
	in := *b.in
	in.head, in.judges, in.context = held(b.in.head, head.head), held(b.in.judges, head.judges), held(b.in.context, head.context)
	in.modules, in.data = b.trustedRego(head)
	return &in
}

// places gives the places of base's objects the names that Git has for them:
// commit:path.
func (b *base) places(p render.Provenance) render.Provenance {
	if p == nil {
		return nil
	}
	return atCommit{p, b.name}
}

func (b *base) name(file string) string {
	if file == "" {
		return ""
	}
	return b.commit[:12] + ":" + file
}

// atCommit is the provenance of an object of a commit.
type atCommit struct {
	render.Provenance
	name func(file string) string
}

// At implements render.Provenance.
func (a atCommit) At(pointer string) []render.Origin {
	origins := slices.Clone(a.Provenance.At(pointer))
	for i := range origins {
		origins[i].File = a.name(origins[i].File)
	}
	return origins
}

// unitIDs returns the identities of a side's units.
func unitIDs(in *input) map[string]bool {
	all := make(map[string]bool)
	for _, u := range in.head {
		all[u.Identity()] = true
	}
	return all
}

// applied are the objects that requests apply.
func applied(reqs []policy.Request) []*render.Object {
	var all []*render.Object
	for i := range reqs {
		all = append(all, reqs[i].Object)
	}
	return all
}

// propose judges the head by its own policies, where these differ from the
// base's, and keeps what they would newly say and no longer say.
func (j *evaluation) propose(ctx context.Context, s benchOptions, b *base, in *input, reqs []policy.Request, trusted []policy.Result) error {
	if sameJudges(b.in, in, s.NoTreePolicies) {
		return nil
	}
	bench, err := newBench(in, in, s)
	if err != nil {
		return err
	}
	if j.bench.implied && !bench.implied {
		j.notes = append(j.notes, "the change brings in the first policy: preadmit's default, the pack "+defaultPack+", no longer applies once it is merged; to keep it: --pack "+defaultPack)
	}
	results, err := bench.chain.Review(ctx, reqs)
	if err != nil {
		return err
	}
	results = policy.WithoutRepeats(results)
	c := policy.Comparison{Base: slices.Concat(j.shard.once(j.bench.results), trusted)}
	for _, r := range c.Compare(slices.Concat(j.shard.once(bench.results), results)) {
		if r.Baseline != policy.Unchanged && r.Outcome != policy.Pass && r.Outcome != policy.Skip {
			j.proposed = append(j.proposed, r)
		}
	}
	j.notes = append(j.notes, "the change touches policies, or objects that policies may read: the base's policies decide, and results that the changed ones would change are listed apart")
	return nil
}

// sameJudges tells whether both sides have the same policies, whatever their
// lines, with what these read: bindings, parameters, exceptions.
func sameJudges(base, head *input, noTreePolicies bool) bool {
	parameters := parameterKinds(slices.Concat(judging(base, noTreePolicies), judging(head, noTreePolicies)))
	of := func(in *input) []*render.Object {
		return slices.DeleteFunc(objects(in.head), func(x *render.Object) bool { return !parameters[x.GroupVersionKind().GroupKind()] })
	}
	for _, reqs := range [][]policy.Request{
		policy.Requests(judging(base, noTreePolicies), judging(head, noTreePolicies)),
		policy.Requests(of(base), of(head)),
	} {
		if slices.ContainsFunc(reqs, func(r policy.Request) bool { return !r.Unchanged() }) {
			return false
		}
	}
	return sameRego(base, head)
}

// judging are the objects of a side that judge.
func judging(in *input, noTreePolicies bool) []*render.Object {
	all := objects(in.judges)
	if !noTreePolicies {
		all = slices.Concat(all, slices.DeleteFunc(objects(in.head), func(x *render.Object) bool { return !isForJudging(x) }))
	}
	return all
}

// parameterKinds are the kinds that policies take parameters from: those that
// they name, and ConfigMaps, which Kyverno's read.
func parameterKinds(policies []*render.Object) map[schema.GroupKind]bool {
	kinds := make(map[schema.GroupKind]bool)
	for _, p := range policies {
		if p.GroupVersionKind().Group == "kyverno.io" {
			kinds[schema.GroupKind{Kind: "ConfigMap"}] = true
		}
		if kind, ok := render.Lookup(p.Object, "/spec/paramKind/kind"); ok {
			version, _ := render.Lookup(p.Object, "/spec/paramKind/apiVersion")
			gv := policy.ParseGroupVersion(fmt.Sprint(version))
			kinds[schema.GroupKind{Group: gv.Group, Kind: fmt.Sprint(kind)}] = true
		}
	}
	return kinds
}

// comparable are the objects of two sides without those of units that the
// other side could not render whole: what is not there may just not be seen.
func comparable(base, head *input) (old, now []*render.Object) {
	half := halves(base, head)
	seen := make(map[render.Key]bool)
	for _, o := range objects(head.head) {
		if half(o.Unit.Identity()) {
			seen[unversioned(o)] = true
		}
	}
	apart := undeployed(base, head)
	for _, o := range objects(base.head) {
		if (!half(o.Unit.Identity()) || seen[unversioned(o)]) && !apart[unversioned(o)] {
			old = append(old, o)
		}
	}
	return old, objects(head.head)
}

// undeployed are the objects that nothing found in the head deploys, if the base has
// no GitOps objects at all: what deployed them there is not known, so the change
// does not delete them.
func undeployed(base, head *input) map[render.Key]bool {
	if len(base.deployed.Units) > 0 {
		return nil
	}
	apart := make(map[render.Key]bool)
	for _, o := range objects(head.head) {
		if o.Unit.State == render.Unreached {
			apart[unversioned(o)] = true
		}
	}
	return apart
}

// unversioned is an object's key in whatever version.
func unversioned(o *render.Object) render.Key {
	k := o.Key()
	k.APIVersion = o.GroupVersionKind().Group
	return k
}

// halves tells the units that either side could not render whole, or not find
// for what it could not read.
func halves(sides ...*input) func(unit string) bool {
	half := make(map[string]bool)
	var unread []string
	for _, in := range sides {
		for _, u := range in.head {
			for _, e := range render.Errors(u.Err) {
				half[u.Identity()] = half[u.Identity()] || !e.Warning
			}
		}
		unread = append(unread, in.unread()...)
	}
	uncovered(half, sides)
	return func(unit string) bool {
		return half[unit] || slices.ContainsFunc(unread, func(name string) bool {
			return unit == name || strings.HasPrefix(unit, name+"/")
		})
	}
}

// uncovered adds units to half that may be units only because another one of
// their side failed: the base of a kustomization that can't be read is rendered
// by itself. The other side has its files too, but not as a unit.
func uncovered(half map[string]bool, sides []*input) {
	units := make([]map[string]bool, len(sides))
	hides := make([]bool, len(sides)) // whether something failed that may use others
	for i, in := range sides {
		units[i] = make(map[string]bool, len(in.head))
		for _, u := range in.head {
			units[i][u.Path] = true
			hides[i] = hides[i] || u.Kind != "manifest" && u.Status() != "rendered"
		}
	}
	for i, in := range sides {
		for k, other := range sides {
			for _, u := range in.head {
				if hides[i] && !units[k][u.Path] {
					_, err := fs.Stat(other.tree, u.Path)
					half[u.Path] = half[u.Path] || err == nil
				}
			}
		}
	}
}

// changedInputs are the units that neither side could render, and that are made
// of something else by now: what they deploy has changed, nobody knows how.
func changedInputs(base, head *input) map[string]bool {
	was := make(map[string]*render.Unit)
	for _, u := range base.head {
		was[u.Identity()] = u
	}
	changed := make(map[string]bool)
	for _, u := range head.head {
		old := was[u.Identity()]
		if old == nil || u.Owner == nil || old.Owner == nil || len(u.Objects)+len(old.Objects) > 0 {
			continue
		}
		changed[u.Identity()] = !reflect.DeepEqual(u.Owner.Object, old.Owner.Object) ||
			slices.ContainsFunc(head.deployed.Reads[u], func(name string) bool { return !sameFile(base.tree, head.tree, name) })
	}
	return changed
}

// sameFile reports whether a file, or the names in a directory, are the same in
// two trees.
func sameFile(a, b fs.FS, name string) bool {
	x, errX := render.ReadFile(a, name)
	y, errY := render.ReadFile(b, name)
	return (errX == nil) == (errY == nil) && bytes.Equal(x, y)
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

// changes are what requests do to the cluster, for the report. Of a unit that
// one side could not render whole nobody knows what is new, and what nothing
// deploys is not on the cluster.
func changes(reqs []policy.Request, half func(unit string) bool, d *changeDiffs) []report.Change {
	changes := []report.Change{}
	for i := range reqs {
		r := &reqs[i]
		if r.Operation == policy.Create && half(r.Object.Key().Unit) {
			continue
		}
		c := report.Change{Operation: r.Operation, Object: r.Subject().Key()}
		if u := r.Subject().Unit; u != nil {
			if u.State == render.Unreached {
				continue
			}
			c.Cluster = u.Cluster
		}
		if r.Operation == policy.Update {
			from := r.OldObject.Key()
			if half(from.Unit) {
				from.Unit = c.Object.Unit
			}
			if from != c.Object {
				c.From = &from
			}
			if r.Unchanged() {
				if c.From == nil {
					continue
				}
				c.Unchanged = true
			}
		}
		d.describe(&c, r)
		changes = append(changes, c)
	}
	return changes
}

// notes are what to say of the base.
func (b *base) notes(head *input) []string {
	var notes []string
	for _, m := range b.files.AbsentSubmodules() {
		if entries, err := fs.ReadDir(head.tree, m); err == nil && len(entries) > 0 {
			notes = append(notes, m+" is a submodule at the base and holds other files now, so all of it counts as new")
		}
	}
	for _, name := range b.in.unread() {
		notes = append(notes, name+" could not be read at the base, so all that is said of it counts")
	}
	half := make(map[string]bool)
	for _, u := range b.in.head {
		for _, e := range render.Errors(u.Err) {
			if !e.Warning && !half[u.Identity()] {
				half[u.Identity()] = true
				notes = append(notes, fmt.Sprintf("%s could not be rendered whole at the base, so all that is said of it counts: %v", u.Identity(), e))
			}
		}
	}
	return notes
}
