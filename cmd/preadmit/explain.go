package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// explainOptions are the flags of check, but for its outputs.
type explainOptions struct {
	checkOptions
	output string
	unit   string
}

func newExplainCommand(code *int) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain POLICY[/RULE] OBJECT [PATH ...]",
		Short: "Show how a policy decides on one object, step by step",
		Long: `Show how a policy, or one of its rules, decides on an object: whether it
matches and why, its conditions, variables and expressions with the value of
each part, the fields at fault with their lines, and the action of each binding.
Values of Secrets are hidden.

OBJECT is kind/name, namespace/kind/name, Kind/namespace/name, or
group/Kind/namespace/name as in suppressions (the core group is empty:
/Pod/prod/web). The kind may also be the resource (deployments), with its group
(deployment.apps). It must be among the objects that PATH renders (default:
the current directory). If several units have objects of that name, narrow down
PATH or name the unit with --unit.

  preadmit explain require-limits prod/deployment/web charts/web
  preadmit explain require-limits/validations[0] deployment/web -p policies
  preadmit explain baseline/privileged pod/web --pack pod-security-baseline

The exit code is that of check, for this decision alone.`,
		Args: wants(2, -1, "POLICY[/RULE] and OBJECT", "preadmit explain require-limits prod/deployment/web"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := configure(without(cmd.Flags(), "output"), args[2:]); err != nil {
				return err
			}
			c, err := runExplain(cmd.Context(), &o, args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			*code = c
			var several *severalObjects
			if errors.As(err, &several) {
				several.list(cmd.ErrOrStderr())
			}
			return err
		},
	}
	f := cmd.Flags()
	o.addSourceFlags(f)
	o.addPolicyFlags(f)
	o.addUserFlags(f)
	f.StringVarP(&o.output, "output", "o", "text", "`FORMAT[=FILE]` of the explanation: text or json")
	f.StringVar(&o.color, "color", "auto", "colour: auto, always or never")
	f.StringVar(&o.unit, "unit", "", "the unit `PATH` that has OBJECT, as reports name it")
	return cmd
}

// without are the flags but for some.
func without(flags *pflag.FlagSet, names ...string) *pflag.FlagSet {
	rest := pflag.NewFlagSet("rest", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(names, f.Name) {
			rest.AddFlag(f)
		}
	})
	return rest
}

func runExplain(ctx context.Context, o *explainOptions, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	format, file, err := oneOutput(o.output)
	if err != nil {
		return 0, err
	}
	if err := flagOneOf("color", o.color, colorModes...); err != nil {
		return 0, err
	}
	if err := engines.CheckPacks(o.Packs); err != nil {
		return 0, err
	}
	ref, err := parseObjectRef(args[1])
	if err != nil {
		return 0, err
	}
	ctx, cancel, err := o.begin(ctx, stderr)
	if err != nil {
		return 0, err
	}
	defer cancel()
	in, err := load.Load(ctx, &o.Sources, args[2:], stdin)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	s, _, err := o.EngineOptions(in)
	if err != nil {
		return 0, err
	}
	served, err := kinds(in, s)
	if err != nil {
		return 0, err
	}
	object, err := findObject(in, served, ref, o.unit)
	if err != nil {
		return 0, err
	}
	there, s := s.There(in, object.Unit.Cluster)
	bench, err := engines.New(there, there, s)
	if err != nil {
		return 0, err
	}
	es, err := explained(ctx, o, there, bench, args[0], s.By(policy.Requests(nil, []*render.Object{object}))[0])
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	return explainCode(es, o), o.writeExplanations(stdout, format, file, es)
}

// kinds returns the kinds that the clusters serve, as far as the objects tell.
func kinds(in *load.Input, o engines.Options) (policy.Kinds, error) {
	kinds, err := schema.New(load.Only(slices.Concat(render.Objects(in.Head), render.Objects(in.Given), render.Objects(in.Context)), lint.IsCompiled), schema.Options{KubeVersion: o.KubeVersion})
	if kinds == nil {
		return nil, fmt.Errorf("--kube-version: %w", err)
	}
	return kinds, nil // what is wrong with definitions is said when they are compiled
}

// explained returns the chain's explanations. Without such a policy or rule, the error
// names those that there are.
func explained(ctx context.Context, o *explainOptions, in *load.Input, b *engines.Set, name string, req policy.Request) ([]policy.Explanation, error) {
	rules := b.Rules()
	policyName, rule := splitRule(name, in, rules)
	es, err := b.Chain.Explain(ctx, req, policyName, rule)
	if err != nil {
		return nil, err
	}
	if len(es) == 0 || rule != "" && !tellsOf(es, rule) {
		return nil, noSuchRule(in, b, o, rules, policyName, rule)
	}
	for i := range es {
		es[i].Rename(in.Tree)
	}
	return es, nil
}

// splitRule takes POLICY[/RULE] apart. Both may hold slashes, so the longest
// policy that there is counts.
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

// tellsOf reports whether a rule is one of the explained.
func tellsOf(es []policy.Explanation, rule string) bool {
	return slices.ContainsFunc(es, func(e policy.Explanation) bool {
		return e.Engine == policy.EngineSchema ||
			slices.ContainsFunc(e.Rules, func(r policy.Rule) bool { return r.Name == rule }) ||
			slices.ContainsFunc(e.Results, func(r policy.Result) bool { return r.Rule == rule })
	})
}

