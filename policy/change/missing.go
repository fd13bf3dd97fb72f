package change

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Missing compares the objects that one tree deploys under two configurations. gone are objects that later lacks
// or has fewer of, other are objects that differ there. Both are sorted by place.
func Missing(now, later []*render.Unit) (gone, other []*render.Object) {
	laterBy := counted(later)
	for k, have := range counted(now) {
		then := laterBy[k]
		if len(then) < len(have) {
			gone = append(gone, have[len(have)-1])
		}
		for _, o := range have[:min(len(have), len(then))] {
			if !slices.ContainsFunc(then, func(x *render.Object) bool { return reflect.DeepEqual(x.Object, o.Object) }) {
				other = append(other, o)
			}
		}
	}
	for _, list := range [][]*render.Object{gone, other} {
		slices.SortFunc(list, func(a, b *render.Object) int { return strings.Compare(Where(a), Where(b)) })
	}
	return gone, other
}

// PerhapsGone returns the objects in files of units that the base could not render and that the head does, as far as
// the head no longer deploys an object of that kind and name. An earlier version of the unit may have put them on the cluster.
func PerhapsGone(base, head *Side) (gone []*render.Object) {
	failed, known := make(map[string]*render.Unit), Resumed(base, head) // by path
	now := render.ByIdentity(head.Units)
	for _, u := range base.Units {
		if is := now[u.Identity()]; len(render.Failures(u.Err)) > 0 && u.State != render.Unreached && known(u.Identity()) && (is != nil || u.Owner != nil) {
			failed[u.Path] = u
		}
	}
	if len(failed) == 0 {
		return nil
	}
	type named struct {
		name string
		unit *render.Unit
	}
	stays := make(map[schema.GroupKind][]named)
	for _, s := range []*Side{base, head} {
		for _, o := range s.objects(func(u *render.Unit) []*render.Object { return u.Objects }) {
			if gk := o.GroupVersionKind().GroupKind(); !isUnreached(o) {
				stays[gk] = append(stays[gk], named{o.GetName(), o.Unit})
			}
		}
	}
	// isIn reports whether an object is the one of a file of a unit, which may add a prefix and a suffix to its name.
	isIn := func(is named, name string, u *render.Unit) bool {
		return is.name == name || is.unit != nil && is.unit.Identity() == u.Identity() && strings.Contains(is.name, name)
	}
	read := make(map[fileKind]bool) // by the head, as something else
	for _, x := range head.Documents() {
		read[fileKind{x.File, x.Kind}] = x.State == render.DocData || x.State == render.DocLocalConfig || x.State == render.DocDeleted
	}
	objects := base.Walked.Objects()
	for _, x := range base.Documents() {
		dir := x.File
		for dir != "." && failed[dir] == nil {
			dir = path.Dir(dir)
		}
		if x.State != render.DocFailed || failed[dir] == nil || read[fileKind{x.File, x.Kind}] {
			continue
		}
		for _, o := range objects(x) {
			if _, patch := o.Object["$patch"]; patch || slices.ContainsFunc(stays[o.GroupVersionKind().GroupKind()], func(is named) bool { return isIn(is, o.GetName(), failed[dir]) }) {
				continue
			}
			o.Unit = failed[dir]
			gone = append(gone, o)
		}
	}
	return gone
}

// counted returns the evaluated objects, as they are written: the configuration may put an
// object into another namespace. There are several if there are several clusters.
func counted(units []*render.Unit) map[render.Key][]*render.Object {
	all := make(map[render.Key][]*render.Object)
	for _, u := range units {
		if u.State == render.Unreached {
			continue
		}
		for _, o := range u.Objects {
			k := o.Unversioned()
			k.Unit = ""
			all[k] = append(all[k], o)
		}
	}
	return all
}

// Where returns the place of an object and its name, for a sentence.
func Where(o *render.Object) string {
	name := o.GetKind() + " " + o.Key().Name
	if at := o.At(""); len(at) > 0 {
		return fmt.Sprintf("at %s:%d, %s", at[0].File, at[0].Line, name)
	}
	return name + " of " + o.Unit.Identity()
}

// NewlyAssumed returns the results of the change about template places that write
// more if an assumption does not hold: there an object can leave the rendering and
// still be deployed.
func NewlyAssumed(base, head []policy.Result) []policy.Result {
	type place struct{ unit, file, rule, message string }
	at := func(r *policy.Result) place {
		return place{r.Object.Unit, r.Origins[0].File, r.Rule, r.Message}
	}
	was := make(map[place]int)
	for i := range base {
		was[at(&base[i])]++
	}
	var results []policy.Result
	for _, r := range head {
		if was[at(&r)]--; was[at(&r)] < 0 {
			r.Outcome, r.Action, r.Baseline = policy.Unknown, policy.Deny, policy.New
			results = append(results, r.Fingerprinted())
		}
	}
	return results
}
