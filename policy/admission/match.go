package admission

import (
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
)

// A truth has three values: what hangs on labels that only the live cluster
// knows is neither true nor false.
type truth int

const (
	no truth = iota
	yes
	unknown
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (t truth) and(u truth) truth {
	switch {
	case t == no || u == no:
		return no
	case t == unknown || u == unknown:
		return unknown
	default:
		return yes
	}
}

// criteria is a compiled matchConstraints or matchResources.
type criteria struct {
	namespaces, objects labels.Selector
	include, exclude    []v1.NamedRuleWithOperations
	equivalent          bool
}

// newCriteria compiles defaulted match resources; the selectors are known to
// be valid. nil matches everything.
func newCriteria(m *v1.MatchResources) *criteria {
	if m == nil {
		return nil
	}
	namespaces, _ := metav1.LabelSelectorAsSelector(m.NamespaceSelector)
	objects, _ := metav1.LabelSelectorAsSelector(m.ObjectSelector)
	return &criteria{
		namespaces: namespaces, objects: objects,
		include: m.ResourceRules, exclude: m.ExcludeResourceRules,
		equivalent: *m.MatchPolicy == v1.Equivalent,
	}
}

// match says whether the criteria hold for the request under review, and in
// which version of the resource the policy sees the object
// (k8s.io/apiserver/pkg/admission/plugin/policy/matching).
func (c *criteria) match(r *review) (truth, policy.Version) {
	requested := policy.Version{Resource: r.req.Resource.GroupVersionResource, Kind: r.req.Kind}
	if c == nil {
		return yes, requested
	}
	if !c.matchObjects(r) {
		return no, requested
	}
	if _, excluded := c.matchRules(c.exclude, r, requested); excluded {
		return no, requested
	}
	as := requested
	if len(c.include) > 0 {
		var ok bool
		if as, ok = c.matchRules(c.include, r, requested); !ok {
			return no, requested
		}
	}
	return c.matchNamespace(r), as
}

func (c *criteria) matchObjects(r *review) bool {
	if c.objects.Empty() {
		return true
	}
	return r.req.Admitted != nil && c.objects.Matches(labels.Set(labelsOf(r.req.Admitted))) ||
		r.req.OldAdmitted != nil && c.objects.Matches(labels.Set(labelsOf(r.req.OldAdmitted)))
}

func (c *criteria) matchNamespace(r *review) truth {
	if c.namespaces.Empty() || r.namespace == "" && r.req.Resource.Resource != "namespaces" {
		return yes
	}
	set, complete := r.namespaceLabels()
	if complete {
		return truthOf(c.namespaces.Matches(labels.Set(set)))
	}
	requirements, selectable := c.namespaces.Requirements()
	result := truthOf(selectable)
	for _, q := range requirements {
		if _, known := set[q.Key()]; known {
			result = result.and(truthOf(q.Matches(labels.Set(set))))
		} else {
			result = result.and(unknown)
		}
	}
	return result
}

// matchRules looks for a rule that names the requested resource, and where
// the policy is about equivalent resources for one that names such.
func (c *criteria) matchRules(rules []v1.NamedRuleWithOperations, r *review, requested policy.Version) (policy.Version, bool) {
	for i := range rules {
		if matchRule(&rules[i], r, requested.Resource) {
			return requested, true
		}
	}
	if !c.equivalent || len(rules) == 0 {
		return requested, false
	}
	for i := range rules {
		for _, other := range r.equivalents() {
			if other.Resource != requested.Resource && matchRule(&rules[i], r, other.Resource) {
				return other, true
			}
		}
	}
	return requested, false
}

func matchRule(rule *v1.NamedRuleWithOperations, r *review, resource schema.GroupVersionResource) bool {
	return matchScope(rule.Scope, r, resource) &&
		matchOperation(rule.Operations, r.req.Operation) &&
		wildcard(rule.APIGroups, resource.Group) &&
		wildcard(rule.APIVersions, resource.Version) &&
		matchResource(rule.Resources, resource.Resource, r.req.SubResource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, r.req.Name))
}

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

func matchScope(scope *v1.ScopeType, r *review, resource schema.GroupVersionResource) bool {
	if scope == nil {
		return true
	}
	clustered := resource == namespaces || r.namespace == ""
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

func wildcard(items []string, requested string) bool {
	return slices.ContainsFunc(items, func(s string) bool { return s == "*" || s == requested })
}

func matchResource(resources []string, resource, sub string) bool {
	return slices.ContainsFunc(resources, func(s string) bool {
		ruleResource, ruleSub, _ := strings.Cut(s, "/")
		return (ruleResource == "*" || ruleResource == resource) && (ruleSub == "*" || ruleSub == sub)
	})
}

// exempt says whether the API server never shows the resource to policies:
// those that configure admission, and reviews, which are not stored.
func exempt(resource schema.GroupVersionResource) bool {
	switch resource.Group {
	case group:
		switch resource.Resource {
		case "validatingadmissionpolicies", "validatingadmissionpolicybindings",
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
			return true
		}
	case "authentication.k8s.io":
		return resource.Resource == "tokenreviews" || resource.Resource == "selfsubjectreviews"
	case "authorization.k8s.io":
		switch resource.Resource {
		case "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews":
			return true
		}
	}
	return false
}

// labelsOf are the labels of an object's value tree.
func labelsOf(object map[string]any) map[string]string {
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
