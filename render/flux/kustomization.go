package flux

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
	Decryption              struct {
		Provider string `json:"provider"`
	} `json:"decryption"`
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
	given, targets := t.givenPatches()
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
	t.warnings = withoutGiven(t.warnings, given, targets)
	if objects, err = t.substitute(objects, spec.PostBuild); err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, notApplied)
	for i, o := range objects {
		objects[i] = t.withMetadata(o, spec.CommonMetadata)
	}
	t.unit.Objects = objects
	t.checkObjects()
	if spec.Decryption.Provider == "" {
		t.warnEncrypted(objects)
	}
	return missing
}

// warnEncrypted warns of Secrets that SOPS encrypted: without spec.decryption the controller builds the Kustomization but
// applies nothing of it (IsEncryptedSecret in its method apply).
func (t *task) warnEncrypted(objects []*render.Object) {
	var names []string
	for _, o := range objects {
		if _, is := o.Object["sops"]; is && o.GetAPIVersion() == "v1" && o.GetKind() == "Secret" {
			names = append(names, o.GetName())
		}
	}
	if len(names) == 0 {
		return
	}
	e := t.error("/spec", "not-decrypted", "Kustomization %s/%s sets no spec.decryption, so Flux applies nothing of it: SOPS encrypts its Secrets: %s",
		t.object.GetNamespace(), t.object.GetName(), few(names))
	e.Hint, e.Undecided = "set spec.decryption.provider: sops", true
	t.warn(e)
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
// another file than the Kustomization itself: a parent patched them into it. targets holds, for each,
// the places of its target and of the target's fields.
func (t *task) givenPatches() (given []render.GivenPatch, targets [][]render.Span) {
	own := t.object.Span("/kind").File
	patches, _ := render.Lookup(t.object.Object, "/spec/patches")
	list, _ := patches.([]any)
	for i := range list {
		pointer := render.Pointer("spec", "patches", i, "target")
		at := t.object.Span(pointer)
		if at.File == "" || at.File == own {
			continue
		}
		given = append(given, render.GivenPatch{Span: at, Selects: true})
		spans := []render.Span{at}
		target, _ := render.Lookup(t.object.Object, pointer)
		fields, _ := target.(map[string]any)
		for key := range fields {
			spans = append(spans, t.object.Span(pointer+render.Pointer(key)))
		}
		targets = append(targets, spans)
	}
	return given, targets
}

// withoutGiven leaves out the warnings that a given patch selects nothing, and
// records that in given. A parent gives a patch to all its children, so the
// warning counts only if the patch selects nothing in any of them.
func withoutGiven(warnings []error, given []render.GivenPatch, targets [][]render.Span) []error {
	var kept []error
	for _, e := range render.Errors(errors.Join(warnings...)) {
		i := slices.IndexFunc(targets, func(spans []render.Span) bool {
			return e.Rule == "unmatched-patch" && slices.ContainsFunc(spans, func(s render.Span) bool { return s.File == e.Span.File && s.Line == e.Span.Line })
		})
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

// checkDependencies warns of unknown and circular dependencies, for which Flux
// waits forever.
func (t *task) checkDependencies(all []reference) {
	kind := t.object.GroupVersionKind().GroupKind()
	for i, ref := range all {
		ref = reference{Kind: kind.Kind, Name: ref.Name, Namespace: cmp.Or(ref.Namespace, t.object.GetNamespace())}
		pointer := render.Pointer("spec", "dependsOn", i)
		if t.world.Object(kind, ref.Namespace, ref.Name) == nil {
			t.warn(t.error(pointer, "unknown-dependency", "%s %s/%s depends on %s, which nothing in the tree deploys",
				kind.Kind, t.object.GetNamespace(), t.object.GetName(), ref))
			continue
		}
		if circle := t.circle(kind, ref, nil, make(map[string]bool)); circle != nil {
			t.warn(t.error(pointer, "dependency-cycle", "%s %s/%s waits for itself: %s",
				kind.Kind, t.object.GetNamespace(), t.object.GetName(), strings.Join(circle, " → ")))
		}
	}
}

// circle returns the names on the path from a dependency back to the task's
// object.
func (t *task) circle(kind schema.GroupKind, ref reference, way []string, seen map[string]bool) []string {
	name := ref.Namespace + "/" + ref.Name
	if name == t.object.GetNamespace()+"/"+t.object.GetName() {
		return append(way, name)
	}
	if seen[name] || len(way) > 100 {
		return nil
	}
	seen[name] = true
	o := t.world.Object(kind, ref.Namespace, ref.Name)
	if o == nil {
		return nil
	}
	var spec struct {
		DependsOn []reference `json:"dependsOn"`
	}
	if decodeSpec(o, &spec) != nil {
		return nil
	}
	for _, next := range spec.DependsOn {
		next.Namespace = cmp.Or(next.Namespace, ref.Namespace)
		if found := t.circle(kind, next, append(way[:len(way):len(way)], name), seen); found != nil {
			return found
		}
	}
	return nil
}

// checkObjects warns of objects without a namespace. Flux has no default for
// them and applies nothing of such a unit.
func (t *task) checkObjects() {
	var without []*render.Object
	for _, o := range t.unit.Objects {
		if o.GetNamespace() == "" && t.namespaced(o) {
			without = append(without, o)
		}
	}
	if len(without) == 0 {
		return
	}
	e := errorAt(without[0], "/metadata", "no-namespace", "%s %s has no namespace: Flux sets no default, so the API server refuses it",
		without[0].GetKind(), without[0].GetName())
	e.Hint = "set metadata.namespace, or spec.targetNamespace of the Kustomization"
	if n := len(without) - 1; n > 0 { // not in the message, by which the warnings of both sides are compared
		e.Hint += fmt.Sprintf("; %d more objects have none", n)
	}
	t.warn(e)
}

// namespaced reports whether an object's kind is known to be namespaced.
func (t *task) namespaced(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	if kinds, ok := namespacedKinds[gvk.Group]; ok {
		return slices.Contains(kinds, gvk.Kind)
	}
	for _, crd := range t.world.Objects(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
		group, _ := render.Lookup(crd.Object, "/spec/group")
		kind, _ := render.Lookup(crd.Object, "/spec/names/kind")
		if group == gvk.Group && kind == gvk.Kind {
			scope, _ := render.Lookup(crd.Object, "/spec/scope")
			return scope == "Namespaced"
		}
	}
	return false
}

// namespacedKinds are the namespaced kinds, by API group.
var namespacedKinds = map[string][]string{
	"": {
		"ConfigMap", "Endpoints", "Event", "LimitRange", "PersistentVolumeClaim", "Pod", "PodTemplate",
		"ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount",
	},
	"apps":                      {"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"autoscaling":               {"HorizontalPodAutoscaler"},
	"batch":                     {"CronJob", "Job"},
	"coordination.k8s.io":       {"Lease"},
	"discovery.k8s.io":          {"EndpointSlice"},
	"networking.k8s.io":         {"Ingress", "NetworkPolicy"},
	"policy":                    {"PodDisruptionBudget"},
	"rbac.authorization.k8s.io": {"Role", "RoleBinding"},
	kustomizeGroup:              {"Kustomization"},
	helmGroup:                   {"HelmRelease"},
	sourceGroup:                 {"Bucket", "ExternalArtifact", "GitRepository", "HelmChart", "HelmRepository", "OCIRepository"},
	extensionsGroup:             {"ArtifactGenerator"},
}
