// Package lint recognizes policies among objects and reports mistakes in how they are
// written, before any engine compiles them.
//
// In go objects; out come policies ([IsPolicy]), what belongs to them ([IsPart]), what
// engines are compiled from ([IsCompiled]), and errors about policies that no engine
// can use or that match nothing ([Check]).
package lint

import (
	"errors"
	"fmt"
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
	case "constraints.gatekeeper.sh":
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
