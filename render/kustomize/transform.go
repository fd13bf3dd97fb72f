package kustomize

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/kustomize/api/builtins"
	"sigs.k8s.io/kustomize/api/filters/namespace"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/kio/kioutil"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	yamljson "sigs.k8s.io/yaml"
)

// transform applies a kustomization's transformers to the resources, in
// kustomize's order.
func (a *accumulation) transform(n *node, m resmap.ResMap) error {
	if err := a.mergePatches(n, m); err != nil {
		return err
	}
	for i, p := range n.build.Patches {
		q := n.patch("patches", i)
		switch {
		case q == nil:
			return errNotShared
		case !q.json():
			patches, err := a.patchResources(n, q, p.Path)
			if err != nil {
				return err
			}
			if err := mergePatch(m, patches, q, &p); err != nil {
				return err
			}
			m.DropEmpties()
		case a.withJSON:
			if err := a.jsonPatch(n, m, q, &p); err != nil {
				return err
			}
			m.DropEmpties()
		}
	}
	transformers, err := a.transformers(n)
	if err != nil {
		return err
	}
	for _, t := range transformers {
		if err := t.Transform(m); err != nil {
			return err
		}
		m.DropEmpties()
	}
	if k := &n.build; len(k.Replacements) > 0 {
		return a.plugin(n, m, builtins.NewReplacementTransformerPlugin(), map[string]any{"replacements": k.Replacements})
	}
	return nil
}

// plugin configures and runs a transformer.
func (a *accumulation) plugin(n *node, m resmap.ResMap, t resmap.TransformerPlugin, args any) error {
	if err := a.configure(n, t, args); err != nil {
		return err
	}
	if err := t.Transform(m); err != nil {
		return err
	}
	m.DropEmpties()
	return nil
}

// mergePatches applies patchesStrategicMerge. Like kustomize it parses all of
// them before it applies any.
func (a *accumulation) mergePatches(n *node, m resmap.ResMap) error {
	var all []*resource.Resource
	for i, p := range n.build.PatchesStrategicMerge {
		q := n.patch("patchesStrategicMerge", i)
		if q == nil || q.json() {
			return errNotShared
		}
		patches, err := a.patchResources(n, q, string(p))
		if err != nil {
			return err
		}
		all = append(all, patches...)
	}
	for _, patch := range all {
		target, err := m.GetById(patch.OrgId())
		if err != nil {
			return err
		}
		if err := m.ApplySmPatch(resource.MakeIdSet([]*resource.Resource{target}), patch); err != nil {
			return err
		}
	}
	m.DropEmpties()
	return nil
}

// patchResources reads a strategic merge patch.
func (a *accumulation) patchResources(n *node, q *patch, file string) ([]*resource.Resource, error) {
	if q.text != "" {
		name, _ := q.virtual(n)
		return a.documents(name, []byte(q.text), a.o.inline[q])
	}
	real, err := a.find(n, file)
	if err != nil {
		return nil, err
	}
	return a.file(real.real)
}

// mergePatch applies an entry of patches, see PatchTransformerPlugin in kustomize's
// internal/builtins.
func mergePatch(m resmap.ResMap, patches []*resource.Resource, q *patch, p *types.Patch) error {
	if o := p.Options; o != nil {
		for _, patch := range patches {
			if o.AllowNameChange {
				patch.AllowNameChange()
			}
			if o.AllowKindChange {
				patch.AllowKindChange()
			}
		}
	}
	if p.Target != nil {
		if len(patches) != 1 {
			return errNotShared
		}
		selected, err := q.selection.among(m.Resources())
		if err != nil {
			return err
		}
		return m.ApplySmPatch(resource.MakeIdSet(selected), patches[0])
	}
	for _, patch := range patches {
		target, err := m.GetById(patch.OrgId())
		if err != nil {
			return err
		}
		if err := target.ApplySmPatch(patch); err != nil {
			return err
		}
	}
	return nil
}

