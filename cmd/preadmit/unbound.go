package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// unbound returns a warning for each admission policy of the tree that no
// binding names: the API server never asks it. Policies of --policy are judged
// as if they were bound, and are left out.
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
		e := &render.Error{
			Rule: "no-binding", Warning: true, Hint: "a " + kind + "Binding with policyName: " + o.GetName() + " makes the API server ask it",
			Err: &policy.NamedError{Policy: o.GetName(), Err: errors.New("no binding in the tree or --with names this policy, so it has no effect")},
		}
		if at := o.At("/metadata/name"); len(at) > 0 {
			e.Span = at[0].Span
		}
		warnings = append(warnings, e)
	}
	return warnings
}
