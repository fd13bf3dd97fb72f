// Package delivery says how deployers act on the objects of a change: kubectl, Helm, Argo CD and
// Flux apply, replace, delete and create, prune, keep, or leave an object alone, and how they send it
// to the API server.
//
// It takes the units of both sides and an object as it was and as it is, and returns an [Act] with
// the reason. The requests to the API server are made from it. Rows lists every rule with the
// upstream function that it follows.
package delivery

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// An Act is what a deployer does with an object of a change.
type Act int

// The acts.
const (
	Apply             Act = iota // it creates the object, changes it in place, or deletes it
	Leave                        // it makes no request
	Recreate                     // it deletes the object and creates it again
	RecreateIfRefused            // it changes the object, and recreates it if the API server answers that it is invalid: a field is immutable, or wrong
	CreateAgain                  // it creates the object, whose last version is deleted by then
	Replace                      // it sends the whole object, which replaces the one on the cluster
	ApplyServerSide              // the API server merges the manifest into the object
	ApplyAsData                  // ApplyServerSide, of a Secret whose stringData is moved to data
	ApplyDifference              // it changes a custom resource by the difference between the two manifests, whatever is on the cluster
	DeletePerhaps                // it deletes the object, if its own change comes first
)

// Suspended is the reason to leave the objects of a suspended deployer.
const Suspended = "it is suspended"

// A Change holds the units of the two sides of a change, by Identity.
type Change struct {
	before, after map[string]*render.Unit
}

// New returns the change between two sides. A chart that only its path deploys is the same release on both sides
// if its name and namespace are, although the directory has another name.
func New(before, after []*render.Unit) *Change {
	c := &Change{render.ByIdentity(before), render.ByIdentity(after)}
	type release struct{ cluster, namespace, name string }
	alone := func(units, others map[string]*render.Unit) map[release]*render.Unit {
		all := make(map[release]*render.Unit)
		for id, u := range units {
			if r := (release{u.Cluster, u.Namespace, u.Name}); u.Owner == nil && u.Kind == "helm" && others[id] == nil {
				if _, several := all[r]; several {
					u = nil
				}
				all[r] = u
			}
		}
		return all
	}
	moved := alone(c.before, c.after)
	for r, u := range alone(c.after, c.before) {
		if old := moved[r]; old != nil && u != nil {
			c.before[u.Identity()], c.after[old.Identity()] = old, u
		}
	}
	return c
}

// A step is what happens to an object in a change.
type step int

const (
	created     step = 1 << iota
	added            // the change creates it, by a deployer that exists before the change
	updated          // the object differs
	pruned           // the object is gone, its deployer stays
	uninstalled      // the deployer is deleted
	sent             // the object is sent to the API server
)

// Act returns how the deployer of an object makes it from was, which is nil if it is new, to now,
// which is nil if it is gone. For Leave, why is the reason.
func (c *Change) Act(was, now *render.Object) (act Act, why string) {
	switch {
	case now == nil:
		return c.deleted(was)
	case now.Unit == nil:
		return Apply, ""
	case c.suspended(now.Unit):
		return Leave, Suspended
	case was == nil && c.before[now.Unit.Identity()] != nil:
		return c.row(created|added, &subject{Object: now})
	case was == nil:
		return c.row(created, &subject{Object: now})
	case was.Unit != nil && was.Unit.Identity() == now.Unit.Identity() && c.reinstalled(now.Unit):
		if s := (&subject{Object: was}); !hook(s) && !crds(s) && !helmKeeps(s) && !madeNamespace(s) {
			return Recreate, ""
		}
	case c.Drops(was, now) && isRelease(was.Unit) && !(isRelease(now.Unit) && sameRelease(was.Unit, now.Unit)):
		return Recreate, "" // Helm deletes it whoever has it, and installs none that another release has
	case madeNamespace(&subject{Object: now}) && !madeNamespace(&subject{Object: was}) && was.Unit != nil && was.Unit.Owner != nil:
		if act, _ := c.deleted(was); act != Leave {
			return Recreate, "" // the namespace that the deployer makes by an option is not the one that it tracked
		}
	}
	if reflect.DeepEqual(was.Object, now.Object) {
		return Apply, ""
	}
	return c.row(updated, &subject{Object: now, live: was})
}

