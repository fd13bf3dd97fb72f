package lint

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/preadmit/preadmit/render"
)

// misnamed returns a warning for each kind in the match of a Kyverno or Gatekeeper
// policy that is obviously wrong: misspelt, a plural, or in a group that does not
// have it. A kind unlike any other may belong to a CustomResourceDefinition outside
// the tree, and is left alone. Admission policies have warnings of their own.
func misnamed(policies []*render.Object, kinds Kinds) []error {
	m := misnaming{kinds: kinds, served: kinds.Resources()}
	var warnings []error
	for _, o := range policies {
		switch group := o.GroupVersionKind().Group; {
		case group == "kyverno.io":
			warnings = append(warnings, m.kyverno(o)...)
		case group == "constraints.gatekeeper.sh", group == "mutations.gatekeeper.sh":
			warnings = append(warnings, m.gatekeeper(o)...)
		}
	}
	return warnings
}

// misnaming searches kinds that do not exist.
type misnaming struct {
	kinds  Kinds
	served []metav1.APIResource
}

// kyverno checks a ClusterPolicy, Policy or PolicyException.
func (m misnaming) kyverno(o *render.Object) []error {
	kind := o.GetKind()
	isPolicy := kind == "ClusterPolicy" || kind == "Policy"
	rules := listAt(o, "/spec/rules")
	if isPolicy && len(rules) == 0 {
		return []error{warning(o, "/metadata/name", "no-rules", "the policy has no rules, so it has no effect", "")}
	}
	blocks := []string{"/spec/match"}
	for i := range rules {
		blocks = append(blocks, render.Pointer("spec", "rules", i, "match"), render.Pointer("spec", "rules", i, "exclude"))
	}
	var warnings []error
	for _, block := range blocks {
		filters := []string{block}
		for _, form := range []string{"any", "all"} {
			for i := range listAt(o, block+"/"+form) {
				filters = append(filters, block+render.Pointer(form, i))
			}
		}
		for _, filter := range filters {
			for i, entry := range listAt(o, filter+"/resources/kinds") {
				if w := m.entry(o, filter+render.Pointer("resources", "kinds", i), fmt.Sprint(entry)); w != nil {
					warnings = append(warnings, w)
				}
			}
		}
	}
	return warnings
}

// entry checks a kind in Kyverno's form: Kind, version/Kind or group/version/Kind,
// with an optional subresource.
func (m misnaming) entry(o *render.Object, pointer, entry string) error {
	parts := strings.Split(entry, "/")
	if strings.Contains(entry, "*") || len(parts) > 3 {
		return nil
	}
	kind, groups := parts[0], []string(nil)
	switch {
	case len(parts) == 3 && !isVersion(parts[0]):
		kind, groups = parts[2], []string{parts[0]}
	case len(parts) > 1 && isVersion(parts[0]):
		kind = parts[1]
	}
	kind, _, _ = strings.Cut(kind, ".")
	return m.warning(o, pointer, kind, groups)
}

// isVersion reports whether s is a version such as v1 or v1beta1.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9'
}

// gatekeeper checks a constraint or a mutator.
func (m misnaming) gatekeeper(o *render.Object) []error {
	var warnings []error
	for i := range listAt(o, "/spec/match/kinds") {
		at := render.Pointer("spec", "match", "kinds", i)
		var groups []string
		for _, g := range listAt(o, at+"/apiGroups") {
			groups = append(groups, fmt.Sprint(g))
		}
		for j, kind := range listAt(o, at+"/kinds") {
			if w := m.warning(o, at+render.Pointer("kinds", j), fmt.Sprint(kind), groups); w != nil {
				warnings = append(warnings, w)
			}
		}
	}
	return warnings
}

// warning returns a warning if none of the groups, or without groups no group at all,
// has the kind.
func (m misnaming) warning(o *render.Object, pointer, kind string, groups []string) error {
	if slices.Contains(groups, "*") {
		groups = nil
	}
	elsewhere := func(g string) bool { return !m.kinds.BuiltinGroup(g) }
	if strings.Contains(kind, "*") || kind == "" || slices.ContainsFunc(groups, elsewhere) {
		return nil
	}
	in := func(r metav1.APIResource) bool { return len(groups) == 0 || slices.Contains(groups, r.Group) }
	meant, groupOf, found := "", "", false
	for _, r := range m.served {
		switch {
		case r.Kind == kind && in(r):
			return nil
		case r.Kind == kind && !found:
			groupOf, found = r.Group, true
		case meant == "" && in(r) && (render.Alike(kind, r.Kind) || strings.EqualFold(kind, r.Name)):
			meant = r.Kind
		}
	}
	switch {
	case found:
		return warning(o, pointer, "unknown-kind", fmt.Sprintf("kind %s matches nothing: it is not in API group %s, but in %q",
			kind, `"`+strings.Join(groups, `" or "`)+`"`, groupOf), "")
	case meant != "":
		return warning(o, pointer, "unknown-kind", fmt.Sprintf(
			"kind %q matches nothing: it is not built in, and no CustomResourceDefinition in the tree or --with defines it; did you mean %s?", kind, meant), "")
	}
	return nil
}

// listAt returns the list at a pointer of an object, or nil.
func listAt(o *render.Object, pointer string) []any {
	v, _ := render.Lookup(o.Object, pointer)
	list, _ := v.([]any)
	return list
}
