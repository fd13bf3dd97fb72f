package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// eachCluster calls one for each cluster with the input's objects on it, and joins the results. If
// the time is over, e contains the results so far.
func (e *Evaluation) eachCluster(ctx context.Context, o engines.Options, was, in *load.Input, one func(j *Evaluation, o engines.Options, on func(*load.Input) *load.Input) error) error {
	names := load.ClusterNames(was, in)
	if len(names) < 2 {
		return one(e, o.OnCluster(in, append(names, "")[0]), func(in *load.Input) *load.Input { return in })
	}
	trusted := in
	if was != nil {
		trusted = was
	}
	o = o.AmongClusters(trusted)
	e.Engines = &engines.Set{}
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		part := &Evaluation{base: e.base, passes: e.passes, held: e.held, shard: e.shard}
		err := one(part, o.OnCluster(in, name), func(in *load.Input) *load.Input { return in.On(name) })
		e.join(part)
		if n := len(render.Objects(in.On(name).Head)); n > 0 && part.Engines != nil && !slices.ContainsFunc(part.Engines.Rules(), ofPolicy) {
			e.notes = append(e.notes, fmt.Sprintf("no policy is on cluster %s, so its %s are checked by schemas alone", cmp.Or(name, "without a name"), policy.Plural(n, "object")))
		}
		if err != nil {
			return fmt.Errorf("cluster %s: %w", cmp.Or(name, "without a name"), err)
		}
	}
	return nil
}

// ofPolicy reports whether a rule belongs to a policy rather than to the definition of a kind.
func ofPolicy(r policy.Rule) bool {
	return r.Engine != policy.EngineSchema && r.Engine != policy.EngineCRD
}

// join adds the results for one cluster.
func (e *Evaluation) join(part *Evaluation) {
	e.Results = appendNew(e.Results, part.Results)
	e.proposed = appendNew(e.proposed, part.proposed)
	e.changes = append(e.changes, part.changes...)
	e.notes = appendNotes(e.notes, part.notes)
	if part.Engines == nil { // the policies could not be compiled in time
		return
	}
	said := e.Engines
	said.Notes, said.Implied = appendNotes(said.Notes, part.Engines.Notes), said.Implied || part.Engines.Implied
	said.Unknown = append(said.Unknown, part.Engines.Unknown...)
	said.Said = appendRules(said.Said, part.Engines.Rules())
	said.Results = appendNew(said.Results, part.Engines.Results)
}

// appendNew appends results. Results about no object are the same for every cluster, and are added
// only once.
func appendNew(all, more []policy.Result) []policy.Result {
	type text struct{ policy, rule, unit, message string }
	if len(all) == 0 {
		all = more[:0]
	}
	all = slices.Grow(all, len(more))
	known := make(map[text][]int) // by a key that is unique for nearly all results
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
