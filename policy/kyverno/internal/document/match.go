package document

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render"
)

// A Target is the part of a request that match and exclude blocks read. The engine
// creates one for each request.
type Target struct {
	Object      map[string]any // the new one, or the old one of a DELETE
	Kind        schema.GroupVersionKind
	Subresource string
	Operation   string

	// NamespaceLabels returns the labels of the object's namespace; nil: none.
	NamespaceLabels func() map[string]string

	// UserKnown is false if nothing is known about the user. Then users are
	// ignored in match, and in exclude they match nobody.
	UserKnown           bool
	User                *policy.UserInfo
	Roles, ClusterRoles []string // a Role as namespace:name
	RolesAsked          bool     // set if a match needed the roles
}

func (t *Target) metadata() map[string]any {
	m, _ := t.Object["metadata"].(map[string]any)
	return m
}

// Name returns the object's name, or else its generateName.
func (t *Target) Name() string {
	if name, _ := t.metadata()["name"].(string); name != "" {
		return name
	}
	name, _ := t.metadata()["generateName"].(string)
	return name
}

// Namespace returns the object's namespace; that of a Namespace is its name.
func (t *Target) Namespace() string {
	key := "namespace"
	if t.Kind.Kind == "Namespace" {
		key = "name"
	}
	s, _ := t.metadata()[key].(string)
	return s
}

// StringMap returns the labels or annotations of the object.
func (t *Target) StringMap(key string) map[string]string {
	m, _ := t.metadata()[key].(map[string]any)
	all := make(map[string]string, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			all[k] = s
		}
	}
	return all
}

// Matches reports whether the rule's match selects the request and its exclude
// does not. assumed reports that this would differ for some users, and the user
// is not known.
func (r *Rule) Matches(t *Target) (matched, assumed bool) {
	matched, assumed = r.Match.matches(t)
	if !matched || r.Exclude == nil {
		return matched, assumed
	}
	excluded, byUser := r.Exclude.excludes(t)
	return !excluded, assumed || byUser
}

// InScope reports whether the policy applies to the object's namespace: a
// Policy applies to its own, and to no cluster-scoped objects.
func (p *Policy) InScope(t *Target) bool {
	if p.Namespace == "" {
		return true
	}
	namespace, _ := t.metadata()["namespace"].(string)
	return namespace == p.Namespace
}

// matches reports whether a filter of any, or each filter of all, selects the
// request. An empty block selects none.
func (m *Match) matches(t *Target) (matched, assumed bool) {
	for _, f := range m.Any {
		if ok, byUser := f.matches(t); ok {
			return true, byUser
		}
	}
	if len(m.Any) > 0 || len(m.All) == 0 {
		return false, false
	}
	for _, f := range m.All {
		ok, byUser := f.matches(t)
		if !ok {
			return false, false
		}
		assumed = assumed || byUser
	}
	return true, assumed
}

// excludes is matches for an exclude block. assumed reports that some users would be
// excluded, and that the unknown user is assumed not to be one of them.
func (m *Match) excludes(t *Target) (excluded, assumed bool) {
	for _, f := range m.Any {
		ok, byUser := f.excludes(t)
		if ok {
			return true, false
		}
		assumed = assumed || byUser
	}
	if len(m.Any) > 0 || len(m.All) == 0 {
		return false, assumed
	}
	for _, f := range m.All {
		ok, byUser := f.excludes(t)
		if !ok && !byUser {
			return false, false
		}
		assumed = assumed || byUser
	}
	return !assumed, assumed
}

func (f *Filter) matches(t *Target) (matched, assumed bool) {
	switch users := f.namesUsers(); {
	case !f.NamesObjects() && (!users || !t.UserKnown), !f.namesObject(t):
		return false, false
	case !users:
		return true, false
	case !t.UserKnown:
		return true, true
	}
	return f.namesUser(t), false
}

func (f *Filter) excludes(t *Target) (excluded, assumed bool) {
	switch {
	case f.ExcludesAll():
		return true, false
	case !f.NamesObjects() && !f.namesUsers(), !f.namesObject(t):
		return false, false
	case !f.namesUsers():
		return true, false
	case !t.UserKnown:
		return false, true
	}
	return f.namesUser(t), false
}

// ExcludesAll reports whether the filter has nothing but empty lists of users. In an
// exclude block Kyverno then excludes everything.
func (f *Filter) ExcludesAll() bool { return f.listsUsers && !f.NamesObjects() && !f.namesUsers() }

func (f *Filter) namesUsers() bool { return len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) > 0 }

