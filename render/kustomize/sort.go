package kustomize

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
)

// The kinds that kustomize puts first and last unless sortOptions name others, see
// SortOrderTransformer in its internal/builtins.
var legacyOrder = types.LegacySortOptions{
	OrderFirst: []string{
		"Namespace", "ResourceQuota", "StorageClass", "CustomResourceDefinition", "ServiceAccount", "PodSecurityPolicy",
		"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Secret", "Endpoints", "Service",
		"LimitRange", "PriorityClass", "PersistentVolume", "PersistentVolumeClaim", "Deployment", "StatefulSet",
		"CronJob", "PodDisruptionBudget",
	},
	OrderLast: []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"},
}

// sortedOrder returns the indices of resources in kustomize's output order.
func sortedOrder(resources []*resource.Resource, options *types.SortOptions) ([]int, error) {
	order := make([]int, len(resources))
	for i := range order {
		order[i] = i
	}
	kinds := &legacyOrder
	switch {
	case options == nil:
	case options.Order == types.FIFOSortOrder && options.LegacySortOptions == nil:
		return order, nil
	case options.Order != types.LegacySortOrder:
		return nil, fmt.Errorf("sortOptions: order %q", options.Order)
	case options.LegacySortOptions != nil:
		kinds = options.LegacySortOptions
	}
	ranks := map[string]int{}
	for i, kind := range kinds.OrderFirst {
		ranks[kind] = i - len(kinds.OrderFirst)
	}
	for i, kind := range kinds.OrderLast {
		ranks[kind] = i + 1
	}
	ids := make([]resid.ResId, len(resources))
	seen := make(map[resid.ResId]bool, len(resources))
	for i, r := range resources {
		ids[i] = r.CurId()
		id := resid.NewResIdWithNamespace(resid.NewGvk(ids[i].Group, ids[i].Version, ids[i].Kind), ids[i].Name, ids[i].EffectiveNamespace())
		if seen[id] {
			return nil, fmt.Errorf("two objects are %s", id)
		}
		seen[id] = true
	}
	slices.SortStableFunc(order, func(i, j int) int { return compareIDs(ids[i], ids[j], ranks) })
	return order, nil
}

// compareIDs compares by kind, then by name. What is empty comes last.
func compareIDs(a, b resid.ResId, ranks map[string]int) int {
	if a.Gvk.Equals(b.Gvk) {
		return strings.Compare(cmp.Or(a.Namespace, "~X")+"|"+cmp.Or(a.Name, "~N"), cmp.Or(b.Namespace, "~X")+"|"+cmp.Or(b.Name, "~N"))
	}
	kinds := strings.Compare(sortKey(a.Gvk), sortKey(b.Gvk))
	if a.Kind == types.NamespaceKind && b.Kind == types.NamespaceKind && (a.Group == "" || b.Group == "") {
		kinds = -kinds
	}
	return cmp.Or(cmp.Compare(ranks[a.Kind], ranks[b.Kind]), kinds)
}

func sortKey(k resid.Gvk) string {
	return cmp.Or(k.Group, "~G") + "_" + cmp.Or(k.Version, "~V") + "_" + cmp.Or(k.Kind, "~K")
}