// noSuchRule says which policies and rules there are, or why the policy can't
// be evaluated.
func noSuchRule(in *load.Input, b *engines.Set, o *explainOptions, rules []policy.Rule, policyName, rule string) error {
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
		if !slices.Contains(o.Packs, p.Name) && packHas(p.Name, policyName) {
			return fmt.Errorf("policy %q is not used here; it is in a pack: add --pack %s", policyName, p.Name)
		}
	}
	if len(policies) == 0 {
		return fmt.Errorf("there is no policy %q, nor any other: name some with --policy or --pack", policyName)
	}
	return fmt.Errorf("there is no policy %q; %s", policyName, policy.Instead(policyName, policies))
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

// extent are the lines of the file of an object that its fields stand in.
func extent(o *render.Object) render.Span {
	var whole render.Span
	report.EachField(o.Object, "", func(pointer string, _ any) {
		for _, at := range o.At(pointer) {
			switch {
			case whole.File == "":
				whole = at.Span
			case whole.File == at.File:
				whole.Line, whole.EndLine = min(whole.Line, at.Line), max(whole.EndLine, at.EndLine)
			}
		}
	})
	return whole
}

// explainCode is the exit code, as that of check.
func explainCode(es []policy.Explanation, o *explainOptions) int {
	code := exitOK
	for i := range es {
		for j := range es[i].Results {
			r := &es[i].Results[j]
			switch {
			case r.Outcome == policy.Fail && o.failOn != "never" && r.Action.AtLeast(policy.Action(o.failOn)):
				return exitDenied
			case r.Undecided():
				code = exitIncomplete
			}
		}
	}
	return code
}

func (o *explainOptions) writeExplanations(stdout io.Writer, format, file string, es []policy.Explanation) error {
	var b bytes.Buffer
	tool := report.Tool{Name: "preadmit", Version: version}
	options := report.Options{Color: file == "" && o.colored(stdout), Verbose: o.Verbose}
	if err := report.WriteExplanations(&b, format, tool, es, options); err != nil {
		return err
	}
	if file != "" {
		return writeFile(stdout, file, supervise.Bytes(b.Bytes()))
	}
	_, err := stdout.Write(b.Bytes())
	return brokenPipe(err)
}

// An objectRef is the argument OBJECT.
type objectRef struct {
	text           string
	group          string
	hasGroup       bool
	kind, name     string
	namespace      string
	namesNamespace bool
}

func parseObjectRef(s string) (objectRef, error) {
	r := objectRef{text: s}
	switch parts := strings.Split(s, "/"); len(parts) {
	case 2:
		r.kind, r.name = parts[0], parts[1]
	case 3:
		r.namespace, r.namesNamespace, r.kind, r.name = parts[0], true, parts[1], parts[2]
		if parts[0] != strings.ToLower(parts[0]) { // which no namespace has
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

// means says whether the reference is to an object, whose effective namespace
// is given.
func (r objectRef) means(o *render.Object, resource policy.Resource, namespace string) bool {
	gvk := o.GroupVersionKind()
	return o.Key().Name == r.name &&
		(strings.EqualFold(r.kind, gvk.Kind) || strings.EqualFold(r.kind, resource.Resource)) &&
		(!r.hasGroup || r.group == gvk.Group) &&
		(!r.namesNamespace || r.namespace == namespace)
}

// findObject returns the one object that is meant.
func findObject(in *load.Input, kinds policy.Kinds, ref objectRef, unit string) (*render.Object, error) {
	namespace := func(o *render.Object) string {
		if !kinds.Resource(o.GroupVersionKind()).Namespaced {
			return ""
		}
		return cmp.Or(o.GetNamespace(), o.Unit.Namespace, "default")
	}
	var found []*render.Object
	var like []string
	for _, o := range slices.Concat(render.Objects(in.Head), render.Variants(in.Head)) {
		switch {
		case unit != "" && in.Tree.Display(o.Unit.Identity()) != strings.TrimSuffix(unit, "/"):
		case ref.means(o, kinds.Resource(o.GroupVersionKind()), namespace(o)):
			if o.Variant.IsDefault() || len(found) == 0 { // a form of it that is not the default's
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
	if n := len(unrendered(in)); n > 0 {
		hint = fmt.Sprintf(" (%d problems kept something from being rendered: see preadmit check)", n)
	}
	return nil, fmt.Errorf("no object %s%s among %d rendered%s", ref.text, evaluate.InUnit(unit), len(render.Objects(in.Head)), hint)
}

func unrendered(in *load.Input) []policy.Result {
	return slices.DeleteFunc(slices.Clone(in.Found), func(r policy.Result) bool { return !r.Undecided() })
}

// refText is an object as group/Kind/namespace/name.
func refText(o *render.Object, namespace string) string {
	return strings.Join([]string{o.GroupVersionKind().Group, o.GetKind(), namespace, o.Key().Name}, "/")
}

// severalObjects is the error of a reference that more than one object goes by.
type severalObjects struct {
	ref   string
	lines []string
}

func (s *severalObjects) Error() string {
	return fmt.Sprintf("%s is %d objects: say which by group/Kind/namespace/name, --unit or PATH", s.ref, len(s.lines))
}

func (s *severalObjects) list(w io.Writer) {
	for _, l := range s.lines {
		fmt.Fprintf(w, "  %s\n", report.Plain(l))
	}
}

func newSeveral(in *load.Input, ref objectRef, found []*render.Object, namespace func(*render.Object) string) error {
	e := &severalObjects{ref: ref.text}
	for _, o := range found {
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
