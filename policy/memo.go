package policy

import (
	"hash/maphash"
	"maps"
	"math/bits"
	"reflect"

	"github.com/preadmit/preadmit/render"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A memo lets requests with equal objects share results of policies: a tree often deploys one
// object in many units. Such requests are reviewed one after another by one goroutine, so a memo
// needs no lock and is short-lived.
type memo struct {
	left    int      // requests that are not reviewed yet
	first   *Request // as admitted; nil before the first one
	known   map[memoKey]remembered
	changes []change // by mutators, of the requests so far
	traced  map[tracedField]trace
}

// A memoKey holds the arguments of Request.Remember: a part of a policy, and the
// address of an object.
type memoKey struct {
	part   any
	object uintptr
}

// A remembered is a value with the object, which keeps its address as long as it is here.
type remembered struct {
	object map[string]any
	value  any
}

// Recall returns the value that Remember kept for a part of a policy and an object, of
// this request or of one that is equal but for its unit and places. The caller must not
// change it.
func (r *Request) Recall(part any, object map[string]any) (value any, known bool) {
	if r.memo == nil || object == nil {
		return nil, false
	}
	m, known := r.memo.known[memoKey{part, address(object)}]
	return m.value, known
}

// Remember keeps a value that follows from a part of a policy, from the request and from
// an object, which is Admitted or was made of it by a step of a Mutator. The value must not
// depend on the request's unit, on where its object was written, or on which object of the
// cluster it is.
func (r *Request) Remember(part any, object map[string]any, value any) {
	if r.memo != nil && r.memo.left > 1 && object != nil { // else nobody recalls it
		r.memo.known[memoKey{part, address(object)}] = remembered{object, value}
	}
}

// Shares reports whether there may be something to Recall or to Remember.
func (r *Request) Shares() bool { return r.memo != nil }

// InSeveralNamespaces reports whether the cluster has several Namespaces of the name of
// the request's namespace, so that the unit decides which one counts.
func (r *Request) InSeveralNamespaces(c *Cluster) bool {
	name := r.Namespace
	if r.Kind.Kind == "Namespace" {
		name = r.Name
	}
	return name != "" && len(c.Named(schema.GroupKind{Kind: "Namespace"}, name)) > 1
}

func address(object map[string]any) uintptr { return reflect.ValueOf(object).Pointer() }

// admitted replaces the admitted object by the equal one of the memo's first request. A request
// that differs loses its memo.
func (m *memo) admitted(r *Request) {
	switch {
	case m == nil || r.Admitted == nil:
	case m.first == nil:
		first := *r
		m.first, m.known, m.traced = &first, make(map[memoKey]remembered), make(map[tracedField]trace)
	case m.first.alike(r):
		r.Admitted, r.Typed = m.first.Admitted, m.first.Typed
	default:
		r.memo = nil
	}
}

// alike reports whether two admitted requests differ in their units at most.
func (r *Request) alike(o *Request) bool {
	return r.Operation == o.Operation && r.SubResource == o.SubResource && r.DryRun == o.DryRun && r.Kind == o.Kind &&
		r.Resource == o.Resource && r.Namespace == o.Namespace && r.Name == o.Name && (r.Typed == nil) == (o.Typed == nil) &&
		r.OldAdmitted == nil && o.OldAdmitted == nil && reflect.DeepEqual(r.UserInfo, o.UserInfo) && render.Equal(r.Admitted, o.Admitted)
}

// history returns the history of a request, which shares its traces with those of the other
// requests of the memo as long as the changes are the same. m may be nil.
func (m *memo) history() *history {
	if m == nil || m.first == nil {
		return newHistory()
	}
	return &history{traced: m.traced, memo: m}
}

// change adds a change to the history.
func (h *history) change(c change) {
	i := len(h.changes)
	h.changes = append(h.changes, c)
	switch m := h.memo; {
	case m == nil:
	case i == len(m.changes):
		m.changes = append(m.changes, c)
	case address(m.changes[i].before) != address(c.before) || address(m.changes[i].after) != address(c.after):
		h.memo, h.traced = nil, maps.Clone(h.traced)
		maps.DeleteFunc(h.traced, func(f tracedField, _ trace) bool { return f.change >= i })
	}
}

// done records that a request of the memo has been reviewed.
func (m *memo) done() {
	if m == nil {
		return
	}
	if m.left--; m.left == 0 {
		*m = memo{}
	}
}

// mostAlike is the most requests that one goroutine reviews in turn because their objects
// are equal.
const mostAlike = 64

// memosOf returns the memo of each request, nil where no other object seems to be equal, and
// the order in which to review the requests, in batches for one goroutine each.
func memosOf(reqs []Request) (memos []*memo, batches [][]int32) {
	memos = make([]*memo, len(reqs))
	groups := equalObjects(reqs)
	var b batching
	for i := range reqs {
		members := groups[int32(i)]
		switch {
		case len(members) > 1:
			m := &memo{left: len(members)}
			for _, j := range members {
				memos[j] = m
			}
			b.add(members...)
		case memos[i] == nil:
			b.add(int32(i))
		}
	}
	return memos, b.batches()
}

// equalObjects returns the requests that create objects of equal content, by the first of
// each group.
func equalObjects(reqs []Request) map[int32][]int32 {
	type name struct{ version, kind, namespace, name string }
	named := make(map[name][]int32, len(reqs))
	for i := range reqs {
		if r := &reqs[i]; r.Operation == Create && r.OldObject == nil && r.Object != nil {
			k := name{r.Object.GetAPIVersion(), r.Object.GetKind(), r.Object.GetNamespace(), r.Object.GetName()}
			named[k] = append(named[k], int32(i))
		}
	}
	groups := make(map[int32][]int32)
	seed := maphash.MakeSeed()
	for _, members := range named {
		if len(members) < 2 {
			continue
		}
		first := make(map[uint64]int32)
		for _, i := range members {
			sum := contentHash(seed, reqs[i].Object.Object)
			f, known := first[sum]
			if !known || len(groups[f]) == mostAlike {
				f = i
				first[sum] = i
			}
			groups[f] = append(groups[f], i)
		}
	}
	return groups
}

// contentHash returns a hash of a JSON value.
func contentHash(seed maphash.Seed, v any) uint64 {
	const odd = 0x9e3779b97f4a7c15
	switch x := v.(type) {
	case map[string]any:
		sum := uint64(len(x)) + 1
		for key, v := range x {
			sum += (maphash.String(seed, key) ^ bits.RotateLeft64(contentHash(seed, v), 17)) * odd
		}
		return sum
	case []any:
		sum := uint64(len(x)) + 2
		for _, v := range x {
			sum = bits.RotateLeft64(sum, 5)*odd + contentHash(seed, v)
		}
		return sum
	}
	return maphash.Comparable(seed, v)
}