// NamesObjects reports whether the filter has a condition on the object.
func (f *Filter) NamesObjects() bool {
	return len(f.Kinds)+len(f.Names)+len(f.Namespaces)+len(f.Operations)+len(f.Annotations) > 0 ||
		f.Selector != nil || f.NamespaceSelector != nil
}

// NamesKindsOnly reports whether the filter has no condition but on kinds and operations.
func (f *Filter) NamesKindsOnly() bool {
	return !f.namesUsers() && len(f.Names)+len(f.Namespaces)+len(f.Annotations) == 0 && f.Selector == nil && f.NamespaceSelector == nil
}

// namesObject compares names, kinds and other fields. Cheap and selective comparisons
// come first.
func (f *Filter) namesObject(t *Target) bool {
	if len(f.Kinds) > 0 && !f.NamesKind(t) || len(f.Operations) > 0 && !f.NamesOperation(t) {
		return false
	}
	if len(f.Names) > 0 && !pattern.AnyWildcard(f.Names, t.Name()) || len(f.Namespaces) > 0 && !pattern.AnyWildcard(f.Namespaces, t.Namespace()) {
		return false
	}
	if len(f.Annotations) > 0 && !t.Annotated(f.Annotations) {
		return false
	}
	if f.Selector != nil && !f.Selector.Matches(t.StringMap("labels")) {
		return false
	}
	switch {
	case f.NamespaceSelector == nil:
		return true
	case t.Kind.Kind == "Namespace":
		return f.Exempts
	}
	return f.NamespaceSelector.Matches(t.LabelsOfNamespace())
}

// LabelsOfNamespace returns the labels of the object's namespace; nil: none.
func (t *Target) LabelsOfNamespace() map[string]string {
	if t.NamespaceLabels == nil {
		return nil
	}
	return t.NamespaceLabels()
}

// Annotated reports whether the object has the wanted annotations, which may
// hold wildcards.
func (t *Target) Annotated(wanted map[string]string) bool {
	actual := t.StringMap("annotations")
	for key, value := range wanted {
		if !anyPair(key, value, actual) {
			return false
		}
	}
	return true
}

func anyPair(key, value string, actual map[string]string) bool {
	for k, v := range actual {
		if pattern.Wildcard(key, k) && pattern.Wildcard(value, v) {
			return true
		}
	}
	return false
}

// NamesOperation reports whether one of the filter's operations is that of the request.
func (f *Filter) NamesOperation(t *Target) bool {
	return f.Exempts || slices.Contains(f.Operations, t.Operation)
}

// NamesKind reports whether one of the filter's kinds is that of the request.
func (f *Filter) NamesKind(t *Target) bool {
	selectors := f.Kinds
	if f.byKind != nil {
		if anySelector(f.byKind[t.Kind.Kind], t) {
			return true
		}
		selectors = f.byKind[""]
	}
	return anySelector(selectors, t)
}

func anySelector(selectors []KindSelector, t *Target) bool {
	for i := range selectors {
		if selectors[i].Matches(t.Kind, t.Subresource) {
			return true
		}
	}
	return false
}

func (f *Filter) namesUser(t *Target) bool {
	t.RolesAsked = t.RolesAsked || len(f.Roles)+len(f.ClusterRoles) > 0
	if len(f.Roles) > 0 && !t.HasRole(f.Roles) || len(f.ClusterRoles) > 0 && !t.HasClusterRole(f.ClusterRoles) {
		return false
	}
	return len(f.Subjects) == 0 || t.User != nil && slices.ContainsFunc(f.Subjects, func(s Subject) bool { return s.Is(t.User) })
}

// HasRole reports whether bindings give the user one of the Roles.
func (t *Target) HasRole(names []string) bool { return intersects(names, t.Roles) }

// HasClusterRole reports whether bindings give the user one of the ClusterRoles.
func (t *Target) HasClusterRole(names []string) bool { return intersects(names, t.ClusterRoles) }

func intersects(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// Is reports whether the subject is the user or one of the user's groups.
func (s Subject) Is(u *policy.UserInfo) bool {
	switch s.Kind {
	case "User":
		return pattern.Wildcard(s.Name, u.Username)
	case "ServiceAccount":
		return pattern.Wildcard("system:serviceaccount:"+s.Namespace+":"+s.Name, u.Username)
	case "Group":
		return slices.ContainsFunc(u.Groups, func(g string) bool { return pattern.Wildcard(s.Name, g) })
	}
	return false
}

// Matches compares labels as a LabelSelector does. If a key or value of
// matchLabels holds wildcards, one label must match both. An invalid
// requirement matches nothing.
func (s *Selector) Matches(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if pattern.HasWildcard(key) || pattern.HasWildcard(value) {
			if !anyPair(key, value, labels) {
				return false
			}
		} else if actual, ok := labels[key]; !ok || actual != value {
			return false
		}
	}
	for i := range s.MatchExpressions {
		if !s.MatchExpressions[i].matches(labels) {
			return false
		}
	}
	return true
}

