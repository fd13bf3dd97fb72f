package argocd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// A project holds the fields of an AppProject that Argo CD reads.
type project struct {
	object *render.Object
	Spec   struct {
		SourceRepos                []string             `json:"sourceRepos"`
		Destinations               []destination        `json:"destinations"`
		ClusterResourceWhitelist   []projectKind        `json:"clusterResourceWhitelist"`
		ClusterResourceBlacklist   []projectKind        `json:"clusterResourceBlacklist"`
		NamespaceResourceWhitelist []projectKind        `json:"namespaceResourceWhitelist"`
		NamespaceResourceBlacklist []projectKind        `json:"namespaceResourceBlacklist"`
		DestinationServiceAccounts []destinationAccount `json:"destinationServiceAccounts"`
	} `json:"spec"`
}

type projectKind struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

type destinationAccount struct {
	Server                string `json:"server"`
	Namespace             string `json:"namespace"`
	DefaultServiceAccount string `json:"defaultServiceAccount"`
}

// project returns the Application's AppProject, or nil if the cluster's objects
// don't contain it.
func (d *deployment) project() *project {
	name := cmp.Or(d.spec.Project, "default")
	for _, namespace := range []string{namespaceOf(d.object), "argocd"} {
		if p := d.projectOf(namespace, name); p != nil {
			d.addGlobal(p, namespace)
			return p
		}
	}
	return nil
}

func (d *deployment) projectOf(namespace, name string) *project {
	o := d.world.Object(schema.GroupKind{Group: group, Kind: "AppProject"}, namespace, name)
	p := &project{object: o}
	if o == nil || decode(o.Object, p) != nil {
		return nil
	}
	return p
}

// addGlobal adds what the projects permit and forbid that `globalProjects` of argocd-cm
// names for a project, see mergeVirtualProject in Argo CD's util/argo.
func (d *deployment) addGlobal(p *project, namespace string) {
	var settings []struct {
		ProjectName   string               `json:"projectName"`
		LabelSelector metav1.LabelSelector `json:"labelSelector"`
	}
	if yaml.Unmarshal([]byte(d.setting("globalProjects")), &settings) != nil {
		return
	}
	for _, s := range settings {
		selector, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
		if err != nil || s.ProjectName == p.object.GetName() || !selector.Matches(labels.Set(p.object.GetLabels())) {
			continue
		}
		g := d.projectOf(namespace, s.ProjectName)
		if g == nil {
			continue
		}
		to, from := &p.Spec, &g.Spec
		to.SourceRepos = append(to.SourceRepos, from.SourceRepos...)
		to.Destinations = append(to.Destinations, from.Destinations...)
		to.ClusterResourceWhitelist = append(to.ClusterResourceWhitelist, from.ClusterResourceWhitelist...)
		to.ClusterResourceBlacklist = append(to.ClusterResourceBlacklist, from.ClusterResourceBlacklist...)
		to.NamespaceResourceWhitelist = append(to.NamespaceResourceWhitelist, from.NamespaceResourceWhitelist...)
		to.NamespaceResourceBlacklist = append(to.NamespaceResourceBlacklist, from.NamespaceResourceBlacklist...)
	}
}

// permitted returns an error for each source, destination and kind of object that
// the project forbids.
func (d *deployment) permitted(p *project, objects []*render.Object) error {
	if name := cmp.Or(d.spec.Project, "default"); p == nil && name != "default" {
		return &render.Error{
			Span: d.object.Span("/spec/project"), Rule: "argocd-project", Warning: true,
			Err:  fmt.Errorf("project %s is not in the tree, so what it permits is not checked; without it, Argo CD deploys nothing", name),
			Hint: "name the file with the AppProject under clusters[].with in .preadmit/config.yaml",
		}
	}
	if p == nil || p.object.Object["spec"] == nil {
		return nil
	}
	var errs []error
	deny := func(places []render.Origin, format string, args ...any) {
		e := &render.Error{
			Rule: "argocd-project", Err: fmt.Errorf("project %s doesn't permit "+format, append([]any{p.object.GetName()}, args...)...),
			Hint: "Argo CD won't sync the Application; change it, or the project at " + p.object.Span("/spec").String(),
		}
		if len(places) > 0 {
			e.Span = places[0].Span
		}
		errs = append(errs, e)
	}
	for _, l := range d.sources {
		if !p.allowsSource(l.RepoURL) {
			deny(l.app.At(l.pointer+"/repoURL"), "the source %s", l.RepoURL)
		}
	}
	to := d.spec.Destination
	server, name := d.server(), d.target.Name
	switch may := p.allowsDestination(server, name, to.Namespace, true); {
	case !may:
		deny(d.object.At("/spec/destination"), "the destination %s, namespace %s", cmp.Or(to.Server, to.Name), cmp.Or(to.Namespace, "(none)"))
	case !p.allowsDestination(server, name, to.Namespace, false):
		errs = append(errs, &render.Error{
			Span: d.object.Span("/spec/destination"), Rule: "argocd-project",
			Err:  fmt.Errorf("the address of cluster %s is not known, so it is not decided whether project %s permits it", to.Name, p.object.GetName()),
			Hint: "declare the cluster with its server under clusters in .preadmit/config.yaml",
		})
	}
	reported := make(map[string]bool)
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		cluster := d.clusterScoped(gvk.GroupKind())
		what := gvk.GroupKind().String()
		namespace := cmp.Or(o.GetNamespace(), to.Namespace)
		switch {
		case !p.allowsKind(gvk.GroupKind(), o.GetName(), cluster) && !reported[what]:
			reported[what] = true
			deny(d.object.At("/spec/project"), "objects of the kind %s, such as %s", what, o.GetName())
		case !cluster && namespace != to.Namespace && !reported["/"+namespace] && !p.allowsDestination(server, name, namespace, true):
			reported["/"+namespace] = true
			deny(d.object.At("/spec/project"), "the namespace %s, in which %s %s is", namespace, gvk.Kind, o.GetName())
		}
	}
	return errors.Join(errs...)
}

