package main

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/render"
)

// by gives requests the user that makes them: the one of the command line, else
// the one that applies the object's unit, else the one that is assumed.
func (s *engineSettings) by(reqs []policy.Request) []policy.Request {
	for i := range reqs {
		reqs[i].UserInfo = s.User
		if u := reqs[i].Subject().Unit; !s.UserGiven && u != nil && u.User != "" {
			reqs[i].UserInfo = authz.Complete(policy.UserInfo{Username: u.User})
		}
	}
	return reqs
}

// inferClusters names clusters where the tree has several objects of Argo CD or
// Flux with one identity, as clusters/production and clusters/staging have: the
// directories in which they differ are clusters of their own, and so are those
// beside them that hold objects of Argo CD or Flux. Of charts, which lie beside
// charts of every kind, only those count that make the objects in question.
func inferClusters(units []*render.Unit) {
	first := make(map[render.Key]*render.Object)
	above := make(map[string]bool)        // directories whose directories are clusters
	holds := make(map[string]bool)        // directories with objects of Argo CD or Flux
	differ := make(map[*render.Unit]bool) // units that hold one of several
	follower := render.Follower{Resolvers: resolvers()}
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
				above[dir], differ[was.Unit], differ[o.Unit] = true, true, true
			}
		}
	}
	for _, u := range units {
		for dir := path.Dir(u.Path); dir != "."; dir = path.Dir(dir) {
			if above[path.Dir(dir)] && holds[dir] {
				u.Cluster = path.Base(dir)
			}
		}
		if above[path.Dir(u.Path)] && u.Kind != "manifest" && u.Cluster == "" && (differ[u] || u.Kind != "helm" && holds[u.Path]) {
			u.Cluster = path.Base(u.Path)
		}
	}
}

// parting returns the directory below which two paths lie in directories of
// their own, and have the same names in them: clusters/production/flux.yaml and
// clusters/staging/flux.yaml, but not bootstrap/root.yaml and apps/self.yaml. At
// the root of the tree that takes another directory in between, since an
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

// clusterNames are the clusters that units of the inputs go to, sorted.
func clusterNames(inputs ...*input) []string {
	var names []string
	for _, in := range inputs {
		if in == nil {
			continue
		}
		for _, u := range in.head {
			names = append(names, u.Cluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// on returns the input with the units of one cluster only.
func (in *input) on(cluster string) *input {
	there := func(units []*render.Unit) []*render.Unit {
		return slices.DeleteFunc(slices.Clone(units), func(u *render.Unit) bool { return u.Cluster != cluster })
	}
	in.documents() // of the tree, whatever cluster they go to
	one := *in
	one.found = nil
	one.others = slices.DeleteFunc(slices.Concat(in.head, in.others), func(u *render.Unit) bool { return u.Cluster == cluster })
	if cluster != "" {
		one.anywhere = slices.DeleteFunc(slices.Clone(in.head), func(u *render.Unit) bool { return u.Cluster != "" })
	}
	one.head, one.context = there(in.head), slices.DeleteFunc(slices.Clone(in.context), func(u *render.Unit) bool {
		return u.Cluster != cluster && u.Cluster != ""
	})
	own := make(map[string]bool)
	for _, u := range one.head {
		own[u.Identity()] = true
	}
	elsewhere := make(map[string]bool)
	for _, u := range in.head {
		elsewhere[u.Identity()] = !own[u.Identity()]
	}
	for _, r := range in.found {
		if !elsewhere[r.Object.Unit] {
			one.found = append(one.found, r)
		}
	}
	return &one
}

// onCluster are the options for a cluster, which may have a version of its own.
func (o benchOptions) onCluster(in *input, cluster string) benchOptions {
	s := *o.engineSettings
	for _, c := range in.clusters {
		if c.Name == cluster {
			s.KubeVersion = cmp.Or(s.KubeVersion, c.KubeVersion)
		}
	}
	o.engineSettings = &s
	return o
}

// amongClusters are the options for one of several clusters: one without policies
// is not evaluated by a pack where others have some.
func (o benchOptions) amongClusters(trusted *input) benchOptions {
	s := *o.engineSettings
	s.PoliciesGiven = s.PoliciesGiven || !s.NoTreePolicies && slices.ContainsFunc(render.Objects(trusted.head), lint.IsPolicy)
	o.engineSettings = &s
	return o
}

// there is the part of an input by which objects of a cluster are evaluated, with
// the options for it.
func (o benchOptions) there(in *input, cluster string) (*input, benchOptions) {
	names := clusterNames(in)
	if len(names) < 2 {
		return in, o.onCluster(in, append(names, "")[0])
	}
	return in.on(cluster), o.amongClusters(in).onCluster(in, cluster)
}

// eachCluster evaluates each cluster by what is on it, and puts the results
// together.
func (j *evaluation) eachCluster(ctx context.Context, o benchOptions, was, in *input, one func(j *evaluation, o benchOptions, on func(*input) *input) error) error {
	names := clusterNames(was, in)
	if len(names) < 2 {
		return one(j, o.onCluster(in, append(names, "")[0]), func(in *input) *input { return in })
	}
	trusted := in
	if was != nil {
		trusted = was
	}
	o = o.amongClusters(trusted)
	said := &bench{}
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		part := &evaluation{base: j.base, passes: j.passes, shard: j.shard}
		if err := one(part, o.onCluster(in, name), func(in *input) *input { return in.on(name) }); err != nil {
			return fmt.Errorf("cluster %s: %w", cmp.Or(name, "without a name"), err)
		}
		j.results = appendNew(j.results, part.results)
		j.proposed = appendNew(j.proposed, part.proposed)
		j.changes = append(j.changes, part.changes...)
		j.notes = appendNotes(j.notes, part.notes)
		said.notes = appendNotes(said.notes, part.bench.notes)
		said.unknown = append(said.unknown, part.bench.unknown...)
		said.said = appendRules(said.said, part.bench.rules())
		said.results = appendNew(said.results, part.bench.results)
	}
	j.bench = said
	return nil
}

// appendNew appends results. What is said about no object is the same on every
// cluster, and stands once.
func appendNew(all, more []policy.Result) []policy.Result {
	type text struct{ policy, rule, unit, message string }
	known := make(map[text][]int) // by what tells nearly all results apart
	for i := range all {
		if r := &all[i]; r.Object.Kind == "" {
			k := text{r.Policy, r.Rule, r.Object.Unit, r.Message}
			known[k] = append(known[k], i)
		}
	}
	for _, r := range more {
		if r.Object.Kind == "" {
			k := text{r.Policy, r.Rule, r.Object.Unit, r.Message}
			if slices.ContainsFunc(known[k], func(i int) bool { return reflect.DeepEqual(all[i], r) }) {
				continue
			}
			known[k] = append(known[k], len(all))
		}
		all = append(all, r)
	}
	return all
}

func appendNotes(all, more []string) []string {
	for _, n := range more {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

func appendRules(all, more []policy.Rule) []policy.Rule {
	known := make(map[string]bool, len(all))
	key := func(r *policy.Rule) string {
		return r.Engine + "\x00" + r.Policy + "\x00" + r.Name + "\x00" + r.Origin.String()
	}
	for i := range all {
		known[key(&all[i])] = true
	}
	for i := range more {
		if !known[key(&more[i])] {
			all = append(all, more[i])
		}
	}
	return all
}
