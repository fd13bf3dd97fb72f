package render

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A holder is a kind of objects that hold manifests of other objects, or settings of
// charts, which a controller or a person applies.
type holder struct {
	list     string // pointer of a list of manifests
	item     string // pointer of the manifest in an element of the list
	as       string // apiVersion and kind of the manifests, which have only metadata and a spec then
	manifest string // pointer of one manifest
	patches  string // pointer of patches to objects on the cluster, which are not rendered
	unread   string // what is not rendered; %s is the object
}

var holders = map[schema.GroupKind]holder{
	{Group: "work.open-cluster-management.io", Kind: "ManifestWork"}:           {list: "/spec/workload/manifests"},
	{Group: "work.open-cluster-management.io", Kind: "ManifestWorkReplicaSet"}: {list: "/spec/manifestWorkTemplate/workload/manifests"},
	{Group: "work.karmada.io", Kind: "Work"}:                                   {list: "/spec/workload/manifests"},
	{Group: "addon.open-cluster-management.io", Kind: "AddOnTemplate"}:         {list: "/spec/agentSpec/workload/manifests"},
	{Group: "hive.openshift.io", Kind: "SyncSet"}:                              {list: "/spec/resources", patches: "/spec/patches"},
	{Group: "hive.openshift.io", Kind: "SelectorSyncSet"}:                      {list: "/spec/resources", patches: "/spec/patches"},
	{Group: "kubernetes.crossplane.io", Kind: "Object"}:                        {manifest: "/spec/forProvider/manifest"},
	{Group: "kubernetes.m.crossplane.io", Kind: "Object"}:                      {manifest: "/spec/forProvider/manifest"},
	{Group: "template.openshift.io", Kind: "Template"}:                         {list: "/objects"},
	{Kind: "Template"}: {list: "/objects"},
	{Group: "kro.run", Kind: "ResourceGraphDefinition"}: {list: "/spec/resources", item: "/template"},
	{Group: "jobset.x-k8s.io", Kind: "JobSet"}:          {list: "/spec/replicatedJobs", item: "/template", as: "batch/v1 Job"},

	{Group: "helm.cattle.io", Kind: "HelmChart"}:                              {unread: "the chart that %s installs"},
	{Group: "helm.cattle.io", Kind: "HelmChartConfig"}:                        {unread: "the chart to which %s gives values"},
	{Group: "helm.crossplane.io", Kind: "Release"}:                            {unread: "the chart that %s installs"},
	{Group: "helm.m.crossplane.io", Kind: "Release"}:                          {unread: "the chart that %s installs"},
	{Group: "fleet.cattle.io", Kind: "Bundle"}:                                {unread: "the text that %s deploys"},
	{Group: "fleet.cattle.io", Kind: "GitRepo"}:                               {unread: "the repository that %s deploys"},
	{Group: "helm.fluxcd.io", Kind: "HelmRelease"}:                            {unread: "the chart that %s installs"},
	{Group: "addons.cluster.x-k8s.io", Kind: "HelmChartProxy"}:                {unread: "the chart that %s installs"},
	{Group: "apps.open-cluster-management.io", Kind: "Subscription"}:          {unread: "the channel that %s deploys"},
	{Group: "package-operator.run", Kind: "ObjectDeployment"}:                 {unread: "the phases of %s"},
	{Group: "package-operator.run", Kind: "ClusterObjectDeployment"}:          {unread: "the phases of %s"},
	{Group: "addons.cluster.x-k8s.io", Kind: "ClusterResourceSet"}:            {unread: "the text of ConfigMaps and Secrets that %s deploys"},
	{Group: "policy.open-cluster-management.io", Kind: "Policy"}:              {unread: "the templates of %s"},
	{Group: "policy.open-cluster-management.io", Kind: "ConfigurationPolicy"}: {unread: "the templates of %s"},
	{Group: "config.projectsveltos.io", Kind: "ClusterProfile"}:               {unread: "the charts and text that %s deploys"},
	{Group: "config.projectsveltos.io", Kind: "Profile"}:                      {unread: "the charts and text that %s deploys"},
	{Group: "kappctrl.k14s.io", Kind: "App"}:                                  {unread: "the files that %s deploys"},
	{Group: "packaging.carvel.dev", Kind: "PackageInstall"}:                   {unread: "the package that %s installs"},
	{Group: "core.oam.dev", Kind: "Application"}:                              {unread: "the components that %s deploys"},
	{Group: "apiextensions.crossplane.io", Kind: "Composition"}:               {unread: "the resources that %s composes"},
	{Group: "argoproj.io", Kind: "Workflow"}:                                  {unread: "the pods that %s runs"},
	{Group: "argoproj.io", Kind: "CronWorkflow"}:                              {unread: "the pods that %s runs"},
	{Group: "tekton.dev", Kind: "TaskRun"}:                                    {unread: "the pods that %s runs"},
	{Group: "tekton.dev", Kind: "PipelineRun"}:                                {unread: "the pods that %s runs"},
}

