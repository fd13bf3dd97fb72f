package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Limits of a tree, see section 7 of the security study.
const (
	maxFiles = 200_000
	maxLevel = 64
	maxHops  = 8
)

// A Discovery holds the sources found below paths.
type Discovery struct {
	Sources  []Source  // ordered by path
	Skipped  []Skipped // what is not rendered, ordered by path
	NotFound []string  // given paths that are not in the tree, which is a bad command line
	Err      error     // joins *Error values of files and directories that could not be read

	walk *walk // for Documents
}

// Beside reports whether a manifest that is not given by name lies, or would lie, in the directory of a
// kustomization, or another claim, that names other files and does not name it. In a directory without
// one, those above count if they name a file of the directory, or have commented this file out.
func (d Discovery) Beside(file string) bool {
	if d.walk == nil || !d.walk.files[file] && slices.ContainsFunc(d.Sources, func(s Source) bool { return s.Path == file }) {
		return false
	}
	in := path.Dir(file)
	if own := d.walk.asked[in]; len(own) > 0 || in == "." {
		return slices.ContainsFunc(own, func(c claim) bool { return len(c.Uses) > 0 && !c.Whole && !c.reads(file) })
	}
	neighbour := func(name string) bool { return d.walk.files[name] && path.Dir(name) == in }
	for above := in; above != "."; {
		above = path.Dir(above)
		if slices.ContainsFunc(d.walk.asked[above], func(c claim) bool {
			return slices.ContainsFunc(c.Uses, neighbour) || slices.Contains(c.Commented, file)
		}) {
			return true
		}
	}
	return false
}

// Claimed reports whether a renderer claims the directory or, as a whole, one above it.
func (d Discovery) Claimed(dir string) bool {
	if d.walk == nil {
		return false
	}
	for own := true; ; dir, own = path.Dir(dir), false {
		if own && len(d.walk.asked[dir]) > 0 || d.walk.isWhole(dir) {
			return true
		}
		if dir == "." {
			return false
		}
	}
}

// Uses returns the files and directories that the source at a directory uses, directly or
// by others that it uses.
func (d Discovery) Uses(dir string) []string {
	if d.walk == nil || d.walk.used == nil {
		return nil
	}
	var all []string
	seen := make(map[int]bool)
	for todo := slices.Clone(d.walk.used.byDir[dir]); len(todo) > 0; {
		i := todo[0]
		if todo = todo[1:]; !seen[i] {
			seen[i] = true
			all = append(all, d.walk.used.claims[i].Uses...)
			todo = append(todo, d.walk.used.next(i)...)
		}
	}
	return all
}

// A Skipped is a file or directory that is no source, and why.
type Skipped struct {
	Path, Reason string
	State        DocumentState // state of the documents in it, if the reason decides that
}

// Discover finds the sources below paths, which are files and directories of
// fsys; without paths, below its root.
//
// Directories are walked except for .git, those that the Selection leaves out,
// and those that belong to one claim as a whole. A path that is given by name
// is a source if some renderer can render it, even where the Selection leaves
// it out. A path that is found is a source unless another found source uses it;
// of sources that use each other the first is one. Files named .yaml, .yml or
// .json that hold objects, and that no source uses, are manifests. A symbolic
// link counts as its target, in the target's place.
func (g Graph) Discover(fsys fs.FS, paths ...string) Discovery {
	w := &walk{
		graph: g, fsys: fsys,
		asked: make(map[string][]claim), walked: make(map[string]bool),
		files: make(map[string]bool), named: make(map[string]bool), tested: make(map[string]string),
		selection: g.Selection,
	}
	if len(paths) == 0 {
		w.dir(".")
	}
	for _, p := range paths {
		w.given(p)
	}
	w.selection = g.Selection
	for len(w.links) > 0 {
		target := w.links[0]
		w.links = w.links[1:]
		w.follow(target)
	}
	w.units()
	w.manifests()
	for _, e := range w.unfollowed {
		e.Warning = len(w.out.Sources) > 0 // something else may deploy the rest
		w.errs = append(w.errs, e)
	}
	return w.result()
}

