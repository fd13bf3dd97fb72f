package kustomize

import (
	"cmp"
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
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	yamljson "sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// transform applies a kustomization's transformers to the resources, in
// kustomize's order.
func (a *accumulation) transform(n *node, m resmap.ResMap) error {
	if err := a.mergePatches(n, m); err != nil {
		return err
	}
	for i, p := range n.build.Patches {
		if err := a.patch(n, m, n.patch("patches", i), &p); err != nil {
			return err
		}
	}
	if err := a.transformers(n, m); err != nil {
		return err
	}
	if k := &n.build; len(k.Replacements) > 0 {
		if err := a.replace(n, m, k.Replacements, n.replacementsOf(k.Replacements, n.places("replacements"))); err != nil {
			return err
		}
	}
	for _, p := range n.pluginsOf("transformers") {
		if err := a.plugin(n, m, p); err != nil {
			return err
		}
	}
	return nil
}

// run configures and runs a transformer.
func (a *accumulation) run(n *node, m resmap.ResMap, c change, t resmap.TransformerPlugin, args any) error {
	if err := a.configure(n, t, args); err != nil {
		return err
	}
	return a.apply(m, c, t.Transform)
}

func (a *accumulation) apply(m resmap.ResMap, c change, transform func(resmap.ResMap) error) error {
	err := a.record(c, m.Resources, func() error { return transform(m) })
	m.DropEmpties()
	return err
}

// mergePatches applies patchesStrategicMerge.
func (a *accumulation) mergePatches(n *node, m resmap.ResMap) error {
	var all []*patch
	for i := range n.build.PatchesStrategicMerge {
		q := n.patch("patchesStrategicMerge", i)
		if q == nil || q.json() {
			return errNotShared
		}
		all = append(all, q)
	}
	return a.mergeAll(n, m, all)
}

// mergeAll applies strategic merge patches. Like kustomize it parses all of them before it
// applies any.
func (a *accumulation) mergeAll(n *node, m resmap.ResMap, patches []*patch) error {
	var all []*resource.Resource
	for _, q := range patches {
		parsed, err := a.patchResources(n, q)
		if err != nil {
			return err
		}
		all = append(all, parsed...)
	}
	for _, patch := range all {
		target, err := m.GetById(patch.OrgId())
		if err != nil {
			return err
		}
		if err := a.merge(m, []*resource.Resource{target}, patch, change{patch: patch.YNode()}); err != nil {
			return err
		}
	}
	m.DropEmpties()
	return nil
}

// merge applies a strategic merge patch to resources.
func (a *accumulation) merge(m resmap.ResMap, targets []*resource.Resource, patch *resource.Resource, c change) error {
	ids := resource.MakeIdSet(targets)
	targets = slices.DeleteFunc(m.Resources(), func(r *resource.Resource) bool { return !ids.Contains(r.CurId()) })
	return a.record(c, only(targets...), func() error { return m.ApplySmPatch(ids, patch) })
}

// only returns the objects of a step that changes no others.
func only(objects ...*resource.Resource) func() []*resource.Resource {
	return func() []*resource.Resource { return objects }
}

// patchResources reads a strategic merge patch.
func (a *accumulation) patchResources(n *node, q *patch) (all []*resource.Resource, err error) {
	if q.text != "" {
		all, err = a.documents(q.virtual(n), []byte(q.text), a.o.inline[q])
	} else if q.file != "" {
		a.reads(q)
		all, err = a.file(q.file)
	}
	for _, r := range all {
		identities(r.YNode(), false, 0)
	}
	return all, err
}

// patch applies an entry of patches, see PatchTransformerPlugin in kustomize's
// internal/builtins.
func (a *accumulation) patch(n *node, m resmap.ResMap, q *patch, p *types.Patch) error {
	if q == nil {
		return errNotShared
	}
	if q.json() {
		if p.Target == nil {
			return errNotShared
		}
		selected, err := q.selection.among(m.Resources())
		if err != nil {
			return err
		}
		return a.jsonPatch(n, m, q, selected)
	}
	patches, err := a.patchResources(n, q)
	if err != nil {
		return err
	}
	defer m.DropEmpties()
	lines := make([]*yaml.Node, len(patches))
	for i, patch := range patches {
		if lines[i] = patch.YNode(); p.Options != nil { // which add annotations
			lines[i] = yaml.CopyYNode(lines[i])
		}
	}
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
		return a.merge(m, selected, patches[0], q.change(lines[0]))
	}
	for i, patch := range patches {
		target, err := m.GetById(patch.OrgId())
		if err != nil {
			return err
		}
		if err := a.record(q.change(lines[i]), only(target), func() error { return target.ApplySmPatch(patch) }); err != nil {
			return err
		}
	}
	return nil
}

