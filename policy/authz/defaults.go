package authz

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// defaults are the roles and bindings that an API server makes when it starts. They were recorded of each
// release; a test holds the newest against the API server's own code.
//
//go:embed defaults.tsv
var defaults string

// The minor versions whose defaults differ. An older version uses the oldest
// defaults, a newer one the newest.
const oldestDefaults, newestDefaults = 29, 37

func defaultsOf(v cel.Version) int { return min(max(int(v), oldestDefaults), newestDefaults) }

// addDefaults adds the objects that an API server of version 1.v makes itself.
func (s *store) addDefaults(v int) error {
	var r *roleObject // the one whose rules follow
	for i, line := range strings.Split(strings.TrimSuffix(defaults, "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, "\t")
		columns = append(columns, "", "", "", "", "")
		in, err := includes(columns[1], v)
		if err != nil {
			return fmt.Errorf("defaults.tsv:%d: %w", i+1, err)
		}
		switch kind := columns[0]; {
		case kind == "" && (r == nil || !in):
		case kind == "":
			r.rules = append(r.rules, defaultRule(columns[2:]))
		case !in:
			r = nil
		case strings.HasSuffix(kind, "Binding"):
			s.bindings.add(defaultKey(columns[2]), builtIn, defaultBinding(columns[3], columns[4]))
		default:
			r = defaultRole(columns[3], columns[4])
			s.shelfOf(kind).add(defaultKey(columns[2]), builtIn, r)
		}
	}
	return nil
}

func (s *store) shelfOf(kind string) *shelf[*roleObject] {
	if kind == "Role" {
		return &s.roles
	}
	return &s.clusterRoles
}

// includes reports whether a list of versions such as "29-33,35-" contains v.
func includes(versions string, v int) (bool, error) {
	for span := range strings.SplitSeq(versions, ",") {
		from, to, _ := strings.Cut(span, "-")
		low, err := strconv.Atoi(from)
		if err != nil {
			return false, fmt.Errorf("%q is not a range of versions", versions)
		}
		high := v
		if to != "" {
			if high, err = strconv.Atoi(to); err != nil {
				return false, fmt.Errorf("%q is not a range of versions", versions)
			}
		}
		if low <= v && v <= high {
			return true, nil
		}
	}
	return false, nil
}

func defaultKey(name string) key {
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		return key{namespace, name}
	}
	return key{name: name}
}

func defaultRole(own, selects string) *roleObject {
	r := &roleObject{labels: labels.Set{"kubernetes.io/bootstrapping": "rbac-defaults"}}
	for _, l := range list(own) {
		r.labels[l] = "true"
	}
	for _, l := range list(selects) {
		r.combined = true
		r.selectors = append(r.selectors, labels.SelectorFromSet(labels.Set{l: "true"}))
	}
	return r
}

func defaultRule(columns []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: list(columns[0]), APIGroups: list(columns[1]), Resources: list(columns[2]),
		ResourceNames: list(columns[3]), NonResourceURLs: list(columns[4]),
	}
}

func defaultBinding(role, subjects string) *bindingObject {
	kind, name, _ := strings.Cut(role, " ")
	b := &bindingObject{role: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}}
	for _, s := range list(subjects) {
		kind, name, _ := strings.Cut(s, " ")
		subject := rbacv1.Subject{Kind: kind, Name: name}
		if kind == rbacv1.ServiceAccountKind {
			subject.Namespace, subject.Name, _ = strings.Cut(name, "/")
		}
		b.subjects = append(b.subjects, subject)
	}
	return b
}

// list splits a column; "-" is the core group.
func list(column string) []string {
	if column == "" {
		return nil
	}
	names := strings.Split(column, ",")
	for i, n := range names {
		if n == "-" {
			names[i] = ""
		}
	}
	return names
}
