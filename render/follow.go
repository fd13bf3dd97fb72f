package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Limits of following GitOps objects.
const (
	maxMade     = 10_000 // units that GitOps objects make
	maxChain    = 32     // units from a root down
	maxResolves = 24     // calls of Resolve for one object
)

// A Follower follows GitOps objects to the units that their controllers deploy.
type Follower struct {
	Resolvers []Resolver
	Clusters  []Cluster // the declared clusters
	Several   bool      // there are several clusters, even if all units here go to one
	Outside   Outside
	Leaves    func(*Object) bool // reports whether its deployer leaves an object alone, so that nothing follows it; may be nil
}

// Outside answers a World's questions about everything but objects. It is safe
// for concurrent use.
type Outside interface {
	Repository(url, revision string) (Repository, error)
	Source(kind, namespace, name string) (Repository, bool)
	Params(namespace, name string) (params []map[string]any, ok bool)
	Store
	Render(ctx context.Context, src Source) ([]*Object, error)
}

// Reaches reports whether a source is rendered as part of a deployment.
func (d *Deployment) Reaches(s *Source) bool {
	return slices.ContainsFunc(s.files(), func(name string) bool { return d.opened[name] })
}

// Opens reports whether a unit read a file of the tree.
func (d *Deployment) Opens() bool { return len(d.opened) > 0 }

// Without returns a copy of d whose Reaches ignores files that were opened only for units for which
// left returns true. left gets the identity of a unit.
func (d *Deployment) Without(left func(unit string) bool) *Deployment {
	of := *d
	of.opened = make(map[string]bool, len(d.opened))
	for u, reads := range d.Reads {
		if !left(u.Identity()) {
			for _, name := range reads {
				of.opened[name] = true
			}
		}
	}
	return &of
}

// A Deployment holds the units that GitOps objects deploy.
type Deployment struct {
	Units []*Unit // the units that objects make, ordered by cluster and ID
	// Roots are those of the given units that hold GitOps objects which no
	// other object makes.
	Roots map[*Unit]bool
	// Sources are those of the given units that hold an object which a
	// deployment is made from, such as a GitRepository. ConfigMaps and Secrets
	// do not count.
	Sources map[*Unit]bool
	// Reads are the files that the rendering of each unit opened.
	Reads map[*Unit][]string
	// Asked are the objects that each unit was made from, besides its owner.
	Asked map[*Unit][]*Object
	// Named are the paths of this repository that the owners of units name; see named.go.
	Named map[*Unit][]string
	Err   error // joins *Error values that concern no single unit

	opened map[string]bool
}

// Follows reports whether a controller deploys something for o.
func (f Follower) Follows(o *Object) bool { return f.resolver(o) != nil }

func (f Follower) resolver(o *Object) Resolver {
	for _, r := range f.Resolvers {
		if r.Follows(o) {
			return r
		}
	}
	return nil
}

// Follow resolves the GitOps objects of declared and found, and those that they
// make in turn, until there are no new ones. Objects of declared units are on
// the cluster; those of found units answer a question only if no other object
// does. If an object makes another one, that form of it is resolved. The error
// is not nil only if ctx is done.
func (f Follower) Follow(ctx context.Context, declared, found []*Unit) (*Deployment, error) {
	w := &following{Follower: f, declared: declared, found: found, nodes: make(map[target]*maker)}
	all := w.candidates()
	if len(all) == 0 {
		return &Deployment{}, nil
	}
	if err := w.settle(ctx, all); err != nil {
		return nil, err
	}
	taken := w.taken()
	left := w.leftOut(all)
	roots := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return taken(c) || left[c.target] })
	for {
		if err := w.settle(ctx, roots); err != nil {
			return nil, err
		}
		taken := w.taken()
		i := slices.IndexFunc(all, func(c candidate) bool { return w.reached[c.target] == nil && !taken(c) && !left[c.target] })
		if i < 0 {
			if err := w.vary(ctx); err != nil {
				return nil, err
			}
			return w.deployment(roots, all), nil
		}
		roots = append(roots, all[i]) // objects that make each other, without a root
	}
}

