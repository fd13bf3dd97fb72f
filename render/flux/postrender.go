package flux

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// A postRenderer is an entry of a HelmRelease's spec.postRenderers.
type postRenderer struct {
	Kustomize *struct {
		Patches               []patch           `json:"patches"`
		PatchesStrategicMerge []json.RawMessage `json:"patchesStrategicMerge"`
		PatchesJSON6902       []jsonPatch       `json:"patchesJson6902"`
		Images                []types.Image     `json:"images"`
	} `json:"kustomize"`
}

// postRender changes what a chart rendered to as the release's post-renderers
// do, then adds common metadata, then the labels that name the release. Objects
// of crds directories get the labels alone.
func (t *task) postRender(objects []*render.Object, chart string, spec *helmReleaseSpec) ([]*render.Object, error) {
	var crds, rest []*render.Object
	for _, o := range objects {
		if inCRDs(o, chart) {
			crds = append(crds, o)
		} else {
			rest = append(rest, o)
		}
	}
	var err error
	for i, r := range spec.PostRenderers {
		if r.Kustomize == nil || len(rest) == 0 {
			continue
		}
		if rest, err = t.kustomize(rest, i, r); err != nil {
			return nil, err
		}
	}
	for i, o := range rest {
		rest[i] = t.withMetadata(o, spec.CommonMetadata)
	}
	all := append(crds, rest...)
	for i, o := range all {
		all[i] = t.withOrigin(o)
	}
	return all, nil
}

// kustomize builds objects with the patches and images of a post-renderer.
func (t *task) kustomize(objects []*render.Object, i int, r postRenderer) ([]*render.Object, error) {
	g := &generated{name: "kustomization.yaml", object: t.object, spec: types.Kustomization{TypeMeta: types.TypeMeta{
		APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind,
	}}}
	pointer := render.Pointer("spec", "postRenderers", i, "kustomize")
	g.moved = map[string]string{"": pointer}
	a := artifact{fsys: noFiles{}, root: "."}
	overlay, over := a.over()
	for n, o := range objects {
		name := fmt.Sprintf("objects/%05d.yaml", n)
		if err := overlay.WriteFrom(name, o.Object, o); err != nil {
			return nil, t.error(pointer, "internal", "%s %s can't be post-rendered", o.GetKind(), o.GetName())
		}
		g.spec.Resources = append(g.spec.Resources, name)
	}
	g.patches(&kustomizationSpec{
		Patches: r.Kustomize.Patches, PatchesStrategicMerge: r.Kustomize.PatchesStrategicMerge, PatchesJSON6902: r.Kustomize.PatchesJSON6902,
	})
	g.images(r.Kustomize.Images)
	for at, in := range g.moved {
		if at != "" {
			g.moved[at] = pointer + in[len("/spec"):]
		}
	}
	if err := overlay.WriteFrom(g.name, value(&g.spec), g); err != nil {
		return nil, err
	}
	return t.build(over, ".")
}

// withOrigin returns an object with the labels that name its release.
func (t *task) withOrigin(o *render.Object) *render.Object {
	changed := *o
	changed.Unstructured = o.DeepCopy()
	labels := maps.Clone(changed.GetLabels())
	if labels == nil {
		labels = make(map[string]string, 2)
	}
	labels[helmGroup+"/name"], labels[helmGroup+"/namespace"] = t.object.GetName(), t.object.GetNamespace()
	changed.SetLabels(labels)
	changed.Provenance = &replaced{Provenance: o.Provenance, object: t.object, places: map[string]string{
		render.Pointer("metadata", "labels", helmGroup+"/name"):      "/metadata/name",
		render.Pointer("metadata", "labels", helmGroup+"/namespace"): "/metadata/namespace",
	}}
	return &changed
}

// noFiles is a tree without files.
type noFiles struct{}

// Open implements fs.FS.
func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
