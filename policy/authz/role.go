package authz

import (
	"fmt"

	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
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
		return upstream.RulesAllow(w.check, o.rules...)
	}
	allowed, ok := w.leaves[o]
	if !ok {
		allowed = upstream.RulesAllow(w.check, o.rules...)
		w.leaves[o] = allowed
	}
	return allowed
}