// LeavesSince reports whether the deployer of an object would update it without the change, which has it leave the
// object alone: by an annotation, for example.
func LeavesSince(was, now *render.Object) bool {
	if was.Unit == nil || was.Unit.Owner == nil || now.Unit == nil {
		return false
	}
	r := rowFor(updated, &subject{Object: was, live: was})
	return r == nil || r.act != Leave
}

// Sends returns how the deployer of an object sends it to the API server: Apply, as kubectl apply does, Replace,
// ApplyServerSide or ApplyDifference. was is the object before an update, or nil.
func Sends(was, now *render.Object) Act {
	if now.Unit == nil || now.Unit.Owner == nil && now.Unit.Kind != "helm" {
		return Apply
	}
	if r := rowFor(sent, &subject{Object: now, live: was}); r != nil {
		return r.act
	}
	return Apply
}

// row returns the act of the first row that fits, for an object with a unit.
func (c *Change) row(at step, s *subject) (Act, string) {
	if s.left = c.after[s.Unit.Identity()]; s.Unit.Owner == nil && s.Unit.Kind != "helm" {
		return Apply, ""
	}
	if r := rowFor(at, s); r != nil {
		return r.act, r.why
	}
	return Apply, ""
}

// rowFor returns the first row that fits an object of a unit, or nil.
func rowFor(at step, s *subject) *row {
	deployer := "Helm"
	if s.owner == nil {
		s.owner = s.Unit.Owner
	}
	if s.owner != nil {
		deployer = s.owner.GetKind()
	}
	for i := range rows {
		if r := &rows[i]; r.at&at != 0 && slices.Contains(r.deployers, deployer) && r.when(s) {
			return r
		}
	}
	return nil
}

// LeavesAlone returns why the deployer of an object neither creates nor changes it, as an annotation or label
// says, and the place of that. why is "" if the deployer does either.
func LeavesAlone(o *render.Object) (why string, at []render.Origin) {
	if o.Unit == nil || o.Unit.Owner == nil {
		return "", nil
	}
	r := rowFor(created, &subject{Object: o})
	if r == nil || r.act != Leave {
		return "", nil
	}
	for _, field := range []string{"annotations", "labels"} {
		for _, key := range []string{fluxGroup + "reconcile", fluxGroup + "ssa", argoHook, helmHook} {
			if at := render.Pointer("metadata", field, key); value(o, at) != nil && strings.Contains(r.why, key) {
				return r.why, o.At(at)
			}
		}
	}
	return r.why, nil
}

// IsLeft reports whether an object, which may be nil, is one that its deployer leaves alone.
func IsLeft(o *render.Object) bool {
	return o != nil && o.Unit != nil && slices.Contains(o.Unit.Left, o)
}

// SetAside moves the objects that the deployer of a unit leaves alone from Objects to Left, drops such
// variants, and records why their documents are not deployed.
func SetAside(u *render.Unit) {
	if u.Owner == nil {
		return
	}
	u.Variants = slices.DeleteFunc(slices.Clone(u.Variants), func(o *render.Object) bool { why, _ := LeavesAlone(o); return why != "" })
	left := make(map[string][]*render.Object)
	applied := make([]*render.Object, 0, len(u.Objects))
	for _, o := range u.Objects {
		if why, _ := LeavesAlone(o); why != "" {
			left[why] = append(left[why], o)
		} else {
			applied = append(applied, o)
		}
	}
	if len(left) == 0 {
		return
	}
	u.Objects = applied
	var documents render.Inputs
	for _, why := range slices.Sorted(maps.Keys(left)) {
		u.Left = append(u.Left, left[why]...)
		documents.NoteSkipped(left[why], applied, "left alone by its "+u.Owner.GetKind()+": "+why)
	}
	for _, in := range documents.All() {
		if in.State == render.DocSkipped {
			in.State = render.DocLeft
		}
		u.Inputs = append(slices.Clip(u.Inputs), in)
	}
}

// deleted returns how a deployer acts on an object that is gone. An object of a deployer that is
// itself left on the cluster is left, too.
func (c *Change) deleted(o *render.Object) (Act, string) { return c.deletedBelow(o, 0) }

// maxOwners bounds how many deployers above an object are asked. A Kustomization of Flux usually deploys itself.
const maxOwners = 32

