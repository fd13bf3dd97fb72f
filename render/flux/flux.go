// Package flux renders what Flux's controllers deploy for its objects:
// Kustomization, HelmRelease, ResourceSet and FluxInstance.
//
// The sources that they name are found in the tree (source.go, ignore.go,
// artifact.go). A Kustomization is built by the renderer of kustomizations from
// the files of its source and a kustomization.yaml that this package adds, as
// the controller writes it (generate.go). Variables are then replaced by Flux's
// own library (substitute.go). A HelmRelease is rendered by the renderer of
// charts with values composed here (values.go), and then post-rendered
// (postrender.go). Every field keeps the places that determined it.
package flux

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// The API groups of Flux.
const (
	kustomizeGroup  = "kustomize.toolkit.fluxcd.io"
	helmGroup       = "helm.toolkit.fluxcd.io"
	sourceGroup     = "source.toolkit.fluxcd.io"
	extensionsGroup = "source.extensions.fluxcd.io"
	operatorGroup   = "fluxcd.controlplane.io"
)

// A Resolver renders what Flux deploys for an object. It is safe for concurrent
// use.
type Resolver struct{}

// New returns a Resolver.
func New() *Resolver { return &Resolver{} }

var _ render.Resolver = (*Resolver)(nil)

// A method resolves the objects of one kind.
type method struct {
	id      string // first part of the unit's ID
	account string // service account of the controller, in its namespace
	resolve func(*task) error
}

func methodOf(o *render.Object) (method, bool) {
	gvk := o.GroupVersionKind()
	switch (schema.GroupKind{Group: gvk.Group, Kind: gvk.Kind}) {
	case schema.GroupKind{Group: kustomizeGroup, Kind: "Kustomization"}:
		return method{"flux", "kustomize-controller", (*task).kustomization}, true
	case schema.GroupKind{Group: helmGroup, Kind: "HelmRelease"}:
		return method{"helmrelease", "helm-controller", (*task).helmRelease}, true
	case schema.GroupKind{Group: operatorGroup, Kind: "ResourceSet"}:
		return method{"resourceset", "flux-operator", (*task).resourceSet}, true
	case schema.GroupKind{Group: operatorGroup, Kind: "FluxInstance"}:
		return method{"fluxinstance", "flux-operator", (*task).fluxInstance}, true
	}
	return method{}, false
}

// Follows implements render.Resolver.
func (*Resolver) Follows(o *render.Object) bool {
	_, ok := methodOf(o)
	return ok
}

// Resolve implements render.Resolver.
func (*Resolver) Resolve(ctx context.Context, o *render.Object, w *render.World) *render.Unit {
	m, _ := methodOf(o)
	o = atHome(o)
	t := &task{ctx: ctx, world: w, object: o}
	t.unit = &render.Unit{
		Source:  render.Source{Kind: "flux", Owner: o},
		ID:      m.id + "/" + o.GetNamespace() + "/" + o.GetName(),
		Name:    o.GetName(),
		Cluster: w.Cluster.Name,
		User:    serviceAccount("flux-system", m.account),
	}
	if at := o.At(""); len(at) > 0 {
		t.unit.Origin = at[0]
	}
	err := m.resolve(t)
	t.unit.Err = errors.Join(append(t.warnings, err)...)
	if !render.OnlyMissing(t.unit.Err) {
		t.unit.Objects = nil
	}
	return t.unit
}

// atHome returns an object with the namespace that it is applied in, since its
// references are relative to that.
func atHome(o *render.Object) *render.Object {
	if o.GetNamespace() != "" {
		return o
	}
	copied := *o
	copied.Unstructured = o.DeepCopy()
	copied.SetNamespace(o.HomeNamespace())
	return &copied
}

// A task is the resolution of one object.
type task struct {
	ctx      context.Context
	world    *render.World
	object   *render.Object
	unit     *render.Unit
	warnings []error
}

func serviceAccount(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// error returns an error at a field of the task's object.
func (t *task) error(pointer, rule, format string, args ...any) *render.Error {
	return errorAt(t.object, pointer, rule, format, args...)
}

// missing returns an error about something that is not in the tree.
func (t *task) missing(pointer, rule, format string, args ...any) *render.Error {
	e := t.error(pointer, rule, format, args...)
	e.Missing = true
	return e
}

// warn records a warning, which does not keep the unit from being rendered.
func (t *task) warn(e *render.Error) {
	e.Warning = true
	t.warnings = append(t.warnings, e)
}

func errorAt(o *render.Object, pointer, rule, format string, args ...any) *render.Error {
	e := &render.Error{Rule: rule, Err: fmt.Errorf(format, args...)}
	if at := o.At(pointer); len(at) > 0 {
		e.Span = at[0].Span
	}
	return e
}

// spec decodes the object's spec into a struct and ignores other fields.
func (t *task) spec(into any) error { return decodeSpec(t.object, into) }

func decodeSpec(o *render.Object, into any) error {
	data, err := json.Marshal(o.Object["spec"])
	if err != nil {
		return errorAt(o, "/spec", "invalid-spec", "spec of %s %s can't be read", o.GetKind(), o.GetName())
	}
	err = json.Unmarshal(data, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return errorAt(o, render.FieldPointer("spec."+wrong.Field), "invalid-spec", "spec.%s of %s %s can't be a value of type %s",
			wrong.Field, o.GetKind(), o.GetName(), wrong.Value)
	}
	if err != nil {
		return errorAt(o, "/spec", "invalid-spec", "spec of %s %s can't be read", o.GetKind(), o.GetName())
	}
	return nil
}

// A target is the part of a spec with the cluster and the user to apply objects
// as.
type target struct {
	Suspend            bool   `json:"suspend"`
	ServiceAccountName string `json:"serviceAccountName"`
	KubeConfig         *struct {
		SecretRef    *reference `json:"secretRef"`
		ConfigMapRef *reference `json:"configMapRef"`
	} `json:"kubeConfig"`
}

type reference struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

func (r reference) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// aim sets the unit's cluster, user and state.
func (t *task) aim(to target) {
	if to.Suspend {
		t.unit.State = render.Suspended
		t.unit.Reason = "spec.suspend is true, so Flux does not apply it"
	}
	if to.ServiceAccountName != "" {
		t.unit.User, t.unit.Impersonates = serviceAccount(t.object.GetNamespace(), to.ServiceAccountName), true
	}
	if to.KubeConfig == nil {
		return
	}
	switch k := to.KubeConfig; {
	case k.SecretRef != nil:
		t.unit.Cluster = t.clusterNamed(k.SecretRef.Name)
	case k.ConfigMapRef != nil:
		t.unit.Cluster = t.clusterNamed(k.ConfigMapRef.Name)
	}
}

// targetCluster returns the cluster that the unit is applied to.
func (t *task) targetCluster() render.Cluster {
	if t.unit.Cluster == t.world.Cluster.Name {
		return t.world.Cluster
	}
	for _, c := range t.world.Clusters {
		if c.Name == t.unit.Cluster {
			return c
		}
	}
	return render.Cluster{Name: t.unit.Cluster}
}

// clusterNamed returns the declared cluster for a kubeConfig's name:
// "production" for "production" and "production-kubeconfig". If none is
// declared, it returns the name.
func (t *task) clusterNamed(name string) string {
	for _, suffix := range []string{"", "-kubeconfig", "-kube-config"} {
		for _, c := range t.world.Clusters {
			if c.Name != "" && name == c.Name+suffix {
				return c.Name
			}
		}
	}
	return name
}

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
