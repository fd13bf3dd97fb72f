package argocd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// A deployment renders one Application.
type deployment struct {
	lister
	object  *render.Object
	world   *render.World
	spec    *applicationSpec // empty until it is decoded
	sources []*located
	target  render.Cluster
	unit    *render.Unit
	lists   []*render.Object // objects that Argo CD takes for empty lists
}

// deploy returns the unit of an Application.
func deploy(ctx context.Context, o *render.Object, w *render.World) *render.Unit {
	d := &deployment{lister: lister{ctx: ctx}, object: o, world: w, spec: &applicationSpec{}, unit: unit(o, w, "argocd")}
	objects, err := d.run()
	u := d.unit
	project := d.project()
	u.User, u.Impersonates = d.user(project)
	if len(render.Failures(err)) > 0 && !(len(objects) > 0 && render.OnlyMissing(err)) {
		u.Objects, u.Err, u.State = objects, err, cmp.Or(u.State, state(err)) // objects that were rendered nevertheless show which ones are not followed
		return u
	}
	objects, twice := d.distinct(d.finish(objects))
	u.Objects, u.Err, u.State = objects, errors.Join(err, twice, d.permitted(project, objects)), cmp.Or(u.State, state(err))
	return u
}

// run renders the sources of the Application.
func (d *deployment) run() ([]*render.Object, error) {
	if name := d.world.Variant.Cluster; name != "" {
		other := *d.object
		other.Unstructured = &unstructured.Unstructured{Object: renamed(other.Object, name).(map[string]any)}
		d.object = &other
	}
	var app application
	if err := decode(d.object.Object, &app); err != nil {
		return nil, misshapen(d.object, "", err)
	}
	d.spec, d.sources = &app.Spec, sources(d.object, &app.Spec)
	d.unit.Namespace = app.Spec.Destination.Namespace
	if err := d.destination(); err != nil {
		return nil, err
	}
	if app.Metadata.Annotations["argocd.argoproj.io/skip-reconcile"] == "true" {
		d.unit.State, d.unit.Reason = render.Suspended, "annotation argocd.argoproj.io/skip-reconcile has Argo CD leave it alone"
	}
	return d.render()
}

// renamed returns a value with another cluster's name in place of in-cluster.
func renamed(value any, cluster string) any {
	return render.Replace(value, func(v any) any {
		if text, ok := v.(string); ok {
			return strings.ReplaceAll(text, inCluster, cluster)
		}
		return v
	})
}

// forAnyCluster reports whether a generator made the Application for in-cluster, and would make others like it
// for Argo CD's other clusters, of which none is known here.
func (d *deployment) forAnyCluster() bool {
	if d.object.Unit == nil || d.object.Unit.Owner == nil {
		return false
	}
	set := d.world.Object(schema.GroupKind{Group: group, Kind: "ApplicationSet"}, namespaceOf(d.object.Unit.Owner), d.object.Unit.Owner.GetName())
	if set == nil {
		return false
	}
	generates := false
	for at, value := range render.Fields(set.Object, "") {
		if text, _ := value.(string); strings.Contains(text, inCluster) {
			return false
		}
		generates = generates || strings.HasPrefix(at, "/spec/generators/") && strings.HasSuffix(at, "/clusters")
	}
	return generates && len(knownClusters(d.world)) == 0
}

// destination sets the cluster that the Application deploys to.
func (d *deployment) destination() error {
	to := d.spec.Destination
	switch {
	case to.Server != "" && to.Name != "":
		return placed(d.object, "/spec/destination", errors.New("destination has both a server and a name; Argo CD allows only one"))
	case to.Server == "" && to.Name == "":
		return placed(d.object, "/spec/destination", errors.New("destination has neither a server nor a name"))
	}
	d.target = d.cluster(to)
	d.unit.Cluster = d.target.Name
	return nil
}

// cluster returns the cluster of a destination: a declared one, else one that a
// Secret describes, else one of which only the name is known.
func (d *deployment) cluster(to destination) render.Cluster {
	w := d.world
	for _, c := range w.Clusters {
		if to.Name != "" && c.Name == to.Name || to.Server != "" && c.Server == to.Server {
			return c
		}
	}
	if to.Server == inClusterServer || to.Name == inCluster {
		return w.Cluster
	}
	for _, c := range knownClusters(w) {
		if to.Name != "" && c.name == to.Name || to.Server != "" && c.server == to.Server {
			if c.server == inClusterServer {
				return w.Cluster
			}
			return render.Cluster{Name: c.name, Server: c.server, Labels: c.labels, Annotations: c.annotations, KubeVersion: w.Cluster.KubeVersion}
		}
	}
	name := to.Name
	if u, err := url.Parse(to.Server); name == "" && err == nil {
		name = u.Hostname()
	}
	return render.Cluster{Name: cmp.Or(name, to.Server), Server: to.Server}
}

