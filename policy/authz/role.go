package authz

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// A grant reports whether something allows a check.
type grant int

const (
	no grant = iota
	maybe
	yes
)

// A role holds the permissions granted by the bindings with one name and kind
// of role.
type role struct {
	title    string // as RBAC names it: Role "x"
	unknown  string // why it may grant anything: a clause that begins with "which"
	variants [][]part
}

// A part of a role holds its own rules, or those of a role that it aggregates.
type part struct {
	leaf    *roleObject
	doubt   string // why they may not apply, or ""
	unknown string // why it may grant anything, or ""
}

// An answer reports whether something allows a check, and why that may be
// uncertain.
type answer struct {
	grant grant
	why   string
}

// role returns whether a role allows the check.
func (w *walk) role(r *role) answer {
	if w.roles == nil {
		return w.askRole(r)
	}
	a, ok := w.roles[r]
	if !ok {
		a = w.askRole(r)
		w.roles[r] = a
	}
	return a
}

func (w *walk) askRole(r *role) answer {
	if r.unknown != "" {
		return answer{maybe, r.unknown}
	}
	if len(r.variants) == 1 {
		return w.parts(r.variants[0])
	}
	granting, why := 0, ""
	for _, v := range r.variants {
		switch a := w.parts(v); a.grant {
		case yes:
			granting++
		case maybe:
			why = a.why
		}
	}
	switch {
	case granting == 0 && why == "":
		return answer{grant: no}
	case granting == len(r.variants):
		return answer{grant: yes}
	case why == "":
		why = fmt.Sprintf("which is defined %d times, differently", len(r.variants))
	}
	return answer{maybe, why}
}

func (w *walk) parts(parts []part) answer {
	why := ""
	for i := range parts {
		switch p := &parts[i]; {
		case p.unknown != "":
			why = p.unknown
		case !w.leaf(p.leaf):
		case p.doubt != "":
			why = p.doubt
		default:
			return answer{grant: yes}
		}
	}
	if why != "" {
		return answer{maybe, why}
	}
	return answer{grant: no}
}

// leaf reports whether the rules of a role without aggregation allow the check.
func (w *walk) leaf(o *roleObject) bool {
	if w.leaves == nil {
		return w.check.allowedByAny(o.rules)
	}
	allowed, ok := w.leaves[o]
	if !ok {
		allowed = w.check.allowedByAny(o.rules)
		w.leaves[o] = allowed
	}
	return allowed
}

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
