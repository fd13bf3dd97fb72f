package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// Release returns a version without its patch level, or the newest for "".
func Release(version string) string {
	if version == "" {
		return newestKube()
	}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

func newestKube() string {
	versions := schema.Versions()
	return versions[len(versions)-1]
}

// upgrade evaluates the tree for two versions of the API server, and compares.
func (e *Evaluation) upgrade(ctx context.Context, o *Options, in *load.Input, args []string, stdin io.Reader, s engines.Options) error {
	if len(args) == 0 {
		args = []string{"."}
	}
	older := o.Sources
	older.KubeVersion = o.FromKubeVersion
	was, err := load.From(ctx, &older, in.Tree, args, stdin)
	if err != nil {
		return fmt.Errorf("--from-kube-version: %w", err)
	}
	now := *s.Settings
	now.KubeVersion = cmp.Or(now.KubeVersion, newestKube())
	s.Settings = &now
	e.rehearsal = &report.Rehearsal{From: Release(o.FromKubeVersion), To: Release(now.KubeVersion)}
	return e.eachCluster(ctx, s, was, in, func(j *Evaluation, s engines.Options, on func(*load.Input) *load.Input) error {
		return j.compareVersions(ctx, o, on(was), on(in), s)
	})
}

// compareVersions evaluates the objects rendered for each version by the rules of that version, and
// marks results as new or fixed, as with --base.
func (e *Evaluation) compareVersions(ctx context.Context, o *Options, was, in *load.Input, s engines.Options) error {
	older := *s.Settings
	older.KubeVersion = o.FromKubeVersion
	old := s
	old.Settings = &older
	before, err := engines.New(was, was, old)
	if err != nil {
		return err
	}
	if e.Engines, err = engines.New(in, in, s); err != nil {
		return err
	}
	o.Watch.Expect(supervise.EvaluateTask, len(render.Objects(was.Head))+len(render.Objects(in.Head)))
	base, err := reviewAll(ctx, before, was, old)
	if err != nil {
		return err
	}
	head, err := reviewAll(ctx, e.Engines, in, s)
	if err != nil {
		return err
	}
	c := policy.Comparison{Base: base}
	lost := unrenderedUnits(in)
	results := slices.DeleteFunc(c.Compare(head), func(r policy.Result) bool {
		return r.Baseline == policy.Absent && (lost[r.Object.Unit] || isDeprecation(&r))
	})
	for i := range results {
		if isDeprecation(&results[i]) { // a later upgrade will refuse it, whether or not the earlier version warns too
			results[i].Baseline = policy.New
		}
	}
	u := policy.Upgrade{From: Release(older.KubeVersion), To: Release(s.KubeVersion), Before: before.Chain.Kinds, After: e.Engines.Chain.Kinds}
	lostBefore := unrenderedUnits(was)
	e.Results = append(results, u.Changes(slices.DeleteFunc(policy.Requests(render.Objects(was.Head), render.Objects(in.Head)), func(r policy.Request) bool {
		unit := r.Subject().Unit
		return unit != nil && (lost[unit.Identity()] || lostBefore[unit.Identity()])
	}))...)
	return nil
}

func isDeprecation(r *policy.Result) bool {
	return r.Engine == policy.EngineSchema && r.Rule == policy.DeprecatedVersion
}

// reviewAll evaluates every object as if it were created. The results include
// errors of rendering and compiling.
func reviewAll(ctx context.Context, b *engines.Set, in *load.Input, s engines.Options) ([]policy.Result, error) {
	results, err := b.Chain.Review(ctx, s.By(allRequests(in.Head)))
	if err != nil {
		return nil, err
	}
	rest, err := b.Rest(ctx)
	return slices.Concat(in.Found, b.Results, policy.WithoutRepeats(results), rest), err
}

// unrenderedUnits returns the units that could not be rendered completely.
func unrenderedUnits(in *load.Input) map[string]bool {
	lost := make(map[string]bool)
	for _, u := range in.Head {
		for _, e := range render.Errors(u.Err) {
			lost[u.Identity()] = lost[u.Identity()] || !e.Warning
		}
	}
	return lost
}

// enforced turns failures of the policies of --enforce into denials, and counts them by namespace.
// Denials are marked new and all other results unchanged.
func (e *Evaluation) enforced(o *Options) error {
	if err := e.NameRules("--enforce", o.Enforce); err != nil {
		return err
	}
	e.rehearsal = &report.Rehearsal{Enforced: o.Enforce}
	rows := make(map[string]*report.EnforcedRow)
	seen := make(map[string]map[render.Key]bool)
	for i := range e.Results {
		r := &e.Results[i]
		r.Baseline = policy.Unchanged
		if r.Outcome != policy.Fail || r.Action == policy.Deny || r.Engine == policy.EngineSchema || r.Object.Kind == "" || !MatchesRule(o.Enforce, r.Policy, r.Rule) {
			continue
		}
		r.Action, r.Baseline = policy.Deny, policy.New
		if r.Suppression != nil || r.Unreached {
			continue
		}
		name := cmp.Or(r.Object.Namespace, "(no namespace)")
		row := rows[name]
		if row == nil {
			row = &report.EnforcedRow{Name: name}
			rows[name], seen[name] = row, make(map[render.Key]bool)
		}
		row.Failures++
		if !seen[name][r.Object] {
			seen[name][r.Object] = true
			row.Objects++
		}
		if !slices.Contains(row.Policies, r.Policy) {
			row.Policies = append(row.Policies, r.Policy)
		}
	}
	for _, row := range rows {
		e.rehearsal.Add(*row)
	}
	return nil
}

// MatchesRule reports whether one of the patterns matches a policy or its rule.
func MatchesRule(patterns []string, policyName, rule string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return render.Glob(p, policyName) || render.Glob(p, policyName+"/"+rule)
	})
}

// NameRules returns an error if a pattern that a flag gives matches no rule.
func (e *Evaluation) NameRules(flag string, patterns []string) error {
	var names []string
	rules := policyRules(e.Engines.Rules())
	for _, r := range rules {
		names = append(names, r.Policy)
	}
	for _, p := range patterns {
		if slices.ContainsFunc(rules, func(r policy.Rule) bool { return MatchesRule([]string{p}, r.Policy, r.Name) }) {
			continue
		}
		if len(names) == 0 {
			return fmt.Errorf("%s %q: there is no policy", flag, p)
		}
		return fmt.Errorf("%s %q: there is no such policy; %s", flag, p, policy.Instead(p, names))
	}
	return nil
}
