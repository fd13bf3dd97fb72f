package main

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
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

// onCluster are the options for a cluster, which may have a version of its own.
func (o benchOptions) onCluster(in *load.Input, cluster string) benchOptions {
	s := *o.engineSettings
	for _, c := range in.Clusters {
		if c.Name == cluster {
			s.KubeVersion = cmp.Or(s.KubeVersion, c.KubeVersion)
		}
	}
	o.engineSettings = &s
	return o
}

// amongClusters are the options for one of several clusters: one without policies
// is not evaluated by a pack where others have some.
func (o benchOptions) amongClusters(trusted *load.Input) benchOptions {
	s := *o.engineSettings
	s.PoliciesGiven = s.PoliciesGiven || !s.NoTreePolicies && slices.ContainsFunc(render.Objects(trusted.Head), lint.IsPolicy)
	o.engineSettings = &s
	return o
}

// there is the part of an input by which objects of a cluster are evaluated, with
// the options for it.
func (o benchOptions) there(in *load.Input, cluster string) (*load.Input, benchOptions) {
	names := load.ClusterNames(in)
	if len(names) < 2 {
		return in, o.onCluster(in, append(names, "")[0])
	}
	return in.On(cluster), o.amongClusters(in).onCluster(in, cluster)
}

// eachCluster evaluates each cluster by what is on it, and puts the results
// together.
func (j *evaluation) eachCluster(ctx context.Context, o benchOptions, was, in *load.Input, one func(j *evaluation, o benchOptions, on func(*load.Input) *load.Input) error) error {
	names := load.ClusterNames(was, in)
	if len(names) < 2 {
		return one(j, o.onCluster(in, append(names, "")[0]), func(in *load.Input) *load.Input { return in })
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
		if err := one(part, o.onCluster(in, name), func(in *load.Input) *load.Input { return in.On(name) }); err != nil {
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
