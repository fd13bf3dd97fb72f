package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

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
	pointer, hint := "/kind", ""
	switch {
	case known && slices.Contains(kinds, gvk.Kind):
		return nil
	case known:
		hint = "there is " + strings.Join(kinds, ", ")
	case strings.HasSuffix(gvk.Group, ".gatekeeper.sh") && !slices.Contains(othersOfGatekeeper, gvk.Group):
		pointer = "/apiVersion"
	case gvk.Kind == "ConstraintTemplate":
		pointer, hint = "/apiVersion", "did you mean templates.gatekeeper.sh/v1?"
	case gvk.Kind == "ExpansionTemplate":
		pointer, hint = "/apiVersion", "did you mean expansion.gatekeeper.sh/v1beta1?"
	default:
		return nil
	}
	return unknownKind(o, pointer, hint)
}

// othersOfGatekeeper are groups whose objects Gatekeeper creates, or whose kinds
// templates define.
var othersOfGatekeeper = []string{"connection.gatekeeper.sh", "constraints.gatekeeper.sh", "status.gatekeeper.sh"}
