package load

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// inferClusters infers clusters if the tree has several Argo CD or Flux objects with the same
// identity, as in clusters/production and clusters/staging. The directories in which their paths
// differ become clusters, and so do their sibling directories with objects of Argo CD or Flux.
// Siblings that are charts count only if they make the objects in question. It returns the directories
// that it found. Those that the other side of a change has are taken for directories of clusters, too.
func inferClusters(units []*render.Unit, resolvers []render.Resolver, there ClusterDirs) ClusterDirs {
	first := make(map[render.Key]*render.Object)
	holds := make(map[string]bool) // directories with objects of Argo CD or Flux
	here := ClusterDirs{make(map[string]bool), make(map[string]bool)}
	follower := render.Follower{Resolvers: resolvers}
	for _, o := range render.Objects(units) {
		if o.GetKind() == "HelmRelease" || !follower.Follows(o) {
			continue
		}
		for dir := o.Unit.Path; dir != "."; dir = path.Dir(dir) {
			holds[dir] = true
		}
		k := o.Unversioned()
		k.Unit = ""
		was := first[k]
		switch {
		case was == nil:
			first[k] = o
		case was.Unit != o.Unit && !reflect.DeepEqual(was.Object, o.Object):
			if dir, ok := parting(was.Unit.Path, o.Unit.Path); ok {
				here.above[dir], here.differ[was.Unit.Path], here.differ[o.Unit.Path] = true, true, true
			}
		}
	}
	above, differ := maps.Clone(here.above), maps.Clone(here.differ)
	maps.Copy(above, there.above)
	maps.Copy(differ, there.differ)
	for _, u := range units {
		for dir := path.Dir(u.Path); dir != "."; dir = path.Dir(dir) {
			if above[path.Dir(dir)] && holds[dir] {
				u.Cluster = path.Base(dir)
			}
		}
		if above[path.Dir(u.Path)] && u.Kind != "manifest" && u.Cluster == "" && (differ[u.Path] || u.Kind != "helm" && holds[u.Path]) {
			u.Cluster = path.Base(u.Path)
		}
	}
	return here
}

// ClusterDirs are the directories by which clusters are told apart that no configuration declares.
type ClusterDirs struct {
	above  map[string]bool // directories whose subdirectories are clusters
	differ map[string]bool // paths of units that contain one of several Argo CD or Flux objects with the same identity
}

// Hold reports whether all directories of others are among them.
func (c ClusterDirs) Hold(others ClusterDirs) bool {
	for dir := range others.above {
		if !c.above[dir] {
			return false
		}
	}
	return true
}

// parting returns the directory below which two paths are in different
// subdirectories under the same name: clusters/production/flux.yaml and
// clusters/staging/flux.yaml, but not bootstrap/root.yaml and apps/self.yaml.
// At the root of the tree another directory must lie in between, because an
// Application that somebody applies by hand may deploy its like.
func parting(a, b string) (dir string, ok bool) {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	if n == len(x) || n == len(y) || path.Ext(x[n]) != "" && n == len(x)-1 || path.Ext(y[n]) != "" && n == len(y)-1 {
		return "", false
	}
	if !slices.Equal(x[n+1:], y[n+1:]) || n == 0 && len(x) == 2 && path.Ext(x[1]) != "" {
		return "", false
	}
	return path.Join(append([]string{"."}, x[:n]...)...), true
}

// ClusterNames returns the clusters to which units of the inputs are deployed,
// sorted.
func ClusterNames(inputs ...*Input) []string {
	var names []string
	for _, in := range inputs {
		if in == nil {
			continue
		}
		for _, u := range in.Head {
			names = append(names, u.Cluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// On returns the input with the units of one cluster only.
func (in *Input) On(cluster string) *Input {
	there := func(units []*render.Unit) []*render.Unit {
		return slices.DeleteFunc(slices.Clone(units), func(u *render.Unit) bool { return u.Cluster != cluster })
	}
	in.Documents() // computed for all clusters together
	one := *in
	one.Found = nil
	one.Others = slices.DeleteFunc(slices.Concat(in.Head, in.Others), func(u *render.Unit) bool { return u.Cluster == cluster })
	if cluster != "" {
		one.Anywhere = slices.DeleteFunc(slices.Clone(in.Head), func(u *render.Unit) bool { return u.Cluster != "" })
	}
	one.Head, one.Context = there(in.Head), slices.DeleteFunc(slices.Clone(in.Context), func(u *render.Unit) bool {
		return u.Cluster != cluster && u.Cluster != ""
	})
	own := make(map[string]bool)
	for _, u := range one.Head {
		own[u.Identity()] = true
	}
	elsewhere := make(map[string]bool)
	for _, u := range in.Head {
		elsewhere[u.Identity()] = !own[u.Identity()]
	}
	for _, r := range in.Found {
		if !elsewhere[r.Object.Unit] {
			one.Found = append(one.Found, r)
		}
	}
	return &one
}
