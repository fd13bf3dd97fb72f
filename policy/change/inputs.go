package change

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"io"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// UndecidedAgain returns a function that reports whether a result is undecided on both
// sides about something whose inputs differ: the files of a unit that can't be rendered, the
// objects and files that its owner names, whether or not they can be read, a file
// without a unit, the fields of an object, or, for a policy that does not compile, the objects of
// the kinds that it names. reqs are the requests of the change.
func UndecidedAgain(base, head *Side, reqs []policy.Request) func(*policy.Result) bool {
	changed, updates := changedInputs(base, head), policy.Updates(reqs)
	return func(r *policy.Result) bool {
		switch update := updates[r.Object]; {
		case r.Baseline != policy.Unchanged || !r.Undecided():
			return false
		case r.Engine == policy.EngineCompile:
			return slices.ContainsFunc(slices.Concat(render.Objects(base.Units), render.Objects(base.Given)), func(p *render.Object) bool {
				return p.GetName() == r.Policy && concerns(p, reqs)
			})
		case r.Engine == policy.EngineRender && r.Object.Unit != "":
			return changed[r.Object.Unit]
		case r.Engine == policy.EngineRender:
			return len(r.Origins) > 0 && !SameFile(base.Tree, head.Tree, r.Origins[0].File)
		default:
			return update != nil && update.OldObject != nil && update.Object != nil && fieldsDiffer(r.Fields, update.OldObject, update.Object)
		}
	}
}

// concerns reports whether a change creates or updates an object whose kind, or that of its pods,
// a policy names.
func concerns(p *render.Object, reqs []policy.Request) bool {
	named := make(map[string]bool)
	for _, text := range render.Texts(p.Object, "") {
		named[path.Base(text)] = true
	}
	return slices.ContainsFunc(reqs, func(r policy.Request) bool {
		if r.Object == nil || r.Unchanged() || r.Object.GetName() == p.GetName() {
			return false
		}
		_, pods := render.Lookup(r.Object.Object, "/spec/template/spec/containers")
		_, jobs := render.Lookup(r.Object.Object, "/spec/jobTemplate")
		return named[r.Object.GetKind()] || (pods || jobs) && named["Pod"]
	})
}

// fieldsDiffer reports whether one of the fields has different values in two objects. Without fields
// it compares the whole objects.
func fieldsDiffer(fields []string, old, now *render.Object) bool {
	if len(fields) == 0 {
		fields = []string{""}
	}
	return slices.ContainsFunc(fields, func(pointer string) bool {
		was, _ := render.Lookup(old.Object, pointer)
		is, _ := render.Lookup(now.Object, pointer)
		return !reflect.DeepEqual(was, is)
	})
}

// changedInputs returns the units that neither side could render completely and whose
// inputs differ between the sides, so that their objects may have changed, too.
func changedInputs(base, head *Side) map[string]bool {
	was, changed, differing := render.ByIdentity(base.Units), make(map[string]bool), make(map[string]bool)
	differs := func(name string) bool { // several units read a file
		d, known := differing[name]
		if !known {
			d = !SameFile(base.Tree, head.Tree, name)
			differing[name] = d
		}
		return d
	}
	for _, u := range head.Units {
		old := was[u.Identity()]
		if old == nil || complete(u) || complete(old) {
			continue
		}
		var files []string
		for _, s := range []*Side{base, head} {
			if u.Owner == nil {
				for _, name := range append(s.Walked.Uses(u.Path), u.Path) {
					files = append(files, below(s.Tree, name)...)
				}
			}
		}
		for unit, s := range map[*render.Unit]*Side{old: base, u: head} {
			files = append(files, s.Deployed.Reads[unit]...)
			names := s.Deployed.Named[unit]
			if generated(unit.Owner) { // the ApplicationSet names files for other Applications, too
				names = slices.Concat(names, s.Deployed.Named[unit.Owner.Unit])
			}
			for _, name := range names {
				if name != "." {
					files = append(files, below(s.Tree, name)...)
				}
			}
		}
		same := func(a, b *render.Object) bool { return reflect.DeepEqual(a.Object, b.Object) }
		changed[u.Identity()] = (u.Owner == nil) != (old.Owner == nil) || u.Owner != nil && !same(u.Owner, old.Owner) ||
			!slices.EqualFunc(base.Deployed.Asked[old], head.Deployed.Asked[u], same) ||
			slices.ContainsFunc(files, func(name string) bool { return !isDocumentation(u, name) && differs(name) })
	}
	return changed
}

// generated reports whether an object, which may be nil, is made by a generator of Applications or Kustomizations.
func generated(o *render.Object) bool {
	return o != nil && o.Unit != nil && o.Unit.Owner != nil && strings.HasSuffix(o.Unit.Owner.GetKind(), "Set")
}

func complete(u *render.Unit) bool { return len(u.Objects) > 0 && len(render.Failures(u.Err)) == 0 }

// isDocumentation reports whether a file is documentation of a chart, such as its
// README.md.
func isDocumentation(u *render.Unit, name string) bool {
	return (u.Kind == "helm" || u.Renderer == "helm") && path.Dir(name) == u.Path && slices.Contains([]string{"README.md", "README.md.gotmpl", "CHANGELOG.md", "LICENSE", "OWNERS"}, path.Base(name))
}

// below returns a file or directory and everything in it.
func below(tree fs.FS, root string) []string {
	var all []string
	_ = fs.WalkDir(tree, root, func(name string, _ fs.DirEntry, _ error) error {
		all = append(all, name)
		return nil
	})
	return all
}

// SameFile reports whether a file is the same in two trees, except comments and blank
// lines at its beginning. Files that can't be read, such as pointers of Git LFS, encrypted or
// very large ones, are compared by their bytes.
func SameFile(a, b fs.FS, name string) bool {
	x, errX := render.ReadFile(a, name)
	y, errY := render.ReadFile(b, name)
	if errX != nil && errY != nil {
		return opaque(a, name) == opaque(b, name)
	}
	return (errX == nil) == (errY == nil) && bytes.Equal(content(x), content(y))
}

// opaque returns the target of a link, or Git's hash of a file, or "" if there is neither.
func opaque(tree fs.FS, name string) string {
	info, err := fs.Lstat(tree, name)
	if err != nil {
		return ""
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, _ := fs.ReadLink(tree, name)
		return target
	}
	if !info.Mode().IsRegular() {
		return ""
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", info.Size())
	if f, err := tree.Open(name); err == nil {
		defer f.Close()
		if _, err := io.Copy(h, f); err == nil {
			return fmt.Sprintf("%x", h.Sum(nil))
		}
	}
	if located, ok := tree.(interface { // the file is too large to be read from Git
		Locate(op, name string) (fs.FS, string, error)
	}); ok {
		if tree, name, err := located.Locate("hash", name); err == nil {
			if hashed, ok := tree.(interface {
				Hash(name string) (string, error)
			}); ok {
				hash, _ := hashed.Hash(name)
				return hash
			}
		}
	}
	return ""
}

// content returns a text without blank lines and comments at its beginning. A comment
// with an action of a template counts as text, since the action may write objects.
func content(text []byte) []byte {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		line = bytes.TrimSpace(line)
		if len(line) > 0 && (line[0] != '#' || bytes.Contains(line, []byte("{{"))) {
			break
		}
		text = rest
	}
	return text
}
