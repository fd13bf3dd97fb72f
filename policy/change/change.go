// Package change compares two sides of a change, such as the work tree and the
// revision that it is merged into, before and after policies evaluate them.
//
// The functions take two [Side]s. An [Entry] has what each side does with something, and its
// Verdict is the only place that decides whether that counts: for units ([Count], ledger.go), and
// for documents of the head's files ([Documents], documents.go). The others return the objects to
// compare (change.go), what both sides leave undecided although its inputs change (inputs.go), the
// objects that policies of the base can look up (cluster.go), the failures that a change hides by
// exempting objects (exempt.go), those that only objects that nothing deploys hide (unreached.go),
// the objects that are no longer checked once it is merged (missing.go), and those that name an
// object which the change deletes (referenced.go). The command calls them before and after
// [policy.Chain.Review], whose results [policy.Comparison] marks.
//
// The one thing to know: if a side could not be rendered completely, a missing
// object there means nothing ([PartlyRendered]).
package change

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A Side is the rendered content of one of two states of a repository.
type Side struct {
	Tree     fs.FS
	Units    []*render.Unit // that are deployed
	Given    []*render.Unit // by --policy
	Context  []*render.Unit // by --with
	Anywhere []*render.Unit // whose cluster is unknown
	Others   []*render.Unit // of other clusters
	Deployed *render.Deployment
	Walked   render.Discovery
	Unread   []string // files and directories that could not be read

	Documents func() []render.TreeDocument // of all clusters
}

// objects returns the objects that are deployed, and then those that their deployers leave alone.
func (s *Side) objects(written func(*render.Unit) []*render.Object) (all []*render.Object) {
	for _, u := range s.Units {
		all = append(all, written(u)...)
	}
	for _, u := range s.Units {
		all = append(all, u.Left...)
	}
	return all
}

// Comparable returns the objects of two sides, also those that deployers leave alone, without units that
// the other side could not render completely, because missing objects there may only be invisible. written returns
// the objects that the deployer of a unit writes.
func Comparable(base, head *Side, written func(*render.Unit) []*render.Object) (old, now []*render.Object) {
	half := PartlyRendered(base, head)
	was, now := base.objects(written), head.objects(written)
	ids := policy.NewIdentities(was, now)
	anyUnit := func(o *render.Object) policy.Identity {
		id := ids.Of(o)
		id.Unit = ""
		return id
	}
	seen, counts := make(map[policy.Identity]bool), make(map[policy.Identity][2]int)
	for i, objects := range [][]*render.Object{was, now} {
		for _, o := range objects {
			n := counts[anyUnit(o)]
			n[i]++
			counts[anyUnit(o)] = n
			if i == 1 && half(o.Unit.Identity()) {
				seen[ids.Of(o)] = true
			}
		}
	}
	for _, o := range was {
		// an object that each side has once, but in another unit because its own failed, is still the same
		if !half(o.Unit.Identity()) || seen[ids.Of(o)] || counts[anyUnit(o)] == [2]int{1, 1} {
			old = append(old, o)
		}
	}
	return old, now
}

// PartlyRendered returns a function that reports whether a side could not render a unit
// completely, or may have missed it because it could not read a directory.
func PartlyRendered(sides ...*Side) func(unit string) bool {
	half := make(map[string]bool)
	var unread []string
	for _, in := range sides {
		for _, u := range in.Units {
			for _, e := range render.Errors(u.Err) {
				half[u.Identity()] = half[u.Identity()] || !e.Warning
			}
		}
		unread = append(unread, in.Unread...)
	}
	for i, in := range sides {
		for k, other := range sides {
			if i == k {
				continue
			}
			for unit, is := range Stopped(in, other) {
				half[unit] = half[unit] || is
			}
		}
	}
	uncovered(half, sides)
	return func(unit string) bool {
		return half[unit] || slices.ContainsFunc(unread, func(name string) bool {
			return unit == name || strings.HasPrefix(unit, name+"/")
		})
	}
}

// Stopped returns the units of one side whose objects are missing on the other
// because they, or the unit that deploys them, could not be rendered there. Their
// controller leaves their objects unchanged.
func Stopped(in, other *Side) map[string]bool {
	failed := make(map[string]bool) // by identity, of the units of the other side
	for _, u := range slices.Concat(other.Deployed.Units, other.Units) {
		failed[u.Identity()] = len(u.Objects) == 0 && len(render.Failures(u.Err)) > 0
	}
	stopped := make(map[string]bool)
	for _, u := range slices.Concat(in.Deployed.Units, in.Units) {
		stopped[u.Identity()] = failed[nearest(u, failed).Identity()]
	}
	return stopped
}

// Resumed returns a function that reports whether the head renders a unit completely, while at the base it could not be
// rendered or was suspended. Which of its objects are on the cluster is unknown.
func Resumed(base, head *Side) func(unit string) bool {
	resumed := Stopped(head, base)
	for _, side := range []*Side{base, head} {
		for _, u := range side.Units {
			if u.State == render.Suspended || len(render.Failures(u.Err)) > 0 {
				resumed[u.Identity()] = side == base
			}
		}
	}
	return func(unit string) bool { return resumed[unit] }
}

// nearest returns the unit itself if the other side has it, else the first unit
// above it that the other side has, else the unit itself.
func nearest(u *render.Unit, other map[string]bool) *render.Unit {
	above := u
	for range maxOwners {
		if _, ok := other[above.Identity()]; ok {
			return above
		}
		if above.Owner == nil || above.Owner.Unit == nil {
			break
		}
		above = above.Owner.Unit
	}
	return u
}

const maxOwners = 32 // above a unit

// uncovered adds units to half that may be units only because another one of
// their side failed: the base of a kustomization that can't be read is rendered
// by itself. The other side has its files too, but not as a unit.
func uncovered(half map[string]bool, sides []*Side) {
	units := make([]map[string]bool, len(sides))
	hides := make([]bool, len(sides)) // whether a unit failed that may use others
	for i, in := range sides {
		units[i] = make(map[string]bool, len(in.Units))
		for _, u := range in.Units {
			units[i][u.Path] = true
			hides[i] = hides[i] || u.Kind != "manifest" && u.Status() != "rendered"
		}
	}
	for i, in := range sides {
		for k, other := range sides {
			for _, u := range in.Units {
				if hides[i] && !units[k][u.Path] {
					_, err := fs.Stat(other.Tree, u.Path)
					half[u.Path] = half[u.Path] || err == nil
				}
			}
		}
	}
}