// change returns the change that the patch makes, whose nodes have the places of the patch.
func (p *patch) change(merged *yaml.Node) change {
	return change{at: []render.Origin{{Span: p.span, Role: render.Patch}}, weak: true, patch: merged}
}

// jsonPatch applies a JSON patch to resources, as kustomize does, and gives the nodes that
// it makes of them their lines. It makes JSON of an object without writing YAML first.
func (a *accumulation) jsonPatch(n *node, m resmap.ResMap, q *patch, selected []*resource.Resource) error {
	text := []byte(strings.TrimSpace(q.text))
	if q.file != "" {
		a.reads(q)
		text = a.o.w.snap.files[q.file]
	}
	if len(text) == 0 {
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
	ops := a.operations(n, q)
	err = a.record(q.change(nil), only(selected...), func() error {
		for _, r := range selected {
			if err := patched(r, patch, ops); err != nil {
				return err
			}
		}
		return nil
	})
	m.DropEmpties()
	return err
}

func patched(r *resource.Resource, patch jsonpatch.Patch, ops []*yaml.Node) error {
	r.StorePreviousId()
	own := kioutil.GetInternalAnnotations(&r.RNode)
	lines := patchNodes(r.YNode(), ops)
	if err := patchJSON(r, patch); err != nil {
		return err
	}
	annotations := r.GetAnnotations()
	maps.Copy(annotations, own)
	err := setAnnotations(r, annotations)
	copyLines(r.YNode(), lines)
	return err
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

// transformers runs the transformers between patches and replacements.
func (a *accumulation) transformers(n *node, m resmap.ResMap) (err error) {
	k, s := &n.build, a.specs
	run := func(t resmap.Transformer, at ...any) {
		if err == nil {
			err = a.apply(m, change{role: render.Patch, configs: []config{n.config(at...)}}, t.Transform)
		}
	}
	if k.Namespace != "" {
		t := &builtins.NamespaceTransformerPlugin{FieldSpecs: s.Namespace, SetRoleBindingSubjects: namespace.DefaultSubjectsOnly}
		t.Namespace = k.Namespace
		run(t, "namespace")
	}
	if k.NamePrefix != "" {
		run(&builtins.PrefixTransformerPlugin{Prefix: k.NamePrefix, FieldSpecs: s.NamePrefix}, "namePrefix")
	}
	if k.NameSuffix != "" {
		run(&builtins.SuffixTransformerPlugin{Suffix: k.NameSuffix, FieldSpecs: s.NameSuffix}, "nameSuffix")
	}
	for i, l := range k.Labels {
		fields, ferr := s.labels(l)
		err = cmp.Or(err, ferr)
		t := &builtins.LabelTransformerPlugin{Labels: l.Pairs, FieldSpecs: fields}
		if i < len(n.spec.Labels) {
			run(t, "labels", i)
		} else {
			run(t, "commonLabels")
		}
	}
	if len(k.CommonLabels) > 0 {
		run(&builtins.LabelTransformerPlugin{Labels: k.CommonLabels, FieldSpecs: s.CommonLabels}, "commonLabels")
	}
	if len(k.CommonAnnotations) > 0 {
		run(&builtins.AnnotationsTransformerPlugin{Annotations: k.CommonAnnotations, FieldSpecs: s.CommonAnnotations}, "commonAnnotations")
	}
	for i, p := range k.PatchesJson6902 {
		if err == nil {
			err = a.jsonPatchOf(n, m, n.patch("patchesJson6902", i), p.Target)
		}
	}
	for i, r := range k.Replicas {
		run(&builtins.ReplicaCountTransformerPlugin{Replica: r, FieldSpecs: s.Replicas}, "replicas", i)
	}
	for i, image := range k.Images {
		t := &builtins.ImageTagTransformerPlugin{ImageTag: image, FieldSpecs: s.Images}
		if own := len(n.spec.Images); i < own {
			run(t, "images", i)
		} else {
			run(t, "imageTags", i-own)
		}
	}
	return err
}

// jsonPatchOf applies an entry of patchesJson6902, see PatchJson6902TransformerPlugin in
// kustomize's internal/builtins.
func (a *accumulation) jsonPatchOf(n *node, m resmap.ResMap, q *patch, target *types.Selector) error {
	if q == nil || !q.json() || target == nil || target.Name == "" {
		return errNotShared
	}
	r, err := m.GetById(resid.NewResIdWithNamespace(resid.Gvk{Group: target.Group, Version: target.Version, Kind: target.Kind}, target.Name, target.Namespace))
	if err != nil {
		return err
	}
	return a.jsonPatch(n, m, q, []*resource.Resource{r})
}

// replace runs replacements one after another. entries are as in the file, written those
// that they name.
func (a *accumulation) replace(n *node, m resmap.ResMap, entries []types.ReplacementField, written []replacement) error {
	if err := a.configure(n, builtins.NewReplacementTransformerPlugin(), map[string]any{"replacements": entries}); err != nil {
		return err
	}
	for _, r := range written {
		c := change{at: []render.Origin{{Span: r.at(), Role: render.Patch}}}
		if from := sourceOf(m, r.Source); from != nil {
			c.source, c.copied = spotOf(from), from.Value
			if o := r.Source.Options; o != nil && o.Delimiter != "" {
				if parts := strings.Split(c.copied, o.Delimiter); o.Index >= 0 && o.Index < len(parts) {
					c.copied = parts[o.Index]
					c.source = a.partAt(c.source, c.copied, o.Delimiter)
				}
			}
		}
		if r.SourceValue != nil {
			c.at[0].Span, c.copied = r.at("sourceValue"), *r.SourceValue
		}
		if err := a.run(n, m, c, builtins.NewReplacementTransformerPlugin(), map[string]any{"replacements": []types.Replacement{r.Replacement}}); err != nil {
			return err
		}
	}
	return nil
}

// sourceOf returns the node that a replacement copies, or nil.
func sourceOf(m resmap.ResMap, s *types.SourceSelector) *yaml.Node {
	if s == nil {
		return nil
	}
	for _, r := range m.Resources() {
		if slices.ContainsFunc(append(r.PrevIds(), r.CurId()), func(id resid.ResId) bool { return id.IsSelectedBy(s.ResId) }) {
			if n, err := r.Pipe(yaml.Lookup(fieldPath(s.FieldPath)...)); err == nil && n != nil {
				return n.YNode()
			}
		}
	}
	return nil
}

// plugin runs a transformer that is configured as a plugin.
func (a *accumulation) plugin(n *node, m resmap.ResMap, p *plugin) error {
	var args struct {
		types.Patch  `json:",inline"`
		Replacements []types.ReplacementField
	}
	err := convert(p.doc.Value, &args)
	switch kind := kindOf(p.doc); {
	case kind == "PatchStrategicMergeTransformer":
		return a.mergeAll(n, m, p.patches)
	case kind == "ReplacementTransformer" && err == nil:
		return a.replace(n, m, args.Replacements, n.replacementsOf(args.Replacements, p.under("replacements")))
	case (kind == "PatchTransformer" || kind == "PatchJson6902Transformer") && (len(p.patches) != 1 || err != nil):
		return errNotShared
	case kind == "PatchJson6902Transformer":
		return a.jsonPatchOf(n, m, p.patches[0], args.Target)
	case kind == "PatchTransformer":
		if args.Target != nil {
			p.patches[0].selection = a.bases.selections.of(*args.Target)
		}
		return a.patch(n, m, p.patches[0], &args.Patch)
	}
	t, ok := newPlugin(kindOf(p.doc)).(resmap.TransformerPlugin)
	if !ok {
		return errNotShared
	}
	return a.run(n, m, change{role: render.Patch, configs: []config{p.config()}}, t, p.doc.Value)
}

// newPlugin returns the plugin of a kind that kustomize has built in, or nil.
func newPlugin(kind string) any {
	switch kind {
	case "AnnotationsTransformer":
		return builtins.NewAnnotationsTransformerPlugin()
	case "ConfigMapGenerator":
		return builtins.NewConfigMapGeneratorPlugin()
	case "HashTransformer":
		return builtins.NewHashTransformerPlugin()
	case "IAMPolicyGenerator":
		return builtins.NewIAMPolicyGeneratorPlugin()
	case "ImageTagTransformer":
		return builtins.NewImageTagTransformerPlugin()
	case "LabelTransformer":
		return builtins.NewLabelTransformerPlugin()
	case "NamespaceTransformer":
		return builtins.NewNamespaceTransformerPlugin()
	case "PrefixTransformer":
		return builtins.NewPrefixTransformerPlugin()
	case "SuffixTransformer":
		return builtins.NewSuffixTransformerPlugin()
	case "ReplicaCountTransformer":
		return builtins.NewReplicaCountTransformerPlugin()
	case "SecretGenerator":
		return builtins.NewSecretGeneratorPlugin()
	case "ValueAddTransformer":
		return builtins.NewValueAddTransformerPlugin()
	}
	return nil
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
