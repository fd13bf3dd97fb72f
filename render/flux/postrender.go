package flux

import (
	"encoding/json"
	"fmt"
	"io/fs"
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

const hookKey = "helm.sh/hook"

// postRender changes a chart's rendered objects as the release's post-renderers
// do, then adds common metadata and the labels with the release's name. CRDs of
// crds directories get only the labels, and Flux ignores other objects there.
// Hooks that are not run are post-rendered, too.
func (t *task) postRender(objects []*render.Object, spec *helmReleaseSpec) ([]*render.Object, error) {
	var crds, ignored, hooks, rest []*render.Object
	strategy := t.hookStrategy(spec)
	for _, o := range objects {
		switch {
		case inCRDs(o) && o.GetKind() == "CustomResourceDefinition":
			crds = append(crds, t.withOrigin(o))
		case inCRDs(o):
			ignored = append(ignored, o)
		case strategy != "combined" && o.GetAnnotations()[hookKey] != "":
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
	gone := lost(objects, slices.Concat(all, ignored))
	options := render.Helm{SkipHooks: spec.Install.DisableHooks, SkipTests: !spec.Test.Enable}
	var run, skipped []*render.Object
	for _, o := range all {
		if options.SkipsHook(o.GetAnnotations()[hookKey]) {
			skipped = append(skipped, o)
		} else {
			run = append(run, o)
		}
	}
	t.world.Skips(gone, run, "deleted by a post-renderer of its HelmRelease")
	t.world.Skips(ignored, run, "no CustomResourceDefinition, and Flux applies nothing else of a chart's crds directory")
	t.world.Skips(skipped, run, "a hook that the HelmRelease does not run")
	return run, nil
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

// postRendered applies the post-renderers, one after another, the common
// metadata and the labels with the release's name.
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
	seen := make(map[identity]bool, len(rest))
	for _, o := range rest {
		name, _ := render.Lookup(o.Object, "/metadata/name")
		switch {
		case name == nil || name == "":
			return nil, errorAt(o, "/metadata", "no-name", "%s has no name, so Flux can't post-render the release and applies nothing of it", o.GetKind())
		case seen[identityOf(o)]:
			return nil, errorAt(o, "/metadata/name", "duplicate-object", "%s %s is there twice, so Flux can't post-render the release and applies nothing of it", o.GetKind(), o.GetName())
		}
		seen[identityOf(o)] = true
	}
	for i, o := range rest {
		rest[i] = t.withOrigin(t.withMetadata(o, spec.CommonMetadata))
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
	labels := map[string]string{helmGroup + "/name": t.object.GetName(), helmGroup + "/namespace": t.object.GetNamespace()}
	return t.with(o, commonMetadata{Labels: labels}, func(_, key string) string { return "/metadata" + strings.TrimPrefix(key, helmGroup) })
}

// noFiles is a tree without files.
type noFiles struct{}

// Open implements fs.FS.
func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
