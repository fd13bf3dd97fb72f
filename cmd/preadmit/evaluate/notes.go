package evaluate

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// notes returns notes about the whole run that are not in any result.
func notes(head []*render.Object) []string {
	var notes []string
	if names := webhooks(head); len(names) > 0 {
		notes = append(notes, "admission webhooks are not called: "+policy.Few(names))
	}
	return append(notes, standIns(head)...)
}

// standIns lists the fixed values that templates got in place of values from the
// cluster, the clock or a random source. Output for other values is not evaluated.
func standIns(head []*render.Object) []string {
	units := make(map[string][]string)
	for _, o := range head {
		for _, a := range o.Assumed {
			if strings.HasPrefix(a, "template uses ") {
				units[a] = append(units[a], o.Unit.Identity())
			}
		}
	}
	var notes []string
	for a, in := range units {
		notes = append(notes, a+": in "+policy.Few(unique(in)))
	}
	slices.Sort(notes)
	return notes
}

// CRDs is the command that gets the schemas of all custom resources from a cluster.
const CRDs = "kubectl get customresourcedefinitions -o yaml > crds.yaml"

// withoutSchema returns a note about the kinds without a schema, and how to get the schemas.
func withoutSchema(unknown []engines.ClusterKind, head []*render.Object) []string {
	if text := WithoutSchema(unknown, head); text != "" {
		return []string{text + "; to check these too: " + CRDs + ", and then --with crds.yaml"}
	}
	return nil
}

// WithoutSchema returns a sentence about the kinds without a schema, those with the most objects
// first, or "" if there are none.
func WithoutSchema(unknown []engines.ClusterKind, head []*render.Object) string {
	counts, total := make(map[string]int), 0
	for _, o := range head {
		if k := engines.ClusterKindOf(o); slices.Contains(unknown, k) {
			counts[k.Kind]++
			total++
		}
	}
	if total == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%s (%d)", n, counts[n])
	}
	verb := "are"
	if total == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s of %s without a schema (not built in, no CustomResourceDefinition in the tree or --with) %s checked without defaults or validation: %s",
		policy.Plural(total, "object"), policy.Plural(len(names), "kind"), verb, policy.Few(names))
}

func webhooks(head []*render.Object) []string {
	var names []string
	for _, o := range head {
		switch o.GroupVersionKind().GroupKind().String() {
		case "ValidatingWebhookConfiguration.admissionregistration.k8s.io", "MutatingWebhookConfiguration.admissionregistration.k8s.io":
			names = append(names, o.GetKind()+" "+report.Plain(o.GetName()))
		}
	}
	return unique(names)
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// BrokenPasses returns a note about objects that pass only because a function of a template failed,
// which Gatekeeper treats as no violation.
func BrokenPasses(r *report.Report) []string {
	var objects []string
	is := func(r *policy.Result) bool {
		return r.Engine == policy.EngineGatekeeper && r.Outcome == policy.Pass && strings.HasPrefix(r.Message, policy.FunctionsFailed)
	}
	name := func(r *policy.Result) {
		if is(r) {
			objects = append(objects, fmt.Sprintf("%s by %s", policy.ObjectPattern(r.Object), r.Policy))
		}
	}
	for i := range r.Results {
		name(&r.Results[i])
	}
	if slices.ContainsFunc(r.Rules, func(rule policy.Rule) bool { return rule.Engine == policy.EngineGatekeeper }) {
		for x := range r.Held.All() {
			name(x)
		}
	}
	for rule := range r.Passes.Rules() {
		if !is(rule) {
			continue
		}
		for x := range r.Passes.Unprinted() {
			name(x)
		}
		break
	}
	if len(objects) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d passed only because a function of the template failed, which Gatekeeper treats as no violation: %s", len(objects), policy.Few(unique(objects)))}
}

// assumptions returns notes about the assumed version and release names with which charts were
// rendered, if templates render more with others.
func assumptions(in *load.Input) []string {
	var notes []string
	for _, a := range []struct{ rule, what, set string }{
		{render.AssumedVersion, "the newest Kubernetes version that preadmit knows is assumed", "--kube-version sets it"},
		{render.AssumedRelease, "the names and namespaces of releases are assumed", "--release and --namespace set them"},
	} {
		first, n := "", 0
		for i := range in.Assumed {
			if r := &in.Assumed[i]; r.Rule == a.rule {
				if n++; n == 1 {
					first = in.Tree.Display(r.Origins[0].File) + fmt.Sprintf(":%d", r.Origins[0].Line)
				}
			}
		}
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%s: with others, templates write more in %s, first at %s; %s", a.what, policy.Plural(n, "place"), first, a.set))
		}
	}
	return notes
}

