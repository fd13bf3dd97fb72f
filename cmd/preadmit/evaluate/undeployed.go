package evaluate

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// undeployed returns results about objects that are no longer deployed after the change although
// they are still in the tree.
func (b *base) undeployed(head *load.Input, reqs []policy.Request) []policy.Result {
	reqs = slices.DeleteFunc(slices.Clone(reqs), func(r policy.Request) bool { return r.Recreated })
	stopped := change.Stopped(b.in.Side(), head.Side())
	deployed := b.in.Deployed.Without(func(unit string) bool { return stopped[unit] })
	units := policy.UndeployedUnits(reqs, func(u *render.Unit) bool { return deployed.Reaches(&u.Source) })
	if !slices.ContainsFunc(reqs, func(r policy.Request) bool { return r.Operation == policy.Delete }) {
		return units
	}
	u := policy.Undeployed{
		Base: b.in.Documents(), Head: head.Documents(), Objects: head.Walked.Objects(), Names: b.namedIn(head.Walked.Objects()),
		Elsewhere: render.Objects(head.Others),
		Added: func(file string) bool {
			_, err := fs.Stat(b.in.Tree, file)
			return err != nil
		},
		Unreadable: head.Unreadable(b.Repo, b.in.Tree),
	}
	return slices.Concat(u.Results(reqs), u.HeldNoMore(reqs), units)
}

// faded returns the result about units that this run checks and that runs after the change don't count,
// because an object of the change deploys others. The configuration of the head may settle it.
func (b *base) faded(head *load.Input) []policy.Result {
	gone := b.fading
	if b.later != nil {
		after := b.later.Unreached()
		gone = slices.DeleteFunc(slices.Clone(gone), func(u *render.Unit) bool { return !after[u.Identity()] })
	}
	if len(gone) == 0 {
		return nil
	}
	var names []string
	for _, u := range gone {
		names = append(names, head.Tree.Display(u.Path))
	}
	r := policy.Result{
		Engine: policy.EngineRender, Policy: "documents", Rule: "newly-unreached", Operation: policy.Update,
		Outcome: policy.Unknown, Action: policy.Deny, Baseline: policy.New,
		Message: fmt.Sprintf("no longer counts once this change is merged: %s, which nothing found here deploys: %s", policy.Plural(len(gone), "unit"), policy.Few(unique(names))),
		Hint:    "if a person or a script deploys them, say so in " + config.Path + ": " + config.Deploys(tops(names)),
	}
	if o := change.Leading(b.in.Side(), head.Side()); o != nil {
		r.Origins = o.At("")[:1]
		r.Message += fmt.Sprintf("; until now everything in the tree counts, from then on only what objects such as %s %s deploy", o.GetKind(), o.Key().Name)
		r.Hint += fmt.Sprintf("; if %s is an example: %s", o.GetKind(), config.Leaves([]string{head.Tree.Display(r.Origins[0].File)}))
	}
	return []policy.Result{r.Fingerprinted()}
}

// namedIn returns a function that returns the kinds and names of a document's objects. It caches
// them in b.named, for the other clusters.
func (b *base) namedIn(objects func(render.TreeDocument) []*render.Object) func(render.TreeDocument) []policy.Named {
	return func(d render.TreeDocument) []policy.Named {
		at := documentAt{d.File, d.Index}
		names, ok := b.named[at]
		if !ok {
			for _, o := range objects(d) {
				names = append(names, policy.Named{GroupKind: o.GroupVersionKind().GroupKind(), Name: o.GetName()})
			}
			b.named[at] = names
		}
		return names
	}
}

// A documentAt is a file of the head and a document's index in it.
type documentAt struct {
	file  string
	index int
}

// withoutUnits removes a result about a unit that nothing deploys any more if there is a result
// about a document in the same file, on any cluster.
func withoutUnits(results []policy.Result) []policy.Result {
	known := make(map[string]bool)
	for i := range results {
		if r := &results[i]; r.Rule == policy.NoLongerJudged && len(r.Origins) > 0 {
			known[r.Origins[0].File] = true
		}
	}
	return slices.DeleteFunc(results, func(r policy.Result) bool {
		return r.Rule == policy.NoLongerDeployed && len(r.Origins) > 0 && known[r.Origins[0].File]
	})
}

