package kustomize

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"

	"github.com/preadmit/preadmit/render"
)

// A candidate is a resource as far as the target of a patch can select it,
// with all the names and namespaces that it has had.
type candidate struct {
	gvk        resid.Gvk
	names      []string
	namespaces []string
	labels     []map[string]string
	notes      []map[string]string // annotations
}

func candidateOf(value any) candidate {
	group, version := resid.ParseGroupVersion(text(value, "apiVersion"))
	meta, _ := value.(map[string]any)
	m, _ := meta["metadata"].(map[string]any)
	return candidate{
		gvk:        resid.Gvk{Group: group, Version: version, Kind: text(value, "kind")},
		names:      []string{text(value, "metadata", "name")},
		namespaces: []string{text(value, "metadata", "namespace")},
		labels:     []map[string]string{texts(m["labels"])},
		notes:      []map[string]string{texts(m["annotations"])},
	}
}

func texts(value any) map[string]string {
	m, _ := value.(map[string]any)
	all := make(map[string]string, len(m))
	for key, v := range m {
		all[key] = fmt.Sprint(v)
	}
	return all
}

// A selection is a patch's target with compiled expressions. It is safe for
// concurrent use.
type selection struct {
	*types.SelectorRegex
	selector      types.Selector
	labels, notes labels.Selector
	err           error // why it selects nothing
}

func newSelection(s types.Selector) *selection {
	t := &selection{selector: s}
	var err [3]error
	t.SelectorRegex, err[0] = types.NewSelectorRegex(&t.selector)
	t.labels, err[1] = labels.Parse(s.LabelSelector)
	t.notes, err[2] = labels.Parse(s.AnnotationSelector)
	t.err = cmp.Or(err[0], err[1], err[2])
	return t
}

// selections caches the targets of patches, which many units share.
type selections struct{ all sync.Map } // from types.Selector to *selection

func (s *selections) of(target types.Selector) *selection {
	known, ok := s.all.Load(target)
	if !ok {
		known, _ = s.all.LoadOrStore(target, newSelection(target))
	}
	return known.(*selection)
}

// among returns the resources that the target selects, as ResMap.Select does.
func (s *selection) among(resources []*resource.Resource) (selected []*resource.Resource, err error) {
	if s.err != nil {
		return nil, s.err
	}
	for _, r := range resources {
		if !s.MatchGvk(r.GetGvk()) {
			continue
		}
		now, first := r.CurId(), r.OrgId()
		if (s.MatchNamespace(first.EffectiveNamespace()) || s.MatchNamespace(now.EffectiveNamespace())) &&
			(s.MatchName(first.Name) || s.MatchName(now.Name)) &&
			(s.labels.Empty() || s.labels.Matches(labels.Set(r.GetLabels()))) &&
			(s.notes.Empty() || s.notes.Matches(labels.Set(r.GetAnnotations()))) {
			selected = append(selected, r)
		}
	}
	return selected, nil
}

// may reports whether the target may select a candidate. It errs on the side of yes.
func (s *selection) may(c candidate) bool {
	return s.SelectorRegex == nil || s.MatchGvk(c.gvk) &&
		slices.ContainsFunc(c.names, s.MatchName) &&
		slices.ContainsFunc(c.namespaces, func(ns string) bool {
			return s.MatchNamespace(ns) || ns == "" && s.MatchNamespace(resid.DefaultNamespace)
		}) &&
		selecting(s.labels, c.labels) && selecting(s.notes, c.notes)
}

// selecting reports whether a selector, which may be missing, may select one of several
// sets of labels.
func selecting(s labels.Selector, sets []map[string]string) bool {
	return s == nil || s.Empty() || slices.ContainsFunc(sets, func(set map[string]string) bool { return s.Matches(labels.Set(set)) })
}

// A pool holds the objects that the patches of a kustomization can select.
type pool struct {
	all     []candidate
	open    bool // the objects are unknown, so there are no warnings
	patched bool // a patch may change labels or annotations
}

// unmatched returns a warning for each patch whose target selects nothing;
// kustomize does not report them. Patches of a component for all objects of a
// kind are left out, because not every kustomization that uses the component
// has such objects.
func (w *walk) unmatched() error {
	var errs []error
	pools := &pools{w: w, out: map[*node]*pool{}}
	for _, dir := range sorted(w.nodes) {
		n := w.nodes[dir]
		if n == nil {
			continue
		}
		for _, p := range n.patches {
			shared := n.build.Kind == types.ComponentKind && p.target != nil && p.target.Name == ""
			if p.target != nil && !shared && pools.of(n).excludes(p) {
				errs = append(errs, &render.Error{
					Span: n.at(p.field, p.entry, "target"), Rule: "unmatched-patch", Warning: true,
					Err: errors.New("patch changes nothing: its target selects no resource here"),
				})
			}
		}
	}
	return errors.Join(errs...)
}

func (p *pool) excludes(by *patch) bool {
	if p.open || p.patched && by.target.LabelSelector+by.target.AnnotationSelector != "" {
		return false
	}
	return !slices.ContainsFunc(p.all, by.selection.may)
}

func (p *pool) take(q *pool) {
	p.all = append(p.all, q.all...)
	p.open = p.open || q.open
	p.patched = p.patched || q.patched
}

