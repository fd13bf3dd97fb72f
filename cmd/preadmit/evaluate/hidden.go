package evaluate

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

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
	r := change.Undecided("newly-unreached", policy.Update, nil, "no longer counts once this change is merged: %s, which nothing found here deploys: %s",
		policy.Plural(len(gone), "unit"), policy.Few(unique(names)))
	r.Hint = "if a person or a script deploys them, say so in " + config.Path + ": " + config.Deploys(tops(names))
	if o := change.Leading(b.in.Side(), head.Side()); o != nil {
		r.Origins = o.At("")[:1]
		r.Message += fmt.Sprintf("; until now everything in the tree counts, from then on only what objects such as %s %s deploy", o.GetKind(), o.Key().Name)
		r.Hint += fmt.Sprintf("; if %s is an example: %s", o.GetKind(), config.Leaves([]string{head.Tree.Display(r.Origins[0].File)}))
	}
	return []policy.Result{r.Fingerprinted()}
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
		results = append(results, change.NewlyExcluded(glob.Value, at, head.Documents())...)
	}
	return results
}
