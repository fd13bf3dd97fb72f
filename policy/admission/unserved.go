package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// unserved returns warnings about resources in the rules at a pointer of o that
// the API server does not serve. Such a rule silently matches nothing. Only
// built-in groups are checked, because other groups depend on the cluster.
// Resources of other Kubernetes releases are allowed, because a policy may be
// for several releases, unless the rule matches nothing at all in this one.
func (t *typeChecker) unserved(o *render.Object, pointer, rule string, m *v1.MatchResources) []error {
	var unknown, others []error
	matched := false
	for i := range m.ResourceRules {
		r := &m.ResourceRules[i].Rule
		if len(r.APIGroups) == 0 || slices.ContainsFunc(r.APIGroups, func(g string) bool { return !t.types.BuiltinGroup(g) }) {
			matched = true
			continue
		}
		for j, resource := range r.Resources {
			if t.matchesAny(r, resource) {
				matched = true
				continue
			}
			e := at(o, pointer+render.Pointer("resourceRules", i, "resources", j), rule, errors.New(t.whyUnserved(r, resource)))
			e.Warning = true
			if t.otherRelease(r, resource) {
				others = append(others, e)
			} else {
				unknown = append(unknown, e)
			}
		}
	}
	if matched {
		return unknown
	}
	return append(unknown, others...)
}

func (t *typeChecker) otherRelease(r *v1.Rule, resource string) bool {
	name, _, _ := strings.Cut(resource, "/")
	for _, g := range r.APIGroups {
		for _, v := range r.APIVersions {
			if t.types.OtherRelease(schema.GroupVersionResource{Group: g, Version: v, Resource: name}) {
				return true
			}
		}
	}
	return false
}

// matchesAny reports whether a rule's resource is served and shown to policies.
func (t *typeChecker) matchesAny(r *v1.Rule, resource string) bool {
	return slices.ContainsFunc(t.Served(), func(s metav1.APIResource) bool {
		return match.Wildcard(r.APIGroups, s.Group) && match.Wildcard(r.APIVersions, s.Version) && names(resource, s) &&
			!exempt(schema.GroupVersionResource{Group: s.Group, Version: s.Version, Resource: s.Name})
	})
}

func names(resource string, s metav1.APIResource) bool {
	name, sub, _ := strings.Cut(s.Name, "/")
	return match.Resource([]string{resource}, name, sub)
}

// whyUnserved returns why a rule's resource matches nothing, with a suggestion.
func (t *typeChecker) whyUnserved(r *v1.Rule, resource string) string {
	groups, versions := quotedList(r.APIGroups), quotedList(r.APIVersions)
	for _, s := range t.Served() {
		gvr := schema.GroupVersionResource{Group: s.Group, Version: s.Version, Resource: s.Name}
		if exempt(gvr) && names(resource, s) && match.Wildcard(r.APIGroups, s.Group) {
			return fmt.Sprintf("matches nothing: the API server does not show %s to admission policies", s.Name)
		}
	}
	what := fmt.Sprintf("matches nothing: no resource %q in API group %s version %s", resource, groups, versions)
	if meant := t.meant(r, resource); meant != "" {
		return what + "; did you mean " + meant + "?"
	}
	return what
}

// meant suggests the served resource most similar to a rule's: with another
// version, another group, or a name in another letter case, number, or the kind
// instead of the resource.
func (t *typeChecker) meant(r *v1.Rule, resource string) string {
	for _, same := range []struct {
		is  func(metav1.APIResource) bool
		say func(metav1.APIResource) string
	}{
		{
			func(s metav1.APIResource) bool { return match.Wildcard(r.APIGroups, s.Group) && names(resource, s) },
			func(s metav1.APIResource) string { return "version " + quotedList([]string{s.Version}) },
		},
		{
			func(s metav1.APIResource) bool { return names(resource, s) && stable(s) },
			func(s metav1.APIResource) string { return "API group " + quotedList([]string{s.Group}) },
		},
		{
			func(s metav1.APIResource) bool { return match.Wildcard(r.APIGroups, s.Group) && alike(resource, s) },
			func(s metav1.APIResource) string { return s.Name },
		},
		{
			func(s metav1.APIResource) bool { return alike(resource, s) && stable(s) },
			func(s metav1.APIResource) string { return s.Name + " in API group " + quotedList([]string{s.Group}) },
		},
	} {
		if i := slices.IndexFunc(t.Served(), same.is); i >= 0 && !strings.Contains(resource, "*") {
			return same.say(t.Served()[i])
		}
	}
	return ""
}

func stable(s metav1.APIResource) bool {
	return !strings.Contains(s.Version, "alpha") && !strings.Contains(s.Version, "beta")
}

func alike(resource string, s metav1.APIResource) bool {
	name, sub, _ := strings.Cut(strings.ToLower(resource), "/")
	plural, of, _ := strings.Cut(s.Name, "/")
	return sub == of && (name == plural || name == strings.ToLower(s.Kind))
}

func quotedList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(quoted, " or ")
}
