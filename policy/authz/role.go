package authz

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A grant says whether something allows a check.
type grant int

const (
	no grant = iota
	maybe
	yes
)

// A role is what bindings of one name and kind of role grant.
type role struct {
	title    string // in RBAC's words: Role "x"
	unknown  string // why it may grant anything, after "which"
	variants [][]part
}

// A part of a role is its rules, or those of a role that it aggregates.
type part struct {
	rules   []rbacv1.PolicyRule
	doubt   string // why they may not count, ""
	unknown string // why it may grant anything, ""
}

// allows says whether the role allows a check. When that is not certain, it
// says why.
func (r *role) allows(c *check) (grant, string) {
	if r.unknown != "" {
		return maybe, r.unknown
	}
	if len(r.variants) == 1 {
		return allows(r.variants[0], c)
	}
	granting, why := 0, ""
	for _, v := range r.variants {
		switch g, because := allows(v, c); g {
		case yes:
			granting++
			why = fmt.Sprintf("which is there %d times, and they differ", len(r.variants))
		case maybe:
			why = because
		}
	}
	switch {
	case granting == len(r.variants) && granting > 0:
		return yes, ""
	case why != "":
		return maybe, why
	}
	return no, ""
}

func allows(parts []part, c *check) (grant, string) {
	why := ""
	for i := range parts {
		p := &parts[i]
		if p.unknown != "" {
			why = p.unknown
			continue
		}
		for j := range p.rules {
			if !c.allowedBy(&p.rules[j]) {
				continue
			}
			if p.doubt == "" {
				return yes, ""
			}
			why = p.doubt
			break
		}
	}
	if why != "" {
		return maybe, why
	}
	return no, ""
}