// A target identifies an object on a cluster.
type target struct {
	cluster         string
	kind            schema.GroupKind
	namespace, name string
}

func targetOf(o *Object, cluster string) target {
	t := target{cluster: cluster, kind: o.GroupVersionKind().GroupKind(), namespace: o.GetNamespace(), name: o.GetName()}
	t.name = cmp.Or(t.name, o.GetGenerateName())
	if t.namespace == "" {
		t.namespace = o.HomeNamespace()
	}
	return t
}

// HomeNamespace returns the namespace that an object is applied to: its own,
// else its unit's, else "default". Argo CD's own objects are assumed to be in
// the namespace of Argo CD, but not those of Argo Rollouts, Workflows and Events.
func (o *Object) HomeNamespace() string {
	if o.GetNamespace() == "" && o.GroupVersionKind().Group == "argoproj.io" && slices.Contains([]string{"Application", "ApplicationSet", "AppProject"}, o.GetKind()) {
		return "argocd"
	}
	return o.EffectiveNamespace()
}

// EffectiveNamespace returns the namespace that a namespaced object is created in: its
// own, else its unit's, else "default".
func (o *Object) EffectiveNamespace() string {
	unit := ""
	if o.Unit != nil {
		unit = o.Unit.Namespace
	}
	return cmp.Or(o.GetNamespace(), unit, "default")
}

// ClusterScoped reports whether a kind of Kubernetes has no namespace.
func ClusterScoped(kind schema.GroupKind) bool {
	return slices.Contains(clusterKinds[kind.Group], kind.Kind)
}