// A walk is the state of one call of Discover.
type walk struct {
	graph  Graph
	fsys   fs.FS
	asked  map[string][]claim // the claims of each directory
	walked map[string]bool    // directories
	files  map[string]bool    // found files that may hold objects
	named  map[string]bool    // directories given by name
	links  []string           // targets of symbolic links to look at
	tested map[string]string  // files that a test suite names, with the suite
	count  int                // number of directory entries

	unfollowed []*Error // about files of tools that are not followed

	out  Discovery
	errs []error

	selection Selection // for the current path
	used      *uses     // graph of the claims, once they are complete
}

// A claim is one renderer's Claim of a directory.
type claim struct {
	Claim
	dir, kind string
}

func (w *walk) fail(name, rule string, err error) {
	w.errs = append(w.errs, fileError(name, rule, err))
}

func (w *walk) skip(name, reason string) {
	w.out.Skipped = append(w.out.Skipped, Skipped{Path: name, Reason: reason})
}

func (w *walk) leave(name, reason string, state DocumentState) {
	w.out.Skipped = append(w.out.Skipped, Skipped{name, reason, state})
}

// given looks at a path of the command line.
func (w *walk) given(name string) {
	clean := path.Clean(name)
	if !fs.ValidPath(clean) {
		w.out.NotFound = append(w.out.NotFound, name)
		return
	}
	if target, err := resolve(w.fsys, clean); err == nil {
		clean = target
	}
	w.selection = w.graph.Selection.around(clean)
	info, err := fs.Stat(w.fsys, clean)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !isLink(w.fsys, clean):
		w.out.NotFound = append(w.out.NotFound, name)
	case err != nil:
		w.errs = append(w.errs, openError(w.fsys, clean, err))
	case info.IsDir():
		w.named[clean] = true
		w.dir(clean)
	default:
		w.givenFile(clean)
	}
}

// givenFile adds a file by its kind: a packed chart, a file that names its
// directory such as kustomization.yaml, or a manifest.
func (w *walk) givenFile(name string) {
	if (strings.HasSuffix(name, ".tgz") || strings.HasSuffix(name, ".tar.gz")) && w.graph.renderer("helm") != nil {
		w.source(name, "helm")
		return
	}
	for _, c := range w.claims(path.Dir(name)) {
		if c.reads(name) {
			w.source(c.dir, c.kind)
			return
		}
	}
	w.source(name, Manifests{}.Kind())
}

func (w *walk) source(name, kind string) {
	w.out.Sources = append(w.out.Sources, Source{FS: w.fsys, Path: name, Kind: kind})
}

// claims returns the renderers' claims of a directory. It asks each renderer once.
func (w *walk) claims(dir string) []claim {
	if cs, ok := w.asked[dir]; ok {
		return cs
	}
	var cs []claim
	for _, r := range w.graph.Renderers {
		if c, ok := r.Detect(w.fsys, dir); ok {
			cs = append(cs, claim{Claim: c, dir: dir, kind: r.Kind()})
		}
	}
	w.asked[dir] = cs
	return cs
}

// reads reports whether the claim's own files include the file name.
func (c *claim) reads(name string) bool {
	return slices.ContainsFunc(c.Files, func(f string) bool { return f == name || path.Join(c.dir, f) == name })
}

// whole reports whether everything below a directory belongs to one claim.
func (w *walk) whole(dir string) bool {
	return slices.ContainsFunc(w.claims(dir), func(c claim) bool { return c.Whole })
}

