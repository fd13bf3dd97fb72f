package argocd

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/gotemplate"
)

// The cluster that Argo CD runs on.
const (
	inCluster       = "in-cluster"
	inClusterServer = "https://kubernetes.default.svc"
)

const secretType = "argocd.argoproj.io/secret-type"

// A clusterGenerator makes parameters from the clusters that Argo CD knows.
type clusterGenerator struct {
	Selector metav1.LabelSelector `json:"selector"`
	Values   map[string]string    `json:"values"`
	FlatList bool                 `json:"flatList"`
	Template appTemplate          `json:"template"`
}

// A knownCluster is a cluster that a Secret describes or the configuration
// declares.
type knownCluster struct {
	name, server, project string
	labels, annotations   map[string]string
	secret                *render.Object // nil for a declared cluster
}

// knownClusters returns the clusters by name. Secrets win over declarations, and
// of several Secrets with the same name one counts.
func knownClusters(w *render.World) []knownCluster {
	byName := make(map[string]knownCluster)
	for _, c := range w.Clusters {
		if c.Server != "" {
			labels := maps.Clone(c.Labels)
			if labels == nil {
				labels = make(map[string]string)
			}
			labels[secretType] = "cluster"
			byName[c.Name] = knownCluster{name: c.Name, server: c.Server, labels: labels, annotations: c.Annotations}
		}
	}
	for _, o := range clusterSecrets(w) {
		name := secretValue(o, "name")
		byName[name] = knownCluster{
			name: name, server: secretValue(o, "server"), project: secretValue(o, "project"),
			labels: o.GetLabels(), annotations: o.GetAnnotations(), secret: o,
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b knownCluster) int { return cmp.Compare(a.name, b.name) })
}

// clusterSecrets returns the Secrets that describe clusters. Argo CD reads only
// those of its own namespace. If there are Secrets in several namespaces, that
// is the one with argocd-cm, else argocd. If neither has any, the tree does not
// say which one it is, and all Secrets count.
func clusterSecrets(w *render.World) []*render.Object {
	byNamespace := make(map[string][]*render.Object)
	var all []*render.Object
	for _, o := range w.Objects(schema.GroupKind{Kind: "Secret"}) {
		if o.GetLabels()[secretType] == "cluster" {
			byNamespace[namespaceOf(o)] = append(byNamespace[namespaceOf(o)], o)
			all = append(all, o)
		}
	}
	if len(byNamespace) < 2 {
		return all
	}
	for _, namespace := range sortedKeys(byNamespace) {
		if w.Object(schema.GroupKind{Kind: "ConfigMap"}, namespace, "argocd-cm") != nil {
			return byNamespace[namespace]
		}
	}
	if own := byNamespace["argocd"]; len(own) > 0 {
		return own
	}
	return all
}

// secretValue returns the text of a Secret's key.
func secretValue(o *render.Object, key string) string {
	if text, ok := render.Lookup(o.Object, render.Pointer("stringData", key)); ok {
		s, _ := text.(string)
		return s
	}
	coded, _ := render.Lookup(o.Object, render.Pointer("data", key))
	s, _ := coded.(string)
	data, _ := base64.StdEncoding.DecodeString(s)
	return string(data)
}

func (g *generation) clusters(gen *clusterGenerator, pointer string) ([]*paramSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(&gen.Selector)
	if err != nil {
		return nil, g.errorAt(pointer+"/selector", fmt.Errorf("selector is invalid: %w", err))
	}
	var params []*paramSet
	local := selector.Empty()
	known := knownClusters(g.world)
	if len(known) == 0 && !local {
		e := g.errorAt(pointer+"/selector", errors.New("this generator selects clusters by label, and none is known here, so its Applications are not checked"))
		e.Rule, e.Warning, e.Undecided = "unknown-clusters", true, true
		e.Hint = "declare Argo CD's clusters, each with its server and labels, under `clusters` in .preadmit/config.yaml"
		g.warn(e)
	}
	for _, c := range known {
		local = local && c.server != inClusterServer
		if selector.Matches(labels.Set(c.labels)) {
			p := g.clusterParams(c)
			if err := g.addValues(p, gen.Values, pointer+"/values"); err != nil {
				return nil, err
			}
			params = append(params, p)
		}
	}
	if local {
		values := map[string]any{"name": inCluster, "nameNormalized": inCluster, "server": inClusterServer, "project": ""}
		p := &paramSet{values: values, layers: []layer{{values, func([]string) []render.Origin { return nil }}}}
		if err := g.addValues(p, gen.Values, pointer+"/values"); err != nil {
			return nil, err
		}
		params = append(params, p)
	}
	if gen.FlatList {
		return []*paramSet{flatList(params)}, nil
	}
	return params, nil
}

// flatList combines sets of parameters to one that contains them as a list.
func flatList(params []*paramSet) *paramSet {
	list := make([]any, len(params))
	flat := &paramSet{values: map[string]any{"clusters": list}}
	for i, p := range params {
		list[i] = p.values
	}
	return flat
}

// ownAnnotations are the annotations of a cluster's Secret that Argo CD does not offer as parameters.
var ownAnnotations = []string{
	"argocd.argoproj.io/refresh", "argocd.argoproj.io/refresh-timestamp", "argocd.argoproj.io/hydrate", "argocd.argoproj.io/hydrate-timestamp",
	trackingID, "argocd.argoproj.io/installation-id", "kubectl.kubernetes.io/last-applied-configuration",
}

func (g *generation) clusterParams(c knownCluster) *paramSet {
	values := map[string]any{"name": c.name, "nameNormalized": gotemplate.Normalize(c.name), "server": c.server, "project": c.project}
	p := &paramSet{values: values}
	annotations := maps.Clone(c.annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return slices.Contains(ownAnnotations, key) })
	if g.golang {
		meta := make(map[string]any)
		if len(c.annotations) > 0 {
			meta["annotations"] = annotations
		}
		if len(c.labels) > 0 {
			meta["labels"] = c.labels
		}
		values["metadata"] = meta
	} else {
		for k, v := range annotations {
			values["metadata.annotations."+k] = v
		}
		for k, v := range c.labels {
			values["metadata.labels."+k] = v
		}
	}
	p.layers = []layer{{values, c.places}}
	return p
}

// places returns where a parameter is written in the cluster's Secret.
func (k knownCluster) places(path []string) []render.Origin {
	if k.secret == nil {
		return nil
	}
	pointer := render.PathPointer(path)
	for _, field := range []string{"annotations", "labels"} {
		if key, ok := strings.CutPrefix(path[0], "metadata."+field+"."); ok {
			pointer = render.Pointer("metadata", field, key)
		}
	}
	if path[0] == "name" || path[0] == "nameNormalized" || path[0] == "server" || path[0] == "project" {
		key := path[0]
		if key == "nameNormalized" {
			key = "name"
		}
		pointer = render.Pointer("stringData", key)
		if _, ok := render.Lookup(k.secret.Object, pointer); !ok {
			pointer = render.Pointer("data", key)
		}
	}
	return render.WithRole(k.secret.At(pointer), render.Generated)
}
