package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/delivery"
)

// A Decision is a request with the engines that evaluate it.
type Decision struct {
	Engines *engines.Set
	Trusted *load.Input // provides the engines' policies
	Request policy.Request

	tree   *load.Tree
	change *decidedChange // nil without a base
}

// A decidedChange is the change from a base that contains the request.
type decidedChange struct {
	*Evaluation
	revision string
	from, to *load.Input // the base and the head, of the request's cluster
	options  engines.Options
	same     bool // the change does not touch the object
}

// NewDecision returns a Decision about the creation of an object.
func NewDecision(in *load.Input, s engines.Options, set *engines.Set, object *render.Object) *Decision {
	set.Chain.Secrets = SecretsOf(in)
	return &Decision{Engines: set, Trusted: in, Request: s.By(policy.Requests(nil, []*render.Object{object}))[0], tree: in.Tree}
}

// Decision returns a Decision about the request of a run with --base for an object of either side.
func (e *Evaluation) Decision(ctx context.Context, o *Options, in *load.Input, object *render.Object) (*Decision, error) {
	s, _, err := o.EngineOptions(in)
	if err != nil {
		return nil, err
	}
	var d *Decision
	err = new(Evaluation).eachCluster(ctx, s, e.against.in, in, func(_ *Evaluation, s engines.Options, on func(*load.Input) *load.Input) (err error) {
		b, to := *e.against, on(in)
		b.in = on(b.in)
		was, now := b.in.Side(), to.Side()
		q := requestsOf(was, now)
		reqs := slices.Concat(q.made, q.variants)
		i := slices.IndexFunc(reqs, func(r policy.Request) bool {
			o := r.Subject()
			return o == object || r.Run == policy.UpgradeRun && o.Key() == object.Key() // in place of what only a first install writes
		})
		if i < 0 {
			return nil // it may be on another cluster
		}
		sent, err := delivered(ctx, s.By(reqs[i:i+1]), b.in, to, s.KubeVersion)
		if err != nil {
			return err
		}
		made := sent.made
		if len(made) == 0 {
			leftAlone, _ := delivery.LeavesAlone(object)
			return fmt.Errorf("the change makes no request about %s: %s", object.GetName(), cmp.Or(append(sent.notes, leftAlone, "nothing deployed it")...))
		}
		same, changed := policy.Divide(made[len(made)-1:]) // of an object that is recreated, the CREATE
		made = append(same, changed...)
		d = &Decision{Trusted: b.trusted(to), tree: in.Tree, change: &decidedChange{e, o.Base, b.in, to, s, len(same) > 0}}
		if old := made[0].OldObject; old != nil {
			made[0].OldObject = change.AtCommit(old, b.name)
		}
		if d.Engines = e.Engines; d.Engines.Cluster == nil { // there are several clusters
			if d.Engines, err = engines.New(to, d.Trusted, s); err != nil {
				return err
			}
		}
		d.Engines.Chain.Secrets = SecretsOf(b.in, to)
		d.Trusted.Tree = in.Tree // used to name files in reports
		err = d.Engines.Chain.StoreOld(ctx, made)
		d.Request = made[0]
		return err
	})
	if err == nil && d == nil {
		err = fmt.Errorf("the change makes no request about %s: it is not known to be deleted", object.GetName())
	}
	return d, err
}

// Explain explains how a policy, or one of its rules, decides on the request. With a base the
// results are those of the run, and notes explain how the change affects them.
func (d *Decision) Explain(ctx context.Context, name, rule string) ([]policy.Explanation, error) {
	es, err := d.Engines.Chain.Explain(ctx, d.Request, name, rule)
	if err != nil {
		return nil, err
	}
	for i := range es {
		es[i].Rename(d.tree)
	}
	if d.change == nil || len(es) == 0 {
		return es, nil
	}
	d.change.adopt(es, name, rule)
	note, err := d.change.note(es, name)
	if err != nil {
		return nil, err
	}
	for i := range es {
		if d.change.same {
			es[i].Notes = append(es[i].Notes, "the object is the same at "+d.change.revision+", so nobody asks the API server about it: this explains its creation. An unchanged failure does not count")
		}
		if note != "" {
			es[i].Notes = append(es[i].Notes, note)
		}
	}
	return es, nil
}