func (w *walk) dir(name string) {
	if w.walked[name] {
		return
	}
	w.walked[name] = true
	if w.whole(name) {
		return
	}
	if strings.Count(name, "/") >= maxLevel {
		w.fail(name, "too-deep", fmt.Errorf("directory is more than %d levels deep", maxLevel))
		return
	}
	entries, err := fs.ReadDir(w.fsys, name)
	if err != nil {
		w.errs = append(w.errs, openError(w.fsys, name, err))
	}
	if !w.selection.Hidden {
		if name != "." && !w.named[name] && isChainsaw(entries) {
			delete(w.walked, name)
			w.leave(name, "fixtures of a test suite", DocFixture)
			return
		}
		w.suites(name, entries)
	}
	entries = w.tools(name, entries)
	for _, e := range entries {
		if w.count++; w.count > maxFiles {
			if w.count == maxFiles+1 {
				w.fail(name, "too-many-files", fmt.Errorf("more than %d files, the rest is not looked at", maxFiles))
			}
			return
		}
		if e.Name() != ".git" {
			w.entry(path.Join(name, e.Name()), e.Type())
		}
	}
}

// UnfollowedTool is the rule of errors about files from which a tool deploys that is not
// followed, such as Helmfile.
const UnfollowedTool = "unfollowed-tool"

// unfollowedTools are patterns of files from which tools deploy, with the commands that write what they
// deploy into the tree. Such a file holds no Kubernetes object but those of the group.
var unfollowedTools = []struct{ pattern, group, tool, command string }{
	{"*/helmfile.y*ml", "", "Helmfile", "helmfile template > FILE"},
	{"*/helmfile.y*ml.gotmpl", "", "Helmfile", "helmfile template > FILE"},
	{"helmfile.d/*.y*ml", "", "Helmfile", "helmfile template > FILE"},
	{"helmfile.d/*.y*ml.gotmpl", "", "Helmfile", "helmfile template > FILE"},
	{"*/cdk8s.yaml", "", "cdk8s", "cdk8s synth"},
	{"*/fleet.yaml", "", "Fleet", "fleet apply -o FILE NAME ."},
	{"*/spec.json", "tanka.dev", "Tanka", "tk export DIR ."},
	{"*/.kluctl.y*ml", "", "Kluctl", "kluctl render --render-output-dir DIR"},
	{"*/bundle.cue", "", "Timoni", "timoni bundle build -f bundle.cue > FILE"},
	{"*/werf.yaml", "", "werf", "werf render > FILE"},
}

// tools records the files of a directory from which tools deploy that are not followed, and
// returns the other entries.
func (w *walk) tools(dir string, entries []fs.DirEntry) []fs.DirEntry {
	unfollowed := func(e fs.DirEntry) bool {
		name := path.Join(dir, e.Name())
		for _, t := range unfollowedTools {
			found, _ := path.Match(t.pattern, path.Base(dir)+"/"+e.Name())
			if !found || e.IsDir() || hasManifestName(name) && w.isManifest(name, t.group) {
				continue
			}
			w.unfollowed = append(w.unfollowed, &Error{
				Span: Span{File: name}, Rule: UnfollowedTool, Missing: true,
				Err:  fmt.Errorf("%s deploys from this file, which is not followed: what it deploys is not checked", t.tool),
				Hint: "write what it deploys into the tree, such as by `" + t.command + "`, and check that; list this file under exclude in .preadmit/config.yaml then",
			})
			return true
		}
		return false
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e fs.DirEntry) bool {
		return !w.selection.Excludes(path.Join(dir, e.Name())) && unfollowed(e)
	})
}

// isManifest reports whether a file can't be read, or holds an object that is not of a group.
func (w *walk) isManifest(name, group string) bool {
	data, err := ReadFile(w.fsys, name)
	if err != nil {
		return true
	}
	f := parseFile(name, data)
	return f.err != nil || slices.ContainsFunc(f.objects, func(o *Object) bool { return group == "" || o.GroupVersionKind().Group != group }) || group != "" && len(f.objects) == 0
}

