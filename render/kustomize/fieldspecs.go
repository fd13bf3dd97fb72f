package kustomize

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
	_ "unsafe" // go:linkname

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/utils"
	"sigs.k8s.io/yaml"
)

// defaultFieldSpecs returns the fields that kustomize's transformers change where
// no configuration adds others. kustomize does not export them.
//
//go:linkname defaultFieldSpecs sigs.k8s.io/kustomize/api/internal/konfig/builtinpluginconsts.GetDefaultFieldSpecs
func defaultFieldSpecs() []byte

// DefaultFieldSpecs returns kustomize's own field specs as YAML. Its nameReference lists the fields
// that hold the names of other objects.
func DefaultFieldSpecs() []byte { return defaultFieldSpecs() }

// defaults holds kustomize's default field specs by transformer. They are
// shared: nobody may change them.
type defaults struct {
	NamePrefix                types.FsSlice   `json:"namePrefix"`
	NameSuffix                types.FsSlice   `json:"nameSuffix"`
	Namespace                 types.FsSlice   `json:"namespace"`
	CommonLabels              types.FsSlice   `json:"commonLabels"`
	Labels                    types.FsSlice   `json:"labels"`
	TemplateLabels            types.FsSlice   `json:"templateLabels"`
	VolumeClaimTemplateLabels types.FsSlice   `json:"volumeClaimTemplateLabels"`
	CommonAnnotations         types.FsSlice   `json:"commonAnnotations"`
	NameReference             []nameReference `json:"nameReference"`
	Images                    types.FsSlice   `json:"images"`
	Replicas                  types.FsSlice   `json:"replicas"`
}

// A nameReference is a kind with the fields that hold the names of its objects.
type nameReference struct {
	resid.Gvk `json:",inline"`
	Fields    types.FsSlice `json:"fieldSpecs"`
	paths     [][]string    // of the fields
}

// readFieldSpecs reads the default field specs, once. They are merged and sorted as
// kustomize does it, see TransformerConfig.Merge in its
// internal/plugins/builtinconfig. The default names no kind twice in nameReference.
var readFieldSpecs = sync.OnceValues(func() (*defaults, error) {
	var s defaults
	if err := yaml.Unmarshal(defaultFieldSpecs(), &s); err != nil {
		return nil, err
	}
	slices.SortFunc(s.NameReference, func(a, b nameReference) int {
		switch {
		case a.IsLessThan(b.Gvk):
			return -1
		case b.IsLessThan(a.Gvk):
			return 1
		}
		return 0
	})
	for i := range s.NameReference {
		s.NameReference[i].index()
	}
	for _, specs := range s.lists() {
		merged, err := types.FsSlice(nil).MergeAll(*specs)
		if err != nil {
			return nil, err
		}
		sort.Sort(merged)
		*specs = slices.Clip(merged)
	}
	return &s, nil
})

// and returns the field specs with those of the unit's configurations. They are needed only
// to find places: kustomize itself builds such units, since a configuration counts for the
// kustomization that names it and those above.
func (d *defaults) and(w *walk) (*defaults, error) {
	for _, dir := range sorted(w.nodes) {
		n := w.nodes[dir]
		if n == nil {
			continue
		}
		for _, file := range n.build.Configurations {
			var s defaults
			data, err := w.snap.ReadFile(path.Join(n.dir, file))
			if err != nil {
				return nil, err
			}
			if err := yaml.Unmarshal(data, &s); err != nil {
				return nil, err
			}
			if err := s.merge(d); err != nil {
				return nil, err
			}
			d = &s
		}
	}
	return d, nil
}

// merge adds other field specs.
func (d *defaults) merge(other *defaults) (err error) {
	theirs := other.lists()
	for i, specs := range d.lists() {
		if *specs, err = specs.MergeAll(*theirs[i]); err != nil {
			return err
		}
	}
	for i := range d.NameReference {
		d.NameReference[i].index()
	}
	d.NameReference = append(d.NameReference, other.NameReference...)
	return nil
}

// lists returns the field specs of each transformer.
func (d *defaults) lists() []*types.FsSlice {
	return []*types.FsSlice{
		&d.NamePrefix, &d.NameSuffix, &d.Namespace, &d.CommonLabels, &d.Labels, &d.TemplateLabels,
		&d.VolumeClaimTemplateLabels, &d.CommonAnnotations, &d.Images, &d.Replicas,
	}
}

func (r *nameReference) index() {
	for _, field := range r.Fields {
		r.paths = append(r.paths, utils.PathSplitter(field.Path, "/"))
	}
}

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