// CountCovered counts the excluded files and the deployed roots for the summary of a report.
func CountCovered(s *report.Summary, in *load.Input) {
	excluded := make(map[string]bool)
	for _, d := range in.Documents() {
		if d.State == render.DocExcluded {
			excluded[d.File] = true
		}
	}
	s.Excluded = len(excluded)
	if in.Deployed == nil {
		return
	}
	s.Roots = len(in.Deployed.Roots)
	for _, u := range in.Head {
		if u.ID != "" && u.Owner == nil && !in.Deployed.Roots[u] {
			s.Roots++ // declared
		}
	}
}

// aside lists names of directories whose objects no cluster is expected to have.
var aside = regexp.MustCompile(`(?i)(^|/)(examples?|samples?|demos?|docs?|documentation|tests?|testdata|fixtures|e2e)/`)

// Doubt says why the roots seem not to be those of a cluster. It also returns the paths to deploy, or
// to exclude, which settles that. It returns "" unless the roots leave out most units, or lie in
// directories of examples, documentation or tests.
func Doubt(in *load.Input) (why string, deploy, exclude []string) {
	if in.Deployed == nil {
		return "", nil, nil
	}
	var roots, left []string
	for u := range in.Deployed.Roots {
		roots = append(roots, in.Tree.Display(u.Path))
	}
	for _, u := range in.Head {
		if u.State == render.Unreached {
			left = append(left, in.Tree.Display(u.Path))
		}
	}
	switch all := len(roots) > 0 && !slices.ContainsFunc(roots, func(r string) bool { return !aside.MatchString(r) }); {
	case len(left) == 0:
	case all:
		return fmt.Sprintf("Only objects of Argo CD or Flux among examples, documentation or tests (%s) say what is deployed. If they are not used, leave them out",
			policy.Few(unique(roots))), nil, tops(roots)
	case 2*len(left) > len(in.Head):
		return "Failures in most units do not count, since nothing found here deploys these. If a person or a script does, say so", tops(left), nil
	}
	return "", nil, nil
}

// tops returns the first elements of paths, without repetitions.
func tops(paths []string) []string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i], _, _ = strings.Cut(p, "/")
	}
	return unique(all)
}

// addDocuments adds the states of the tree's documents to a report.
func addDocuments(r *report.Report, in *load.Input) {
	CountCovered(&r.Summary, in)
	switch why, deploy, exclude := Doubt(in); {
	case deploy != nil:
		r.Summary.Doubt = why + " in " + config.Path + ": " + config.Deploys(deploy)
	case exclude != nil:
		r.Summary.Doubt = why + " in " + config.Path + ": " + config.Leaves(exclude)
	}
	for _, d := range in.Documents() {
		units := make([]string, len(d.Units))
		for i, u := range d.Units {
			units[i] = in.Tree.Display(u)
		}
		r.Documents = append(r.Documents, report.Document{
			File: in.Tree.Display(d.File), Line: d.Line, Kind: d.Kind, State: d.State, Units: units, Reason: d.Reason, Usual: d.Usual,
		})
	}
	r.CountDocuments()
}

// InUnit returns the end of a sentence that names a unit, or "" for no unit.
func InUnit(unit string) string {
	if unit == "" {
		return ""
	}
	return " in unit " + unit
}
