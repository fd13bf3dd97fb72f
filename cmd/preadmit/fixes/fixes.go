// Package fixes makes the edits of files that remove findings, and proves them.
//
// A Finder takes the options of an evaluation, paths, and the run of both. Fix returns the findings,
// each with its edits or the reason why it has none, and the texts of the edited files. Nothing is
// written.
//
//   - fixes.go: the findings of a run, with the changes of objects that policy/fix finds
//   - place.go: a change of an object becomes edits of the file that determines the field
//   - prove.go: files are edited, and everything is rendered and evaluated again; an edit whose
//     finding stays, or that makes anything else fail, is dropped
//   - each.go: the same for each finding by itself, as for a person who chooses one
//   - edits.go: the regions and new texts of a change, for reports
package fixes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
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
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report/objects"
)

// Options select the findings to fix.
type Options struct {
	Rules  []string                  // POLICY or POLICY/RULE, * matches any text; none means all
	Unsafe bool                      // also use fixes that may change what runs
	Only   func(*policy.Result) bool // the findings to fix; nil means all
}

// A Reason says why a finding is not fixed. The zero Reason is that of a fixed one.
type Reason string

// The reasons.
const (
	NoValue   Reason = "no rule or standard determines the value"
	NeedsFlag Reason = "only with --unsafe: the fix may change what runs"
	NoPlace   Reason = "the field is written by a template, or where no edit is made"
	Stays     Reason = "dropped: the finding stays after the edit"
	Breaks    Reason = "dropped: something else fails, or is undecided, after the edit"
	TooLong   Reason = "dropped: not proved after several rounds"
	Unedited  Reason = "dropped: the way the file is written does not allow the edit"
)

// A Finding is a failure of the run.
type Finding struct {
	Result  policy.Result
	Fixes   []policy.Fix
	Reason  Reason
	Because *policy.Result // with Breaks, what else fails; may be nil

	result   *policy.Result // of the run
	object   *render.Object
	unplaced bool     // a fix with a value has no place
	edits    [][]edit // for each fix, the edits that may make it, the best first
	waits    bool     // not tried in this round
}

// A Change holds findings, with the files in which their fixes are made.
type Change struct {
	Findings   []*Finding
	Texts      map[string]string // of the edited files, by their names in the tree
	Incomplete int               // results that the first run could not decide
	Tree       *load.Tree
	before     map[string][]byte
	placer     *placer
}

// A Finder finds the fixes for the findings of a run.
type Finder struct {
	Options *evaluate.Options // Again and Memory are set, and Passes, Held and Forgets are not: the run keeps results and places
	Args    []string
	Input   *load.Input
	Run     *evaluate.Evaluation
}

// Evaluate evaluates the paths in args, and returns a Finder for the findings. Units of other, a graph
// that has rendered the same tree, are not rendered again; other may be nil.
func Evaluate(ctx context.Context, o *evaluate.Options, args []string, other *cache.Graph) (*Finder, error) {
	kept := *o
	if kept.Memory == nil {
		kept.Memory = load.NewMemory()
	}
	in, e, err := evaluated(ctx, &kept, nil, other, args)
	if err != nil {
		return nil, err
	}
	return &Finder{&kept, args, in, e}, nil
}

// Fix finds and proves fixes for the selected findings, which are made together.
func (f *Finder) Fix(ctx context.Context, s Options) (*Change, error) {
	c, err := f.propose(ctx, &s, false)
	if err != nil {
		return nil, err
	}
	return c, f.prove(ctx, c)
}

