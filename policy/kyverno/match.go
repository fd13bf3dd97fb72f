package kyverno

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// A target is what match and exclude look at. The engine fills one for each
// request.
type target struct {
	object      map[string]any // the new one, or the old one of a DELETE
	gvk         schema.GroupVersionKind
	subresource string
	operation   string

	// namespaceLabels gives the labels of the object's namespace; nil: none.
	namespaceLabels func() map[string]string

	// userKnown is false when nothing is known of who asks: then what match
	// says of users does not count, and what exclude says fits nobody.
	userKnown           bool
	user                *policy.UserInfo
	roles, clusterRoles []string // a Role as namespace:name
	rolesAsked          bool     // set where an answer rests on them
}

func (t *target) metadata() map[string]any {
	m, _ := t.object["metadata"].(map[string]any)
	return m
}

func (t *target) name() string {
	if name, _ := t.metadata()["name"].(string); name != "" {
		return name
	}
	name, _ := t.metadata()["generateName"].(string)
	return name
}

func (t *target) namespace() string {
	key := "namespace"
	if t.gvk.Kind == "Namespace" {
		key = "name"
	}
	s, _ := t.metadata()[key].(string)
	return s
}

func (t *target) texts(key string) map[string]string {
	m, _ := t.metadata()[key].(map[string]any)
	all := make(map[string]string, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			all[k] = s
		}
	}
	return all
}

// matches says whether the rule's match names the request and its exclude does
// not, and whether that rests on the user not being known.
func (r *Rule) matches(t *target) (matched, assumed bool) {
	matched, assumed = r.Match.matches(t)
	if !matched || r.Exclude == nil {
		return matched, assumed
	}
	excluded, byUser := r.Exclude.excludes(t)
	return !excluded, assumed || byUser
}

// inScope says whether the policy concerns the object's namespace: a Policy
// has only its own, and no cluster-scoped objects.
func (p *Policy) inScope(t *target) bool {
	if p.Namespace == "" {
		return true
	}
	namespace, _ := t.metadata()["namespace"].(string)
	return namespace == p.Namespace
}

