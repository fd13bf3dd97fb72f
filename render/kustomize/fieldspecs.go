package kustomize

import (
	"slices"
	"sort"
	"sync"
	_ "unsafe" // go:linkname

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
	all := []*types.FsSlice{
		&s.NamePrefix, &s.NameSuffix, &s.Namespace, &s.CommonLabels, &s.Labels, &s.TemplateLabels,
		&s.VolumeClaimTemplateLabels, &s.CommonAnnotations, &s.Images, &s.Replicas,
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
		kind := &s.NameReference[i]
		for _, field := range kind.Fields {
			kind.paths = append(kind.paths, utils.PathSplitter(field.Path, "/"))
		}
	}
	for _, specs := range all {
		merged, err := types.FsSlice(nil).MergeAll(*specs)
		if err != nil {
			return nil, err
		}
		sort.Sort(merged)
		*specs = slices.Clip(merged)
	}
	return &s, nil
})