func (w *walk) entry(name string, mode fs.FileMode) {
	switch {
	case mode.IsRegular() && !hasManifestName(name):
	case !fs.ValidPath(name):
		w.fail(name, "invalid-name", errors.New("name is not UTF-8"))
	case !mode.IsDir() && w.selection.Excludes(name):
		w.leave(name, "excluded by "+w.selection.excluded(name), DocExcluded)
	case mode.IsDir():
		if reason, state := w.selection.leaves(name); reason != "" {
			if why := misleads(path.Base(name)); why != "" && state == DocExcluded && !w.selection.Excludes(name) {
				w.fail(name, "misleading-name", errors.New(why))
			}
			w.leave(name, reason, state)
			return
		}
		w.dir(name)
	case mode&fs.ModeSymlink != 0:
		w.link(name)
	case mode.IsRegular():
		w.files[name] = true
	case hasManifestName(name):
		w.errs = append(w.errs, notRegular(name, mode))
	}
}

// misleads returns why the name of a hidden directory is misleading, or "".
func misleads(base string) string {
	switch {
	case strings.Contains(base, `\`):
		return "directory is hidden, and its name has a backslash: on Windows it is another path"
	case base != ".git" && strings.EqualFold(strings.TrimRight(base, ". "), ".git"):
		return "directory is hidden, and its name means .git on some systems, where git refuses it"
	}
	return ""
}

// hasManifestName reports whether a name has one of kubectl's extensions, in
// any case.
func hasManifestName(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// link adds the target of a symbolic link to the list. A dangling link is an
// error if its name is one of a manifest.
func (w *walk) link(name string) {
	target, err := resolve(w.fsys, name)
	manifest := hasManifestName(name)
	switch {
	case err != nil && (manifest || err.Rule == "escapes-tree" && path.Ext(name) == ""): // the target may be a directory
		w.errs = append(w.errs, err)
	case err != nil:
		w.skip(name, err.Err.Error())
	default:
		info, err := fs.Stat(w.fsys, target)
		if err == nil && (info.IsDir() || manifest) && inGit(target) {
			w.fail(name, "link-into-git", errors.New("symbolic link leads into .git, whose files are not looked at"))
			return
		}
		if err == nil && (info.IsDir() || manifest) {
			w.links = append(w.links, target)
			w.skip(name, "symbolic link, see "+target)
		}
	}
}

// inGit reports whether a path lies in Git's own directory.
func inGit(name string) bool { return slices.Contains(strings.Split(name, "/"), ".git") }

// Resolve returns the path without symbolic links that a path leads to, as
// [Discover] follows them. The error is an *[Error] at the path, with the rule
// "dangling-link" or "escapes-tree".
func Resolve(fsys fs.FS, name string) (string, error) {
	target, err := resolve(fsys, name)
	if err != nil {
		return "", err
	}
	return target, nil
}

// resolve follows symbolic links to a path without any.
func resolve(fsys fs.FS, name string) (string, *Error) {
	done, rest, hops := ".", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		info, err := fs.Lstat(fsys, next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", fileError(name, "dangling-link", errors.New("symbolic link leads nowhere"))
		case err != nil:
			return "", openError(fsys, name, err)
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		to, err := fs.ReadLink(fsys, next)
		if hops++; err != nil || hops > maxHops {
			return "", fileError(name, "dangling-link", errors.New("symbolic link can't be followed"))
		}
		abs := path.IsAbs(to)
		if to = path.Join(path.Dir(next), to); abs || !fs.ValidPath(to) {
			return "", fileError(name, "escapes-tree", errors.New("symbolic link leads out of the tree"))
		}
		done, rest = ".", append(strings.Split(to, "/"), rest...)
	}
	return done, nil
}

// follow adds the target of a link, unless it is part of a chart or of Git's
// own files.
func (w *walk) follow(target string) {
	for dir := path.Dir(target); ; dir = path.Dir(dir) {
		if path.Base(dir) == ".git" || w.whole(dir) {
			return
		}
		if dir == "." {
			break
		}
	}
	if info, err := fs.Stat(w.fsys, target); err == nil && info.IsDir() {
		w.dir(target)
		return
	}
	w.files[target] = true
}
