package draft

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
)

// policies suggests the policies that check does not read: those outside of the checked paths, hidden ones,
// those that nothing deploys, and Rego.
func (d *draft) policies() {
	here := d.in.Documents()
	if d.in.Partial {
		whole, _ := render.Graph{Renderers: d.options.Renderers(), Selection: d.options.Selection}.Discover(d.in.Tree).Documents(nil)
		outside := d.holding(whole, func(t render.TreeDocument) bool {
			return t.State != render.DocFixture && t.State != render.DocExcluded && !slices.ContainsFunc(here, func(h render.TreeDocument) bool { return h.File == t.File })
		})
		if dirs := directories(outside); len(dirs) > 0 {
			d.suggest("policy", fmt.Sprintf("Policies outside of the checked paths, which are read only if they are named: in %s, the first %s. If the cluster has them (the pack %[3]s, the default where no policy is given, is not used then; pack: %[3]s keeps it):",
				policy.Plural(len(outside), "file"), outside[0], engines.DefaultPack), list(dirs...)...)
		}
	}
	if files := d.holding(here, func(t render.TreeDocument) bool {
		return t.State == render.DocExcluded || t.State == render.DocUnused || t.State == render.DocLocalConfig
	}); len(files) > 0 {
		d.suggest("policy", fmt.Sprintf("Policies in hidden folders, or that nothing deploys: in %s, the first %s. If the cluster has them:",
			policy.Plural(len(files), "file"), files[0]), list(directories(files)...)...)
	}
	if files := slices.DeleteFunc(rego.Files(d.in.Tree, "."), func(f string) bool {
		return strings.HasSuffix(f, "_test.rego") || d.options.Selection.Excludes(f) || slices.ContainsFunc(d.in.Modules, func(m rego.Module) bool { return m.File == f })
	}); len(files) > 0 {
		d.suggest("policy", fmt.Sprintf("Rego, which is read only if it is named: %s, the first %s. If its rules deny, violation and warn are about Kubernetes objects:",
			policy.Plural(len(files), "file"), files[0]), list(directories(files)...)...)
	}
}

// holding returns the files of documents that hold a policy.
func (d *draft) holding(documents []render.TreeDocument, keep func(render.TreeDocument) bool) (files []string) {
	last := "" // documents are ordered by file
	for _, t := range documents {
		if t.File == last || !keep(t) {
			continue
		}
		last = t.File
		if data, err := render.ReadFile(d.in.Tree, t.File); err == nil && slices.ContainsFunc(render.Headings(data), lint.IsPolicy) {
			files = append(files, t.File)
		}
	}
	return files
}

// directories returns the directories of files, without those below others. Files at the root stay.
func directories(files []string) (dirs []string) {
	for _, f := range files {
		if dir := path.Dir(f); dir != "." {
			f = dir
		}
		if !render.Below(dirs, f) {
			dirs = slices.DeleteFunc(dirs, func(below string) bool { return render.Below([]string{f}, below) })
			dirs = append(dirs, f)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// An alike is a repository that may be this one, with the units that are deployed from it.
type alike struct {
	named, here, units int    // paths that objects name in it, and how many of these are here
	path, first        string // the first that is here; the place that names the repository
}

// repository names other addresses of this repository: those in which objects name paths of which most
// are here.
func (d *draft) repository() {
	all := make(map[string]*alike)
	for _, u := range d.in.Head {
		for _, e := range render.Errors(u.Err) {
			if e.Rule != "foreign-repository" || e.Remote == nil || e.Remote.Kind != render.GitTree || u.Owner == nil {
				continue
			}
			x := all[e.Remote.URL]
			if x == nil {
				x = &alike{first: fmt.Sprintf("%s:%d", d.in.Tree.Display(e.Span.File), e.Span.Line)}
				all[e.Remote.URL] = x
			}
			x.units++
			for at, v := range render.Fields(u.Owner.Object["spec"], "") {
				text, _ := v.(string)
				if i := strings.IndexAny(text, "{*?["); i >= 0 { // filled in later
					text = text[:strings.LastIndex(text[:i], "/")+1]
				}
				if p := path.Join("/", text)[1:]; path.Base(at) == "path" && p != "" {
					x.named++
					if _, err := fs.Stat(d.in.Tree, p); err == nil {
						x.here, x.path = x.here+1, cmp.Or(x.path, p)
					}
				}
			}
		}
	}
	for _, url := range slices.Sorted(maps.Keys(all)) {
		x := all[url]
		if 2*x.here > x.named {
			d.suggest("repository", fmt.Sprintf("%s, for %s at %s, is not known as this repository. Of %s that objects name there, this tree has %d, such as %s. If it is this repository, this line renders from this tree what is deployed from it:",
				url, policy.Plural(x.units, "unit"), x.first, policy.Plural(x.named, "path"), x.here, x.path), list(url)...)
		}
	}
}