// Holds reports whether objects of a kind contain other objects that a controller applies.
func Holds(kind schema.GroupKind) bool {
	_, ok := holders[kind]
	return ok
}

// Held returns units with the objects that objects of the given units hold, such as the
// manifests of a ManifestWork, ordered as these are. If what an object holds can't be
// rendered, the unit's Err says so.
func Held(units []*Unit) []*Unit {
	var all []*Unit
	byID := make(map[string]*Unit)
	for range maxLists {
		var next []*Unit
		for _, u := range units {
			for _, o := range u.Objects {
				held := u.held(o)
				switch {
				case held == nil:
				case byID[held.ID] != nil:
					byID[held.ID].add(held)
				default:
					byID[held.ID] = held
					next = append(next, held)
				}
			}
		}
		for _, u := range next {
			u.Err = errors.Join(u.Err, u.bound(), u.check())
		}
		all = append(all, next...)
		units = next
	}
	return all
}

// add adds the objects of a unit with the same ID.
func (u *Unit) add(other *Unit) {
	for _, o := range other.Objects {
		o.Unit = u
	}
	u.Objects, u.Err = append(u.Objects, other.Objects...), errors.Join(u.Err, other.Err)
}

// held returns the unit of the objects that an object holds, or nil if it holds none.
func (u *Unit) held(o *Object) *Unit {
	h, ok := holders[o.GroupVersionKind().GroupKind()]
	if !ok || isObserved(o) {
		return nil
	}
	held := &Unit{
		Source: Source{FS: u.FS, Path: u.Path, Kind: "embedded", Namespace: u.Namespace, Owner: o},
		Name:   o.Key().Name, Cluster: u.Cluster, State: u.State, Release: u.Release,
	}
	if u.State != Unreached {
		held.State = ""
	}
	held.ID = u.Identity() + ":" + strings.ToLower(o.GetKind()) + "/"
	if ns := o.GetNamespace(); ns != "" {
		held.ID += ns + "/"
	}
	held.ID += held.Name
	if at := o.At(""); len(at) > 0 {
		held.Path, held.Origin = at[0].File, at[0]
	}
	if h.unread != "" {
		held.Err = &Error{
			Span: o.Span(""), Rule: "not-rendered", Missing: true, Err: fmt.Errorf("not rendered, and so not checked: "+h.unread, o.GetKind()+" "+held.Name),
		}
		return held
	}
	pointers := []string{h.manifest}
	if h.list != "" {
		list, _ := Lookup(o.Object, h.list)
		items, _ := list.([]any)
		pointers = nil
		for i := range items {
			pointers = append(pointers, h.list+Pointer(i)+h.item)
		}
	}
	if patches, _ := Lookup(o.Object, h.patches); h.patches != "" && patches != nil {
		held.Err = &Error{
			Span: o.Span(h.patches), Rule: "held-patch", Warning: true, Undecided: true,
			Err: fmt.Errorf("%s %s patches objects that are on the cluster: the patched objects are not checked", o.GetKind(), held.Name),
		}
	}
	process := processor(o)
	for _, pointer := range pointers {
		v, _ := Lookup(o.Object, pointer)
		held.hold(o, pointer, h.complete(o, pointer, process(v)), 0)
	}
	return held
}

// complete returns the object of a manifest at a pointer of o that has only metadata and a spec, named
// as the controller of JobSets does it: GenJobName.
func (h *holder) complete(o *Object, pointer string, v any) any {
	m, _ := v.(map[string]any)
	if h.as == "" || m == nil {
		return v
	}
	made := (&unstructured.Unstructured{Object: m}).DeepCopy()
	name, _ := Lookup(o.Object, strings.TrimSuffix(pointer, h.item)+"/name")
	made.SetName(fmt.Sprintf("%s-%v-0", o.GetName(), name))
	if o.GetNamespace() != "" {
		made.SetNamespace(o.GetNamespace())
	}
	version, kind, _ := strings.Cut(h.as, " ")
	made.SetAPIVersion(version)
	made.SetKind(kind)
	return made.Object
}

