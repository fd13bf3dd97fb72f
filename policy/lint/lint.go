// Package lint recognizes policies among objects and reports mistakes in how they are
// written, before any engine compiles them.
//
// In go objects; out come policies ([IsPolicy]), what belongs to them ([IsPart]), what
// engines are compiled from ([IsCompiled]), and errors about policies that no engine
// can use or that match nothing ([Check]).
package lint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/render"
)

// Kinds are the kinds that the API server serves.
type Kinds interface {
	Resources() []metav1.APIResource
	BuiltinGroup(string) bool
}

// Check returns errors about policies whose kind is misspelt, and warnings about
// admission policies without a binding and about matched kinds that do not exist.
// given are policies that need no binding; context may have bindings, too.
func Check(policies, given, context []*render.Object, kinds Kinds) error {
	var errs []error
	for _, o := range policies {
		errs = append(errs, misspelt(o))
	}
	return errors.Join(slices.Concat(errs, unbound(policies, given, context), misnamed(policies, kinds))...)
}

// IsPolicy reports whether o is a policy that checks other objects.
func IsPolicy(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	kind := strings.TrimPrefix(gvk.Kind, "Namespaced")
	switch gvk.Group {
	case "admissionregistration.k8s.io":
		return kind == "ValidatingAdmissionPolicy"
	case "kyverno.io":
		return kind == "ClusterPolicy" || kind == "Policy"
	case "policies.kyverno.io":
		return kind == "ValidatingPolicy" || kind == "ImageValidatingPolicy"
	case constraintGroup:
		return true
	}
	return false
}

// Groups returns the API groups of policies and of their bindings, templates and
// exceptions.
func Groups() []string {
	return []string{
		"admissionregistration.k8s.io", "config.gatekeeper.sh", "constraints.gatekeeper.sh", "expansion.gatekeeper.sh",
		"externaldata.gatekeeper.sh", "kyverno.io", "mutations.gatekeeper.sh", "policies.kyverno.io", "syncset.gatekeeper.sh",
		"templates.gatekeeper.sh",
	}
}

// IsPart reports whether o is a policy or belongs to one, also if its kind is misspelt.
func IsPart(o *render.Object) bool {
	return slices.Contains(Groups(), o.GroupVersionKind().Group) || misspelt(o) != nil
}

// IsCompiled reports whether engines read o when they are compiled: a policy or a
// part of one, a definition of a kind, or Kyverno's configuration.
func IsCompiled(o *render.Object) bool {
	group := o.GroupVersionKind().Group
	return group == "apiextensions.k8s.io" || group == "apiregistration.k8s.io" || o.GetKind() == "PolicyException" || IsPart(o) || IsKyvernoConfig(o)
}

// IsKyvernoConfig reports whether o is the ConfigMap with the resources that Kyverno leaves out.
func IsKyvernoConfig(o *render.Object) bool { return filters.IsConfig(o) }

// warning returns a warning at a field of a policy.
func warning(o *render.Object, pointer, rule, text, hint string) error {
	return &render.Error{Span: o.Span(pointer), Rule: rule, Warning: true, Hint: hint, Err: &policy.NamedError{Policy: o.GetName(), Err: errors.New(text)}}
}

// unbound returns a warning for each admission policy of the tree without a binding:
// the API server never evaluates it. Policies of --policy are evaluated as if they
// were bound, and are left out.
func unbound(policies, given, context []*render.Object) []error {
	const group = "admissionregistration.k8s.io"
	bound := make(map[string]bool) // kind and name of a policy
	for _, o := range slices.Concat(policies, context) {
		kind, isBinding := strings.CutSuffix(o.GetKind(), "Binding")
		name, _ := render.Lookup(o.Object, "/spec/policyName")
		if isBinding && o.GroupVersionKind().Group == group {
			bound[kind+" "+fmt.Sprint(name)] = true
		}
	}
	var warnings []error
	for _, o := range policies {
		kind := o.GetKind()
		isPolicy := kind == "ValidatingAdmissionPolicy" || kind == "MutatingAdmissionPolicy"
		if o.GroupVersionKind().Group != group || !isPolicy || bound[kind+" "+o.GetName()] || slices.Contains(given, o) {
			continue
		}
		warnings = append(warnings, warning(o, "/metadata/name", "no-binding",
			"no binding in the tree or --with names this policy, so it has no effect",
			"a "+kind+"Binding with policyName: "+o.GetName()+" makes the API server evaluate it"))
	}
	return warnings
}

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
		case group == constraintGroup, group == "mutations.gatekeeper.sh":
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

