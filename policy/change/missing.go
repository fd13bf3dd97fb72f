package change

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

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
