package authz

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// A check holds the fields of a request that RBAC reads.
type check struct {
	verb, group, resource, subresource, name string
	combined                                 string // resource/subresource
	path                                     string
	isResource                               bool
}

func newCheck(a authorizer.Attributes) check {
	c := check{
		verb: a.GetVerb(), group: a.GetAPIGroup(), resource: a.GetResource(), subresource: a.GetSubresource(),
		name: a.GetName(), path: a.GetPath(), isResource: a.IsResourceRequest(),
	}
	c.combined = c.resource
	if c.subresource != "" {
		c.combined += "/" + c.subresource
	}
	return c
}

// allowedBy reports whether a rule allows the check
// (k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac.RuleAllows).
func (c *check) allowedBy(r *rbacv1.PolicyRule) bool {
	if !hasOrAll(r.Verbs, c.verb) {
		return false
	}
	if !c.isResource {
		return c.pathIn(r.NonResourceURLs)
	}
	return hasOrAll(r.APIGroups, c.group) && c.resourceIn(r.Resources) && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, c.name))
}

func (c *check) allowedByAny(rules []rbacv1.PolicyRule) bool {
	for i := range rules {
		if c.allowedBy(&rules[i]) {
			return true
		}
	}
	return false
}

// resourceIn reports whether a rule's resources contain the check's. "*"
// includes subresources, and "*/subresource" is allowed.
func (c *check) resourceIn(resources []string) bool {
	for _, r := range resources {
		if r == rbacv1.ResourceAll || r == c.combined {
			return true
		}
		if c.subresource != "" && strings.HasPrefix(r, "*/") && r[2:] == c.subresource {
			return true
		}
	}
	return false
}

// pathIn reports whether a rule's URLs contain the check's path. As in
// Kubernetes, all asterisks at the end of a URL are removed.
func (c *check) pathIn(urls []string) bool {
	return slices.ContainsFunc(urls, func(u string) bool {
		return u == c.path || strings.HasSuffix(u, "*") && strings.HasPrefix(c.path, strings.TrimRight(u, "*"))
	})
}

func hasOrAll(list []string, want string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return s == "*" || s == want })
}
