package gatekeeper

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// inventoryUse holds the kinds of data.inventory that code reads.
type inventoryUse struct {
	kinds map[string]bool
	all   bool
}

// inventory returns the use that a constraint's template makes of data.inventory, or nil.
func (c *constraint) inventory() *inventoryUse {
	if c.template.rego == nil {
		return nil
	}
	return c.template.rego.inventory
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
	seen     []*entry                  // in order
	own      map[entryKey]bool         // keys of objects that several units apply
	keyed    map[*render.Unit][]*entry // objects with these keys, by unit
	clusters map[string]bool           // clusters of visible objects
	hidden   rego.Secrets              // Secrets among the visible objects
	whole    *view                     // view of all objects
	views    sync.Map                  // by cluster name: *view
	units    sync.Map                  // by *render.Unit: *view, for some of those in keyed
	kept     atomic.Int64              // number of views made for units
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
		if path := r.key().path(); has(v.root, path) {
			at := branch{}
			at.put(path, old)
			r.before = newView(at.over(v.root)).data
		}
	}
	return r.before
}

// key returns the inventory's key of the review's object.
func (r *review) key() entryKey {
	version, _ := r.subject()["apiVersion"].(string)
	k := entryKey{version: version, kind: r.kind.Kind, name: document.MetaText(r.subject(), "name")}
	if r.namespace != nil {
		k.namespace = r.namespace.Name
	}
	return k
}

func has(o ast.Object, path []string) bool {
	for i, key := range path {
		child := o.Get(ast.StringTerm(key))
		if child == nil {
			return false
		}
		if i < len(path)-1 {
			below, ok := child.Value.(ast.Object)
			if !ok {
				return false
			}
			o = below
		}
	}
	return true
}

// viewOf returns the inventory as objects of a unit see it.
func (i *inventory) viewOf(unit *render.Unit) *view {
	i.once.Do(i.fill)
	if unit == nil {
		return i.whole
	}
	own := i.keyed[unit]
	if len(own) == 0 {
		return i.common(unit.Cluster)
	}
	if v, ok := i.units.Load(unit); ok {
		return v.(*view)
	}
	at := branch{}
	for _, e := range own {
		at.put(e.key.path(), e.term)
	}
	v := newView(at.over(i.common(unit.Cluster).root))
	if i.kept.Add(1)%maxUnitViews == 0 {
		i.units.Clear()
	}
	i.units.Store(unit, v)
	return v
}

// maxUnitViews bounds the views of units that are kept. Each holds the names of
// all objects of some kinds.
const maxUnitViews = 16

// common returns the view of a cluster's units that apply no object which another
// unit applies, too.
func (i *inventory) common(cluster string) *view {
	if cluster == "" || len(i.clusters) == 0 || len(i.clusters) == 1 && i.clusters[cluster] {
		return i.whole
	}
	v, ok := i.views.Load(cluster)
	if !ok {
		v, _ = i.views.LoadOrStore(cluster, i.view(cluster))
	}
	return v.(*view)
}

func (i *inventory) fill() {
	i.own, i.keyed, i.clusters = map[entryKey]bool{}, map[*render.Unit][]*entry{}, map[string]bool{}
	first := map[entryKey]*entry{}
	t := terms{floats: true, texts: map[string]*ast.Term{}}
	for _, kind := range i.options.Cluster.Kinds() {
		if !i.use.all && !i.use.kinds[kind.Kind] || !i.syncs(kind) {
			continue
		}
		for _, o := range i.options.Cluster.List(kind) {
			e := i.entry(o, t)
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
	for _, e := range i.seen {
		if e.object.GetKind() == "Secret" && e.object.GetAPIVersion() == "v1" {
			i.hidden = append(i.hidden, e.object.Object)
		}
		unit := e.object.Unit
		if unit == nil {
			continue
		}
		if i.own[e.key] {
			i.keyed[unit] = append(i.keyed[unit], e)
		}
		if unit.Cluster != "" {
			i.clusters[unit.Cluster] = true
		}
	}
	i.whole = i.view("")
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
func (i *inventory) entry(o *render.Object, t terms) *entry {
	if e, ok := i.terms.Load(o); ok {
		return e.(*entry)
	}
	var e *entry
	if tree, namespace := i.held(o); i.config.excludes(processSync, cmp.Or(namespace, namespaceName(tree))) == nil {
		version, _ := tree["apiVersion"].(string)
		e = &entry{o, entryKey{namespace, version, o.GetKind(), o.GetName()}, t.term(tree)}
	}
	i.terms.Store(o, e)
	return e
}

func namespaceName(tree map[string]any) string {
	if document.IsNamespace(tree) {
		return document.MetaText(tree, "name")
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
	if kinds.Resource(gvk).Namespaced {
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

// missing returns a question for each kind that code reads and of which there are no objects here,
// though the cluster may have some. Namespaces have questions of their own.
func (i *inventory) missing(use *inventoryUse) (questions []string) {
	if use == nil || i.options.Written {
		return nil
	}
	cluster := i.options.Cluster
	for _, kind := range slices.Sorted(maps.Keys(use.kinds)) {
		here := slices.ContainsFunc(cluster.Kinds(), func(k schema.GroupKind) bool { return k.Kind == kind })
		if !here && kind != "Namespace" && cluster.Lacks(schema.GroupKind{Kind: kind}) {
			name := policy.ResourceOf(schema.GroupVersionKind{Kind: kind}).Resource
			questions = append(questions, fmt.Sprintf("needs the list of %s: give them with --with", name))
		}
	}
	return questions
}

// secrets returns the Secrets of the inventory.
func (i *inventory) secrets() rego.Secrets {
	i.once.Do(i.fill)
	return i.hidden
}

// view builds the document for a cluster, without objects for other clusters. If
// several entries have one key, the first is used.
func (i *inventory) view(cluster string) *view {
	chosen := map[entryKey]*entry{}
	for _, e := range i.seen {
		if e.object.Unit != nil && cluster != "" && e.object.Unit.Cluster != "" && cluster != e.object.Unit.Cluster {
			continue
		}
		if chosen[e.key] == nil {
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

// over returns a copy of a document in which b's leaves replace the document's,
// or remove them if nil. Everything else is shared.
func (b branch) over(o ast.Object) ast.Object {
	out := ast.NewObjectWithCapacity(o.Len())
	o.Foreach(func(k, v *ast.Term) {
		name, _ := k.Value.(ast.String)
		switch with := b[string(name)].(type) {
		case *ast.Term:
			v = with
		case branch:
			if below, ok := v.Value.(ast.Object); ok {
				v = ast.NewTerm(with.over(below))
			}
		}
		if v != nil {
			out.Insert(k, v)
		}
	})
	return out
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
