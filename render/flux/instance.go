package flux

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// instanceSpec holds the fields of a FluxInstance that deploy more than Flux
// itself.
type instanceSpec struct {
	Sync      *syncSpec `json:"sync"`
	Kustomize struct {
		Patches []patch `json:"patches"`
	} `json:"kustomize"`
}

type syncSpec struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	URL        string `json:"url"`
	Ref        string `json:"ref"`
	Path       string `json:"path"`
	Interval   string `json:"interval"`
	Provider   string `json:"provider"`
	PullSecret string `json:"pullSecret"`
}

// fluxInstance renders the source and the Kustomization that flux-operator
// makes from spec.sync. The operator itself deploys the controllers of Flux.
func (t *task) fluxInstance() error {
	var spec instanceSpec
	if err := t.spec(&spec); err != nil {
		return err
	}
	if t.object.GetAnnotations()[reconcileKey] == "disabled" {
		t.unit.State, t.unit.Reason = render.Suspended, "annotation "+reconcileKey+" is disabled, so Flux does not apply it"
	}
	t.warn(t.error("/spec", "partly-rendered", "FluxInstance %s: the objects of Flux's own controllers are not rendered, they come with flux-operator", t.object.GetName()))
	s := spec.Sync
	if s == nil {
		return nil
	}
	name, kind := cmp.Or(s.Name, t.object.GetNamespace()), cmp.Or(s.Kind, "GitRepository")
	source, places := s.source(kind)
	objects := []*render.Object{
		t.synced(sourceGroup+"/v1", kind, name, source, places),
		t.synced(kustomizeGroup+"/v1", "Kustomization", name, map[string]any{
			"interval": "10m", "path": s.Path, "prune": true, "sourceRef": map[string]any{"kind": kind, "name": name},
		}, map[string]string{"/spec/path": "/spec/sync/path", "/spec/sourceRef/kind": "/spec/sync/kind"}),
	}
	patches := matching(spec.Kustomize.Patches, objects)
	if len(patches) == 0 {
		t.unit.Objects = objects
		return nil
	}
	var err error
	t.unit.Objects, err = t.patched(objects, "/spec/kustomize", &kustomizationSpec{Patches: patches})
	return err
}

// source returns the spec of the source of a sync, and where its fields are
// written.
func (s *syncSpec) source(kind string) (spec map[string]any, places map[string]string) {
	spec, places = map[string]any{"interval": cmp.Or(s.Interval, "1m")}, make(map[string]string)
	set := func(field, value, from string) {
		if value != "" {
			spec[field], places["/spec/"+field] = value, "/spec/sync/"+from
		}
	}
	within := func(field, key, value, from string) {
		if value != "" {
			spec[field] = map[string]any{key: value}
			places["/spec/"+field], places["/spec/"+field+"/"+key] = "/spec/sync/"+from, "/spec/sync/"+from
		}
	}
	switch kind {
	case "Bucket":
		set("endpoint", s.URL, "url")
		set("bucketName", s.Ref, "ref")
	case "OCIRepository":
		set("url", s.URL, "url")
		within("ref", "tag", s.Ref, "ref")
	default:
		set("url", s.URL, "url")
		within("ref", "name", s.Ref, "ref")
	}
	set("provider", s.Provider, "provider")
	within("secretRef", "name", s.PullSecret, "pullSecret")
	return spec, places
}

// matching drops patches for other objects of Flux.
func matching(patches []patch, objects []*render.Object) []patch {
	var all []patch
	for _, p := range patches {
		for _, o := range objects {
			if p.Target != nil && p.Target.Kind == o.GetKind() {
				all = append(all, p)
				break
			}
		}
	}
	return all
}

// synced returns an object that is made from spec.sync.
func (t *task) synced(version, kind, name string, spec map[string]any, places map[string]string) *render.Object {
	return &render.Object{
		Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": version, "kind": kind,
			"metadata": map[string]any{"name": name, "namespace": t.object.GetNamespace()},
			"spec":     spec,
		}},
		Provenance: &replaced{Provenance: fixed(render.WithRole(t.object.At("/spec/sync"), render.Generated)), object: t.object, places: places},
	}
}