// refName matches the refs that Argo CD allows.
var refName = regexp.MustCompile("^[a-zA-Z0-9_-]+$")

// render renders the sources, one after another. Those that only serve as ref
// give no objects.
func (d *deployment) render() ([]*render.Object, error) {
	if len(d.sources) == 0 {
		return nil, placed(d.object, "/spec", errors.New("Application has no source"))
	}
	var all []*render.Object
	var errs []error
	kinds, refs := 0, make(map[string]bool)
	for _, l := range d.sources {
		if l.Ref != "" && !refName.MatchString(l.Ref) {
			return nil, l.errorAt("/ref", errors.New("ref may have letters, digits, - and _ only"))
		}
		if refs[l.Ref] {
			return nil, l.errorAt("/ref", fmt.Errorf("two sources have the ref %s", l.Ref))
		}
		refs[l.Ref] = l.Ref != ""
		if l.Ref != "" && l.Path == "" && l.Chart == "" {
			continue
		}
		objects, kind, err := d.source(l)
		if kind != "" {
			if kinds++; kinds == 1 && kind != kindPlugin {
				d.unit.Renderer, d.unit.FS, d.unit.Path = kind, l.repo.FS, l.root()
			}
		}
		for _, o := range objects {
			if isNullList(o) {
				d.lists = append(d.lists, o)
				continue
			}
			items, err := itemsOf(o)
			all, errs = append(all, items...), append(errs, err)
		}
		for _, e := range render.Errors(err) {
			if e.Rule != "ambiguous-list" { // Argo CD applies the items
				errs = append(errs, e)
			}
		}
	}
	return all, errors.Join(errs...)
}

// source renders one source by its kind.
func (d *deployment) source(l *located) ([]*render.Object, string, error) {
	if err := l.open(d.world, d.instanceName()); err != nil {
		return nil, "", err
	}
	kind, err := l.kind(d.enabled)
	if err != nil {
		return nil, "", err
	}
	var objects []*render.Object
	switch kind {
	case kindHelm:
		objects, err = d.helm(l)
	case kindKustomize:
		objects, err = d.kustomize(l)
	case kindDirectory:
		objects, err = d.directory(l)
		kind = cmp.Or(jsonnetAlone(objects), kind)
	case kindPlugin:
		name := l.Plugin.Name
		err = l.missing("/plugin", "plugin", "", fmt.Errorf("source is rendered by the config management plugin %s, which preadmit doesn't run", cmp.Or(name, "that Argo CD finds for it")))
	}
	return objects, kind, err
}

// jsonnetAlone returns "jsonnet" if Jsonnet files made all objects.
func jsonnetAlone(objects []*render.Object) string {
	for _, o := range objects {
		if f, ok := o.Provenance.(render.File); !ok || !strings.HasSuffix(f.File, ".jsonnet") {
			return ""
		}
	}
	if len(objects) == 0 {
		return ""
	}
	return "jsonnet"
}

// rendered renders a source through the world. Places in the overlay's files
// are replaced by those in the Application.
func (d *deployment) rendered(l *located, overlay *render.Overlay, src render.Source) ([]*render.Object, error) {
	src.FS, src.Path, src.Owner = overlay, l.root(), d.object
	src.Namespace = cmp.Or(src.Namespace, d.spec.Destination.Namespace)
	objects, err := d.world.Render(d.ctx, src)
	made := make([]*render.Object, len(objects))
	for i, o := range objects {
		made[i] = &render.Object{Unstructured: o.Unstructured, Provenance: overlay.Provenance(o.Provenance), Assumed: o.Assumed}
	}
	var errs []error
	for _, e := range render.Errors(err) {
		errs = append(errs, overlay.Error(e))
	}
	return made, errors.Join(errs...)
}