// Suppress marks the suppressed results of explanations, and adds notes about expired suppressions.
// With a base it does nothing, because the run has marked the results.
func (d *Decision) Suppress(o *Options, in *load.Input, es []policy.Explanation) error {
	if d.change != nil {
		return nil
	}
	held, err := ReadSuppressions(o, in)
	if err != nil {
		return err
	}
	for i := range es {
		e := &es[i]
		over, _ := policy.Suppress(e.Results, nil, held, o.Day())
		for _, s := range over {
			if slices.ContainsFunc(e.Results, func(r policy.Result) bool { return s.Covers(&r) }) {
				e.Notes = append(e.Notes, fmt.Sprintf("%s expired on %s", described(s), s.Expires))
			}
		}
	}
	return nil
}

// adopt replaces the results of explanations by those of the run. It adds failures that only the
// run finds, such as those hidden by an exemption that the change adds.
func (c *decidedChange) adopt(es []policy.Explanation, name, rule string) {
	for i := range c.Results {
		r := &c.Results[i]
		if r.Object != es[0].Object || r.Operation != es[0].Operation || r.Baseline == policy.Absent {
			continue
		}
		known := false
		for k := range es {
			for j := range es[k].Results {
				x := &es[k].Results[j]
				if x.Fingerprint == r.Fingerprint && x.Outcome == r.Outcome && x.Message == r.Message && x.Baseline == "" {
					*x, known = *r, true
				}
			}
		}
		if known || r.Policy != name || rule != "" && r.Rule != rule || r.Outcome != policy.Fail && !r.Undecided() {
			continue
		}
		if k := slices.IndexFunc(es, func(e policy.Explanation) bool { return e.Engine == r.Engine }); k >= 0 {
			es[k].Results = append(es[k].Results, *r)
		}
	}
}

// note returns a sentence if the change touches policies.
func (c *decidedChange) note(es []policy.Explanation, name string) (string, error) {
	if samePolicies(c.from, c.to, c.options.NoTreePolicies) {
		return "", nil
	}
	if !slices.ContainsFunc(es, func(e policy.Explanation) bool {
		return c.against.names(e.Origin.File) || slices.ContainsFunc(e.Rules, func(r policy.Rule) bool { return c.against.names(r.Origin.File) })
	}) {
		return "the change touches other policies, or objects that policies may read: those of " + c.revision + " decide", nil
	}
	proposed, err := c.proposedPolicy(name)
	if err != nil || proposed == "" {
		return "the change removes this policy: that of " + c.revision + " decides", err
	}
	return "the change also changes this policy: that of " + c.revision + " decides, the proposed one is at " + proposed, nil
}

// names reports whether a file name was returned by name.
func (b *base) names(file string) bool { return strings.HasPrefix(file, b.Commit[:12]+":") }

// proposedPolicy returns the place of the head's policy with a name, or "" if there is none.
func (c *decidedChange) proposedPolicy(name string) (string, error) {
	set, err := engines.New(c.to, c.to, c.options)
	if err != nil {
		return "", err
	}
	for _, r := range set.Rules() {
		if r.Policy == name && r.Origin.File != "" {
			at := r.Origin
			at.File = c.to.Tree.Display(at.File)
			return at.String(), nil
		}
	}
	return "", nil
}

// Unknown returns an error with the place of the policy if the change adds it, and nil otherwise.
func (d *Decision) Unknown(name string) error {
	if d.change == nil {
		return nil
	}
	at, err := d.change.proposedPolicy(name)
	if err != nil || at == "" {
		return err
	}
	return fmt.Errorf("policy %s is not at %s, whose policies decide: the change adds it at %s; without --base it is explained", name, d.change.revision, at)
}
