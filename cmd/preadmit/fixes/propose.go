package fixes

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/fix"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/render"
)

// findings returns the failures of a run that count: those that are neither suppressed nor, with
// --base, unchanged.
func (s *Options) findings(in *load.Input, e *evaluate.Evaluation) []Finding {
	objects := make(map[render.Key]*render.Object)
	for _, o := range render.Objects(in.Head) {
		k := o.Key()
		objects[k] = o
		if k.Namespace == "" {
			k.Namespace = o.EffectiveNamespace()
			if objects[k] == nil {
				objects[k] = o
			}
		}
	}
	policy.Sort(e.Results)
	var all []Finding
	for i := range e.Results {
		r := &e.Results[i]
		o := objects[r.Object]
		if r.Outcome == policy.Fail && o != nil && r.Suppression == nil && r.Baseline.Counts() && r.Operation != policy.Delete && s.selects(r) {
			all = append(all, Finding{Result: *r, object: o, Reason: NoValue})
		}
	}
	return all
}

// A proposer evaluates changed objects.
type proposer struct {
	options *evaluate.Options
	in      *load.Input
	policy  *load.Input // whose policies decide
	sets    map[string]*clusterEngines
	texts   map[string]string // of policies, by name
	values  *fix.Values
	placer  *placer
}

// clusterEngines are the engines for one cluster.
type clusterEngines struct {
	*engines.Set
	engines.Options
}

// propose sets the fixes of findings, and their edits. Findings of one object are fixed one after
// another, so that each starts from the object with the earlier fixes.
func (s *Options) propose(ctx context.Context, o *evaluate.Options, in *load.Input, e *evaluate.Evaluation, findings []Finding, placer *placer) error {
	p := &proposer{options: o, in: in, policy: in, placer: placer, sets: make(map[string]*clusterEngines), texts: make(map[string]string)}
	if e.Was != nil {
		p.policy = e.Was
	}
	all := slices.Concat(render.Objects(p.policy.Given), render.Objects(p.policy.Head))
	policies := load.Only(all, lint.IsPart)
	for _, x := range policies {
		p.texts[x.GetName()] += textsOf(x.Object)
		if x.GroupVersionKind().Group == "constraints.gatekeeper.sh" {
			p.texts[x.GetName()] += textsOf(templateOf(policies, x.GetKind()))
		}
	}
	p.values = fix.NewValues(all)
	now := make(map[*render.Object]map[string]any)
	states := make(map[*render.Object]int)
	for again := true; again; {
		again = false
		for i := range findings {
			f := &findings[i]
			if f.Reason != NoValue || f.tried > states[f.object] {
				continue
			}
			f.tried = states[f.object] + 1
			if err := p.search(ctx, f, now, s.Unsafe); err != nil {
				return err
			}
			if f.Reason == "" {
				again = true // what was refused before may be accepted now
				states[f.object]++
			}
		}
	}
	for i := range findings {
		f := &findings[i]
		if f.Reason == NoValue && f.unplaced {
			f.Reason = NoPlace
		}
		for _, x := range f.Fixes {
			edits, _ := p.placer.edits(f.object, x)
			f.edits = append(f.edits, edits)
		}
	}
	return nil
}

// search sets the fixes of a finding, or the reason why it has none. now holds the objects with the
// fixes so far.
func (p *proposer) search(ctx context.Context, f *Finding, now map[*render.Object]map[string]any, unsafe bool) error {
	set, err := p.engines(f.object.Unit.Cluster)
	if err != nil {
		return err
	}
	object := now[f.object]
	if object == nil {
		object = f.object.Object
	}
	unplaced := false
	search := fix.Search{Values: p.values, Rule: p.ruleText(set), May: func(x policy.Fix) bool {
		_, ok := p.placer.edits(f.object, x)
		unplaced = unplaced || !ok
		return ok
	}, Evaluate: func(object map[string]any) []policy.Result {
		return set.evaluate(ctx, f.object, object)
	}}
	fixes, changed := search.Fixes(object, &f.Result)
	switch {
	case changed == nil && unplaced:
		f.unplaced = true
	case changed == nil: // no values are known
	case !unsafe && slices.ContainsFunc(fixes, func(x policy.Fix) bool { return x.Unsafe }):
		f.Reason = NeedsFlag
	case len(fixes) > 0:
		f.Fixes, f.Reason, now[f.object] = fixes, "", changed
	default: // the fixes of other findings are enough
		f.Reason = ""
	}
	return ctx.Err()
}

func templateOf(policies []*render.Object, kind string) map[string]any {
	for _, o := range policies {
		if o.GetKind() == "ConstraintTemplate" && strings.EqualFold(o.GetName(), kind) {
			return o.Object
		}
	}
	return nil
}

func textsOf(v any) string {
	var b strings.Builder
	for _, text := range render.Texts(v, "") {
		b.WriteString(text + "\n")
	}
	for key := range render.Values(v) {
		b.WriteString(key + "\n")
	}
	return b.String()
}

// ruleText returns a function that returns the text of a failure's rule and policy.
func (p *proposer) ruleText(set *clusterEngines) func(*policy.Result) string {
	return func(r *policy.Result) string {
		text := p.texts[r.Policy]
		for _, x := range set.Rules() {
			if x.Policy == r.Policy && x.Name == r.Rule {
				text += x.Title + x.Description + x.Expression + x.Help
			}
		}
		return text
	}
}

func (p *proposer) engines(cluster string) (*clusterEngines, error) {
	if set := p.sets[cluster]; set != nil {
		return set, nil
	}
	s, _, err := p.options.EngineOptions(p.in)
	if err != nil {
		return nil, err
	}
	there, s := s.ForCluster(p.in, cluster)
	trusted := there
	if p.policy != p.in {
		trusted, _ = s.ForCluster(p.policy, cluster)
	}
	set, err := engines.New(there, trusted, s)
	p.sets[cluster] = &clusterEngines{set, s}
	return p.sets[cluster], err
}

// evaluate returns the results for the creation of an object with other content.
func (c *clusterEngines) evaluate(ctx context.Context, o *render.Object, content map[string]any) []policy.Result {
	changed := &render.Object{Unstructured: &unstructured.Unstructured{Object: content}, Unit: o.Unit, Provenance: o.Provenance}
	results, err := c.Chain.Review(ctx, c.By(policy.Requests(nil, []*render.Object{changed})))
	if err != nil {
		return []policy.Result{{Outcome: policy.Error, Message: err.Error()}}
	}
	return results
}
