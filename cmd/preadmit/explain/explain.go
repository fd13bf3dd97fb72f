// Package explain finds the object and the rule that the command explain names, and gets the
// explanation from the engines. If there is no such object or rule, the error lists those that
// exist.
package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
)

// kinds returns the built-in kinds and those that the objects define.
func kinds(in *load.Input, o engines.Options) (policy.Kinds, error) {
	kinds, err := schema.New(load.Only(slices.Concat(render.Objects(in.Head), render.Objects(in.Given), render.Objects(in.Context)), lint.IsCompiled), schema.Options{KubeVersion: o.KubeVersion})
	if kinds == nil {
		return nil, fmt.Errorf("--kube-version: %w", err)
	}
	return kinds, nil // errors of definitions are reported when they are compiled
}

// Decide returns the request that creates the object, with the engines of its cluster.
func Decide(in *load.Input, s engines.Options, object *render.Object) (*evaluate.Decision, error) {
	in, s = s.ForCluster(in, object.Unit.Cluster)
	b, err := engines.New(in, in, s)
	if err != nil {
		return nil, err
	}
	return evaluate.NewDecision(in, s, b, object), nil
}

// Explain returns the explanations of a decision by a policy or rule. If there is no such policy or
// rule, the error lists those that exist.
func Explain(ctx context.Context, d *evaluate.Decision, packs []string, name string) ([]policy.Explanation, error) {
	rules := d.Engines.Rules()
	policyName, rule := splitRule(name, d.Trusted, rules)
	es, err := d.Explain(ctx, policyName, rule)
	if err != nil {
		return nil, err
	}
	if len(es) == 0 && !slices.ContainsFunc(rules, func(r policy.Rule) bool { return r.Policy == policyName }) {
		err = d.Unknown(policyName)
	}
	if err == nil && (len(es) == 0 || rule != "" && !tellsOf(es, rule)) {
		err = noSuchRule(d.Trusted, d.Engines, packs, rules, policyName, rule)
	}
	return es, err
}

// splitRule splits POLICY[/RULE]. Both may contain slashes, so the policy is the longest one that
// exists.
func splitRule(name string, in *load.Input, rules []policy.Rule) (policyName, rule string) {
	known := []string{}
	for _, r := range rules {
		known = append(known, r.Policy)
	}
	for _, units := range [][]*render.Unit{in.Head, in.Given} {
		for _, o := range render.Objects(units) {
			known = append(known, o.GetName())
		}
	}
	for _, k := range known {
		if name == k {
			return k, ""
		}
		if rest, ok := strings.CutPrefix(name, k+"/"); ok && len(k) > len(policyName) {
			policyName, rule = k, rest
		}
	}
	if policyName == "" {
		policyName, rule, _ = strings.Cut(name, "/")
	}
	return policyName, rule
}

// tellsOf reports whether a rule is among the explained ones.
func tellsOf(es []policy.Explanation, rule string) bool {
	return slices.ContainsFunc(es, func(e policy.Explanation) bool {
		return e.Engine == policy.EngineSchema || e.Engine == policy.EngineKyverno || // autogen may have generated the explained rule from this one
			slices.ContainsFunc(e.Rules, func(r policy.Rule) bool { return r.Name == rule }) ||
			slices.ContainsFunc(e.Results, func(r policy.Result) bool { return r.Rule == rule })
	})
}

// noSuchRule returns an error that lists the policies and rules, or says why the
// policy can't be evaluated.
func noSuchRule(in *load.Input, b *engines.Set, packs []string, rules []policy.Rule, policyName, rule string) error {
	var names, policies []string
	for _, r := range rules {
		if r.Engine != policy.EngineSchema {
			policies = append(policies, r.Policy)
		}
		if r.Policy == policyName {
			names = append(names, r.Name)
		}
	}
	if broken := brokenPolicy(in, b, policyName); broken != "" {
		return &supervise.Incomplete{Err: fmt.Errorf("policy %s does not compile: %s", policyName, broken)}
	}
	if len(names) > 0 && rule != "" {
		return fmt.Errorf("policy %s has no rule %q; there are %s", policyName, rule, policy.Few(slices.Compact(slices.Sorted(slices.Values(names)))))
	}
	for _, p := range engines.Packs() {
		if !slices.Contains(packs, p.Name) && packHas(p.Name, policyName) {
			return fmt.Errorf("policy %q is not used here; it is in a pack: add --pack %s", policyName, p.Name)
		}
	}
	if len(policies) == 0 {
		return fmt.Errorf("there is no policy %q, nor any other: name some with --policy or --pack", policyName)
	}
	elsewhere := ""
	if b.Implied && in.Partial {
		elsewhere = "; policies elsewhere in the repository are read with --policy"
	}
	return fmt.Errorf("there is no policy %q; %s%s", policyName, policy.Instead(policyName, policies), elsewhere)
}

func packHas(name, policyName string) bool {
	rules, err := engines.PackRules(name)
	return err == nil && slices.ContainsFunc(rules, func(r policy.Rule) bool { return r.Policy == policyName })
}

// brokenPolicy returns the errors of the policies with a name.
func brokenPolicy(in *load.Input, b *engines.Set, name string) string {
	var lines []string
	for _, units := range [][]*render.Unit{in.Head, in.Given} {
		for _, o := range render.Objects(units) {
			if o.GetName() != name {
				continue
			}
			whole := extent(o)
			for _, r := range b.Results {
				if at := r.PolicyOrigin; r.Undecided() && at.File == whole.File && at.Line >= whole.Line && at.Line <= whole.EndLine {
					at.File = in.Tree.Display(at.File)
					lines = append(lines, at.String()+": "+r.Message)
				}
			}
		}
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(lines))), "; ")
}

// extent returns the lines of an object's fields in its file.
func extent(o *render.Object) render.Span {
	var whole render.Span
	for pointer := range render.Fields(o.Object, "") {
		for _, at := range o.At(pointer) {
			switch {
			case whole.File == "":
				whole = at.Span
			case whole.File == at.File:
				whole.Line, whole.EndLine = min(whole.Line, at.Line), max(whole.EndLine, at.EndLine)
			}
		}
	}
	return whole
}
