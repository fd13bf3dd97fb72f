// Package explain finds the object and the rule that the command explain names, and gets the
// explanation from the engines. If there is no such object or rule, the error lists those that
// exist.
package explain

import (
	"context"
	"fmt"
	"io"
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
	"github.com/preadmit/preadmit/report"
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
	if err == nil && (len(es) == 0 || rule != "" && !isAboutRule(es, rule)) {
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

// isAboutRule reports whether a rule is among the explained ones.
func isAboutRule(es []policy.Explanation, rule string) bool {
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

// A Ref is the argument OBJECT.
type Ref struct {
	text           string
	group          string
	hasGroup       bool
	kind, name     string
	namespace      string
	namesNamespace bool
}

func ParseRef(s string) (Ref, error) {
	r := Ref{text: s}
	switch parts := strings.Split(s, "/"); len(parts) {
	case 2:
		r.kind, r.name = parts[0], parts[1]
	case 3:
		r.namespace, r.namesNamespace, r.kind, r.name = parts[0], true, parts[1], parts[2]
		if parts[0] != strings.ToLower(parts[0]) { // the names of namespaces are in lower case
			r.kind, r.namespace = parts[0], parts[1]
		}
	case 4:
		r.group, r.hasGroup, r.kind = parts[0], true, parts[1]
		r.namespace, r.namesNamespace, r.name = parts[2], true, parts[3]
	default:
		return r, fmt.Errorf("%q is no OBJECT: want kind/name, namespace/kind/name, Kind/namespace/name or group/Kind/namespace/name", s)
	}
	if !r.hasGroup {
		r.kind, r.group, r.hasGroup = strings.Cut(r.kind, ".")
	}
	if r.kind == "" || r.name == "" {
		return r, fmt.Errorf("%q is no OBJECT: the kind or the name is missing", s)
	}
	return r, nil
}

// means reports whether the reference is to an object, whose effective namespace is
// given.
func (r Ref) means(o *render.Object, resource policy.Resource, namespace string) bool {
	gvk := o.GroupVersionKind()
	return o.Key().Name == r.name &&
		(strings.EqualFold(r.kind, gvk.Kind) || strings.EqualFold(r.kind, resource.Resource)) &&
		(!r.hasGroup || r.group == gvk.Group) &&
		(!r.namesNamespace || r.namespace == namespace)
}

// FindObject returns the only object that ref refers to, in the unit if it is not "".
func FindObject(in *load.Input, s engines.Options, ref Ref, unit string) (*render.Object, error) {
	kinds, err := kinds(in, s)
	if err != nil {
		return nil, err
	}
	namespace := func(o *render.Object) string {
		if !kinds.Resource(o.GroupVersionKind()).Namespaced {
			return ""
		}
		return o.EffectiveNamespace()
	}
	var found []*render.Object
	var like, units []string
	for _, o := range slices.Concat(render.Objects(in.Head), render.Variants(in.Head)) {
		meant, at := ref.means(o, kinds.Resource(o.GroupVersionKind()), namespace(o)), in.Tree.Display(o.Unit.Identity())
		switch {
		case unit != "" && at != strings.TrimSuffix(unit, "/"):
			if meant && !slices.Contains(units, at) {
				units = append(units, at)
			}
		case meant:
			if o.Variant.IsDefault() || len(found) == 0 { // another variant of it is used only if there is no default one
				found = append(found, o)
			}
		case o.Key().Name == ref.name || strings.EqualFold(o.GetKind(), ref.kind):
			like = append(like, refText(o, namespace(o)))
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, newSeveral(in, ref, found, namespace)
	case len(units) > 0:
		return nil, fmt.Errorf("no object %s%s; it is in %s", ref.text, evaluate.InUnit(unit), policy.Few(units))
	case len(like) > 0:
		return nil, fmt.Errorf("no object %s%s; %s", ref.text, evaluate.InUnit(unit), policy.Instead(ref.text, like))
	}
	var all []string
	for _, o := range render.Objects(in.Head) {
		all = append(all, refText(o, o.GetNamespace()))
	}
	hint := ""
	if len(all) > 0 {
		hint = "; " + policy.Instead(ref.text, all)
	}
	if n := len(slices.DeleteFunc(slices.Clone(in.Found), func(r policy.Result) bool { return !r.Undecided() })); n > 0 {
		hint = " (" + policy.Plural(n, "problem") + " kept something from being rendered: see preadmit check)"
	}
	return nil, fmt.Errorf("no object %s%s among %d rendered%s", ref.text, evaluate.InUnit(unit), len(render.Objects(in.Head)), hint)
}

// refText returns a reference to an object, as group/Kind/namespace/name.
func refText(o *render.Object, namespace string) string {
	return strings.Join([]string{o.GroupVersionKind().Group, o.GetKind(), namespace, o.Key().Name}, "/")
}

// SeveralObjects is the error for a reference to more than one object.
type SeveralObjects struct {
	ref   string
	lines []string
	unit  string // of the first object, if all have one name
}

func (s *SeveralObjects) Error() string {
	if s.unit != "" {
		return fmt.Sprintf("%s is in %d units: choose one, as with --unit %s", s.ref, len(s.lines), s.unit)
	}
	return fmt.Sprintf("%s is %d objects: say which by group/Kind/namespace/name, --unit or PATH", s.ref, len(s.lines))
}

func (s *SeveralObjects) List(w io.Writer) {
	for _, l := range s.lines {
		fmt.Fprintf(w, "  %s\n", report.Plain(l))
	}
}

func newSeveral(in *load.Input, ref Ref, found []*render.Object, namespace func(*render.Object) string) error {
	e := &SeveralObjects{ref: ref.text, unit: report.Plain(in.Tree.Display(found[0].Unit.Identity()))}
	for _, o := range found {
		if refText(o, namespace(o)) != refText(found[0], namespace(found[0])) || o != found[0] && o.Unit == found[0].Unit {
			e.unit = ""
		}
		line := refText(o, namespace(o)) + " in unit " + in.Tree.Display(o.Unit.Identity())
		if at := o.At(""); len(at) > 0 {
			s := at[0].Span
			s.File = in.Tree.Display(s.File)
			line += " at " + s.String()
		}
		e.lines = append(e.lines, line)
	}
	return e
}
