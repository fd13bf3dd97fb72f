package gatekeeper

import (
	"cmp"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// inventoryUse holds the kinds of data.inventory that code reads.
type inventoryUse struct {
	kinds map[string]bool
	all   bool
}

// add records a reference to data.inventory. A reference that names no kind may
// read all kinds.
func (i *inventoryUse) add(ref ast.Ref) {
	if kind, ok := kindIn(ref); ok {
		if i.kinds == nil {
			i.kinds = map[string]bool{}
		}
		i.kinds[kind] = true
		return
	}
	i.all = true
}

// kindIn returns the kind that a reference names after the scope and the
// version: data.inventory.namespace[namespace][version].Pod.
func kindIn(ref ast.Ref) (string, bool) {
	if len(ref) < 3 {
		return "", false
	}
	at := 0
	switch {
	case ref[2].Equal(ast.StringTerm("cluster")):
		at = 4
	case ref[2].Equal(ast.StringTerm("namespace")):
		at = 5
	}
	if at == 0 || len(ref) <= at {
		return "", false
	}
	kind, ok := ref[at].Value.(ast.String)
	return string(kind), ok
}

// An inventory is data.inventory: the objects of the cluster that Gatekeeper
// syncs, built on first use. If several units apply the same object, each unit
// sees its own.
type inventory struct {
	options Options
	config  *config
	use     *inventoryUse // of all templates; nil if none reads the inventory

	terms    *sync.Map // by *render.Object: *entry
	once     sync.Once
	seen     []*entry              // in order
	own      map[entryKey]bool     // applied by several units
	keyed    map[*render.Unit]bool // units that have some of these
	clusters map[string]bool       // clusters of visible objects
	hidden   rego.Secrets          // Secrets among the visible objects
	whole    *view                 // for who sees it all
	views    sync.Map              // by *render.Unit or cluster name: *view
}

// A view is the inventory as the objects of a unit see it.
type view struct {
	root ast.Object
	data *rego.Data
}

func newView(root ast.Object) *view {
	return &view{root, rego.NewData(ast.NewObject([2]*ast.Term{ast.StringTerm("inventory"), ast.NewTerm(root)}))}
}

// An entry is an object of the inventory.
type entry struct {
	object *render.Object
	key    entryKey
	term   *ast.Term
}

type entryKey struct{ namespace, version, kind, name string }

// path returns the object's path in data.inventory.
func (e entryKey) path() []string {
	if e.namespace == "" {
		return []string{"cluster", e.version, e.kind, e.name}
	}
	return []string{"namespace", e.namespace, e.version, e.kind, e.name}
}

func newInventory(o Options, c *config, all templates) *inventory {
	i := &inventory{options: o, config: c, terms: &sync.Map{}}
	for _, t := range all {
		if t.rego == nil || t.rego.inventory == nil {
			continue
		}
		if i.use == nil {
			i.use = &inventoryUse{kinds: map[string]bool{}}
		}
		i.use.all = i.use.all || t.rego.inventory.all
		for k := range t.rego.inventory.kinds {
			i.use.kinds[k] = true
		}
	}
	return i
}

// with returns the inventory of another cluster.
func (i *inventory) with(o Options) *inventory {
	return &inventory{options: o, config: i.config, use: i.use, terms: i.terms}
}

// data returns the inventory as it was before the request: an object that is
// being created is not in it, and an updated object has its old state.
func (i *inventory) data(r *review) *rego.Data {
	v := i.viewOf(r.unit)
	if i.options.Written {
		return v.data
	}
	if r.before == nil {
		var old *ast.Term
		if r.old != nil {
			old = overJSON.term(r.old)
		}
		r.before = v.data
		if root, changed := replaced(v.root, r.key().path(), old); changed {
			r.before = newView(root).data
		}
	}
	return r.before
}

// key returns the inventory's key of the review's object.
func (r *review) key() entryKey {
	version, _ := r.subject()["apiVersion"].(string)
	k := entryKey{version: version, kind: r.kind.Kind, name: metaText(r.subject(), "name")}
	if r.namespace != nil {
		k.namespace = r.namespace.name
	}
	return k
}

// replaced returns a document with leaf at a path, or without the path if leaf
// is nil. It returns o itself if that changes nothing.
func replaced(o ast.Object, path []string, leaf *ast.Term) (ast.Object, bool) {
	here := ast.StringTerm(path[0])
	child := o.Get(here)
	if child == nil {
		return o, false
	}
	with := leaf
	if len(path) > 1 {
		below, ok := child.Value.(ast.Object)
		if !ok {
			return o, false
		}
		changed := false
		if below, changed = replaced(below, path[1:], leaf); !changed {
			return o, false
		}
		with = ast.NewTerm(below)
	}
	out := ast.NewObjectWithCapacity(o.Len())
	o.Foreach(func(k, v *ast.Term) {
		if k != here && k.Value.Compare(here.Value) != 0 {
			out.Insert(k, v)
		}
	})
	if with != nil {
		out.Insert(here, with)
	}
	return out, true
}

// viewOf returns the inventory as objects of a unit see it.
func (i *inventory) viewOf(unit *render.Unit) *view {
	i.once.Do(i.fill)
	var key any
	switch {
	case unit == nil:
		return i.whole
	case i.keyed[unit]:
		key = unit
	case unit.Cluster == "" || len(i.clusters) == 0 || len(i.clusters) == 1 && i.clusters[unit.Cluster]:
		return i.whole
	default:
		key = unit.Cluster
	}
	v, ok := i.views.Load(key)
	if !ok {
		v, _ = i.views.LoadOrStore(key, i.view(unit))
	}
	return v.(*view)
}

func (i *inventory) fill() {
	i.own, i.keyed, i.clusters = map[entryKey]bool{}, map[*render.Unit]bool{}, map[string]bool{}
	first := map[entryKey]*entry{}
	for _, kind := range i.options.Cluster.Kinds() {
		if !i.use.all && !i.use.kinds[kind.Kind] || !i.syncs(kind) {
			continue
		}
		for _, o := range i.options.Cluster.List(kind) {
			e := i.entry(o)
			if e == nil {
				continue
			}
			i.seen = append(i.seen, e)
			if f := first[e.key]; f == nil {
				first[e.key] = e
			} else if f.object.Unit != o.Unit {
				i.own[e.key] = true
			}
		}
	}
	i.compareUnits()
	i.whole = i.view(nil)
}

// compareUnits finds the units and clusters that see different objects from
// others, and the Secrets among all visible objects.
func (i *inventory) compareUnits() {
	for _, e := range i.seen {
		if e.object.GetKind() == "Secret" && e.object.GetAPIVersion() == "v1" {
			i.hidden = append(i.hidden, e.object.Object)
		}
		unit := e.object.Unit
		if unit == nil {
			continue
		}
		if i.own[e.key] {
			i.keyed[unit] = true
		}
		if unit.Cluster != "" {
			i.clusters[unit.Cluster] = true
		}
	}
}

// syncs reports whether objects of a kind are in the inventory, in some version.
func (i *inventory) syncs(kind schema.GroupKind) bool {
	if i.config == nil || i.config.synced == nil {
		return true
	}
	for k := range i.config.synced {
		if k.GroupKind() == kind {
			return true
		}
	}
	return false
}

// entry returns an object as it is in the inventory, or nil if it is not
// synced.
func (i *inventory) entry(o *render.Object) *entry {
	if e, ok := i.terms.Load(o); ok {
		return e.(*entry)
	}
	var e *entry
	if tree, namespace := i.held(o); i.config.excludes(processSync, cmp.Or(namespace, namespaceName(tree))) == nil {
		version, _ := tree["apiVersion"].(string)
		e = &entry{o, entryKey{namespace, version, o.GetKind(), o.GetName()}, overJSON.term(tree)}
	}
	i.terms.Store(o, e)
	return e
}

func namespaceName(tree map[string]any) string {
	if isNamespace(tree) {
		return metaText(tree, "name")
	}
	return ""
}

// held returns an object as the API server holds it, in the synced version.
func (i *inventory) held(o *render.Object) (tree map[string]any, namespace string) {
	kinds := i.options.Kinds
	if kinds == nil || i.options.Written {
		return o.Object, o.GetNamespace()
	}
	gvk := o.GroupVersionKind()
	if resource := kinds.Resource(gvk); resource.Namespaced && (resource.Known || !isClustered(gvk.Group)) {
		namespace = o.EffectiveNamespace()
	}
	tree, err := kinds.Admit(o, namespace)
	if err != nil {
		tree = o.Object
	}
	if i.config == nil || i.config.synced == nil || i.config.synced[gvk] {
		return tree, namespace
	}
	for _, v := range kinds.Equivalent(kinds.Resource(gvk).GroupVersionResource) {
		if i.config.synced[v.Kind] {
			if converted, err := kinds.Convert(tree, v.Kind); err == nil {
				return converted, namespace
			}
		}
	}
	return tree, namespace
}

// isClustered reports whether kinds of one of Gatekeeper's groups are
// cluster-scoped. The API server knows this once Gatekeeper is installed.
func isClustered(group string) bool {
	return group == templatesGroup || group == constraintsGroup || group == mutationsGroup || group == expansionGroup || group == syncSetGroup
}

// secrets returns the Secrets of the inventory.
func (i *inventory) secrets() rego.Secrets {
	i.once.Do(i.fill)
	return i.hidden
}

// view builds the document for a unit. Of several entries with one key it takes
// the unit's, else the first. Objects for other clusters are left out.
func (i *inventory) view(unit *render.Unit) *view {
	chosen := map[entryKey]*entry{}
	for _, e := range i.seen {
		if unit != nil && e.object.Unit != nil && unit.Cluster != "" && e.object.Unit.Cluster != "" && unit.Cluster != e.object.Unit.Cluster {
			continue
		}
		if chosen[e.key] == nil || unit != nil && e.object.Unit == unit {
			chosen[e.key] = e
		}
	}
	root := branch{}
	for k, e := range chosen {
		root.put(k.path(), e.term)
	}
	return newView(root.term().Value.(ast.Object))
}

// A branch is a document under construction.
type branch map[string]any // *ast.Term or branch

func (b branch) put(path []string, leaf *ast.Term) {
	for _, key := range path[:len(path)-1] {
		next, ok := b[key].(branch)
		if !ok {
			next = branch{}
			b[key] = next
		}
		b = next
	}
	b[path[len(path)-1]] = leaf
}

func (b branch) term() *ast.Term {
	pairs := make([][2]*ast.Term, 0, len(b))
	for k, v := range b {
		t, ok := v.(*ast.Term)
		if !ok {
			t = v.(branch).term()
		}
		pairs = append(pairs, [2]*ast.Term{ast.StringTerm(k), t})
	}
	return ast.NewTerm(ast.NewObject(pairs...))
}