// propose returns a Change with fixes that are not proved.
func (f *Finder) propose(ctx context.Context, s *Options, each bool) (*Change, error) {
	if err := f.Run.NameRules("--rule", s.Rules); err != nil {
		return nil, err
	}
	c := &Change{Tree: f.Input.Tree, before: make(map[string][]byte)}
	for i := range f.Run.Results {
		if r := &f.Run.Results[i]; r.Undecided() && r.Baseline.Counts() && !r.Unreached {
			c.Incomplete++
		}
	}
	c.placer = &placer{
		in: f.Input, files: make(map[string]*places), texts: c.before, ways: make(map[[2]string][]string),
		made: make(map[render.Span][]*render.Object), fails: make(map[[2]string]map[*render.Object]bool),
	}
	c.Findings = s.findings(f.Input, f.Run, c.placer)
	return c, s.propose(ctx, f.Options, f.Input, f.Run, c.Findings, c.placer, each)
}

// evaluated runs an evaluation with other texts of some files, besides those of the options. It uses
// units of a graph that has rendered the tree without them, which may be nil, where no text reaches.
func evaluated(ctx context.Context, o *evaluate.Options, texts map[string]string, other *cache.Graph, args []string) (*load.Input, *evaluate.Evaluation, error) {
	fresh := *o
	fresh.Texts = make(map[string]string)
	maps.Copy(fresh.Texts, o.Texts)
	maps.Copy(fresh.Texts, texts)
	fresh.Rendered, fresh.Again = other, true
	in, err := load.Load(ctx, &fresh.Sources, args, bytes.NewReader(nil))
	if err != nil {
		return nil, nil, err
	}
	e, err := evaluate.Run(ctx, &fresh, in, args, bytes.NewReader(nil))
	if m := fresh.Memory; m != nil && m.Store.Dir() == "" { // results about proposed edits are not stored on disk
		m.Keep()
	}
	return in, e, err
}

// Diff writes the edits as a unified diff, file by file.
func (c *Change) Diff(w io.Writer) error {
	for _, file := range slices.Sorted(maps.Keys(c.Texts)) {
		name := c.Tree.Display(file)
		if _, err := io.WriteString(w, objects.UnifiedDiff("a/"+name, c.before[file], "b/"+name, []byte(c.Texts[file]))); err != nil {
			return err
		}
	}
	return nil
}

// Before returns the text of an edited file as the run read it.
func (c *Change) Before(file string) []byte { return c.before[file] }

// Count returns the number of findings for each reason.
func (c *Change) Count() map[Reason]int {
	n := make(map[Reason]int)
	for _, f := range c.Findings {
		n[f.Reason]++
	}
	return n
}

// selects reports whether a result is of one of the rules to fix.
func (s *Options) selects(r *policy.Result) bool {
	return (len(s.Rules) == 0 || evaluate.MatchesRule(s.Rules, r.Policy, r.Rule)) && (s.Only == nil || s.Only(r))
}

// Reserved reports whether a file is never edited.
func Reserved(file string) bool {
	return slices.Contains(strings.Split(file, "/"), ".git") || strings.HasPrefix(file, ".preadmit/") || strings.HasPrefix(file, disk.Outside+"/")
}