// ref returns the source that others name by ref, or nil.
func (d *deployment) ref(name string) (*located, error) {
	for _, l := range d.sources {
		if l.Ref != name || name == "" {
			continue
		}
		if l.Chart != "" {
			return nil, l.errorAt("/ref", errors.New("a source with a chart can't be a ref"))
		}
		if l.repo.FS == nil {
			repo, err := d.world.Repository(l.RepoURL, l.TargetRevision)
			if err != nil {
				return nil, l.repositoryError(err)
			}
			l.repo = repo
		}
		return l, nil
	}
	return nil, nil
}

// setting returns an entry of the ConfigMap argocd-cm, which is in the namespace of
// the Application or in argocd. Where an operator runs Argo CD, it makes the ConfigMap of an
// object of the kind ArgoCD.
func (d *deployment) setting(key string) string {
	for _, namespace := range []string{namespaceOf(d.object), "argocd"} {
		if value := setting(d.world, namespace, "argocd-cm", key); value != "" {
			return value
		}
		for _, o := range d.world.Objects(operated) {
			if namespaceOf(o) != namespace {
				continue
			}
			for _, pointer := range []string{render.Pointer("spec", "extraConfig", key), operatedFields[key]} {
				if value, _ := render.Lookup(o.Object, pointer); pointer != "" && value != nil {
					return fmt.Sprint(value)
				}
			}
		}
	}
	return ""
}

// operated is the kind of object of which an operator makes an Argo CD.
var operated = schema.GroupKind{Group: group, Kind: "ArgoCD"}

// operatedFields are the fields of such an object that become entries of argocd-cm, see
// reconcileArgoConfigMap in argocd-operator.
var operatedFields = map[string]string{
	"kustomize.buildOptions": "/spec/kustomizeBuildOptions", "application.instanceLabelKey": "/spec/applicationInstanceLabelKey",
	"application.resourceTrackingMethod": "/spec/resourceTrackingMethod", "installationID": "/spec/installationID",
}

// instanceName returns the name that Argo CD gives the Application itself: with its namespace,
// if that is not Argo CD's own (InstanceName in Argo CD's pkg/apis/application/v1alpha1).
func (d *deployment) instanceName() string {
	namespace := namespaceOf(d.object)
	own := namespace == "argocd" || namespace == "openshift-gitops" ||
		d.world.Object(schema.GroupKind{Kind: "ConfigMap"}, namespace, "argocd-cm") != nil ||
		slices.ContainsFunc(d.world.Objects(operated), func(o *render.Object) bool { return namespaceOf(o) == namespace })
	if own {
		return d.object.GetName()
	}
	return namespace + "_" + d.object.GetName()
}

// enabled reports whether Argo CD renders a kind of source.
func (d *deployment) enabled(kind string) bool {
	return d.setting(kind+".enable") != "false"
}

// finish adds the annotation or label by which Argo CD tracks objects, and the Namespace that it creates.
func (d *deployment) finish(objects []*render.Object) []*render.Object {
	var all []*render.Object
	for _, o := range objects {
		all = append(all, d.track(o))
	}
	d.world.Skips(d.lists, all, "not applied by Argo CD, which reads an object whose items are null as an empty list")
	if ns := d.namespace(all); ns != nil {
		all = append([]*render.Object{ns}, all...)
	}
	return all
}

// distinct drops objects that a later one replaces, as Argo CD does, and
// returns an error that names them.
func (d *deployment) distinct(objects []*render.Object) ([]*render.Object, error) {
	last := make(map[render.Key]*render.Object)
	key := func(o *render.Object) render.Key {
		k := o.Key()
		k.APIVersion = o.GroupVersionKind().Group
		if k.Namespace = cmp.Or(k.Namespace, d.spec.Destination.Namespace); d.clusterScoped(o.GroupVersionKind().GroupKind()) {
			k.Namespace = ""
		}
		return k
	}
	for _, o := range objects {
		if o.GetName() != "" {
			last[key(o)] = o
		}
	}
	var kept []*render.Object
	var errs []error
	for _, o := range objects {
		wins := last[key(o)]
		if wins == nil || wins == o {
			kept = append(kept, o)
			continue
		}
		errs = append(errs, &render.Error{Span: o.Span(""), Rule: "duplicate-object", Warning: true, Err: fmt.Errorf(
			"%s %s is in Application %s twice: Argo CD applies the last one, at %s", o.GetKind(), o.GetName(), d.object.GetName(), wins.Span(""))})
	}
	return kept, errors.Join(errs...)
}

