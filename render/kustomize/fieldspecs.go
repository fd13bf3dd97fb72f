package kustomize

import (
	"path"
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