// jsonPatch applies an entry of patches that is a JSON patch, as the same plugin does.
// It makes JSON of an object without writing YAML first.
func (a *accumulation) jsonPatch(n *node, m resmap.ResMap, q *patch, p *types.Patch) error {
	text := []byte(strings.TrimSpace(p.Patch))
	if p.Path != "" {
		var err error
		if text, err = (&loader{a, n}).Load(p.Path); err != nil {
			return err
		}
	}
	if p.Target == nil || len(text) == 0 {
		return errNotShared
	}
	if text[0] != '[' {
		var err error
		if text, err = yamljson.YAMLToJSON(text); err != nil {
			return err
		}
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return err
	}
	selected, err := q.selection.among(m.Resources())
	if err != nil {
		return err
	}
	for _, r := range selected {
		if err := patched(r, patch); err != nil {
			return err
		}
	}
	return nil
}

func patched(r *resource.Resource, patch jsonpatch.Patch) error {
	r.StorePreviousId()
	own := kioutil.GetInternalAnnotations(&r.RNode)
	if n := patchNodes(r.YNode(), patch); n != nil {
		r.SetYNode(yaml.CopyYNode(n)) // see copyOf: the nodes of JSON are not shared
	} else if err := patchJSON(r, patch); err != nil {
		return err
	}
	annotations := r.GetAnnotations()
	maps.Copy(annotations, own)
	return setAnnotations(r, annotations)
}

// patchJSON applies a patch to the JSON of an object, as kustomize does.
func patchJSON(r *resource.Resource, patch jsonpatch.Patch) error {
	var value any
	if err := decode(r.YNode(), &value); err != nil {
		return err
	}
	was, err := json.Marshal(value)
	if err != nil {
		return err
	}
	now, err := patch.Apply(was)
	if err != nil {
		return err
	}
	return r.UnmarshalJSON(now)
}

// transformers returns the transformers that run between patches and
// replacements.
func (a *accumulation) transformers(n *node) (all []resmap.Transformer, err error) {
	k, s := &n.build, a.specs
	if k.Namespace != "" {
		t := &builtins.NamespaceTransformerPlugin{FieldSpecs: s.Namespace, SetRoleBindingSubjects: namespace.DefaultSubjectsOnly}
		t.Namespace = k.Namespace
		all = append(all, t)
	}
	if k.NamePrefix != "" {
		all = append(all, &builtins.PrefixTransformerPlugin{Prefix: k.NamePrefix, FieldSpecs: s.NamePrefix})
	}
	if k.NameSuffix != "" {
		all = append(all, &builtins.SuffixTransformerPlugin{Suffix: k.NameSuffix, FieldSpecs: s.NameSuffix})
	}
	for _, l := range k.Labels {
		fields, err := s.labels(l)
		if err != nil {
			return nil, err
		}
		all = append(all, &builtins.LabelTransformerPlugin{Labels: l.Pairs, FieldSpecs: fields})
	}
	if len(k.CommonAnnotations) > 0 {
		all = append(all, &builtins.AnnotationsTransformerPlugin{Annotations: k.CommonAnnotations, FieldSpecs: s.CommonAnnotations})
	}
	if a.withJSON {
		for _, p := range k.PatchesJson6902 {
			t := builtins.NewPatchJson6902TransformerPlugin()
			if err := a.configure(n, t, map[string]any{"target": p.Target, "path": p.Path, "jsonOp": p.Patch}); err != nil {
				return nil, err
			}
			all = append(all, t)
		}
	}
	for _, r := range k.Replicas {
		all = append(all, &builtins.ReplicaCountTransformerPlugin{Replica: r, FieldSpecs: s.Replicas})
	}
	for _, image := range k.Images {
		all = append(all, &builtins.ImageTagTransformerPlugin{ImageTag: image, FieldSpecs: s.Images})
	}
	return all, nil
}

// labels returns the fields that an entry of labels changes.
func (d *defaults) labels(l types.Label) (fields types.FsSlice, err error) {
	add := func(more types.FsSlice) {
		if err == nil {
			fields, err = fields.MergeAll(more)
		}
	}
	fields = slices.Clone(types.FsSlice(l.FieldSpecs))
	add(d.Labels)
	if l.IncludeSelectors {
		add(d.CommonLabels)
		return fields, err
	}
	if l.IncludeTemplates {
		add(d.TemplateLabels)
	}
	if l.IncludeVolumeClaimTemplates {
		add(d.VolumeClaimTemplateLabels)
	}
	add(types.FsSlice{{Path: "metadata/labels", CreateIfNotPresent: true}})
	return fields, err
}
