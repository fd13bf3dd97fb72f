package kindcheck

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
)

func (c *check) policyRules(rules []rbacv1.PolicyRule, namespaced bool) {
	for i := range rules {
		r, p := &rules[i], Top.In("rules", i)
		if len(r.Verbs) == 0 {
			c.required(p.In("verbs"), "verbs must contain at least one value")
		}
		if len(r.NonResourceURLs) > 0 {
			at := p.In("nonResourceURLs")
			if namespaced {
				c.invalid(at, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
			}
			if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
				c.invalid(at, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
			}
			continue
		}
		if len(r.APIGroups) == 0 {
			c.required(p.In("apiGroups"), "resource rules must supply at least one api group")
		}
		if len(r.Resources) == 0 {
			c.required(p.In("resources"), "resource rules must supply at least one resource")
		}
	}
}

func (c *check) clusterRole(o *rbacv1.ClusterRole) {
	c.policyRules(o.Rules, false)
	if o.AggregationRule == nil {
		return
	}
	p := Top.In("aggregationRule", "clusterRoleSelectors")
	if len(o.AggregationRule.ClusterRoleSelectors) == 0 {
		c.required(p, "at least one clusterRoleSelector required if aggregationRule is non-nil")
	}
	for i := range o.AggregationRule.ClusterRoleSelectors {
		c.selector(&o.AggregationRule.ClusterRoleSelectors[i], p.In(i))
	}
}

func (c *check) binding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) {
	p := Top.In("roleRef")
	oneOf(c, p.In("apiGroup"), ref.APIGroup, rbacv1.GroupName)
	if namespaced {
		oneOf(c, p.In("kind"), ref.Kind, "Role", "ClusterRole")
	} else {
		oneOf(c, p.In("kind"), ref.Kind, "ClusterRole")
	}
	if ref.Name == "" {
		c.required(p.In("name"), "")
	} else {
		c.invalids(p.In("name"), ref.Name, content.IsPathSegmentName(ref.Name))
	}
	for i := range subjects {
		c.subject(&subjects[i], namespaced, Top.In("subjects", i))
	}
}

func (c *check) subject(s *rbacv1.Subject, namespaced bool, p *Spot) {
	if s.Name == "" {
		c.required(p.In("name"), "")
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			c.invalids(p.In("name"), s.Name, dnsSubdomain(s.Name))
		}
		oneOf(c, p.In("apiGroup"), s.APIGroup, "")
		if !namespaced && s.Namespace == "" {
			c.required(p.In("namespace"), "")
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		oneOf(c, p.In("apiGroup"), s.APIGroup, rbacv1.GroupName)
	default:
		oneOf(c, p.In("kind"), s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)
	}
}
