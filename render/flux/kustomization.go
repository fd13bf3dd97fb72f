package flux

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// kustomizationSpec is the spec of a Kustomization, of any version.
type kustomizationSpec struct {
	target                  `json:",inline"`
	Path                    string            `json:"path"`
	SourceRef               reference         `json:"sourceRef"`
	TargetNamespace         string            `json:"targetNamespace"`
	NamePrefix              string            `json:"namePrefix"`
	NameSuffix              string            `json:"nameSuffix"`
	Patches                 []patch           `json:"patches"`
	PatchesStrategicMerge   []json.RawMessage `json:"patchesStrategicMerge"`
	PatchesJSON6902         []jsonPatch       `json:"patchesJson6902"`
	Images                  []types.Image     `json:"images"`
	Components              []string          `json:"components"`
	IgnoreMissingComponents bool              `json:"ignoreMissingComponents"`
	BuildMetadata           []string          `json:"buildMetadata"`
	CommonMetadata          commonMetadata    `json:"commonMetadata"`
	PostBuild               *postBuild        `json:"postBuild"`
	DependsOn               []reference       `json:"dependsOn"`
	DeletionPolicy          string            `json:"deletionPolicy"`
}

type patch struct {
	Patch  string    `json:"patch"`
	Target *selector `json:"target"`
}

type jsonPatch struct {
	Patch  json.RawMessage `json:"patch"`
	Target selector        `json:"target"`
}

// A selector selects the objects that a patch changes.
type selector struct {
	Group              string `json:"group"`
	Version            string `json:"version"`
	Kind               string `json:"kind"`
	Namespace          string `json:"namespace"`
	Name               string `json:"name"`
	AnnotationSelector string `json:"annotationSelector"`
	LabelSelector      string `json:"labelSelector"`
}

func (s *selector) kustomize() *types.Selector {
	if s == nil {
		return nil
	}
	t := &types.Selector{AnnotationSelector: s.AnnotationSelector, LabelSelector: s.LabelSelector}
	t.Group, t.Version, t.Kind, t.Namespace, t.Name = s.Group, s.Version, s.Kind, s.Namespace, s.Name
	return t
}

type commonMetadata struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// kustomization renders what kustomize-controller applies for a Kustomization.
func (t *task) kustomization() error {
	t.unit.Renderer = "kustomize"
	given := t.givenPatches()
	defer func() { t.world.GivePatches(given...) }()
	var spec kustomizationSpec
	if err := t.spec(&spec); err != nil {
		return err
	}
	t.aim(spec.target)
	t.unit.Namespace = spec.TargetNamespace
	t.unit.Path = strings.TrimPrefix(spec.Path, "./")
	t.checkDependencies(spec.DependsOn)
	a, err := t.source("/spec/sourceRef", spec.SourceRef)
	if err != nil {
		return err
	}
	dir := a.path(spec.Path)
	t.unit.FS, t.unit.Path = a.fsys, a.shown(dir)
	if !a.isDir(dir) {
		return t.error("/spec/path", "missing-path", "%s has no directory %s", withNamespace(spec.SourceRef, t.object), spec.Path)
	}
	built, err := t.generate(a, dir, &spec)
	if err != nil {
		return err
	}
	objects, missing := t.build(built, dir)
	if len(objects) == 0 && missing != nil {
		return missing
	}
	t.warnings = withoutGiven(t.warnings, given)
	if objects, err = t.substitute(objects, spec.PostBuild); err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, notApplied)
	for i, o := range objects {
		objects[i] = t.withMetadata(o, spec.CommonMetadata)
	}
	t.unit.Objects = objects
	t.checkObjects()
	return missing
}

func withNamespace(r reference, o *render.Object) reference {
	r.Namespace = cmp.Or(r.Namespace, o.GetNamespace())
	return r
}

// build renders a kustomization. All places of its objects are in the tree.
func (t *task) build(a artifact, dir string) ([]*render.Object, error) {
	objects, err := t.world.Render(t.ctx, render.Source{
		FS: a.fsys, Path: dir, Kind: "kustomize", Owner: t.object, Kustomize: &render.Kustomize{AnyFile: true, NoHelm: true},
	})
	return t.traced(a, objects, err)
}

// givenPatches returns those patches of the Kustomization that are written in
// another file than the Kustomization itself: a parent patched them into it.
func (t *task) givenPatches() []render.GivenPatch {
	own := t.object.Span("/kind").File
	patches, _ := render.Lookup(t.object.Object, "/spec/patches")
	list, _ := patches.([]any)
	var given []render.GivenPatch
	for i := range list {
		if at := t.object.Span(render.Pointer("spec", "patches", i, "target")); at.File != "" && at.File != own {
			given = append(given, render.GivenPatch{Span: at, Selects: true})
		}
	}
	return given
}

// withoutGiven leaves out the warnings that a given patch selects nothing, and
// records that in given. A parent gives a patch to all its children, so the
// warning counts only if the patch selects nothing in any of them.
func withoutGiven(warnings []error, given []render.GivenPatch) []error {
	var kept []error
	for _, e := range render.Errors(errors.Join(warnings...)) {
		i := slices.IndexFunc(given, func(p render.GivenPatch) bool { return e.Rule == "unmatched-patch" && e.Span == p.Span })
		if i < 0 {
			kept = append(kept, e)
			continue
		}
		given[i].Selects = false
	}
	return kept
}

// notApplied reports whether the controller silently leaves an object out: one without a name, kind
// or apiVersion, or a kustomization file.
func notApplied(o *render.Object) bool {
	return o.GetName() == "" || o.GetKind() == "" || o.GetAPIVersion() == "" ||
		strings.EqualFold(o.GetKind(), "Kustomization") && strings.HasPrefix(o.GetAPIVersion(), "kustomize.config.k8s.io/")
}

// withMetadata returns an object with labels and annotations of commonMetadata,
// which overwrite its own.
func (t *task) withMetadata(o *render.Object, common commonMetadata) *render.Object {
	return t.with(o, common, func(field, key string) string { return render.Pointer("spec", "commonMetadata", field, key) })
}

// with returns an object with more labels and annotations. from returns where in
// the task's object one is written.
func (t *task) with(o *render.Object, add commonMetadata, from func(field, key string) string) *render.Object {
	if len(add.Labels) == 0 && len(add.Annotations) == 0 {
		return o
	}
	copied := *o
	copied.Unstructured = o.DeepCopy()
	metadata, ok := copied.Object["metadata"].(map[string]any)
	if !ok {
		metadata = make(map[string]any, 1)
		copied.Object["metadata"] = metadata
	}
	places := make(map[string]string)
	for field, values := range map[string]map[string]string{"labels": add.Labels, "annotations": add.Annotations} {
		if len(values) == 0 {
			continue
		}
		now, ok := metadata[field].(map[string]any)
		if !ok {
			now = make(map[string]any, len(values))
			metadata[field] = now
		}
		for key, v := range values {
			now[key] = v
			places[render.Pointer("metadata", field, key)] = from(field, key)
		}
	}
	copied.Provenance = &replaced{Provenance: o.Provenance, object: t.object, places: places}
	return &copied
}
