package authz

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// An rbac decides as k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac does, by
// an index of subjects and their bindings. It is immutable.
type rbac struct {
	store    *store
	defaults int // the minor version whose default roles it has
	bindings []binding
	hits     map[subject][]hit
	broken   map[string][]string // by namespace: bindings that can't be read
}

// A subject is a user (a service account by its user name) or group, in the
// bindings of one namespace, or with "" those of the cluster.
type subject struct {
	namespace, name string
	group           bool
}

// A hit is the index of a binding and of the subject in it.
type hit struct{ binding, subject int32 }

// A binding grants a role to its subjects.
type binding struct {
	*bindingObject
	key     key
	role    *role
	reasons []string // RBAC's message when it allows, by subject
	// Bindings of one name with different content are neighbours: first is the
	// index of the first, of is their number.
	first, of int32
}

// Authorize decides a check. RBAC only adds permissions, so an allowed check is
// certain; a denied one is undecided if something unknown could allow it.
func (r *rbac) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	u := a.GetUser()
	if u != nil && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil // before RBAC is asked: authorizerfactory.NewPrivilegedGroups
	}
	if u == nil {
		return cannotTell(a, "")
	}
	w := walk{rbac: r, check: a, user: u}
	for _, namespace := range []string{"", a.GetNamespace()} {
		if reason, ok := w.allows(namespace); ok {
			return authorizer.DecisionAllow, reason, nil
		}
		if a.GetNamespace() == "" {
			break
		}
	}
	if w.doubt == "" && strings.HasPrefix(u.GetName(), "system:node:") && slices.Contains(u.GetGroups(), user.NodesGroup) {
		w.doubt = "the Node authorizer decides as well, by what runs on the node"
	}
	if w.doubt != "" || u.GetName() == "" {
		return cannotTell(a, w.doubt)
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// A walk looks for bindings that allow a check.
type walk struct {
	*rbac
	check authorizer.Attributes
	user  user.Info
	doubt string // the first reason why more might be allowed

	// The answers of roles, by role; nil while there are few.
	roles  map[*role]answer
	leaves map[*roleObject]bool
}

// allows reports whether bindings of a namespace allow the check, and by which
// one.
func (w *walk) allows(namespace string) (reason string, ok bool) {
	var buffer [16]hit
	hits := w.hitsOf(namespace, buffer[:0])
	if len(hits) > 64 && w.roles == nil {
		w.roles, w.leaves = make(map[*role]answer), make(map[*roleObject]bool)
	}
	name, granting := int32(-1), int32(0) // how many of one name grant it
	for i, h := range hits {
		b := &w.bindings[h.binding]
		if i > 0 && hits[i-1].binding == h.binding {
			continue
		}
		if b.first != name {
			name, granting = b.first, 0
		}
		a := w.role(b.role)
		if a.grant == yes {
			granting++
		}
		switch {
		case granting == b.of:
			return b.reasons[h.subject], true
		case a.grant == no || w.doubt != "":
		case a.grant == maybe:
			w.doubt = fmt.Sprintf("%s grants %s, %s", b.title(), b.role.title, a.why)
		default:
			w.doubt = fmt.Sprintf("%s is defined %d times, differently", b.title(), b.of)
		}
	}
	if broken := w.broken[namespace]; len(broken) > 0 && w.doubt == "" {
		w.doubt = broken[0] + " can't be read"
	}
	return "", false
}

// hitsOf returns the bindings of a namespace that apply to the user, in order.
func (w *walk) hitsOf(namespace string, hits []hit) []hit {
	if w.user.GetName() != "" {
		hits = append(hits, w.hits[subject{namespace, w.user.GetName(), false}]...)
	}
	lists := min(len(hits), 1)
	for _, g := range w.user.GetGroups() {
		more := w.hits[subject{namespace, g, true}]
		hits = append(hits, more...)
		lists += min(len(more), 1)
	}
	if lists > 1 {
		slices.SortFunc(hits, func(a, b hit) int {
			return cmp.Or(cmp.Compare(a.binding, b.binding), cmp.Compare(a.subject, b.subject))
		})
	}
	return hits
}

func (b *binding) title() string { return b.kind() + " " + quote(b.key.String()) }

func (b *binding) kind() string {
	if b.key.namespace == "" {
		return "ClusterRoleBinding"
	}
	return "RoleBinding"
}

// reason returns RBAC's message when the binding allows a check for a subject
// (k8s.io/kubernetes/pkg/registry/rbac/validation).
func (b *binding) reason(s rbacv1.Subject) string {
	name, who := b.key.name, s.Name
	if b.key.namespace != "" {
		name += "/" + b.key.namespace
	}
	if s.Kind == rbacv1.ServiceAccountKind {
		who += "/" + cmp.Or(s.Namespace, b.key.namespace)
	}
	return fmt.Sprintf("RBAC: allowed by %s %q of %s to %s %q", b.kind(), name, b.role.title, s.Kind, who)
}

// newRBAC reads the objects of the cluster.
func newRBAC(o Options) (*rbac, error) {
	version, err := cel.ParseVersion(o.KubeVersion)
	if err != nil {
		return nil, err
	}
	r := &rbac{defaults: defaultsOf(version)}
	s, err := newStore(o, r.defaults)
	if err != nil {
		return nil, err
	}
	r.store = s
	r.index(s)
	return r, nil
}

// assumed returns the assumption behind the answers.
func (r *rbac) assumed() string {
	return fmt.Sprintf("authorizer: RBAC, by the Roles and bindings in the tree and in --with,"+
		" and the default ones of Kubernetes 1.%d; others are assumed not to exist", r.defaults)
}

// index indexes the bindings by subject.
func (r *rbac) index(s *store) {
	r.hits, r.broken = make(map[subject][]hit), make(map[string][]string)
	for _, bound := range s.bindings.all {
		first := int32(len(r.bindings))
		for _, object := range bound.variants {
			b := binding{bindingObject: object, key: bound.key, first: first, of: int32(len(bound.variants))}
			if object.broken {
				r.broken[bound.key.namespace] = append(r.broken[bound.key.namespace], b.title())
				continue
			}
			b.role = s.role(object.role, bound.key.namespace)
			r.add(b)
		}
	}
}

func (r *rbac) add(b binding) {
	at := int32(len(r.bindings))
	b.reasons = make([]string, len(b.subjects))
	for i, s := range b.subjects {
		key := subject{b.key.namespace, s.Name, s.Kind == rbacv1.GroupKind}
		switch s.Kind {
		case rbacv1.UserKind, rbacv1.GroupKind:
		case rbacv1.ServiceAccountKind:
			namespace := cmp.Or(s.Namespace, b.key.namespace)
			if namespace == "" {
				continue
			}
			key.name = serviceaccount.MakeUsername(namespace, s.Name)
		default:
			continue
		}
		r.hits[key] = append(r.hits[key], hit{at, int32(i)})
		b.reasons[i] = b.reason(s)
	}
	r.bindings = append(r.bindings, b)
}
