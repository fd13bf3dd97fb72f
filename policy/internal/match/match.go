// Package match evaluates the MatchResources of policies and bindings:
// matchConstraints, matchResources, and criteria derived from them.
//
// It takes defaulted match resources ([New]) and a request ([Subject]).
// [Criteria.Match] returns a [Truth] and the version of the resource in which
// the policy sees the object; [Criteria.Checks] returns each question with its
// own answer.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/matching.
package match

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A Truth has three values: a condition on labels that only the live cluster
// knows is neither true nor false.
type Truth int

// The truths.
const (
	No Truth = iota
	Yes
	Unknown
)

func truthOf(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

func (t Truth) and(u Truth) Truth {
	switch {
	case t == No || u == No:
		return No
	case t == Unknown || u == Unknown:
		return Unknown
	default:
		return Yes
	}
}

// A Subject is a request, with the further data that match resources need.
type Subject interface {
	Request() *policy.Request

	// In returns the request's namespace; a Namespace is in itself.
	In() string

	// NamespaceLabels returns the labels of the namespace; complete is false if
	// only its name is known.
	NamespaceLabels() (set map[string]string, complete bool)

	// Equivalents returns the other resources that serve the same objects.
	Equivalents() []policy.Version
}

// Criteria are compiled match resources. nil matches everything.
type Criteria struct {
	namespaces, objects labels.Selector
	include, exclude    []v1.NamedRuleWithOperations
	equivalent          bool
}

// New compiles defaulted match resources ([Default]), whose selectors are
// known to be valid.
func New(m *v1.MatchResources) *Criteria {
	if m == nil {
		return nil
	}
	namespaces, _ := metav1.LabelSelectorAsSelector(m.NamespaceSelector)
	objects, _ := metav1.LabelSelectorAsSelector(m.ObjectSelector)
	return &Criteria{
		namespaces: namespaces, objects: objects,
		include: m.ResourceRules, exclude: m.ExcludeResourceRules,
		equivalent: *m.MatchPolicy == v1.Equivalent,
	}
}

// Default sets the defaults of the API server.
func Default(m *v1.MatchResources) {
	if m.MatchPolicy == nil {
		equivalent := v1.Equivalent
		m.MatchPolicy = &equivalent
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
}

func requested(r *policy.Request) policy.Version {
	return policy.Version{Resource: r.Resource.GroupVersionResource, Kind: r.Kind}
}

// Match returns whether the criteria match a request, and the version of the
// resource in which the policy sees the object.
func (c *Criteria) Match(s Subject) (Truth, policy.Version) {
	requested := requested(s.Request())
	if c == nil {
		return Yes, requested
	}
	if !c.matchObjects(s) {
		return No, requested
	}
	if _, excluded := c.matchRules(c.exclude, s, requested, matchRule); excluded {
		return No, requested
	}
	named := Yes
	if c.mayName(c.exclude, s, matchRule) {
		named = Unknown
	}
	as := requested
	if len(c.include) > 0 {
		var ok bool
		if as, ok = c.matchRules(c.include, s, requested, matchRule); !ok {
			if !c.mayName(c.include, s, matchRule) {
				return No, requested
			}
			named = Unknown
		}
	}
	return c.matchNamespace(s).and(named), as
}

// MayMatch reports whether the criteria may match a request with the resource, the operation and the
// scope of this one. Its other fields do not matter.
func (c *Criteria) MayMatch(s Subject) bool {
	if c == nil || len(c.include) == 0 {
		return true
	}
	_, ok := c.matchRules(c.include, s, requested(s.Request()), matchUnnamed)
	return ok || c.mayName(c.include, s, matchUnnamed)
}

func (c *Criteria) matchObjects(s Subject) bool {
	if c.objects.Empty() {
		return true
	}
	r := s.Request()
	return r.Admitted != nil && c.objects.Matches(labels.Set(LabelsOf(r.Admitted))) ||
		r.OldAdmitted != nil && c.objects.Matches(labels.Set(LabelsOf(r.OldAdmitted)))
}

func (c *Criteria) matchNamespace(s Subject) Truth {
	if c.namespaces.Empty() || s.In() == "" && s.Request().Resource.Resource != "namespaces" {
		return Yes
	}
	set, complete := s.NamespaceLabels()
	if complete {
		return truthOf(c.namespaces.Matches(labels.Set(set)))
	}
	requirements, selectable := c.namespaces.Requirements()
	result := truthOf(selectable)
	for _, q := range requirements {
		if _, known := set[q.Key()]; known {
			result = result.and(truthOf(q.Matches(labels.Set(set))))
		} else {
			result = result.and(Unknown)
		}
	}
	return result
}

// matchRules searches a rule that matches the requested resource or, if the policy includes
// equivalent resources, one of those.
func (c *Criteria) matchRules(rules []v1.NamedRuleWithOperations, s Subject, requested policy.Version, matches matcher) (policy.Version, bool) {
	for i := range rules {
		if matches(&rules[i], s, requested.Resource) {
			return requested, true
		}
	}
	if !c.equivalent || len(rules) == 0 {
		return requested, false
	}
	for i := range rules {
		for _, other := range s.Equivalents() {
			if other.Resource != requested.Resource && matches(&rules[i], s, other.Resource) {
				return other, true
			}
		}
	}
	return requested, false
}

// mayName reports whether one of the rules might match the request if its CustomResourceDefinition were known. The guessed
// name of its resource may be wrong, and the rule may name a resource that can be an irregular plural of the kind. Its
// objects may be served in another version, and the rule may name that.
func (c *Criteria) mayName(rules []v1.NamedRuleWithOperations, s Subject, matches matcher) bool {
	r := s.Request()
	others := c.equivalent && VersionsUnknown(r.Resource)
	if !r.Resource.Guessed && !others {
		return false
	}
	for i := range rules {
		versions := []string{r.Resource.Version}
		if others {
			versions = append(versions, rules[i].APIVersions...)
		}
		ofGroup := slices.Contains(rules[i].APIGroups, r.Kind.Group)
		for _, name := range rules[i].Resources {
			name, _, _ = strings.Cut(name, "/")
			if name != r.Resource.Resource && !(name == "*" && ofGroup) && !(r.Resource.Guessed && mayBePlural(name, strings.ToLower(r.Kind.Kind), ofGroup)) {
				continue
			}
			for _, version := range versions {
				if matches(&rules[i], s, schema.GroupVersionResource{Group: r.Resource.Group, Version: version, Resource: name}) {
					return true
				}
			}
		}
	}
	return false
}

// VersionsUnknown reports whether the objects of a resource may also be served in versions that are unknown,
// since its CustomResourceDefinition is.
func VersionsUnknown(r policy.Resource) bool {
	return !r.Known && !r.Unserved && !scheme.Scheme.IsGroupRegistered(r.Group)
}

// mayBePlural reports whether a resource can have a name, such as oxen, for a noun. A rule for
// all groups usually means a built-in kind.
func mayBePlural(name, noun string, ofGroup bool) bool {
	same := 1
	if !ofGroup {
		if same = 2; builtInNames()[name] {
			return false
		}
	}
	const longest = 4 // as in leaf, leaves or person, people
	return len(noun) >= same && strings.HasPrefix(name, noun[:same]) && max(len(name)-len(noun), len(noun)-len(name)) <= longest
}

// builtInNames holds the names of the built-in resources, in any version.
var builtInNames = sync.OnceValue(func() map[string]bool {
	names := make(map[string]bool)
	for kind := range scheme.Scheme.AllKnownTypes() {
		names[policy.ResourceOf(kind).Resource] = true
	}
	return names
})

// A matcher reports whether a rule matches a request about a resource.
type matcher func(*v1.NamedRuleWithOperations, Subject, schema.GroupVersionResource) bool

func matchRule(rule *v1.NamedRuleWithOperations, s Subject, resource schema.GroupVersionResource) bool {
	return matchUnnamed(rule, s, resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, s.Request().Name))
}

// matchUnnamed is matchRule for a request with any name.
func matchUnnamed(rule *v1.NamedRuleWithOperations, s Subject, resource schema.GroupVersionResource) bool {
	r := s.Request()
	return matchScope(rule.Scope, s, resource) &&
		matchOperation(rule.Operations, r.Operation) &&
		Wildcard(rule.APIGroups, resource.Group) &&
		Wildcard(rule.APIVersions, resource.Version) &&
		Resource(rule.Resources, resource.Resource, r.SubResource)
}

// Namespaces returns the resource of namespaces.
func Namespaces() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("namespaces")
}

