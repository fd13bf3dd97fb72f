package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// A Cluster holds the objects that policies can look up: everything rendered,
// and the objects given as context. It is read-only once built and safe for
// concurrent use.
type Cluster struct {
	byKind map[schema.GroupKind][]*render.Object
	byName sync.Map // of schema.GroupKind to map[string]*namesakes, see Named
	asked  sync.Map // of schema.GroupKind, see Asked
	listed sync.Map // of schema.GroupKind, see HasShown
	chosen sync.Map // of *render.Object and of Identity, see Select
	kinds  []schema.GroupKind
	whole  map[schema.GroupKind]bool // nil: all kinds
	given  map[*render.Object]bool
}

// namesakes are the objects of a kind with one name.
type namesakes struct {
	objects []*render.Object
	asked   atomic.Bool // whether Named returned them
}

// NewCluster indexes objects. Of several with one identity the first counts.
func NewCluster(objects ...*render.Object) *Cluster {
	c := &Cluster{byKind: make(map[schema.GroupKind][]*render.Object)}
	for _, o := range objects {
		gk := o.GroupVersionKind().GroupKind()
		c.byKind[gk] = append(c.byKind[gk], o)
	}
	c.kinds = slices.SortedFunc(maps.Keys(c.byKind), compareGroupKinds)
	return c
}

// Declared declares that the cluster may have objects besides these, except of the kinds of given:
// whoever gives one object of a kind gives all. It must be called before the Cluster is used.
func (c *Cluster) Declared(given []*render.Object) {
	c.whole, c.given = make(map[schema.GroupKind]bool), make(map[*render.Object]bool, len(given))
	for _, o := range given {
		c.whole[o.GroupVersionKind().GroupKind()], c.given[o] = true, true
	}
}

// Has reports whether an object is declared to be on the cluster.
func (c *Cluster) Has(o *render.Object) bool { return c.given[o] }

// Lacks reports whether the cluster may have objects of a kind that are not here.
func (c *Cluster) Lacks(kind schema.GroupKind) bool {
	return c != nil && c.whole != nil && !c.whole[kind]
}

// Namespace returns the Namespace with that name, or nil. It prefers one of the
// given unit, which may be nil.
func (c *Cluster) Namespace(unit *render.Unit, name string) *render.Object {
	return c.Get(unit, schema.GroupKind{Kind: "Namespace"}, "", name)
}

// Get returns an object, or nil. It prefers one of the given unit.
func (c *Cluster) Get(unit *render.Unit, kind schema.GroupKind, namespace, name string) *render.Object {
	if c == nil {
		return nil
	}
	var found *render.Object
	for _, o := range c.Named(kind, name) {
		if namespace != "" && o.GetNamespace() != "" && o.GetNamespace() != namespace {
			continue
		}
		if unit != nil && o.Unit != nil && o.Unit.Identity() == unit.Identity() && o.Unit.Cluster == unit.Cluster {
			return o
		}
		if found == nil {
			found = o
		}
	}
	return found
}

// Named returns the objects of a kind that have a name, whatever their namespace, in
// the order in which they were given. The caller must not change the slice.
func (c *Cluster) Named(kind schema.GroupKind, name string) []*render.Object {
	all := c.ask(kind)
	if len(all) == 0 {
		return nil
	}
	index, ok := c.byName.Load(kind)
	if !ok {
		names := make(map[string]*namesakes, len(all))
		for _, o := range all {
			if names[o.GetName()] == nil {
				names[o.GetName()] = new(namesakes)
			}
			names[o.GetName()].objects = append(names[o.GetName()].objects, o)
		}
		index, _ = c.byName.LoadOrStore(kind, names)
	}
	n := index.(map[string]*namesakes)[name]
	if n == nil {
		return nil
	}
	if !n.asked.Load() { // writing it each time would slow down other goroutines
		n.asked.Store(true)
	}
	return n.objects
}

// List returns the objects of a kind in the order in which they were given.
// The caller must not change the slice.
func (c *Cluster) List(kind schema.GroupKind) []*render.Object {
	if c == nil {
		return nil
	}
	c.listed.LoadOrStore(kind, true)
	return c.ask(kind)
}

// Select returns the objects of a kind that want accepts, in the order in which they were given. HasShown
// then counts only these objects of the kind.
func (c *Cluster) Select(kind schema.GroupKind, want func(*render.Object) bool) []*render.Object {
	var found []*render.Object
	for _, o := range c.ask(kind) {
		if want(o) {
			found = append(found, o)
			if _, known := c.chosen.LoadOrStore(o, true); !known {
				c.chosen.Store(NameOf(o), true)
			}
		}
	}
	return found
}

// NameOf returns what identifies an object on a cluster, but for its version.
func NameOf(o *render.Object) Identity {
	return Identity{GroupKind: o.GroupVersionKind().GroupKind(), Namespace: o.EffectiveNamespace(), Name: o.GetName()}
}

// ask returns the objects of a kind for a lookup of some or all.
func (c *Cluster) ask(kind schema.GroupKind) []*render.Object {
	if c == nil {
		return nil
	}
	c.asked.LoadOrStore(kind, true)
	return c.byKind[kind]
}

// HasShown reports whether an object was among those returned so far.
func (c *Cluster) HasShown(o *render.Object) bool {
	if c == nil {
		return false
	}
	kind := o.GroupVersionKind().GroupKind()
	if _, listed := c.listed.Load(kind); listed {
		return true
	}
	if _, chosen := c.chosen.Load(NameOf(o)); chosen {
		return true
	}
	index, ok := c.byName.Load(kind)
	if !ok {
		return false
	}
	n := index.(map[string]*namesakes)[o.GetName()]
	return n != nil && n.asked.Load()
}

// anyKind is stored in asked when somebody asks which kinds there are.
var anyKind = schema.GroupKind{Kind: "*"}

// Asked returns, sorted, the kinds of which objects were looked up so far,
// found or not; served reports whether the existing kinds and versions were
// looked up. No result depends on anything else of the cluster.
func (c *Cluster) Asked() (kinds []schema.GroupKind, served bool) {
	if c == nil {
		return nil, false
	}
	for k := range c.asked.Range {
		if k == anyKind {
			served = true
			continue
		}
		kinds = append(kinds, k.(schema.GroupKind))
	}
	slices.SortFunc(kinds, compareGroupKinds)
	return kinds, served
}

// Kinds returns the kinds of the objects, sorted. The caller must not change the slice.
func (c *Cluster) Kinds() []schema.GroupKind {
	if c == nil {
		return nil
	}
	c.asked.LoadOrStore(anyKind, true)
	return c.kinds
}

// Versions returns the kinds and versions of the objects, by kind and then in
// the order in which the objects were given.
func (c *Cluster) Versions() []schema.GroupVersionKind {
	var versions []schema.GroupVersionKind
	for _, kind := range c.Kinds() {
		from := len(versions)
		for _, o := range c.byKind[kind] {
			if gvk := o.GroupVersionKind(); !slices.Contains(versions[from:], gvk) {
				versions = append(versions, gvk)
			}
		}
	}
	return versions
}

func compareGroupKinds(a, b schema.GroupKind) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind))
}