// allowsSource checks the patterns of repositories; those that begin with !
// forbid.
func (p *project) allowsSource(repoURL string) bool {
	allowed := false
	for _, pattern := range p.Spec.SourceRepos {
		pattern, deny := strings.CutPrefix(pattern, "!")
		if pattern != "*" && !matches(normalURL(pattern), normalURL(repoURL), '/') {
			continue
		}
		if deny {
			return false
		}
		allowed = true
	}
	return allowed
}

// normalURL returns the form of a repository's URL that Argo CD compares.
func normalURL(url string) string {
	url = strings.ToLower(strings.TrimSpace(url))
	if host, rest, ok := strings.Cut(url, ":"); ok && strings.Contains(host, "@") && !strings.HasPrefix(rest, "//") {
		url = host + "/" + rest
	}
	return strings.TrimSuffix(strings.TrimPrefix(url, "ssh://"), ".git")
}

// server returns the address of the Application's cluster, "" if only its name is known.
func (d *deployment) server() string {
	to, own := d.spec.Destination, d.target.Name == d.world.Cluster.Name
	if d.target.Server == "" && (to.Server == inClusterServer || to.Name == inCluster || own) {
		return inClusterServer
	}
	return d.target.Server
}

// allowsDestination checks the patterns of destinations. likely says whether a server that is
// not known fits the patterns that allow, and none of those that forbid.
func (p *project) allowsDestination(server, name, namespace string, likely bool) bool {
	if server == inClusterServer {
		name = cmp.Or(name, inCluster)
	}
	allowed := false
	for _, to := range p.Spec.Destinations {
		serverPattern, denyServer := strings.CutPrefix(to.Server, "!")
		namePattern, denyName := strings.CutPrefix(to.Name, "!")
		nsPattern, denyNS := strings.CutPrefix(to.Namespace, "!")
		onServer := matches(serverPattern, server)
		if server == "" && serverPattern != "*" {
			onServer = likely != denyServer
		}
		onCluster := to.Server != "" && onServer || to.Name != "" && (matches(namePattern, name) || server == inClusterServer && matches(namePattern, inCluster))
		inNamespace := matches(nsPattern, namespace)
		switch {
		case (denyServer || denyName) && onCluster, denyNS && inNamespace && (onCluster || denyServer || denyName):
			return false
		case denyServer || denyName || denyNS:
		case onCluster && inNamespace:
			allowed = true
		}
	}
	return allowed
}

func (p *project) allowsKind(kind schema.GroupKind, name string, cluster bool) bool {
	in := func(list []projectKind) bool {
		return slices.ContainsFunc(list, func(k projectKind) bool {
			return matches(k.Group, kind.Group) && matches(k.Kind, kind.Kind) && (k.Name == "" || matches(k.Name, name))
		})
	}
	if cluster {
		return in(p.Spec.ClusterResourceWhitelist) && !in(p.Spec.ClusterResourceBlacklist)
	}
	white := p.Spec.NamespaceResourceWhitelist
	return (white == nil || in(white)) && !in(p.Spec.NamespaceResourceBlacklist)
}

// clusterScoped reports whether objects of a kind are known to have no
// namespace: Kubernetes' own kinds, and those with a CustomResourceDefinition
// on the cluster.
func (d *deployment) clusterScoped(kind schema.GroupKind) bool {
	if render.ClusterScoped(kind) {
		return true
	}
	for _, crd := range d.world.Objects(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
		g, _ := render.Lookup(crd.Object, "/spec/group")
		k, _ := render.Lookup(crd.Object, "/spec/names/kind")
		scope, _ := render.Lookup(crd.Object, "/spec/scope")
		if g == kind.Group && k == kind.Kind {
			return scope == "Cluster"
		}
	}
	return false
}

// user returns who applies the objects: Argo CD's controller or, with
// impersonation, the account that the project names for the destination.
func (d *deployment) user(p *project) (user string, impersonates bool) {
	controller := serviceAccount("argocd", "argocd-application-controller")
	if p == nil || d.setting("application.sync.impersonation.enabled") != "true" {
		return controller, false
	}
	to := d.spec.Destination
	server := cmp.Or(to.Server, d.target.Server, inClusterServer)
	for _, a := range p.Spec.DestinationServiceAccounts {
		if !matches(a.Server, server) || !matches(a.Namespace, to.Namespace) {
			continue
		}
		namespace, name, ok := strings.Cut(a.DefaultServiceAccount, ":")
		if !ok {
			namespace, name = to.Namespace, a.DefaultServiceAccount
		}
		return serviceAccount(namespace, name), true
	}
	return controller, false
}