func (s *SelectorRequirement) matches(labels map[string]string) bool {
	value, ok := labels[s.Key]
	switch s.Operator {
	case "In":
		return ok && slices.Contains(s.Values, value)
	case "NotIn":
		return len(s.Values) > 0 && (!ok || !slices.Contains(s.Values, value))
	case "Exists":
		return ok && len(s.Values) == 0
	case "DoesNotExist":
		return !ok && len(s.Values) == 0
	}
	return false
}

// SelectsByNameOnly reports whether the rule's namespaceSelectors read no label other
// than [corev1.LabelMetadataName], so that they need no Namespace object.
func (r *Rule) SelectsByNameOnly() bool {
	for _, m := range []*Match{r.Match, r.Exclude} {
		for _, f := range m.Filters() {
			if f.NamespaceSelector != nil && !f.NamespaceSelector.SelectsByNameOnly() {
				return false
			}
		}
	}
	return true
}

// SelectsByNameOnly reports whether the selector reads no label other than
// [corev1.LabelMetadataName].
func (s *Selector) SelectsByNameOnly() bool {
	for key := range s.MatchLabels {
		if key != corev1.LabelMetadataName {
			return false
		}
	}
	return !slices.ContainsFunc(s.MatchExpressions, func(r SelectorRequirement) bool { return r.Key != corev1.LabelMetadataName })
}

// For returns the same request about another object.
func (t *Target) For(object map[string]any, operation string) *Target {
	n := *t
	n.Object, n.Operation = object, operation
	return &n
}

// ByNobody returns the same request of a user that no policy names.
func (t *Target) ByNobody() *Target {
	n := *t
	n.UserKnown, n.User, n.Roles, n.ClusterRoles = true, nobody, []string{"kyverno:invalidrole"}, []string{"kyverno:invalidrole"}
	return &n
}

var nobody = &policy.UserInfo{Username: "kyverno:kyverno-invalid-controller", UID: "kyverno:invaliduid", Groups: []string{"kyverno:invalidgroup"}}

const rbacGroup = "rbac.authorization.k8s.io"

// RolesOf returns the Roles, as namespace:name, and the ClusterRoles that
// bindings in the cluster give a user, sorted. A RoleBinding gives ClusterRoles
// to requests in its own namespace. Kyverno compares names only: a role's rules
// do not matter, nor whether the role exists.
func RolesOf(c *policy.Cluster, u *policy.UserInfo, requested string) (roles, clusterRoles []string) {
	if u == nil {
		return nil, nil
	}
	for _, o := range c.List(schema.GroupKind{Group: rbacGroup, Kind: "RoleBinding"}) {
		namespace := cmp.Or(o.GetNamespace(), "default")
		switch kind, name := bound(o, u, namespace); kind {
		case "Role":
			roles = append(roles, namespace+":"+name)
		case "ClusterRole":
			if namespace == requested {
				clusterRoles = append(clusterRoles, name)
			}
		}
	}
	for _, o := range c.List(schema.GroupKind{Group: rbacGroup, Kind: "ClusterRoleBinding"}) {
		if kind, name := bound(o, u, ""); kind == "ClusterRole" {
			clusterRoles = append(clusterRoles, name)
		}
	}
	return sorted(roles), sorted(clusterRoles)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// bound returns the role of the binding, if the user is among its subjects.
func bound(o *render.Object, u *policy.UserInfo, namespace string) (kind, name string) {
	x := field{o.Object, ""}
	for _, s := range x.at("subjects").list() {
		if isSubject(s, u, namespace) {
			return x.at("roleRef").text("kind"), x.at("roleRef").text("name")
		}
	}
	return "", ""
}

// isSubject compares as the API server does, without wildcards.
func isSubject(s field, u *policy.UserInfo, namespace string) bool {
	name := s.text("name")
	switch s.text("kind") {
	case "User":
		return name == u.Username
	case "Group":
		return slices.Contains(u.Groups, name)
	case "ServiceAccount":
		if own := s.text("namespace"); own != "" {
			namespace = own
		}
		return u.Username == "system:serviceaccount:"+namespace+":"+name
	}
	return false
}