// clusterKinds are the kinds of Kubernetes without a namespace, by group.
var clusterKinds = map[string][]string{
	"":                             {"Namespace", "Node", "PersistentVolume", "ComponentStatus"},
	"admissionregistration.k8s.io": {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"},
	"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"networking.k8s.io":            {"IngressClass", "IPAddress", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"policy":                       {"PodSecurityPolicy"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"StorageClass", "VolumeAttachment", "CSIDriver", "CSINode", "VolumeAttributesClass"},
}

func (t target) compare(o target) int {
	return cmp.Or(strings.Compare(t.cluster, o.cluster), strings.Compare(t.kind.Group, o.kind.Group),
		strings.Compare(t.kind.Kind, o.kind.Kind), strings.Compare(t.namespace, o.namespace), strings.Compare(t.name, o.name))
}

// id returns the ID of the unit for an object that could not be passed to its
// resolver.
func (t target) id() string {
	kind := map[string]string{"Application": "argocd", "Kustomization": "flux"}[t.kind.Kind]
	return cmp.Or(kind, strings.ToLower(t.kind.Kind)) + "/" + t.namespace + "/" + t.name
}

// A candidate is a GitOps object in the tree that may be a root.
type candidate struct {
	target
	object *Object
}

// A maker is a node of the graph: a GitOps object and the unit that it makes.
type maker struct {
	target
	object *Object
	unit   *Unit // nil until the object is resolved
	asked  *questions
	reads  []string
	turns  int
	lost   []*Object // GitOps objects of a failed unit that were rendered nevertheless

	inputs *Inputs // inputs of the unit's rendering
}

// A following is the state of one call of Follow.
type following struct {
	Follower
	declared, found []*Unit
	nodes           map[target]*maker // every node resolved, also if no root reaches it any more
	reached         map[target]*reach
	objects         *objectIndex
	full            bool // maxMade is exceeded
}

// A reach is a node that can be reached from a root.
type reach struct {
	object *Object
	depth  int
	by     *maker   // nil for a root
	others []*maker // other makers of the same object, without itself
}

// candidates lists the GitOps objects of the given units, each once.
func (f *following) candidates() []candidate {
	var all []candidate
	seen := make(map[target]bool)
	for _, u := range slices.Concat(f.declared, f.found) {
		for _, o := range u.Objects {
			c := candidate{targetOf(o, u.Cluster), o}
			if seen[c.target] || !f.Follows(o) {
				continue
			}
			seen[c.target] = true
			all = append(all, c)
		}
	}
	return all
}

// taken returns a function that reports whether something else deploys a
// candidate: another object makes it (on any cluster if its own is not known),
// or renders the source that holds it.
func (f *following) taken() func(candidate) bool {
	made := make(map[target]bool)
	opened := make(map[string][]target)
	for t, r := range f.reached {
		if r.by != nil && (r.by.target != t || len(r.others) > 0) {
			made[t] = true
			made[target{"", t.kind, t.namespace, t.name}] = true
		}
		n := f.nodes[t]
		for _, name := range n.reads {
			opened[name] = append(opened[name], n.target)
		}
	}
	return func(c candidate) bool {
		return made[c.target] || c.object.Unit != nil && slices.ContainsFunc(c.object.Unit.files(), func(name string) bool {
			return slices.ContainsFunc(opened[name], func(t target) bool { return t != c.target })
		})
	}
}

// leftOut returns the candidates that nothing makes and nothing applies. These
// are objects in a directory that a controller deploys by a kustomization
// without them, for example because a line of kustomization.yaml is commented
// out. In trees with Flux Kustomizations they are also HelmReleases of a
// kustomization that none of them deploys. An object that deploys its own
// directory is not left out, since trees are bootstrapped like that. Objects
// that only left out objects make are left out, too.
func (f *following) leftOut(all []candidate) map[target]bool {
	declared := make(map[*Unit]bool)
	for _, u := range f.declared {
		declared[u] = true
	}
	deployed, entries := f.directories()
	holds := make(map[*Unit]bool) // one of the entries
	for _, t := range entries {
		holds[f.reached[t].object.Unit] = true
	}
	left := make(map[target]bool)
	for _, c := range all {
		counts := func(root target) bool {
			return root != c.target && !left[root] && (c.cluster == "" || root.cluster == c.cluster)
		}
		at, r := c.object.Unit, f.reached[c.target]
		if at == nil || declared[at] || r == nil || r.by != nil || f.covers(c.target, at.Path) {
			continue
		}
		left[c.target] = c.kind.Kind == "HelmRelease" && at.Kind == "kustomize" && !holds[at] && slices.ContainsFunc(entries, counts)
		for dir := at.Path; dir != "." && !left[c.target]; {
			dir = path.Dir(dir)
			left[c.target] = slices.ContainsFunc(deployed[dir], counts)
		}
	}
	for _, c := range all {
		if r := f.reached[c.target]; r != nil && r.by != nil {
			by := append(slices.Clone(r.others), r.by)
			left[c.target] = !slices.ContainsFunc(by, func(n *maker) bool { return n.target == c.target || !left[f.rootOf(n.target)] })
		}
	}
	return left
}

// directories returns the kustomization directories that controllers deploy,
// bases included, each with the roots that lead there, and the roots that bootstrap Flux.
func (f *following) directories() (deployed map[string][]target, entries []target) {
	deployed = make(map[string][]target)
	for t, r := range f.reached {
		root := f.rootOf(t)
		for _, dir := range f.kustomizations(t) {
			if !slices.Contains(deployed[dir], root) {
				deployed[dir] = append(deployed[dir], root)
			}
		}
		if r.by == nil && (t.kind.Group == "kustomize.toolkit.fluxcd.io" || t.kind.Kind == "FluxInstance") {
			entries = append(entries, t)
		}
	}
	return deployed, entries
}

// kustomizes returns the kustomization directory that an object deploys.
func (f *following) kustomizes(t target) (dir string, ok bool) {
	n := f.nodes[t]
	if n == nil || n.unit == nil || n.unit.Renderer != "kustomize" || len(Failures(n.unit.Err)) > 0 {
		return "", false
	}
	return path.Clean(n.unit.Path), true
}

// kustomizations returns the directories of the kustomizations that an object deploys:
// the one that it names and its bases.
func (f *following) kustomizations(t target) []string {
	if _, ok := f.kustomizes(t); !ok {
		return nil
	}
	var dirs []string
	for _, name := range f.nodes[t].reads {
		if dir, file := path.Split(name); slices.Contains(kustomizationFiles, file) {
			dirs = append(dirs, path.Clean(dir))
		}
	}
	return dirs
}

// covers reports whether an object deploys a directory above name.
func (f *following) covers(t target, name string) bool {
	dir, ok := f.kustomizes(t)
	return ok && (dir == "." || strings.HasPrefix(name, dir+"/"))
}

// rootOf returns the root above an object, or the first object of a circle.
func (f *following) rootOf(t target) target {
	for range maxChain {
		r := f.reached[t]
		if r == nil || r.by == nil || r.by.target == t {
			break
		}
		t = r.by.target
	}
	return t
}

var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// files returns the file names that mark a source's kind. A unit that opens one
// of them renders the source.
func (s *Source) files() []string {
	switch {
	case s.Kind == "helm" && !strings.HasSuffix(s.Path, "gz"):
		return []string{path.Join(s.Path, "Chart.yaml")}
	case s.Kind == "kustomize":
		var files []string
		for _, name := range kustomizationFiles {
			files = append(files, path.Join(s.Path, name))
		}
		return files
	}
	return []string{s.Path}
}

// settle resolves the objects below roots until no answer changes any more.
func (f *following) settle(ctx context.Context, roots []candidate) error {
	for {
		f.walk(roots)
		f.objects = f.index()
		todo := f.stale()
		if len(todo) == 0 {
			return nil
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for _, n := range todo {
			group.Go(func() error {
				f.resolve(ctx, n)
				return ctx.Err()
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
}

// walk finds the objects below roots, by the units that are known so far. If
// several objects make the same one, the first maker counts.
func (f *following) walk(roots []candidate) {
	f.reached, f.full = make(map[target]*reach), false
	var queue []target
	for _, c := range roots {
		f.reached[c.target] = &reach{object: c.object}
		queue = append(queue, c.target)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		n := f.nodes[queue[0]]
		if n == nil || n.unit == nil {
			continue
		}
		depth := f.reached[n.target].depth
		for _, o := range n.unit.Objects {
			if f.Follows(o) && (f.Leaves == nil || !f.Leaves(o)) {
				queue = f.make(queue, n, o, depth+1)
			}
		}
	}
}

// make records that a node makes an object. New objects are added to the queue.
func (f *following) make(queue []target, n *maker, o *Object, depth int) []target {
	t := targetOf(o, n.unit.Cluster)
	r := f.reached[t]
	switch {
	case r == nil && len(f.reached) >= maxMade:
		f.full = true
		return queue
	case r == nil:
		f.reached[t] = &reach{object: o, depth: depth, by: n}
		return append(queue, t)
	case r.by == n || slices.Contains(r.others, n):
	case r.by == nil:
		r.object, r.by = o, n
	case n.target == t: // another maker counts before the object itself
	case r.by.target == t:
		r.object, r.by = o, n
	case n.compare(r.by.target) < 0:
		r.others = append(r.others, r.by)
		r.object, r.by = o, n
	default:
		r.others = append(r.others, n)
	}
	return queue
}

// stale lists the nodes to resolve again, in order.
func (f *following) stale() []*maker {
	var todo []*maker
	for t, r := range f.reached {
		n := f.nodes[t]
		if n == nil {
			n = &maker{target: t}
			f.nodes[t] = n
		}
		if n.unit != nil && sameObject(n.object, r.object) && !n.asked.changed(f.objects) {
			continue
		}
		n.object = r.object
		if f.bounded(n, r) {
			todo = append(todo, n)
		}
	}
	slices.SortFunc(todo, func(a, b *maker) int { return a.compare(b.target) })
	return todo
}

// bounded reports whether a node may be resolved. If not, the node's unit gets
// an error that says why.
func (f *following) bounded(n *maker, r *reach) bool {
	rule, why := "", error(nil)
	switch {
	case r.depth > maxChain:
		rule, why = "too-deep", fmt.Errorf("%s %s is made by a chain of more than %d units, so what it deploys is not rendered", n.kind.Kind, n.name, maxChain)
	case n.turns >= maxResolves:
		rule, why = "unsettled", fmt.Errorf("%s %s does not settle: the objects that it deploys change its own inputs again and again", n.kind.Kind, n.name)
	default:
		n.turns++
		return true
	}
	n.unit = f.broken(n, &Error{Rule: rule, Err: why})
	n.asked = nil
	return false
}

// broken returns the unit of an object that can't be resolved.
func (f *following) broken(n *maker, e *Error) *Unit {
	u := &Unit{Source: Source{Kind: kindOf(n.kind)}, Name: n.name, Cluster: n.cluster, ID: n.id(), State: Failed}
	if at := n.object.At(""); len(at) > 0 {
		e.Span = at[0].Span
	}
	u.Err = e
	return u
}

func kindOf(kind schema.GroupKind) string {
	if kind.Group == "argoproj.io" {
		return "argocd"
	}
	return "flux"
}

// resolve has a node's resolver render what the object deploys.
func (f *following) resolve(ctx context.Context, n *maker) {
	q := &questions{index: f.objects, objects: make(map[target]*Object), kinds: make(map[target][]*Object)}
	reads := &readFiles{names: make(map[string]bool)}
	c := f.cluster(n.cluster)
	store := storeOf(f.Outside)
	world := NewWorld(c, f.Clusters, &answers{questions: q, Outside: f.Outside, reads: reads, store: store})
	u := f.resolver(n.object).Resolve(ctx, n.object, world)
	u.Inputs, n.inputs = world.inputs.All(), world.inputs
	u.ID = cmp.Or(u.ID, n.id())
	u.Kind = cmp.Or(u.Kind, kindOf(n.kind))
	u.Name = cmp.Or(u.Name, n.name)
	u.Cluster = cmp.Or(u.Cluster, n.cluster)
	u.Owner = n.object
	if at := n.object.At(""); len(at) > 0 && u.Origin.File == "" {
		u.Origin = at[0]
	}
	if u.State == "" && onlyForeign(u.Err) {
		u.State = Foreign
	}
	n.lost = nil
	if !OnlyMissing(u.Err) { // the objects are not those that would be applied
		n.lost = slices.DeleteFunc(slices.Clone(u.Objects), func(o *Object) bool { return !f.Follows(o) })
		u.Objects, u.Inputs = nil, nil
	}
	if store.used.Load() {
		u.edited(n.object)
	}
	for _, o := range u.Objects {
		o.Unit = u
	}
	u.Err = errors.Join(u.Err, u.check())
	n.unit, n.asked, n.reads = u, q, reads.sorted()
}

// vary renders the variants of the reachable units.
func (f *following) vary(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for t := range f.reached {
		n := f.nodes[t]
		if n.inputs == nil {
			continue
		}
		group.Go(func() error {
			n.unit.vary(ctx, n.inputs, func(v Variant, inputs *Inputs) ([]*Object, error) {
				q := &questions{index: f.objects, objects: make(map[target]*Object), kinds: make(map[target][]*Object)}
				world := NewWorld(f.cluster(n.cluster), f.Clusters, &answers{questions: q, Outside: f.Outside, reads: &readFiles{names: make(map[string]bool)}, store: storeOf(f.Outside)})
				world.Variant, world.inputs = v, inputs
				u := f.resolver(n.object).Resolve(ctx, n.object, world)
				return u.Objects, u.Err
			})
			return ctx.Err()
		})
	}
	return group.Wait()
}

func onlyForeign(err error) bool {
	failures := Failures(err)
	return len(failures) > 0 && !slices.ContainsFunc(failures, func(e *Error) bool { return e.Rule != "foreign-repository" })
}

func (f *following) cluster(name string) Cluster {
	for _, c := range f.Clusters {
		if c.Name == name {
			return c
		}
	}
	return Cluster{Name: name}
}

// deployment returns the result of Follow.
func (f *following) deployment(roots, all []candidate) *Deployment {
	d := &Deployment{Roots: make(map[*Unit]bool), Sources: make(map[*Unit]bool), Reads: make(map[*Unit][]string), Asked: make(map[*Unit][]*Object), Named: make(map[*Unit][]string), opened: make(map[string]bool)}
	for _, c := range roots {
		d.Roots[c.object.Unit] = true
	}
	nodes := make([]*maker, 0, len(f.reached))
	for t := range f.reached {
		nodes = append(nodes, f.nodes[t])
	}
	slices.SortFunc(nodes, func(a, b *maker) int { return a.compare(b.target) })
	for _, n := range nodes {
		r := f.reached[n.target]
		n.unit.Owner = r.object
		n.unit.Err = errors.Join(n.unit.Err, f.madeTwice(n, r))
		d.Units = append(d.Units, n.unit)
		d.Reads[n.unit], d.Asked[n.unit] = n.reads, n.asked.used()
		d.Named[n.unit] = f.named(d.Asked[n.unit], n.object)
		for _, o := range d.Asked[n.unit] {
			if o.Unit != nil && o.GroupVersionKind().Group != "" && !f.Follows(o) {
				d.Sources[o.Unit] = true
			}
		}
		for _, name := range n.reads {
			d.opened[name] = true
		}
	}
	f.unmatched(nodes)
	d.Units = append(d.Units, f.notFollowed(nodes, all)...)
	if f.full {
		d.Err = &Error{Rule: "too-many-units", Err: fmt.Errorf("GitOps objects make more than %d units, the rest is not rendered", maxMade)}
	}
	if f.several(d.Units) {
		for _, u := range d.Units {
			if u.Cluster != "" {
				u.ID = u.Cluster + ":" + u.ID
			}
		}
	}
	return d
}

// unmatched warns once of each patch that a parent gives to several units and
// that selects nothing in any of them. The parent's unit gets the warning.
func (f *following) unmatched(nodes []*maker) {
	given := make(map[Span]int)
	first := make(map[Span]*maker)
	selects := make(map[Span]bool)
	var spans []Span
	for _, n := range nodes {
		for _, p := range n.inputs.noted().Patches {
			if given[p.Span]++; given[p.Span] == 1 {
				spans, first[p.Span] = append(spans, p.Span), n
			}
			selects[p.Span] = selects[p.Span] || p.Selects
		}
	}
	for _, s := range spans {
		if selects[s] {
			continue
		}
		to := first[s]
		if by := f.reached[to.target].by; by != nil {
			to = by
		}
		where := "the unit"
		if given[s] > 1 {
			where = fmt.Sprintf("any of the %d units", given[s])
		}
		to.unit.Err = errors.Join(to.unit.Err, &Error{Span: s, Rule: "unmatched-patch", Warning: true, Err: fmt.Errorf(
			"patch changes nothing: its target selects no resource in %s that it is given to", where)})
	}
}

// notFollowed returns a unit for each GitOps object that a failed unit would
// make, as far as they are known from the part that rendered or from the files
// that were opened. The final form of these objects is unknown, so nothing of
// what they deploy is rendered.
func (f *following) notFollowed(nodes []*maker, all []candidate) []*Unit {
	var units []*Unit
	seen := make(map[target]bool)
	add := func(n *maker, o *Object) {
		t := targetOf(o, n.unit.Cluster)
		if f.reached[t] != nil || seen[t] {
			return
		}
		seen[t] = true
		owned := *o
		owned.Unit = n.unit
		u := f.broken(&maker{target: t, object: &owned}, &Error{Rule: "not-followed", Maker: n.unit.ID, Err: fmt.Errorf(
			"what %s %s deploys is not known, since %s makes it and can't be rendered", t.kind.Kind, t.name, n.unit.ID)})
		u.State, u.Owner = NotRendered, &owned
		units = append(units, u)
	}
	held := byFile(all)
	for _, n := range nodes {
		if len(Failures(n.unit.Err)) == 0 {
			continue
		}
		for _, o := range n.lost {
			add(n, o)
		}
		var opened []int
		for _, name := range n.reads {
			opened = append(opened, held[name]...)
		}
		slices.Sort(opened)
		for _, i := range slices.Compact(opened) {
			if all[i].target != n.target {
				add(n, all[i].object)
			}
		}
	}
	return units
}

// byFile returns the indices of candidates by the files of the sources that hold them.
func byFile(all []candidate) map[string][]int {
	held := make(map[string][]int)
	for i, c := range all {
		if c.object.Unit == nil {
			continue
		}
		for _, name := range c.object.Unit.files() {
			held[name] = append(held[name], i)
		}
	}
	return held
}

// several reports whether units go to several clusters, or may do so.
func (f *following) several(units []*Unit) bool {
	names := make(map[string]bool)
	for _, c := range f.Clusters {
		names[c.Name] = true
	}
	for _, u := range units {
		names[u.Cluster] = true
	}
	return f.Several || len(names) > 1
}

// madeTwice warns of an object that several units make: they overwrite each
// other's version.
func (f *following) madeTwice(n *maker, r *reach) error {
	if len(r.others) == 0 {
		return nil
	}
	slices.SortFunc(r.others, func(a, b *maker) int { return a.compare(b.target) })
	var ids []string
	for _, o := range r.others {
		ids = append(ids, o.unit.ID)
	}
	e := &Error{Rule: "made-twice", Warning: true, Err: fmt.Errorf(
		"%s %s is made by %s and by %s, which overwrite each other: it is resolved as the first makes it",
		n.kind.Kind, n.name, r.by.unit.ID, strings.Join(ids, ", "))}
	if at := r.object.At(""); len(at) > 0 {
		e.Span = at[0].Span
	}
	return e
}

func sameObject(a, b *Object) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a.Object, b.Object)
}

// IsDeployed reports whether a GitOps object deploys an object. A resolver may ask before that is known; then it is asked
// again. o may be nil.
func IsDeployed(o *Object) bool { return o != nil && o.Unit != nil && o.Unit.Owner != nil }

// answers is the World of one call of Resolve. It records the questions.
type answers struct {
	*questions
	Outside
	reads *readFiles
	store *noting
}

// Fetched implements Store.
func (a *answers) Fetched(r *Remote) (Repository, error) { return a.store.Fetched(r) }

// Render implements WorldAnswers.
func (a *answers) Render(ctx context.Context, src Source) ([]*Object, error) {
	if src.Store == nil { // otherwise the source brings its own store
		src.Store = a.store
	}
	return a.Outside.Render(ctx, src)
}

// Repository implements WorldAnswers.
func (a *answers) Repository(url, revision string) (Repository, error) {
	r, err := a.Outside.Repository(url, revision)
	return a.reads.of(r), err
}

// Source implements WorldAnswers.
func (a *answers) Source(kind, namespace, name string) (Repository, bool) {
	r, ok := a.Outside.Source(kind, namespace, name)
	return a.reads.of(r), ok
}

// questions holds what one call of Resolve asked about objects, and the
// answers.
type questions struct {
	index *objectIndex

	mu      sync.Mutex
	objects map[target]*Object
	kinds   map[target][]*Object
}

// Object implements WorldAnswers.
func (q *questions) Object(cluster string, kind schema.GroupKind, namespace, name string) *Object {
	t := target{cluster, kind, namespace, name}
	o := q.index.object(t)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.objects[t] = o
	return o
}

// Objects implements WorldAnswers.
func (q *questions) Objects(cluster string, kind schema.GroupKind) []*Object {
	t := target{cluster: cluster, kind: kind}
	all := q.index.list(t)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.kinds[t] = all
	return slices.Clone(all)
}

// used returns the objects that were asked for by name, in order.
func (q *questions) used() []*Object {
	if q == nil {
		return nil
	}
	var all []*Object
	for _, t := range slices.SortedFunc(maps.Keys(q.objects), target.compare) {
		if o := q.objects[t]; o != nil {
			all = append(all, o)
		}
	}
	return all
}

// changed reports whether one of the answers would be another one now.
func (q *questions) changed(now *objectIndex) bool {
	if q == nil {
		return false
	}
	for t, o := range q.objects {
		if is := now.object(t); !sameObject(o, is) || IsDeployed(o) != IsDeployed(is) {
			return true
		}
	}
	for t, all := range q.kinds {
		if !slices.EqualFunc(all, now.list(t), sameObject) {
			return true
		}
	}
	return false
}

// An objectIndex finds objects by cluster and kind, and by cluster, kind and
// name.
type objectIndex struct {
	sure  map[target][]*Object // objects that units make, followed by declared ones
	found map[target][]*Object // objects found in the tree, which somebody may have applied by hand
}

func (f *following) index() *objectIndex {
	x := &objectIndex{sure: make(map[target][]*Object), found: make(map[target][]*Object)}
	nodes := make([]*maker, 0, len(f.reached))
	for t := range f.reached {
		if n := f.nodes[t]; n != nil && n.unit != nil {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *maker) int { return a.compare(b.target) })
	for _, n := range nodes {
		x.add(x.sure, n.unit)
	}
	for _, u := range f.declared {
		x.add(x.sure, u)
	}
	for _, u := range f.found {
		x.add(x.found, u)
	}
	return x
}

// inOrder returns objects of one kind by namespace and name.
func inOrder(objects []*Object) []*Object {
	return slices.SortedStableFunc(slices.Values(objects), func(a, b *Object) int {
		return cmp.Or(strings.Compare(a.HomeNamespace(), b.HomeNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
}

func (x *objectIndex) add(layer map[target][]*Object, u *Unit) {
	for _, o := range u.Objects {
		t := target{cluster: u.Cluster, kind: o.GroupVersionKind().GroupKind()}
		layer[t] = append(layer[t], o)
		if t.name = o.GetName(); t.name != "" {
			layer[t] = append(layer[t], o)
		}
	}
}

func (t target) isOf(o *Object) bool {
	return o.GetName() == t.name && (t.namespace == "" || targetOf(o, "").namespace == t.namespace)
}

// object returns the object of an identity. An object of a found unit is
// returned only if no other one has that identity and another content.
func (x *objectIndex) object(t target) *Object {
	of := target{cluster: t.cluster, kind: t.kind, name: t.name}
	sure := inOrder(x.sure[of])
	if i := slices.IndexFunc(sure, t.isOf); i >= 0 {
		return sure[i]
	}
	var found *Object
	unknown := target{kind: t.kind, name: t.name} // objects whose cluster the tree does not name
	for _, o := range slices.Concat(inOrder(x.found[of]), inOrder(x.found[unknown])) {
		switch {
		case !t.isOf(o):
		case found == nil:
			found = o
		case !sameObject(found, o):
			return nil
		}
	}
	return found
}

// list returns the objects of a kind, each identity once.
func (x *objectIndex) list(of target) []*Object {
	var all []*Object
	seen := make(map[target]bool)
	for _, o := range slices.Concat(inOrder(x.sure[of]), inOrder(x.found[of])) {
		if t := targetOf(o, of.cluster); !seen[t] {
			seen[t] = true
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b *Object) int { return targetOf(a, "").compare(targetOf(b, "")) })
	return all
}

// readFiles records which files of a tree are opened.
type readFiles struct {
	mu    sync.Mutex
	names map[string]bool
}

func (r *readFiles) of(repository Repository) Repository {
	if repository.FS != nil {
		repository.FS = noted{repository.FS, r}
	}
	return repository
}

func (r *readFiles) add(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.names[name] = true
	}
}

func (r *readFiles) sorted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.names))
	for name := range r.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// noted is a file system that records the files opened.
type noted struct {
	fs.FS
	reads *readFiles
}

// Open implements fs.FS.
func (n noted) Open(name string) (fs.File, error) {
	f, err := n.FS.Open(name)
	if err == nil {
		n.reads.add(name)
	}
	return f, err
}

// Stat implements fs.StatFS.
func (n noted) Stat(name string) (fs.FileInfo, error) { return fs.Stat(n.FS, name) }

// Lstat implements fs.ReadLinkFS.
func (n noted) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(n.FS, name) }

// ReadLink implements fs.ReadLinkFS.
func (n noted) ReadLink(name string) (string, error) { return fs.ReadLink(n.FS, name) }

// ReadDir implements fs.ReadDirFS.
func (n noted) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(n.FS, name) }
