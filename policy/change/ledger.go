package change

import (
	"errors"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A State says what a side of a change does with a unit.
type State int

// The states. Without objects of Argo CD or Flux, everything in a tree is PerhapsDeployed:
// by a person or a script.
const (
	NotDeployed State = iota
	PerhapsDeployed
	Deployed
)

// An Entry has the states of a unit on both sides. A side that lacks the unit has the state
// that the unit would have there.
type Entry struct {
	Base, Head State
	Why        string // why it is perhaps deployed
}

// A Verdict says what follows from an Entry.
type Verdict int

// The verdicts.
const (
	Ignored Verdict = iota // the unit's results are listed apart
	Counts                 // its results count
	Stops                  // the change stops deploying it, which is undecided while its files stay
)

// Verdict decides whether a unit counts. Nothing that the head adds makes a unit stop
// counting: only the removal of what deployed it does.
func (e Entry) Verdict() Verdict {
	switch {
	case e.Base == Deployed && e.Head != Deployed:
		return Stops
	case e.Base == NotDeployed && e.Head == NotDeployed:
		return Ignored
	}
	return Counts
}

// Count makes the units of both sides count that perhaps are deployed, although no object
// of their side deploys them. It returns the reasons by the units' identities, and the units of
// both sides that count because of the base alone: once the change is merged they don't.
func Count(base, head *Side) (perhaps map[string]string, fading []*render.Unit) {
	perhaps = make(map[string]string)
	was := make(map[string]bool)
	for _, u := range base.Units {
		was[u.Identity()] = true
	}
	for _, s := range []*Side{base, head} {
		for _, u := range s.Units {
			if u.State != render.Unreached {
				continue
			}
			e := entry(base, head, u)
			if e.Verdict() != Counts || s == base && e.Base == NotDeployed { // the change is the first to deploy it
				continue
			}
			u.State, perhaps[u.Identity()] = "", e.Why
			if s == head && e.Head == NotDeployed && was[u.Identity()] {
				fading = append(fading, u)
			}
		}
	}
	return perhaps, fading
}

// Leading returns the first object of Argo CD or Flux in the head that makes a unit and that the
// base lacks or has otherwise, or nil.
func Leading(base, head *Side) *render.Object {
	was := make(map[string]*render.Object)
	for _, u := range base.Deployed.Units {
		was[u.Identity()] = u.Owner
	}
	for _, u := range head.Deployed.Units {
		if old := was[u.Identity()]; u.Owner != nil && (old == nil || !reflect.DeepEqual(old.Object, u.Owner.Object)) {
			return u.Owner
		}
	}
	return nil
}

// Dropped returns the paths of roots of the head that a kustomization built at the base and no
// longer builds, although it is there without errors. The values are the kustomizations' paths. Such roots
// would count as deployed by a person, but the change stops deploying them.
func Dropped(base, head *Side) map[string]string {
	was := make(map[string]bool) // paths that are units at the base
	for _, u := range base.Units {
		was[u.Path] = true
	}
	now := render.ByIdentity(head.Units)
	dropped := make(map[string]string)
	for root := range head.Deployed.Roots {
		if root.Origin.File != "" || was[root.Path] || root.Kind != "kustomize" && root.Kind != "manifest" {
			continue
		}
		for _, u := range base.Units {
			is := now[u.Identity()]
			known := is != nil && len(render.Failures(is.Err)) == 0
			if u.State != render.Unreached && builds(u, root.Path) && known && !builds(is, root.Path) {
				dropped[root.Path] = u.Path
				break
			}
		}
	}
	return dropped
}

// builds reports whether a unit is a kustomization with objects from another path.
func builds(u *render.Unit, path string) bool {
	if u.Kind != "kustomize" && u.Renderer != "kustomize" || u.Path == path {
		return false
	}
	for _, o := range u.Objects {
		for _, at := range o.At("") {
			if at.File == path || strings.HasPrefix(at.File, path+"/") {
				return true
			}
		}
	}
	return false
}

// entry returns the entry of a unit of either side.
func entry(base, head *Side, u *render.Unit) Entry {
	was, why := base.state(u)
	is, now := head.state(u)
	if now != "" {
		why = now
	}
	return Entry{Base: was, Head: is, Why: why}
}

// state returns what the side does with a unit at a path, which it may lack, and why the
// unit is perhaps deployed.
func (s *Side) state(u *render.Unit) (state State, why string) {
	if s.Walked.Beside(u.Path) {
		return NotDeployed, ""
	}
	if !s.Deployed.Opens() {
		return PerhapsDeployed, "deployed: by a person or a script, since without the change no object of Argo CD or Flux deploys anything of this tree"
	}
	for _, by := range s.Deployed.Units {
		switch {
		case unresolved(by) && render.Below(s.Deployed.Named[by], u.Path):
			return PerhapsDeployed, "deployed: by " + by.Identity() + ", which names this path and can't be resolved here"
		case s.takes(by, u.Path):
			return PerhapsDeployed, "deployed: by " + by.Identity() + ", which without the change deploys all files of this directory"
		}
	}
	if s.Deployed.Reaches(&u.Source) {
		return Deployed, ""
	}
	return NotDeployed, ""
}

// takes reports whether a unit deploys all files of a directory, so that it would deploy a file that
// the side lacks.
func (s *Side) takes(by *render.Unit, file string) bool {
	dir := path.Dir(file)
	if s.Walked.Claimed(dir) || by.Owner == nil || !slices.Contains(s.Deployed.Named[by], dir) {
		return false
	}
	if !applies(by, file) {
		return false
	}
	for _, key := range []string{"include", "exclude"} {
		if _, selects := render.Lookup(by.Owner.Object, "/spec/source/directory/"+key); selects {
			return false
		}
	}
	_, err := fs.Stat(s.Tree, file)
	return errors.Is(err, fs.ErrNotExist)
}

// applies reports whether the deployer of a unit applies files of a type from a directory.
func applies(u *render.Unit, file string) bool {
	types := []string{".yaml", ".yml"}
	switch {
	case u.Owner == nil:
		types = append(types, ".json")
	case u.Owner.GetKind() == "Application":
		types = append(types, ".json", ".jsonnet")
	}
	return slices.Contains(types, path.Ext(file))
}

// unresolved reports whether it is unknown what a GitOps object deploys. An ApplicationSet that makes
// nothing here may lack its clusters or parameters.
func unresolved(u *render.Unit) bool {
	generates := u.Owner != nil && (u.Owner.GetKind() == "ApplicationSet" || u.Owner.GetKind() == "ResourceSet")
	return u.State != render.Suspended && (u.State != render.Foreign || generates) && (len(render.Failures(u.Err)) > 0 || generates && len(u.Objects) == 0)
}
