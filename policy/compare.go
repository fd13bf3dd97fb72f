package policy

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// A Baseline says how a result stands to those of the base.
type Baseline string

// The baselines, in the words of SARIF's baselineState.
const (
	New       Baseline = "new"       // the change brings it in
	Unchanged Baseline = "unchanged" // it was there before
	Absent    Baseline = "absent"    // it was there before and is no more
)

// Requests are the requests that bring a cluster from the base objects to the
// head objects: CREATEs and UPDATEs in the order of head, then DELETEs in the
// order of base. With no base they are CREATEs. An object is the same if its
// group, kind, namespace, name and unit are; one that only its unit tells
// apart has moved, if there is no other of its name. What goes by generateName
// is created each time, and never deleted.
func Requests(base, head []*render.Object) []Request {
	was := counterparts(base, head)
	reqs := make([]Request, 0, len(head))
	stays := make(map[*render.Object]bool, len(was))
	for _, o := range head {
		r := Request{Operation: Create, Object: o}
		if old := was[o]; old != nil {
			r.Operation, r.OldObject = Update, old
			stays[old] = true
		}
		reqs = append(reqs, r)
	}
	for _, o := range base {
		if !stays[o] && o.GetName() != "" {
			reqs = append(reqs, Request{Operation: Delete, OldObject: o})
		}
	}
	return reqs
}

// A pairKey names an object to the API server, with the cluster and the unit that
// it comes from. Objects of base and head with one pairKey are the same object.
// What nothing deploys is on no cluster, so it is never the same as what is
// deployed.
type pairKey struct {
	kind            schema.GroupKind
	namespace, name string
	cluster, unit   string
	unreached       bool
}

func pairKeyOf(o *render.Object) pairKey {
	id := pairKey{kind: o.GroupVersionKind().GroupKind(), namespace: o.GetNamespace(), name: o.GetName()}
	if o.Unit != nil {
		id.cluster, id.unit = o.Unit.Cluster, o.Unit.Identity()
		id.unreached = o.Unit.State == render.Unreached
	}
	return id
}

// counterparts finds the base object of each head object that has one.
func counterparts(base, head []*render.Object) map[*render.Object]*render.Object {
	was := make(map[*render.Object]*render.Object, len(base))
	base, head = match(was, base, head, pairKeyOf)
	match(was, base, head, func(o *render.Object) pairKey {
		id := pairKeyOf(o)
		id.unit = ""
		return id
	})
	return was
}

// match pairs the objects that alone have their pairKey on both sides, and
// returns the others. Of several that one unit has, which it should not, the
// first are paired with the first.
func match(was map[*render.Object]*render.Object, base, head []*render.Object, of func(*render.Object) pairKey) (oldRest, newRest []*render.Object) {
	old, now := byPairKey(base, of), byPairKey(head, of)
	paired := make(map[*render.Object]bool)
	for id, heads := range now {
		bases := old[id]
		if id.unit == "" && (len(heads) > 1 || len(bases) > 1) {
			continue
		}
		for i := range min(len(heads), len(bases)) {
			was[heads[i]] = bases[i]
			paired[heads[i]], paired[bases[i]] = true, true
		}
	}
	return without(base, paired), without(head, paired)
}

func byPairKey(objects []*render.Object, of func(*render.Object) pairKey) map[pairKey][]*render.Object {
	groups := make(map[pairKey][]*render.Object, len(objects))
	for _, o := range objects {
		if o.GetName() != "" {
			id := of(o)
			groups[id] = append(groups[id], o)
		}
	}
	return groups
}

func without(objects []*render.Object, paired map[*render.Object]bool) []*render.Object {
	var rest []*render.Object
	for _, o := range objects {
		if !paired[o] {
			rest = append(rest, o)
		}
	}
	return rest
}

// Unchanged says whether an update would change nothing: the objects are equal,
// whatever their lines. The API server would not be asked.
func (r *Request) Unchanged() bool {
	return r.Operation == Update && reflect.DeepEqual(r.OldObject.Object, r.Object.Object)
}

// A Comparison is what results of the head are held against.
type Comparison struct {
	// Base are the results of the base.
	Base []Result
	// Moved gives the units of head objects that were in another unit of the
	// base, by the head objects' keys.
	Moved map[render.Key]string
	// Incomparable says of a unit that the other side could not be rendered
	// whole, so that what is there or not says nothing.
	Incomparable func(unit string) bool
}

// Moves lists, for a Comparison, the objects that requests update from
// another unit.
func Moves(reqs []Request) map[render.Key]string {
	moved := make(map[render.Key]string)
	for i := range reqs {
		r := &reqs[i]
		if r.Operation == Update && r.Object.Key().Unit != r.OldObject.Key().Unit {
			moved[r.Object.Key()] = r.OldObject.Key().Unit
		}
	}
	return moved
}

// Compare marks results of the head as New or Unchanged, by fingerprint and
// outcome, and appends those of the base that are Absent: what failed, or could
// not be decided, and does no more. Results of units that can't be compared
// keep no mark, so they count.
func (c Comparison) Compare(head []Result) []Result {
	known := make(map[string]int, len(c.Base))
	for i := range c.Base {
		known[c.Base[i].comparable(c.Base[i].Object.Unit)]++
	}
	for i := range head {
		r := &head[i]
		if c.incomparable(r) {
			continue
		}
		r.Baseline = New
		if id := r.comparable(c.BaseUnit(r.Object)); known[id] > 0 {
			known[id]--
			r.Baseline = Unchanged
		}
	}
	for i := range c.Base {
		r := c.Base[i]
		id := r.comparable(r.Object.Unit)
		if known[id] == 0 || r.Outcome == Pass || r.Outcome == Skip || c.incomparable(&r) {
			continue
		}
		known[id]--
		r.Baseline = Absent
		head = append(head, r)
	}
	return head
}

// BaseUnit is the unit that an object was in. A result names the namespace that
// its object may leave to the unit.
func (c Comparison) BaseUnit(o render.Key) string {
	unit := o.Unit
	from, ok := c.Moved[o]
	if !ok {
		o.Namespace = ""
		from, ok = c.Moved[o]
	}
	if ok {
		return from
	}
	return unit
}

func (c Comparison) incomparable(r *Result) bool {
	return r.Object.Unit != "" && r.Object.Kind != "" && c.Incomparable != nil && c.Incomparable(r.Object.Unit)
}

// comparable is what two results have in common that say the same of the same
// object in a unit of the base.
func (r *Result) comparable(unit string) string {
	return strings.Join([]string{r.Identity, unit, string(r.Outcome), string(r.Action)}, "\x00")
}