// trackingID and trackingLabel are the annotation and the label by which Argo
// CD tracks the objects of an Application.
const (
	trackingID    = "argocd.argoproj.io/tracking-id"
	trackingLabel = "app.kubernetes.io/instance"
)

// track adds the tracking annotation or label of the Application to a copy of an object.
func (d *deployment) track(o *render.Object) *render.Object {
	if gvk := o.GroupVersionKind(); gvk.Group == "apiextensions.k8s.io" && gvk.Kind == "CustomResourceDefinition" {
		return o
	}
	name := d.object.GetName()
	t := &tracked{Provenance: o.Provenance, name: d.object.At("/metadata/name"), marks: make(map[string]bool)}
	u := &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	meta, _ := o.Object["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	if meta == nil {
		meta = make(map[string]any)
	}
	u.Object["metadata"] = meta
	mark := func(field, key, value string) {
		m, _ := meta[field].(map[string]any)
		if m = maps.Clone(m); m == nil {
			m = make(map[string]any)
			t.marks[render.Pointer("metadata", field)] = true
		}
		m[key], meta[field] = value, m
		t.marks[render.Pointer("metadata", field, key)] = true
	}
	method := d.setting("application.resourceTrackingMethod")
	if method != "label" {
		gvk := u.GroupVersionKind()
		namespace := cmp.Or(u.GetNamespace(), d.spec.Destination.Namespace)
		mark("annotations", trackingID, fmt.Sprintf("%s:%s/%s:%s/%s", name, gvk.Group, gvk.Kind, namespace, u.GetName()))
	}
	if strings.Contains(method, "label") {
		mark("labels", cmp.Or(d.setting("application.instanceLabelKey"), trackingLabel), name)
	}
	return &render.Object{Unstructured: u, Provenance: t, Assumed: o.Assumed}
}

// tracked is the Provenance of an object with the tracking annotation or label of an Application.
// marks are the pointers of the fields that track added.
type tracked struct {
	render.Provenance
	name  []render.Origin
	marks map[string]bool
}

// At implements render.Provenance.
func (t *tracked) At(pointer string) []render.Origin {
	if t.marks[pointer] {
		return render.WithRole(t.name, render.Reference)
	}
	if t.Provenance == nil {
		return nil
	}
	return t.Provenance.At(pointer)
}

// Line is called by [render.Object.Line].
func (t *tracked) Line(pointer string, n int) []render.Origin {
	return (&render.Object{Provenance: t.Provenance}).Line(pointer, n)
}

// Part is called by [render.Object.Part].
func (t *tracked) Part(pointer, part string) []render.Origin {
	return (&render.Object{Provenance: t.Provenance}).Part(pointer, part)
}

// namespace returns the Namespace that Argo CD creates, or nil if it creates
// none or the objects contain it.
func (d *deployment) namespace(objects []*render.Object) *render.Object {
	name, policy := d.spec.Destination.Namespace, d.spec.SyncPolicy
	if name == "" || policy == nil {
		return nil
	}
	at := slices.Index(policy.SyncOptions, "CreateNamespace=true")
	if at < 0 || slices.ContainsFunc(objects, func(o *render.Object) bool {
		return o.GetKind() == "Namespace" && o.GetAPIVersion() == "v1" && o.GetName() == name
	}) {
		return nil
	}
	meta := map[string]any{"name": name}
	if m := policy.ManagedNamespaceMetadata; m != nil {
		meta, _ = encode(m)
		meta["name"] = name
	}
	return &render.Object{
		Unstructured: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}},
		Provenance:   createdNamespace{d.object, at},
	}
}

// createdNamespace is the Provenance of a Namespace that Argo CD creates.
type createdNamespace struct {
	app    *render.Object
	option int // index of CreateNamespace=true
}

// At implements render.Provenance.
func (c createdNamespace) At(pointer string) []render.Origin {
	from := render.Pointer("spec", "syncPolicy", "syncOptions", c.option)
	if rest, ok := strings.CutPrefix(pointer, "/metadata/"); ok {
		if rest == "name" {
			from = "/spec/destination/namespace"
		} else if managed := "/spec/syncPolicy/managedNamespaceMetadata/" + rest; true {
			if _, ok := render.Lookup(c.app.Object, managed); ok {
				from = managed
			}
		}
	}
	return render.WithRole(c.app.At(from), render.Generated)
}
