package authz

import (
	"fmt"
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// A store holds the objects that RBAC reads.
type store struct {
	roles, clusterRoles shelf[*roleObject]
	bindings            shelf[*bindingObject]

	made    map[madeKey]*role // roles that bindings refer to
	matched int               // how often selectors were evaluated, see maxMatches
}

type madeKey struct {
	key
	kind string
}

// A roleObject holds the fields of a Role or ClusterRole that RBAC reads.
type roleObject struct {
	labels    labels.Set
	rules     []rbacv1.PolicyRule
	selectors []labels.Selector // for an aggregated role, whose rules come from other roles
	combined  bool              // aggregated
	broken    bool              // its rules can't be read
	anyLabels bool              // its labels can't be read either
}

// A bindingObject holds the fields of a RoleBinding or ClusterRoleBinding that
// RBAC reads.
type bindingObject struct {
	role     rbacv1.RoleRef
	subjects []rbacv1.Subject
	broken   bool // it can't be read
}

// A key identifies an object; cluster-scoped objects have no namespace.
type key struct{ namespace, name string }

func (k key) String() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// A rank decides which objects of one name count: those of the best rank.
type rank int

const (
	builtIn rank = iota + 1 // made by the API server
	given                   // on the cluster before the change
	written                 // in the tree
)

// A shelf holds the objects of one kind by name, in the order of adding.
type shelf[T any] struct {
	all []*named[T]
	at  map[key]*named[T]
	any T // replaces the objects of one name if there are too many
}

// maxVariants limits the different objects of one name.
const maxVariants = 16

// A named holds the objects of one name: usually one, or several that differ,
// such as those of two overlays.
type named[T any] struct {
	key      key
	rank     rank
	variants []T
}

func (s *shelf[T]) add(k key, r rank, object T) {
	n := s.at[k]
	if n == nil {
		if s.at == nil {
			s.at = make(map[key]*named[T])
		}
		n = &named[T]{key: k}
		s.at[k] = n
		s.all = append(s.all, n)
	}
	switch {
	case r > n.rank:
		n.rank, n.variants = r, []T{object}
	case r < n.rank || len(n.variants) > maxVariants || slices.ContainsFunc(n.variants, func(v T) bool { return reflect.DeepEqual(v, object) }):
	case len(n.variants) == maxVariants:
		n.variants = append(n.variants, s.any)
	default:
		n.variants = append(n.variants, object)
	}
}

// newStore reads the objects of a cluster and those that the API server of a
// version makes.
func newStore(o Options, defaults int) (*store, error) {
	s := &store{made: make(map[madeKey]*role)}
	s.roles.any, s.clusterRoles.any = &roleObject{broken: true, anyLabels: true}, &roleObject{broken: true, anyLabels: true}
	s.bindings.any = &bindingObject{broken: true}
	for _, kind := range []string{"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"} {
		for _, object := range o.Cluster.List(schema.GroupKind{Group: rbacv1.GroupName, Kind: kind}) {
			r := written
			if o.Given != nil && o.Given(object) {
				r = given
			}
			s.add(kind, r, object)
		}
	}
	return s, s.addDefaults(defaults)
}

func (s *store) add(kind string, r rank, o *render.Object) {
	k := keyOf(kind, o)
	switch kind {
	case "ClusterRole":
		s.clusterRoles.add(k, r, readRole(o))
	case "Role":
		s.roles.add(k, r, readRole(o))
	default:
		s.bindings.add(k, r, readBinding(o))
	}
}

// keyOf returns the key of an object after it is stored. For a generated name
// it is only the prefix.
func keyOf(kind string, o *render.Object) key {
	k := key{name: o.Key().Name}
	if kind == "Role" || kind == "RoleBinding" {
		k.namespace = o.EffectiveNamespace()
	}
	return k
}

func readRole(o *render.Object) *roleObject {
	var r rbacv1.ClusterRole // it has all fields of a Role
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r); err != nil {
		return &roleObject{labels: o.GetLabels(), broken: true}
	}
	out := &roleObject{labels: r.Labels, rules: r.Rules}
	if r.AggregationRule == nil || o.GetKind() != "ClusterRole" {
		return out
	}
	out.combined, out.rules = true, nil // the aggregation controller overwrites them
	for i := range r.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&r.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return &roleObject{labels: r.Labels, broken: true}
		}
		out.selectors = append(out.selectors, selector)
	}
	return out
}