type pools struct {
	w   *walk
	out map[*node]*pool
}

// of returns the objects that a kustomization has when its patches are applied.
// A component also has those of the kustomizations that use it.
func (p *pools) of(n *node) *pool {
	pl := p.inside(n)
	if n.spec.Kind != types.ComponentKind {
		return pl
	}
	all := &pool{}
	all.take(pl)
	for _, dir := range sorted(p.w.nodes) {
		if user := p.w.nodes[dir]; user != nil && user != n && slices.Contains(user.components, n) {
			all.take(p.of(user))
		}
	}
	return all
}

// inside returns the resources, generated objects and charts of a
// kustomization and of its components, before it changes them.
func (p *pools) inside(n *node) *pool {
	pl := &pool{open: len(n.spec.Transformers)+len(n.build.Generators) > 0, patched: len(n.spec.Replacements) > 0 || slices.ContainsFunc(n.patches, (*patch).relabels)}
	for _, it := range n.items {
		for _, doc := range it.docs {
			pl.all = append(pl.all, flatten(doc.Value, 0)...)
		}
		if it.node != nil {
			pl.take(p.outside(it.node))
		}
	}
	for _, c := range p.w.inflated {
		for _, o := range c.objects {
			if c.owner == n {
				pl.all = append(pl.all, candidateOf(o.Object))
			}
		}
	}
	for _, g := range n.generated() {
		pl.all = append(pl.all, g.candidate(n))
	}
	for _, c := range n.components {
		pl.take(p.outside(c))
	}
	pl.open = pl.open || n.renames()
	return pl
}

func flatten(value any, depth int) []candidate {
	m, _ := value.(map[string]any)
	items, ok := m["items"].([]any)
	if !ok || !strings.HasSuffix(text(value, "kind"), "List") || depth > 10 {
		return []candidate{candidateOf(value)}
	}
	var all []candidate
	for _, item := range items {
		all = append(all, flatten(item, depth+1)...)
	}
	return all
}

// outside returns the resources of a kustomization as others get them.
func (p *pools) outside(n *node) *pool {
	if pl, ok := p.out[n]; ok {
		return pl
	}
	pl := &pool{}
	pl.take(p.inside(n))
	pl.all = slices.Clone(pl.all)
	for i := range pl.all {
		pl.all[i] = n.changed(pl.all[i])
	}
	p.out[n] = pl
	return pl
}

// changed applies a kustomization's names, namespace and labels to a candidate.
func (n *node) changed(c candidate) candidate {
	for _, name := range slices.Clone(c.names) {
		c.names = append(slices.Clip(c.names), n.spec.NamePrefix+name+n.spec.NameSuffix)
	}
	if n.spec.Namespace != "" {
		c.namespaces = append(slices.Clip(c.namespaces), n.spec.Namespace)
	}
	c.labels = append(slices.Clip(c.labels), with(c.labels, n.spec.CommonLabels))
	for _, l := range n.spec.Labels {
		c.labels = append(slices.Clip(c.labels), with(c.labels, l.Pairs))
	}
	c.notes = append(slices.Clip(c.notes), with(c.notes, n.spec.CommonAnnotations))
	return c
}

// with adds pairs to the latest of sets.
func with(sets []map[string]string, pairs map[string]string) map[string]string {
	all := map[string]string{}
	if len(sets) > 0 {
		maps.Copy(all, sets[len(sets)-1])
	}
	maps.Copy(all, pairs)
	return all
}

// renames reports whether something other than prefixes may change the kinds or
// names of resources.
func (n *node) renames() bool {
	for _, p := range n.spec.Patches {
		if p.Options != nil && (p.Options.AllowNameChange || p.Options.AllowKindChange) {
			return true
		}
	}
	for _, r := range n.spec.Replacements {
		if r.Path != "" || slices.ContainsFunc(r.Targets, func(t *types.TargetSelector) bool {
			return t == nil || slices.ContainsFunc(t.FieldPaths, func(f string) bool { return strings.HasPrefix(f, "metadata") || f == "kind" })
		}) {
			return true
		}
	}
	return slices.ContainsFunc(n.patches, func(p *patch) bool { return p.json() && slices.ContainsFunc(p.docs, touchesIdentity) || p.field == "" })
}

// relabels reports whether a patch writes to labels or annotations.
func (p *patch) relabels() bool {
	return slices.ContainsFunc(p.docs, func(doc render.Document) bool {
		if ops, ok := doc.Value.([]any); ok {
			return slices.ContainsFunc(ops, func(op any) bool {
				path := text(op, "path")
				return path == "" || strings.HasPrefix(path, "/metadata")
			})
		}
		_, labels := render.Lookup(doc.Value, "/metadata/labels")
		_, notes := render.Lookup(doc.Value, "/metadata/annotations")
		return labels || notes
	})
}

// touchesIdentity reports whether a JSON patch writes to kind, name or namespace.
func touchesIdentity(doc render.Document) bool {
	ops, _ := doc.Value.([]any)
	return slices.ContainsFunc(ops, func(op any) bool {
		switch text(op, "path") {
		case "", "/kind", "/apiVersion", "/metadata", "/metadata/name", "/metadata/namespace":
			return true
		}
		return false
	})
}