func (c *Change) deletedBelow(o *render.Object, owners int) (Act, string) {
	if o.Unit == nil {
		return Apply, ""
	}
	stays := c.after[o.Unit.Identity()]
	switch owner := o.Unit.Owner; {
	case stays != nil && (c.suspended(stays) || stays.State == render.Suspended && len(stays.Objects) == 0 && len(render.Failures(stays.Err)) > 0):
		return Leave, Suspended
	case stays != nil:
		return c.pruned(o, stays.Owner)
	case o.Unit.State == render.Suspended: // kustomize-controller v1.7 finalize, helm-controller v1.4 reconcileDelete
		return Leave, "its deployer was suspended, which then deletes nothing"
	case owner != nil && owners < maxOwners:
		if act, why := c.deletedBelow(owner, owners+1); act == Leave {
			return Leave, fmt.Sprintf("its %s %s is left as well: %s", owner.GetKind(), owner.GetName(), why)
		}
	}
	return c.row(uninstalled, &subject{Object: o})
}

// pruned returns how a deployer acts on an object that is gone. now is the deployer after the change, which may have it
// prune from then on. Argo CD then finds the object on the cluster and deletes it. A Kustomization deletes only what
// it applied the last time, so it depends on which of the two it sees first.
func (c *Change) pruned(o, now *render.Object) (Act, string) {
	act, why := c.row(pruned, &subject{Object: o})
	if act != Leave || now == nil {
		return act, why
	}
	switch again, _ := c.row(pruned, &subject{Object: o, owner: now}); {
	case again == Leave:
		return act, why
	case now.GetKind() == "Kustomization":
		return DeletePerhaps, ""
	default:
		return again, ""
	}
}

// suspended reports whether the deployer of a unit stays suspended. One that the change suspends
// counts as if it acted: it will once it is resumed, and then nobody looks at the change any more.
func (c *Change) suspended(u *render.Unit) bool {
	was := c.before[u.Identity()]
	return u.State == render.Suspended && (was == nil || was.State == render.Suspended)
}

// Resumed reports whether the deployer of an object was suspended before the change and no longer is. Such
// a deployer applies the object even if the change leaves it alone, because the version on the cluster may
// be older than that of the base.
func Resumed(was, now *render.Object) bool {
	return was != nil && was.Unit != nil && was.Unit.State == render.Suspended && now != nil && now.Unit != nil && now.Unit.State != render.Suspended
}

// Drops reports whether an object moves from a deployer that deletes what it no longer has. Flux and Argo CD do so
// unless the new deployer has marked the object as its own by then.
func (c *Change) Drops(was, now *render.Object) bool {
	from, to := was.Unit, now.Unit
	if from == nil || to == nil || from.Owner == nil || from.Identity() == to.Identity() || to.Owner != nil && from.Owner.Key() == to.Owner.Key() {
		return false
	}
	if stays := c.after[from.Identity()]; stays != nil && stays.Status() != "rendered" && stays.State != render.Suspended {
		return false
	}
	act, _ := c.deleted(was)
	return act != Leave
}

// reinstalled reports whether Flux uninstalls the release of a unit and then installs another, since
// its name, namespace or chart changes: helm-controller ReleaseTargetChanged.
func (c *Change) reinstalled(u *render.Unit) bool {
	old := c.before[u.Identity()]
	if old == nil || old.Owner == nil || u.Owner == nil || u.Owner.GetKind() != "HelmRelease" || old.State == render.Suspended {
		return false
	}
	return !sameRelease(old, u) || old.Chart != u.Chart && old.Chart != "" && u.Chart != ""
}

// sameRelease reports whether two HelmReleases have one release of Helm.
func sameRelease(a, b *render.Unit) bool {
	storage := func(u *render.Unit) any {
		return cmp.Or(value(u.Owner, "/spec/storageNamespace"), any(u.Owner.GetNamespace()))
	}
	return a.Release == b.Release && a.Namespace == b.Namespace && storage(a) == storage(b)
}

func isRelease(u *render.Unit) bool { return u.Owner != nil && u.Owner.GetKind() == "HelmRelease" }

