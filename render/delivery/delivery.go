// Package delivery says how deployers act on the objects of a change: kubectl, Helm, Argo CD and
// Flux apply, replace, delete and create, prune, keep, or leave an object alone.
//
// It takes the units of both sides and an object as it was and as it is, and returns an [Act] with
// the reason. The requests to the API server are made from it. Rows lists every rule with the
// upstream function that it follows.
package delivery

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/preadmit/preadmit/render"
)

// An Act is what a deployer does with an object of a change.
type Act int

// The acts.
const (
	Apply             Act = iota // it creates the object, changes it in place, or deletes it
	Leave                        // it makes no request
	Recreate                     // it deletes the object and creates it again
	RecreateIfRefused            // it changes the object, and recreates it if the API server refuses to change a field that is immutable
	CreateAgain                  // it creates the object, whose last version is deleted by then
)

// A Change holds the units of the two sides of a change, by Identity.
type Change struct {
	before, after map[string]*render.Unit
}

// New returns the change between two sides.
func New(before, after []*render.Unit) *Change {
	return &Change{byIdentity(before), byIdentity(after)}
}

func byIdentity(units []*render.Unit) map[string]*render.Unit {
	all := make(map[string]*render.Unit, len(units))
	for _, u := range units {
		all[u.Identity()] = u
	}
	return all
}

// A step is what happens to an object in a change.
type step int

const (
	created     step = 1 << iota
	updated          // the object differs
	pruned           // the object is gone, its deployer stays
	uninstalled      // the deployer is deleted
)

// Act returns how the deployer of an object makes it from was, which is nil if it is new, to now,
// which is nil if it is gone. For other acts than Apply, why is the reason.
func (c *Change) Act(was, now *render.Object) (act Act, why string) {
	o, at := now, created
	switch {
	case now == nil:
		return c.deleted(was)
	case was != nil:
		at = updated
	}
	if o.Unit == nil {
		return Apply, ""
	}
	if c.suspended(o.Unit) {
		return Leave, "it is suspended"
	}
	if at == updated {
		if act, why := c.reinstalled(was, now); act != Apply || reflect.DeepEqual(was.Object, now.Object) {
			return act, why
		}
	}
	return c.row(at, o)
}

// row returns the act of the first row that fits.
func (c *Change) row(at step, o *render.Object) (Act, string) {
	owner := o.Unit.Owner
	deployer := ""
	switch {
	case owner != nil:
		deployer = owner.GetKind()
	case o.Unit.Kind == "helm":
		deployer = "Helm"
	}
	if r := rowFor(deployer, at, o, owner); r != nil {
		return r.act, r.why
	}
	if at == created && deployer == "HelmRelease" && c.before[o.Unit.Identity()] != nil && ofCRDs(o) && value(owner, "/spec/upgrade/crds") != "Create" {
		return c.row(updated, o)
	}
	return Apply, ""
}

// rowFor returns the first row that fits, or nil.
func rowFor(deployer string, at step, o, owner *render.Object) *row {
	for i := range rows {
		r := &rows[i]
		if r.at&at != 0 && slices.Contains(r.deployers, deployer) && r.when(o, owner) {
			return r
		}
	}
	return nil
}

// deleted returns how a deployer acts on an object that is gone. An object of a deployer that is
// itself left on the cluster is left, too.
func (c *Change) deleted(o *render.Object) (Act, string) {
	if o.Unit == nil {
		return Apply, ""
	}
	stays := c.after[o.Unit.Identity()]
	switch owner := o.Unit.Owner; {
	case stays != nil && stays.State == render.Suspended:
		return Leave, "it is suspended"
	case stays != nil:
		return c.row(pruned, o)
	case o.Unit.State == render.Suspended: // kustomize-controller v1.7 finalize, helm-controller v1.4 reconcileDelete
		return Leave, "its deployer was suspended, which then deletes nothing"
	case owner != nil:
		if act, why := c.deleted(owner); act == Leave {
			return Leave, fmt.Sprintf("its %s %s is left as well: %s", owner.GetKind(), owner.GetName(), why)
		}
	}
	return c.row(uninstalled, o)
}

// suspended reports whether the deployer of a unit stays suspended. One that the change suspends
// counts as if it acted: it will once it is resumed, and then nobody looks at the change any more.
func (c *Change) suspended(u *render.Unit) bool {
	was := c.before[u.Identity()]
	return u.State == render.Suspended && (was == nil || was.State == render.Suspended)
}

// reinstalled returns Recreate if Flux uninstalls the release of an object and installs another:
// helm-controller v1.4 action.ReleaseTargetChanged.
func (c *Change) reinstalled(was, now *render.Object) (Act, string) {
	old, u := was.Unit, now.Unit
	if old == nil || old.Owner == nil || u.Owner == nil || old.Identity() != u.Identity() || u.Owner.GetKind() != "HelmRelease" {
		return Apply, ""
	}
	if old.State == render.Suspended || isHook(now) || ofCRDs(now) || helmKeeps(was, nil) {
		return Apply, ""
	}
	switch storage := "/spec/storageNamespace"; {
	case old.Release != u.Release:
		return Recreate, "its release has another name, so Flux uninstalls the old one first"
	case old.Namespace != u.Namespace, value(old.Owner, storage) != value(u.Owner, storage):
		return Recreate, "its release has another namespace, so Flux uninstalls the old one first"
	case old.Name != u.Name:
		return Recreate, "its release has another chart, so Flux uninstalls the old one first"
	}
	return Apply, ""
}

func value(o *render.Object, pointer string) any {
	v, _ := render.Lookup(o.Object, pointer)
	return v
}
