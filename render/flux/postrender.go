package flux

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

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

// postRender changes a chart's rendered objects as the release's post-renderers
// do, then adds common metadata and the labels with the release's name. Objects
// of crds directories get only the labels.
func (t *task) postRender(objects []*render.Object, chart string, spec *helmReleaseSpec) ([]*render.Object, error) {
	var crds, hooks, rest []*render.Object
	strategy := t.hookStrategy(spec)
	for _, o := range objects {
		switch {
		case inCRDs(o, chart):
			crds = append(crds, o)
		case strategy != "combined" && o.GetAnnotations()["helm.sh/hook"] != "":
			hooks = append(hooks, o)
		default:
			rest = append(rest, o)
		}
	}
	rest, err := t.postRendered(rest, spec)
	if err == nil && strategy == "separate" {
		hooks, err = t.postRendered(hooks, spec)
	}
	if err != nil {
		return nil, err
	}
	all := slices.Concat(crds, hooks, rest)
	t.world.Skips(lost(objects, all), all, "deleted by a post-renderer of its HelmRelease")
	for i, o := range all {
		all[i] = t.withOrigin(o)
	}
	return all, nil
}

// lost returns the objects that post-rendering removed. An object is kept if one of after has its
// kind from the same line.
func lost(before, after []*render.Object) (gone []*render.Object) {
	kept := make(map[render.Span]bool)
	for _, o := range after {
		for _, at := range o.At("/kind") {
			kept[at.Span] = true
		}
	}
	for _, o := range before {
		if at := o.At("/kind"); len(at) > 0 && !kept[at[0].Span] {
			gone = append(gone, o)
		}
	}
	return gone
}

// hookStrategy returns how post-renderers get hooks: "combined", all in one
// stream, the default from Flux 2.9 on; "separate"; or "nohooks".
func (t *task) hookStrategy(spec *helmReleaseSpec) string {
	switch {
	case spec.PostRenderStrategy != "":
		return spec.PostRenderStrategy
	case t.since29():
		return "combined"
	}
	return "nohooks"
}

// postRendered applies the post-renderers, one after another, and the common
// metadata.
func (t *task) postRendered(rest []*render.Object, spec *helmReleaseSpec) ([]*render.Object, error) {
	var err error
	for i, r := range spec.PostRenderers {
		if r.Kustomize == nil || len(rest) == 0 {
			continue
		}
		if rest, err = t.patched(rest, render.Pointer("spec", "postRenderers", i, "kustomize"), &kustomizationSpec{
			Patches: r.Kustomize.Patches, PatchesStrategicMerge: r.Kustomize.PatchesStrategicMerge,
			PatchesJSON6902: r.Kustomize.PatchesJSON6902, Images: r.Kustomize.Images,
		}); err != nil {
			return nil, err
		}
	}
	for i, o := range rest {
		rest[i] = t.withMetadata(o, spec.CommonMetadata)
	}
	return rest, nil
}

// patched applies patches and images, which are at a pointer of the task's
// object.
func (t *task) patched(objects []*render.Object, pointer string, spec *kustomizationSpec) ([]*render.Object, error) {
	g := &generated{name: "kustomization.yaml", object: t.object, moved: map[string]string{"": pointer}}
	g.spec.APIVersion, g.spec.Kind = types.KustomizationVersion, types.KustomizationKind
	overlay, over := artifact{fsys: noFiles{}, root: "."}.over()
	for n, o := range objects {
		name := fmt.Sprintf("objects/%05d.yaml", n)
		if err := overlay.WriteFrom(name, o.Object, o); err != nil {
			return nil, t.error(pointer, "internal", "%s %s can't be patched", o.GetKind(), o.GetName())
		}
		g.spec.Resources = append(g.spec.Resources, name)
	}
	g.patches(spec)
	g.images(spec.Images)
	for at, in := range g.moved {
		if at != "" {
			g.moved[at] = pointer + strings.TrimPrefix(in, "/spec")
		}
	}
	if err := overlay.WriteFrom(g.name, value(&g.spec), g); err != nil {
		return nil, t.error(pointer, "internal", "kustomization can't be written")
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