// findings returns the failures of a run that count: those that are neither suppressed nor, with
// --base, unchanged. It records in p which objects fail, and the manifests that objects are made of.
func (s *Options) findings(in *load.Input, e *evaluate.Evaluation, p *placer) []*Finding {
	objects := make(map[render.Key]*render.Object)
	for _, o := range render.Objects(in.Head) {
		from := manifest(o)
		p.made[from] = append(p.made[from], o)
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
	var all []*Finding
	for i := range e.Results {
		r := &e.Results[i]
		o := objects[r.Object]
		if r.Outcome != policy.Fail || o == nil {
			continue
		}
		rule := [2]string{r.Policy, r.Rule}
		if p.fails[rule] == nil {
			p.fails[rule] = make(map[*render.Object]bool)
		}
		p.fails[rule][o] = true
		if r.Suppression == nil && r.Baseline.Counts() && r.Operation != policy.Delete && s.selects(r) {
			all = append(all, &Finding{Result: *r, result: r, object: o, Reason: NoValue})
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
	rules map[[2]string]string // the texts of rules, by policy and name
}

// propose sets the fixes of findings, and their edits. Each finding of an object starts from the
// object with the fixes of the earlier ones or, with each, from the object as it is.
func (s *Options) propose(ctx context.Context, o *evaluate.Options, in *load.Input, e *evaluate.Evaluation, findings []*Finding, placer *placer, each bool) error {
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
	of := make(map[*render.Object][]*Finding)
	var order []*render.Object
	for _, f := range findings {
		if of[f.object] == nil {
			order = append(order, f.object)
		}
		of[f.object] = append(of[f.object], f)
	}
	for _, object := range order {
		if err := p.searchAll(ctx, object, of[object], s.Unsafe, each); err != nil {
			return err
		}
	}
	for _, f := range findings {
		if f.Reason == NoValue && f.unplaced {
			f.Reason = NoPlace
		}
		for _, x := range f.Fixes {
			f.edits = append(f.edits, p.placer.all(f, x))
		}
	}
	return nil
}

// searchAll sets the fixes of the findings of an object, or the reasons why they have none.
func (p *proposer) searchAll(ctx context.Context, object *render.Object, findings []*Finding, unsafe, each bool) error {
	set, err := p.engines(object.Unit.Cluster)
	if err != nil {
		return err
	}
	known := make(map[string][]policy.Result) // results of contents that were evaluated
	search := &fix.Search{Values: p.values, Rule: func(r *policy.Result) string { return p.ruleText(set, r) }, Evaluate: func(content map[string]any) []policy.Result {
		key, err := json.Marshal(content)
		results, ok := known[string(key)]
		if !ok || err != nil {
			results = slices.DeleteFunc(set.evaluate(ctx, object, content), func(r policy.Result) bool { return r.Outcome == policy.Pass })
			known[string(key)] = results
		}
		return results
	}}
	now := object.Object                            // with the fixes so far
	for again := true; again && ctx.Err() == nil; { // what was refused before may be accepted with other fixes
		again = false
		for _, f := range findings {
			if f.Reason == NoValue {
				if each {
					now = object.Object
				}
				now = p.search(search, f, now, unsafe)
				again = again || f.Reason == "" && len(f.Fixes) > 0
			}
		}
	}
	return ctx.Err()
}

// search sets the fixes of a finding, or the reason why it has none. It returns the object with them.
func (p *proposer) search(search *fix.Search, f *Finding, object map[string]any, unsafe bool) map[string]any {
	unplaced := false
	search.May = func(x policy.Fix) bool {
		_, ok := p.placer.edits(f.object, x)
		ok = ok || len(p.placer.all(f, x)) > 0 // overlays are looked at where nothing else has a place
		unplaced = unplaced || !ok
		return ok
	}
	fixes, changed := search.Fixes(object, &f.Result)
	switch {
	case changed == nil && unplaced: // is there a value that has no place?
		search.May = nil
		_, anywhere := search.Fixes(object, &f.Result)
		f.unplaced = anywhere != nil
	case changed == nil: // no values are known
	case !unsafe && slices.ContainsFunc(fixes, func(x policy.Fix) bool { return x.Unsafe }):
		f.Reason = NeedsFlag
	default: // without fixes, those of other findings are enough
		f.Fixes, f.Reason = fixes, ""
		return changed
	}
	return object
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

// ruleText returns the text of a failure's rule and policy.
func (p *proposer) ruleText(set *clusterEngines, r *policy.Result) string {
	return p.texts[r.Policy] + set.rules[[2]string{r.Policy, r.Rule}]
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
	if err != nil {
		return nil, err
	}
	known := &clusterEngines{set, s, make(map[[2]string]string)}
	for _, x := range set.Rules() {
		known.rules[[2]string{x.Policy, x.Name}] += x.Title + x.Description + x.Expression + x.Help
	}
	p.sets[cluster] = known
	return known, nil
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