func matchScope(scope *v1.ScopeType, s Subject, resource schema.GroupVersionResource) bool {
	if scope == nil {
		return true
	}
	clustered := resource == Namespaces() || s.In() == ""
	switch *scope {
	case v1.AllScopes:
		return true
	case v1.ClusterScope:
		return clustered
	default:
		return *scope == v1.NamespacedScope && !clustered
	}
}

func matchOperation(operations []v1.OperationType, op policy.Operation) bool {
	return slices.ContainsFunc(operations, func(o v1.OperationType) bool {
		return o == v1.OperationAll || string(o) == string(op)
	})
}

// Wildcard reports whether a list of groups or versions contains the requested
// one.
func Wildcard(items []string, requested string) bool {
	return slices.ContainsFunc(items, func(s string) bool { return s == "*" || s == requested })
}

// Resource reports whether a list of resources, such as pods/*, contains one.
func Resource(resources []string, resource, sub string) bool {
	return slices.ContainsFunc(resources, func(s string) bool {
		ruleResource, ruleSub, _ := strings.Cut(s, "/")
		return (ruleResource == "*" || ruleResource == resource) && (ruleSub == "*" || ruleSub == sub)
	})
}

// LabelsOf returns the labels in an object's value tree.
func LabelsOf(object map[string]any) map[string]string {
	metadata, _ := object["metadata"].(map[string]any)
	all, _ := metadata["labels"].(map[string]any)
	set := make(map[string]string, len(all))
	for k, v := range all {
		if s, ok := v.(string); ok {
			set[k] = s
		}
	}
	return set
}