func readBinding(o *render.Object) *bindingObject {
	var b rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b); err != nil {
		return &bindingObject{broken: true}
	}
	return &bindingObject{role: b.RoleRef, subjects: b.Subjects}
}

// role returns the role that a binding in a namespace refers to.
func (s *store) role(ref rbacv1.RoleRef, namespace string) *role {
	k := madeKey{key{name: ref.Name}, ref.Kind}
	if ref.Kind == "Role" {
		k.namespace = namespace
	}
	r := s.made[k]
	if r == nil {
		r = s.makeRole(k)
		s.made[k] = r
	}
	return r
}

func (s *store) makeRole(k madeKey) *role {
	r := &role{title: k.kind + " " + quote(k.name)}
	var found *named[*roleObject]
	switch {
	case k.kind == "ClusterRole":
		found = s.clusterRoles.at[k.key]
	case k.kind == "Role" && k.namespace != "":
		found = s.roles.at[k.key]
	default:
		return r // the API server refuses such a binding, so it grants nothing
	}
	if found == nil {
		r.unknown = "which is neither in the tree nor in --with"
		return r
	}
	for _, v := range found.variants {
		r.variants = append(r.variants, s.parts(found, v))
	}
	return r
}

// maxMatches bounds the work of aggregation, which is quadratic in the number
// of roles, for a cluster.
const maxMatches = 1 << 22

// parts returns the rules of a role. For an aggregated role they are those of
// the roles that it selects, directly or indirectly
// (k8s.io/kubernetes/pkg/controller/clusterroleaggregation).
func (s *store) parts(of *named[*roleObject], v *roleObject) []part {
	switch {
	case v.broken:
		return []part{{unknown: "which can't be read"}}
	case !v.combined:
		return []part{{leaf: v}}
	case s.matched > maxMatches:
		return tooMany
	}
	var all []part
	others := slices.DeleteFunc(slices.Clone(s.clusterRoles.all), func(n *named[*roleObject]) bool { return n == of })
	for queue := []selection{{selectors: v.selectors}}; len(queue) > 0; queue = queue[1:] {
		by := queue[0]
		others = slices.DeleteFunc(others, func(n *named[*roleObject]) bool {
			if !s.selected(by.selectors, n) {
				return false
			}
			parts, selections := by.take(n)
			all, queue = append(all, parts...), append(queue, selections...)
			return true
		})
		if s.matched > maxMatches {
			return tooMany
		}
	}
	return all
}

var tooMany = []part{{unknown: "which aggregates more roles than can be followed"}}

// A selection is the set of roles that one aggregated role selects.
type selection struct {
	selectors []labels.Selector
	doubt     string // why its rules may be absent
}

// take returns the parts of a selected role: its rules, or further selections.
func (s selection) take(n *named[*roleObject]) (parts []part, next []selection) {
	doubt := s.doubt
	if len(n.variants) > 1 {
		doubt = fmt.Sprintf("which aggregates ClusterRole %s, which is defined %d times, differently", quote(n.key.name), len(n.variants))
	}
	for _, v := range n.variants {
		switch {
		case v.broken:
			parts = append(parts, part{unknown: fmt.Sprintf("which aggregates ClusterRole %s, which can't be read", quote(n.key.name))})
		case v.combined:
			next = append(next, selection{v.selectors, doubt})
		default:
			parts = append(parts, part{leaf: v, doubt: doubt})
		}
	}
	return parts, next
}

func (s *store) selected(selectors []labels.Selector, n *named[*roleObject]) bool {
	s.matched++
	for _, v := range n.variants {
		if v.anyLabels && len(selectors) > 0 {
			return true
		}
		for _, selector := range selectors {
			s.matched++
			if selector.Matches(v.labels) {
				return true
			}
		}
	}
	return false
}