// Written returns the objects of a unit of either side that its deployer has on the cluster before the change, or
// writes in it. upgrade reports whether Helm or Flux then upgrades a release, which is on both sides.
//
//	before              after
//	written by upgrades written by upgrades  a release that is on both sides, and is taken to have been upgraded before
//	by either           by a first install   a release that the change installs, uninstalls or installs again
//	by a first install  written by upgrades  a release of which no upgrade could be rendered before
//	by a first install  by a first install   a release of which none can be rendered after; any other deployer: Argo CD
//	                                         and kustomize never upgrade
//
// Upgrades write no hooks of other events.
func (c *Change) Written(u *render.Unit) (objects []*render.Object, upgrade bool) {
	was, is := c.before[u.Identity()], c.after[u.Identity()]
	objects, known := u.Upgraded()
	switch {
	case !u.IsUpgraded():
		return u.Objects, false
	case was == nil || is == nil || !was.IsUpgraded() || !is.IsUpgraded() || c.reinstalled(is):
		if u == was && len(u.Variants) > 0 {
			first := keys(u.Objects)
			return slices.Concat(u.Objects, slices.DeleteFunc(objects, first.has)), false
		}
		return u.Objects, false
	}
	now, rendered := is.Upgraded()
	switch {
	case !rendered:
		return u.Objects, false
	case !known:
		return u.Objects, true
	}
	if u == was && len(objects) < len(was.Objects)+len(was.Variants) {
		before, after := keys(objects), keys(now)
		for _, o := range was.Objects { // what a first install has written and Helm has kept
			if helmKeepsOnUpgrade(&subject{Object: o}) && !before.has(o) && after.has(o) {
				objects = append(slices.Clip(objects), o)
			}
		}
	}
	unwritten := func(o *render.Object) bool {
		s := &subject{Object: o, owner: u.Owner}
		return hook(s) && !upgradeHook(s)
	}
	if !slices.ContainsFunc(objects, unwritten) {
		return objects, true
	}
	return slices.DeleteFunc(slices.Clone(objects), unwritten), true
}

// objectKeys are the keys of objects, without their units.
type objectKeys map[render.Key]bool

func keys(objects []*render.Object) objectKeys {
	all := make(objectKeys, len(objects))
	for _, o := range objects {
		all[unitless(o)] = true
	}
	return all
}

func (k objectKeys) has(o *render.Object) bool { return k[unitless(o)] }

func unitless(o *render.Object) render.Key {
	k := o.Key()
	k.Unit = ""
	return k
}

// First returns the objects of gone that the deployer of one unit deletes before it creates or changes
// any of its other objects, which are applied. kubectl, Helm and Flux's Kustomizations apply all
// objects and then delete. A release that Flux reinstalls is uninstalled first. In each sync wave Argo
// CD prunes first: gitops-engine runTasks. It goes through the waves of pruned objects in reverse, and
// those with PruneLast come after all others: getSyncTasks.
func (c *Change) First(unit string, gone, applied []*render.Object) []*render.Object {
	u := c.after[unit]
	switch {
	case u == nil || u.Owner == nil:
		return nil
	case c.reinstalled(u):
		return gone
	case u.Owner.GetKind() != "Application":
		return nil
	}
	start := math.MaxInt // of what is applied
	for _, o := range applied {
		s := &subject{Object: o, owner: u.Owner}
		phases := append(list(o, argoHook), list(o, helmHook)...)
		switch in := func(phase string) bool { return slices.Contains(phases, phase) }; {
		case hook(s) && (in("PreSync") || in("pre-install") || in("pre-upgrade")):
			return nil
		case !hook(s) || in("Sync"):
			start = min(start, wave(o))
		}
	}
	var waves []int
	for _, o := range gone {
		waves = append(waves, wave(o))
	}
	slices.Sort(waves)
	waves = slices.Compact(waves)
	return slices.DeleteFunc(slices.Clone(gone), func(o *render.Object) bool {
		s := &subject{Object: o, owner: u.Owner}
		at, _ := slices.BinarySearch(waves, wave(o))
		return waves[len(waves)-1-at] > start || option("PruneLast=true")(s) || slices.Contains(s.options(), "PruneLast=true")
	})
}

// wave is gitops-engine's syncwaves.Wave.
func wave(o *render.Object) int {
	for _, key := range []string{"argocd.argoproj.io/sync-wave", "helm.sh/hook-weight"} {
		if n, err := strconv.Atoi(o.GetAnnotations()[key]); err == nil {
			return n
		}
	}
	return 0
}

func value(o *render.Object, pointer string) any {
	v, _ := render.Lookup(o.Object, pointer)
	return v
}