// hold adds the object v, or the objects of the List v, which stands at a pointer in o.
func (u *Unit) hold(o *Object, pointer string, v any, depth int) {
	m, _ := v.(map[string]any)
	items, isList := listItems(m)
	switch {
	case v == nil:
	case shapeOf(v) != object || depth > maxLists:
		_, what := missingPart(v)
		u.Err = errors.Join(u.Err, &Error{Span: o.Span(pointer), Rule: "not-an-object", Err: fmt.Errorf("not a Kubernetes object: %s", what)})
	case isList:
		for i, item := range items {
			u.hold(o, pointer+Pointer("items", i), item, depth+1)
		}
	default:
		u.Objects = append(u.Objects, &Object{
			Unstructured: &unstructured.Unstructured{Object: m}, Provenance: heldBy{o, pointer}, Unit: u,
			Assumed: []string{fmt.Sprintf("the policies here count, wherever the %s that holds the object applies it", o.GetKind())},
		})
	}
}

// isObserved reports whether an object of Crossplane only observes the object in it.
func isObserved(o *Object) bool {
	v, _ := Lookup(o.Object, "/spec/managementPolicies")
	policies, _ := v.([]any)
	old, _ := Lookup(o.Object, "/spec/managementPolicy")
	return old == "Observe" || len(policies) > 0 && !slices.ContainsFunc(policies, func(p any) bool { return p == "*" || p == "Create" || p == "Update" })
}

// heldBy is the Provenance of an object that another one holds.
type heldBy struct {
	holder  *Object
	pointer string
}

// At implements Provenance.
func (h heldBy) At(pointer string) []Origin { return h.holder.At(h.pointer + pointer) }

// Line is called by [Object.Line].
func (h heldBy) Line(pointer string, n int) []Origin { return h.holder.Line(h.pointer+pointer, n) }

// Part is called by [Object.Part].
func (h heldBy) Part(pointer, part string) []Origin { return h.holder.Part(h.pointer+pointer, part) }

// Inside is called by [Object.Inside].
func (h heldBy) Inside(pointer, text string, n int) (Span, bool) {
	return h.holder.Inside(h.pointer+pointer, text, n)
}

// processor returns what `oc process` does to the objects of a Template: it fills in
// parameters that have a value. Objects of other holders are applied as they are.
func processor(o *Object) func(any) any {
	if o.GetKind() != "Template" {
		return func(v any) any { return v }
	}
	t := &parameters{values: make(map[string]string)}
	list, _ := o.Object["parameters"].([]any)
	for _, p := range list {
		m, _ := p.(map[string]any)
		name, value := text(m["name"]), text(m["value"])
		if value != "" || m["required"] != true && m["generate"] == nil {
			t.values[name] = value
		}
	}
	t.labels, _ = o.Object["labels"].(map[string]any)
	return func(v any) any { return t.labelled(t.fill(v)) }
}

// parameters are those of a Template, with the labels that all its objects get.
type parameters struct {
	values map[string]string
	labels map[string]any
}

// As openshift/library-go has them.
var (
	parameterText  = regexp.MustCompile(`\$\{([a-zA-Z0-9_]+)\}`)
	parameterValue = regexp.MustCompile(`^\$\{\{([a-zA-Z0-9_]+)\}\}$`)
)

// fill returns a copy of v with its parameters replaced.
func (p *parameters) fill(v any) any {
	return Replace(v, func(v any) any {
		text, ok := v.(string)
		if !ok {
			return v
		}
		if m := parameterValue.FindStringSubmatch(text); m != nil {
			return p.value(m[1], text)
		}
		return parameterText.ReplaceAllStringFunc(text, func(s string) string {
			if value, ok := p.values[s[2:len(s)-1]]; ok {
				return value
			}
			return s
		})
	})
}

// value returns the JSON value of a parameter. A parameter without one stays as written.
func (p *parameters) value(name, written string) any {
	value, ok := p.values[name]
	if !ok {
		return written
	}
	docs, err := Documents("", []byte(value), YAML11)
	if err != nil || len(docs) != 1 || docs[0].Value == nil {
		return value
	}
	return docs[0].Value
}

func (p *parameters) labelled(v any) any {
	m, _ := v.(map[string]any)
	meta, _ := m["metadata"].(map[string]any)
	if len(p.labels) == 0 || meta == nil {
		return v
	}
	labels, _ := meta["labels"].(map[string]any)
	all := maps.Clone(labels)
	if all == nil {
		all = make(map[string]any)
	}
	maps.Copy(all, p.labels)
	meta["labels"] = all // v is a copy
	return v
}