// misspelt returns an error if o was meant to be a policy and has a kind or an API
// version that does not exist.
func misspelt(o *render.Object) error { return cmp.Or(misspeltAdmission(o), misspeltGatekeeper(o)) }

// misspeltAdmission is misspelt for admission policies and bindings.
func misspeltAdmission(o *render.Object) error {
	const group = "admissionregistration.k8s.io"
	kinds := []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
	others := []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
	gvk := o.GroupVersionKind()
	pointer, hint := "/apiVersion", ""
	switch {
	case gvk.Group != group && slices.Contains(kinds, gvk.Kind),
		gvk.Group == group && !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, gvk.Version):
		hint = "did you mean " + group + "/v1?"
	case gvk.Group == group && !slices.Contains(kinds, gvk.Kind) && !slices.Contains(others, gvk.Kind):
		pointer = "/kind"
		hint = "there are " + strings.Join(append(kinds, others...), ", ")
	default:
		return nil
	}
	return unknownKind(o, pointer, hint)
}

func unknownKind(o *render.Object, pointer, hint string) error {
	gvk := o.GroupVersionKind()
	return &render.Error{
		Span: o.Span(pointer), Rule: "unknown-kind", Hint: hint,
		Err: fmt.Errorf("no matches for kind %q in version %q", gvk.Kind, gvk.GroupVersion()),
	}
}

// gatekeeperKinds lists the kinds of Gatekeeper's groups, except constraints, whose
// kinds templates define.
var gatekeeperKinds = map[string][]string{
	"config.gatekeeper.sh":       {"Config"},
	"expansion.gatekeeper.sh":    {"ExpansionTemplate"},
	"externaldata.gatekeeper.sh": {"Provider"},
	"mutations.gatekeeper.sh":    {"Assign", "AssignImage", "AssignMetadata", "ModifySet"},
	"syncset.gatekeeper.sh":      {"SyncSet"},
	"templates.gatekeeper.sh":    {"ConstraintTemplate"},
}

// IsGatekeeper reports whether Gatekeeper reads objects of a group as configuration,
// templates or mutators.
func IsGatekeeper(group string) bool { return gatekeeperKinds[group] != nil }

// misspeltGatekeeper is misspelt for Gatekeeper's kinds.
func misspeltGatekeeper(o *render.Object) error {
	gvk := o.GroupVersionKind()
	kinds, known := gatekeeperKinds[gvk.Group]
	near := ""
	if strings.HasSuffix(gvk.Group, ".gatekeeper.sh") { // other groups of it are those of operators
		near = render.DidYouMean(gvk.Group, append(slices.Collect(maps.Keys(gatekeeperKinds)), constraintGroup))
	}
	pointer, hint := "/kind", ""
	switch {
	case known && slices.Contains(kinds, gvk.Kind):
		return nil
	case known:
		hint = "there is " + strings.Join(kinds, ", ")
	case gvk.Group == constraintGroup:
		return nil
	case near != "":
		pointer, hint = "/apiVersion", near
	case gvk.Kind == "ConstraintTemplate":
		pointer, hint = "/apiVersion", "did you mean templates.gatekeeper.sh/v1?"
	case gvk.Kind == "ExpansionTemplate":
		pointer, hint = "/apiVersion", "did you mean expansion.gatekeeper.sh/v1beta1?"
	default:
		return nil
	}
	return unknownKind(o, pointer, hint)
}

// constraintGroup has the kinds that templates define.
const constraintGroup = "constraints.gatekeeper.sh"