// matches says whether one of any, or each of all, names the request. An empty
// block names none.
func (m *Match) matches(t *target) (matched, assumed bool) {
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

// excludes is matches for an exclude block. assumed says that it would be so
// for some users, and that the one who asks is taken to be none of them.
func (m *Match) excludes(t *target) (excluded, assumed bool) {
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

func (f *Filter) matches(t *target) (matched, assumed bool) {
	switch users := f.namesUsers(); {
	case !f.namesObjects() && (!users || !t.userKnown), !f.namesObject(t):
		return false, false
	case !users:
		return true, false
	case !t.userKnown:
		return true, true
	}
	return f.namesUser(t), false
}

func (f *Filter) excludes(t *target) (excluded, assumed bool) {
	switch users := f.namesUsers(); {
	case !f.namesObjects() && !users, !f.namesObject(t):
		return false, false
	case !users:
		return true, false
	case !t.userKnown:
		return false, true
	}
	return f.namesUser(t), false
}

func (f *Filter) namesUsers() bool { return len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) > 0 }

func (f *Filter) namesObjects() bool {
	return len(f.Kinds)+len(f.Names)+len(f.Namespaces)+len(f.Operations)+len(f.Annotations) > 0 ||
		f.Selector != nil || f.NamespaceSelector != nil
}

// namesObject compares what is cheap and tells most apart first.
func (f *Filter) namesObject(t *target) bool {
	if len(f.Kinds) > 0 && !f.namesKind(t) || len(f.Operations) > 0 && !slices.Contains(f.Operations, t.operation) {
		return false
	}
	if len(f.Names) > 0 && !anyWildcard(f.Names, t.name()) || len(f.Namespaces) > 0 && !anyWildcard(f.Namespaces, t.namespace()) {
		return false
	}
	if len(f.Annotations) > 0 && !annotated(f.Annotations, t.texts("annotations")) {
		return false
	}
	if f.Selector != nil && !f.Selector.matches(t.texts("labels")) {
		return false
	}
	return f.NamespaceSelector == nil || t.gvk.Kind != "Namespace" && f.NamespaceSelector.matches(t.labelsOfNamespace())
}

func (t *target) labelsOfNamespace() map[string]string {
	if t.namespaceLabels == nil {
		return nil
	}
	return t.namespaceLabels()
}

func annotated(wanted, actual map[string]string) bool {
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

func (f *Filter) namesKind(t *target) bool {
	selectors := f.Kinds
	if f.byKind != nil {
		if anySelector(f.byKind[t.gvk.Kind], t) {
			return true
		}
		selectors = f.byKind[""]
	}
	return anySelector(selectors, t)
}

func anySelector(selectors []KindSelector, t *target) bool {
	for i := range selectors {
		if selectors[i].matches(t.gvk, t.subresource) {
			return true
		}
	}
	return false
}

// manyKinds is from where on a filter's selectors are looked up by kind.
const manyKinds = 16

// sort groups the selectors of a filter that has many by the kind that they
// name, and those with wildcards under "".
func (f *Filter) sort() {
	if len(f.Kinds) < manyKinds {
		return
	}
	f.byKind = make(map[string][]KindSelector)
	for _, k := range f.Kinds {
		key := k.Kind
		if pattern.HasWildcard(key) {
			key = ""
		}
		f.byKind[key] = append(f.byKind[key], k)
	}
}

// matches says whether the kind is one that the selector names. Kyverno has
// Pod stand for the subresource by which ephemeral containers are added, too.
func (k *KindSelector) matches(gvk schema.GroupVersionKind, subresource string) bool {
	if !part(k.Kind, gvk.Kind) || !part(k.Group, gvk.Group) || !part(k.Version, gvk.Version) {
		return false
	}
	return part(k.Subresource, subresource) ||
		gvk.Group == "" && gvk.Kind == "Pod" && subresource == "ephemeralcontainers"
}

func part(wanted, actual string) bool {
	return wanted == "*" || wanted == actual || pattern.HasWildcard(wanted) && pattern.Wildcard(wanted, actual)
}

// isVersion tells a version from a group or a kind.
var isVersion = regexp.MustCompile(`^(v\d+((alpha|beta)\d+)?|\*)$`)

// kindSelector takes an entry of kinds apart: Kind, version/Kind,
// group/version/Kind, each with a /subresource or .subresource behind it. One
// of more parts selects nothing.
func kindSelector(s string) KindSelector {
	parts := strings.Split(s, "/")
	last := len(parts) - 1
	parts = append(parts[:last], strings.Split(parts[last], ".")...)
	k := KindSelector{Group: "*", Version: "*"}
	switch len(parts) {
	case 1:
		k.Kind = parts[0]
	case 2:
		k.two(parts[0], parts[1])
	case 3:
		if isVersion.MatchString(parts[0]) {
			k.Version, k.Kind, k.Subresource = parts[0], parts[1], parts[2]
		} else {
			k.Group, k.Version, k.Kind = parts[0], parts[1], parts[2]
		}
	case 4:
		k.Group, k.Version, k.Kind, k.Subresource = parts[0], parts[1], parts[2], parts[3]
	default:
		return KindSelector{}
	}
	return k
}

func (k *KindSelector) two(a, b string) {
	switch {
	case a == "*" && strings.ToLower(b) == b: // */scale, and */*
		k.Kind, k.Subresource = "*", b
	case isVersion.MatchString(a):
		k.Version, k.Kind = a, b
	default:
		k.Kind, k.Subresource = a, b
	}
}

func (f *Filter) namesUser(t *target) bool {
	t.rolesAsked = t.rolesAsked || len(f.Roles)+len(f.ClusterRoles) > 0
	if len(f.Roles) > 0 && !intersects(f.Roles, t.roles) || len(f.ClusterRoles) > 0 && !intersects(f.ClusterRoles, t.clusterRoles) {
		return false
	}
	return len(f.Subjects) == 0 || t.user != nil && slices.ContainsFunc(f.Subjects, func(s Subject) bool { return s.is(t.user) })
}

func intersects(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func (s Subject) is(u *policy.UserInfo) bool {
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

// matches compares labels as a LabelSelector does; where a key or a value of
// matchLabels holds wildcards, some label has to fit both. A requirement that
// is not valid has nothing match.
func (s *Selector) matches(labels map[string]string) bool {
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

func (r *SelectorRequirement) matches(labels map[string]string) bool {
	value, ok := labels[r.Key]
	switch r.Operator {
	case "In":
		return ok && slices.Contains(r.Values, value)
	case "NotIn":
		return len(r.Values) > 0 && (!ok || !slices.Contains(r.Values, value))
	case "Exists":
		return ok && len(r.Values) == 0
	case "DoesNotExist":
		return !ok && len(r.Values) == 0
	}
	return false
}

// match reads a match or exclude block. What stands in it without any or all
// is a filter by itself.
func match(x field) *Match {
	m := &Match{}
	for _, x := range x.at("any").list() {
		m.Any = append(m.Any, filter(x))
	}
	for _, x := range x.at("all").list() {
		m.All = append(m.All, filter(x))
	}
	if len(m.Any) == 0 && len(m.All) == 0 {
		if f := filter(x); f.namesObjects() || f.namesUsers() {
			m.All = []*Filter{f}
		}
	}
	return m
}

func filter(x field) *Filter {
	resources := x.at("resources")
	f := &Filter{
		Pointer: x.pointer, Names: resources.texts("names"), Namespaces: resources.texts("namespaces"),
		Annotations: resources.textMap("annotations"), Operations: resources.texts("operations"),
		Selector: selector(resources.at("selector")), NamespaceSelector: selector(resources.at("namespaceSelector")),
		Roles: x.texts("roles"), ClusterRoles: x.texts("clusterRoles"),
	}
	for _, kind := range resources.texts("kinds") {
		f.Kinds = append(f.Kinds, kindSelector(kind))
	}
	f.sort()
	if name := resources.text("name"); name != "" {
		f.both = len(f.Names) > 0
		f.Names = append(f.Names, name)
	}
	for _, x := range x.at("subjects").list() {
		f.Subjects = append(f.Subjects, Subject{Kind: x.text("kind"), Name: x.text("name"), Namespace: x.text("namespace")})
	}
	return f
}

func selector(x field) *Selector {
	if !x.there() {
		return nil
	}
	s := &Selector{MatchLabels: x.textMap("matchLabels")}
	for _, x := range x.at("matchExpressions").list() {
		s.MatchExpressions = append(s.MatchExpressions, SelectorRequirement{
			Key: x.text("key"), Operator: x.text("operator"), Values: x.texts("values"),
		})
	}
	return s
}