// unchecked returns results about objects that the change adds and that are not checked, except
// where there is such a result already.
func (b *base) unchecked(o *Options, head *load.Input, already []policy.Result) []policy.Result {
	known := make(map[string]bool)
	for i := range already {
		if r := &already[i]; r.Rule == policy.NoLongerJudged && len(r.Origins) > 0 {
			known[fmt.Sprintf("%s:%d", r.Origins[0].File, r.Origins[0].Line)] = true
		}
	}
	type fileKind struct{ file, kind string }
	failed := make(map[fileKind]bool) // documents that the base could not render: true if each is a unit of its own
	for _, d := range b.in.Documents() {
		if d.State == render.DocFailed {
			failed[fileKind{d.File, d.Kind}] = slices.Contains(d.Units, d.File)
		}
	}
	same := make(map[string]bool)
	var added []render.TreeDocument
	some := false
	unreached := head.Unreached()
	for _, d := range head.Documents() {
		if d.State == render.DocRendered && !slices.ContainsFunc(d.Units, func(unit string) bool { return !unreached[unit] }) {
			d.State, d.Reason = render.DocUnused, "deployed by nothing that is found in the tree"
		}
		is, ok := same[d.File]
		if !ok {
			is = sameContent(b.in, head, d.File) || change.SameFile(b.in.Tree, head.Tree, d.File)
			same[d.File] = is
		}
		alone, unknown := failed[fileKind{d.File, d.Kind}]
		unknown = unknown && (alone || d.State != render.DocUnused) // unless a kustomization left it out to be fixed
		excluded := d.State == render.DocExcluded && o.Selection.Excludes(d.File)
		if is && !unknown || excluded || known[fmt.Sprintf("%s:%d", d.File, d.Line)] {
			continue
		}
		added = append(added, d)
		some = some || !d.Usual && d.State != render.DocRendered
	}
	if !some {
		return nil
	}
	before := b.in.Unreached()
	was, inBase := make(map[fileKind]int), make(map[fileKind]bool)
	loose := make(map[string]bool) // directories whose files the base deploys as they are
	for _, d := range b.in.Documents() {
		inBase[fileKind{d.File, d.Kind}] = true
		if d.State == render.DocRendered && slices.ContainsFunc(d.Units, func(unit string) bool { return !before[unit] }) {
			was[fileKind{d.File, d.Kind}]++
			loose[path.Dir(d.File)] = loose[path.Dir(d.File)] || !b.in.Walked.Claimed(path.Dir(d.File))
		}
	}
	for _, d := range head.Documents() {
		if d.State == render.DocRendered && slices.ContainsFunc(d.Units, func(unit string) bool { return !unreached[unit] }) {
			was[fileKind{d.File, d.Kind}]--
		}
	}
	deployed := slices.Concat(render.Objects(head.Head), render.Objects(head.Others))
	objectsOf := head.Walked.Objects()
	return policy.Unchecked(added, func(d render.TreeDocument) bool {
		is := fileKind{d.File, d.Kind}
		if !inBase[is] {
			return loose[path.Dir(d.File)]
		}
		was[is]--
		alone, unknown := failed[is]
		return (was[is] >= 0 || unknown && (alone || d.State != render.DocUnused)) && !slices.ContainsFunc(objectsOf(d), func(o *render.Object) bool { return isAmong(o, deployed) })
	})
}

// leftOut returns a result if a sparse checkout leaves out files, below the paths, that the base
// does not have, because their content is unknown.
func (b *base) leftOut(head *load.Input, args []string) []policy.Result {
	all, err := b.Repo.LeftOut(head.Tree)
	if err != nil {
		return []policy.Result{b.configured("left-out", "", 0, "what this sparse checkout leaves out is not known: "+report.Plain(err.Error()))}
	}
	files := slices.DeleteFunc(all, func(file string) bool {
		_, inBase := fs.Stat(b.in.Tree, file)
		return inBase == nil || !slices.ContainsFunc(orHere(args), func(arg string) bool {
			dir, err := head.Tree.NameOf(arg, nil)
			return err == nil && (dir == "." || file == dir || strings.HasPrefix(file, dir+"/"))
		})
	})
	if len(files) == 0 {
		return nil
	}
	return []policy.Result{b.configured("left-out", files[0], 1, fmt.Sprintf(
		"not checked: this sparse checkout leaves out %s that the base does not have, the first %s", policy.Plural(len(files), "file"), files[0]))}
}

// sameContent reports whether a file is known to have the same content on both sides.
func sameContent(base, head *load.Input, name string) bool {
	was, ok := base.Graph.Digest(name)
	now, known := head.Graph.Digest(name)
	return ok && known && was == now
}

// isAmong reports whether one of the objects has the kind of o and its name, to which kustomize may
// add a prefix or suffix.
func isAmong(o *render.Object, objects []*render.Object) bool {
	gk := o.GroupVersionKind().GroupKind()
	return slices.ContainsFunc(objects, func(x *render.Object) bool {
		return x.GroupVersionKind().GroupKind() == gk && strings.Contains(x.GetName(), o.GetName())
	})
}

// newlyExcluded returns results about globs that the change adds to the
// configuration. Once it is merged, matching paths are not evaluated.
func (b *base) newlyExcluded(o *Options, head *load.Input) []policy.Result {
	file, err := o.configurationFile(head.Tree)
	if err != nil {
		return nil // configure has reported it
	}
	var results []policy.Result
	for _, glob := range config.Excludes(head.Tree, file) {
		if slices.Contains(o.Selection.Exclude, glob.Value) {
			continue
		}
		at := render.Span{File: file, Line: glob.Line, Column: glob.Column, EndLine: glob.Line, EndColumn: glob.Column}
		results = append(results, policy.NewlyExcluded(glob.Value, at, head.Documents())...)
	}
	return results
}
