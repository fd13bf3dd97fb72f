package evaluate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
	"github.com/preadmit/preadmit/report"
)

// A Reconfigured contains the options of a run with another configuration.
type Reconfigured struct {
	Options
	FailOn   string            // the least action that fails this run, or "never"
	Loosened map[string]string // keys that let more failures pass, each with a sentence about the change
}

// configurationFile returns the name of the configuration file in a tree.
func (o *Options) configurationFile(t *load.Tree) (string, error) {
	if o.Config == "" {
		return config.Path, nil
	}
	return load.ConfigName(t, o.Config)
}

// configurationChange returns results about a changed configuration file. A run with --base uses
// the base's file, so it does not see the effect of the new one. The results are about objects that
// are no longer checked, and failures that no longer count, once the change is merged.
func (b *base) configurationChange(ctx context.Context, o *Options, head *load.Input, args []string, stdin io.Reader) (results []policy.Result, notes []string) {
	file, err := o.configurationFile(head.Tree)
	if err != nil {
		return nil, nil // configure has reported it
	}
	was, err := config.ReadNode(b.in.Tree, file)
	if err != nil {
		return nil, nil // the base's file was already invalid
	}
	now, err := config.ReadNode(head.Tree, file)
	if err != nil {
		return b.unusable(file, 1, err), nil
	}
	if config.Same(was, now) {
		return nil, nil
	}
	keys := config.Changed(was, now)
	then, err := o.after(head.Tree, file, now)
	if err != nil {
		return b.unusable(file, config.FirstLine(now, keys...), err), nil
	}
	for _, v := range o.Configuration.Fetch.Verify {
		if !slices.ContainsFunc(then.Configuration.Fetch.Verify, func(x config.Verification) bool { return x.URL == v.URL && x.Key == v.Key }) {
			then.Loosened["fetch"] = fmt.Sprintf("what comes from %s needs no signature by %s", v.URL, v.Key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(then.Loosened)) {
		results = append(results, b.configured("loosened-configuration", file, config.FirstLine(now, key),
			"less fails once this change of the configuration is merged: "+then.Loosened[key]))
	}
	var other []*render.Object
	if effective := config.Effective(keys); len(effective) > 0 {
		line := config.FirstLine(now, effective...)
		then.ClustersThere = b.in.ClusterDirs
		later, err := load.From(ctx, &then.Sources, head.Tree, orHere(args), stdin)
		if err != nil {
			return b.unusable(file, line, err), nil
		}
		b.later = later
		var gone []*render.Object
		if gone, other = change.Missing(head.Head, later.Head); len(gone) > 0 {
			results = append(results, b.configured("newly-unjudged", file, line, fmt.Sprintf(
				"no longer checked once this change of the configuration is merged: %s checked today, the first %s", policy.Plural(len(gone), "object"), change.Where(gone[0]))))
		}
		lost, err := o.lost(ctx, then, head, later)
		if err != nil {
			return b.unusable(file, line, err), nil
		}
		if lost != "" && len(gone) == 0 {
			results = append(results, b.configured("loosened-configuration", file, line,
				fmt.Sprintf("less is found once this change of the configuration is merged (%s): %s", report.Plain(strings.Join(effective, ", ")), lost)))
		}
	}
	if len(results) == 0 {
		notes = []string{otherwise(file, keys, other)}
	}
	return results, notes
}

// lost returns a sentence about the rules that are evaluated with the base's configuration but not
// with that of then, or else about the failures that are found only with the base's. It returns ""
// if there are none.
func (o *Options) lost(ctx context.Context, then *Reconfigured, head, later *load.Input) (string, error) {
	today, err := then.standing(ctx, o, head)
	if err != nil {
		return "", err
	}
	after, err := then.standing(ctx, &then.Options, later)
	if err != nil {
		return "", err
	}
	if rules := missing(today.rules, after.rules); len(rules) > 0 {
		return fmt.Sprintf("%s not evaluated any more, the first %s", policy.Plural(len(rules), "rule"), rules[0]), nil
	}
	if failures := missing(today.failures, after.failures); len(failures) > 0 {
		return fmt.Sprintf("%s not found any more, the first %s", policy.Plural(len(failures), "failure"), failures[0]), nil
	}
	return "", nil
}

// missing returns the names in was that exceed those in now, for each finding, sorted.
func missing(was, now map[finding][]string) []string {
	var names []string
	for f, have := range was {
		if n := len(now[f]); n < len(have) {
			names = append(names, have[n:]...)
		}
	}
	slices.Sort(names)
	return names
}

// A finding identifies a rule, or its result about an object.
type finding struct {
	engine, policy, rule string
	object               render.Key
}

// findingOf identifies a rule. All controls of Pod Security count as the same rule, because a
// control of the restricted level may replace one of the baseline.
func findingOf(engine, name, rule string) finding {
	if engine == policy.EnginePodSecurity {
		name, rule = "", ""
	}
	return finding{engine: engine, policy: name, rule: rule}
}

// A standing holds the rules and failures of a run without a base, as far as they can fail the run.
// The values are their names.
type standing struct{ rules, failures map[finding][]string }

// standing evaluates all objects of an input.
func (r *Reconfigured) standing(ctx context.Context, o *Options, in *load.Input) (*standing, error) {
	plain := *o
	plain.Base, plain.Memory, plain.Passes, plain.Held, plain.Part, plain.Progress, plain.Prints, plain.Branches = "", nil, new(policy.Passes), nil, nil, nil, nil, nil
	j, err := Run(ctx, &plain, in, nil, nil)
	if err != nil {
		return nil, err
	}
	fails := func(a policy.Action) bool {
		return r.FailOn != "never" && (a == "" || a.AtLeast(policy.Action(r.FailOn)))
	}
	s := &standing{make(map[finding][]string), make(map[finding][]string)}
	for _, rule := range j.Engines.Rules() {
		if !fails(rule.Action) || j.Engines.Implied && rule.Engine == policy.EnginePodSecurity {
			continue
		}
		f := findingOf(rule.Engine, rule.Policy, rule.Name)
		s.rules[f] = append(s.rules[f], rule.Policy+"/"+rule.Name)
	}
	unreached := in.Unreached()
	for i := range j.Results {
		x := &j.Results[i]
		if !x.Undecided() && (x.Outcome != policy.Fail || !fails(x.Action)) || unreached[x.Object.Unit] || x.Suppression != nil {
			continue
		}
		f := findingOf(x.Engine, x.Policy, x.Rule)
		f.object = x.Object
		f.object.Unit, f.object.APIVersion, f.object.Namespace = "", "", ""
		s.failures[f] = append(s.failures[f], fmt.Sprintf("%s/%s about %s %s", x.Policy, x.Rule, x.Object.Kind, x.Object.Name))
	}
	return s, nil
}

// unusable returns the result about a configuration that is invalid.
func (b *base) unusable(file string, line int, err error) []policy.Result {
	return []policy.Result{b.configured("unusable-configuration", file, line, "once this change is merged, no run can use this configuration: "+report.Plain(err.Error()))}
}

// configured returns an undecided result at a line of a file, or without a place if file
// is "".
func (b *base) configured(rule, file string, line int, message string) policy.Result {
	var origins []render.Origin
	if file != "" {
		origins = change.AtLine(file, line, render.Value)
	}
	return change.Undecided(rule, policy.Update, origins, "%s", message).Fingerprinted()
}

// after returns the options of a run without a base after the configuration now is merged. now may
// be nil.
func (o *Options) after(t *load.Tree, file string, now *yaml.Node) (*Reconfigured, error) {
	s := &config.File{Name: t.Display(file)}
	if now != nil {
		if err := config.InFile(s.Name, s.Decode(now)); err != nil {
			return nil, err
		}
	}
	then, err := o.Reconfigured(t.Dir, s.Name, now)
	if err != nil {
		return nil, err
	}
	s.Sources = o.Configuration.Readable(s.Sources)
	given := then.Options
	then.Options = *o
	then.Configuration, then.Memory = s, nil
	then.Values, then.Set, then.SetString, then.SetFile, then.Release, then.Namespace = given.Values, given.Set, given.SetString, given.SetFile, given.Release, given.Namespace
	then.IncludeCRDs, then.KubeVersion, then.APIVersions, then.Selection.Hidden, then.GitOps = given.IncludeCRDs, given.KubeVersion, given.APIVersions, given.Selection.Hidden, given.GitOps
	then.Policies, then.With, then.Data, then.AsFile, then.Authorizer = given.Policies, given.With, given.Data, given.AsFile, given.Authorizer
	then.Packs, then.NoTreePolicies, then.DisabledPlugins, then.As, then.AsGroups, then.Namespaces, then.Combine = given.Packs, given.NoTreePolicies, given.DisabledPlugins, given.As, given.AsGroups, given.Namespaces, given.Combine
	return then, nil
}

// otherwise returns the note about a changed configuration that leaves out nothing.
func otherwise(file string, keys []string, other []*render.Object) string {
	note := fmt.Sprintf("%s is changed (%s): this run used the base's", file, report.Plain(strings.Join(keys, ", ")))
	if len(other) == 0 {
		return note
	}
	return note + fmt.Sprintf("; the changed one renders %s differently, the first %s", policy.Plural(len(other), "object"), change.Where(other[0]))
}

// replacedContent returns results about locked content that changed although its version is the
// same.
func (b *base) replacedContent(head *load.Input) []policy.Result {
	was, _ := store.ReadLock(b.in.Tree.Repository())
	now, _ := store.ReadLock(head.Tree.Repository())
	data, _ := render.ReadFile(head.Tree, store.LockFile)
	var results []policy.Result
	for _, e := range now.Replaced(was) {
		line := 1 + bytes.Count(data[:max(0, bytes.Index(data, []byte(e.Digest)))], []byte("\n"))
		results = append(results, b.configured("swapped-content", store.LockFile, line,
			e.Label()+" is locked to other content than at the base, and its version is the same: "+
				"a cluster gets what the repository has for that version. Ask it by `preadmit fetch --update`, and review why it changed"))
	}
	return results
}