// A Review is a request with its namespace and resource as the cluster knows them.
// It is not for concurrent use.
type Review struct {
	Req       *policy.Request
	Namespace string          // of the request; that of a Namespace is its name
	Cluster   *policy.Cluster // nil: all namespaces are unknown
	Kinds     policy.Kinds

	equivalent    []policy.Version
	hasEquivalent bool
}

// NewReview returns the Review of a request.
func NewReview(req *policy.Request, cluster *policy.Cluster, kinds policy.Kinds) Review {
	r := Review{Req: req, Namespace: req.Namespace, Cluster: cluster, Kinds: kinds}
	if req.Resource.GroupVersionResource == Namespaces() {
		r.Namespace = cmp.Or(r.Namespace, req.Name)
	}
	return r
}

// Request implements Subject.
func (r *Review) Request() *policy.Request { return r.Req }

// In implements Subject.
func (r *Review) In() string { return r.Namespace }

// Equivalents implements Subject.
func (r *Review) Equivalents() []policy.Version {
	if !r.hasEquivalent {
		r.equivalent, r.hasEquivalent = r.Kinds.Equivalent(r.Req.Resource.GroupVersionResource), true
	}
	return r.equivalent
}

// NamespaceObject returns the request's namespace, nil if it is unknown.
func (r *Review) NamespaceObject() *render.Object {
	return r.Cluster.Namespace(r.Req.Subject().Unit, r.Namespace)
}

// OfNamespace reports whether the request is about a Namespace itself.
func (r *Review) OfNamespace() bool {
	return r.Req.Resource.Resource == "namespaces" && r.Req.SubResource == ""
}

// NamespaceLabels implements Subject.
func (r *Review) NamespaceLabels() (set map[string]string, complete bool) {
	if !r.OfNamespace() {
		o := r.NamespaceObject()
		if o == nil {
			return r.Labelled(nil), false
		}
		return r.Labelled(o.GetLabels()), true
	}
	tree := r.Req.Admitted
	if tree == nil {
		tree = r.Req.OldAdmitted
	}
	return r.Labelled(LabelsOf(tree)), true
}

// Labelled returns a Namespace's labels with the label of its name, which the API
// server always sets to the name.
func (r *Review) Labelled(set map[string]string) map[string]string {
	if set == nil {
		set = map[string]string{}
	}
	set[corev1.LabelMetadataName] = cmp.Or(r.Namespace, set[corev1.LabelMetadataName])
	return set
}
