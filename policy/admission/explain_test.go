package admission

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestExplanationsAgree holds what is explained against what is evaluated: on
// the archives of the golden tests, and on other people's policies and objects.
func TestExplanationsAgree(t *testing.T) {
	t.Parallel()
	h := &agreement{t: t}
	archives, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range archives {
		a := rendertest.ParseArchive(t, file)
		h.archive(a)
	}
	folders, _ := filepath.Glob("../../../shared/corpora/kubescape-vap/*")
	for i, folder := range folders {
		if c := loadCase(t, folder); c != nil && i%4 == 0 {
			h.published(c)
		}
	}
	t.Logf("%d explanations, %d evaluations, %d culprits", h.explanations, h.evaluations, h.culprits)
	if h.explanations < 50 || h.evaluations < 50 || h.culprits < 10 {
		t.Error("too few")
	}
}

// agreement counts what was compared.
type agreement struct {
	t                                   *testing.T
	explanations, evaluations, culprits int
}

func (a *agreement) archive(txt *txtar.Archive) {
	objects := map[string][]*render.Object{}
	for _, f := range txt.Files {
		if strings.HasSuffix(f.Name, ".yaml") {
			objects[f.Name] = rendertest.Parse(a.t, f.Name, f.Data)
		}
	}
	cluster := append(objects["cluster.yaml"], objects["object.yaml"]...)
	a.engine(objects["policy.yaml"], cluster, objects["object.yaml"])
}

func (a *agreement) published(c *publishedCase) {
	context := append(c.objects("params"), append(c.objects("crds"), c.objects("cluster")...)...)
	a.engine(append(c.objects("policies"), c.objects("bindings")...), context, c.objects("resources"))
}

func (a *agreement) engine(policies, cluster, objects []*render.Object) {
	kinds := testKinds{crds(cluster)}
	e, _ := New(policies, Options{Kinds: kinds, Cluster: policy.NewCluster(cluster...), AssumeBound: always})
	for _, o := range objects {
		for _, req := range requestsAbout(a.t, kinds, o) {
			results, err := e.Validate(context.Background(), &req)
			rendertest.OK(a.t, err)
			for _, b := range e.policies {
				if !b.namesake {
					a.policy(e, b, &req, results)
				}
			}
		}
	}
}

func (a *agreement) policy(e *Engine, b *bound, req *policy.Request, all []policy.Result) {
	a.t.Helper()
	es := a.explain(e, req, b.policy.Name, "")
	if len(es) != 1 {
		a.t.Fatalf("%d explanations of %s", len(es), b.policy.Name)
	}
	ex := &es[0]
	a.explanations++
	var want []policy.Result
	for _, r := range all {
		if r.Policy == b.policy.Name {
			want = append(want, r)
		}
	}
	if d := cmp.Diff(want, ex.Results); d != "" {
		a.t.Errorf("%s on %s: results -judged +explained:\n%s", b.policy.Name, req.Name, d)
	}
	if got := answered(ex.Match); got != ex.Matches {
		a.t.Errorf("%s on %s: matches %s, but its checks come to %s: %+v", b.policy.Name, req.Name, ex.Matches, got, ex.Match)
	}
	if ex.Matches == policy.No && len(ex.Trials)+len(ex.Results) > 0 {
		a.t.Errorf("%s on %s: does not match, and is evaluated", b.policy.Name, req.Name)
	}
	a.results(ex, b, req)
	for _, x := range b.validations {
		a.alone(e, ex, req, x.Rule)
	}
}

// explain explains twice: the bytes must be the same.
func (a *agreement) explain(e *Engine, req *policy.Request, name, rule string) []policy.Explanation {
	a.t.Helper()
	es, err := e.Explain(context.Background(), req, name, rule)
	rendertest.OK(a.t, err)
	again, _ := e.Explain(context.Background(), req, name, rule)
	x, _ := json.Marshal(es)
	y, _ := json.Marshal(again)
	if string(x) != string(y) {
		a.t.Errorf("%s on %s: a second explanation differs", name, req.Name)
	}
	return es
}

// answered is what checks come to: none of the rules that exclude, one of
// those that include if there are any, and every selector.
func answered(checks []policy.Check) policy.Answer {
	included, rules, unknown := false, false, false
	for _, c := range checks {
		switch {
		case c.Name == "resource":
			return policy.No
		case strings.HasPrefix(c.Name, "excludeResourceRules"):
			if c.Answer == policy.Yes {
				return policy.No
			}
		case strings.HasPrefix(c.Name, "resourceRules"):
			rules = true
			included = included || c.Answer == policy.Yes
		case c.Answer == policy.No:
			return policy.No
		case c.Answer == policy.Undecided:
			unknown = true
		}
	}
	switch {
	case rules && !included:
		return policy.No
	case unknown:
		return policy.Undecided
	default:
		return policy.Yes
	}
}

// results holds that each result has an evaluation that came to it.
func (a *agreement) results(ex *policy.Explanation, b *bound, req *policy.Request) {
	a.t.Helper()
	for _, r := range ex.Results {
		if !strings.HasPrefix(r.Rule, "validations[") || strings.Contains(r.Message, "finds no ") || strings.Contains(r.Message, "cost budget") {
			continue
		}
		a.evaluations++
		var fields []string
		found := false
		for _, t := range ex.Trials {
			for i := range t.Validations {
				ev := &t.Validations[i]
				if ev.Name != r.Rule || !cameTo(ev, r.Outcome) {
					continue
				}
				found = true
				if len(ev.Parts) > 0 && ev.Error == "" && ev.Parts[0].Value != ev.Value {
					a.t.Errorf("%s/%s on %s: is %s, and in parts %s", r.Policy, r.Rule, req.Name, ev.Value, ev.Parts[0].Value)
				}
				for _, c := range ev.Culprits {
					fields = append(fields, c.Pointer)
				}
			}
		}
		a.culprits += len(fields)
		if !found {
			a.t.Errorf("%s/%s on %s: %s, but no evaluation came to that: %+v", r.Policy, r.Rule, req.Name, r.Outcome, ex.Trials)
		}
		for _, f := range r.Fields {
			if !slices.Contains(fields, f) {
				a.t.Errorf("%s/%s on %s: field %s is no culprit: %q", r.Policy, r.Rule, req.Name, f, fields)
			}
		}
	}
}

func cameTo(ev *policy.Evaluation, o policy.Outcome) bool {
	switch o {
	case policy.Pass:
		return ev.Value == "true"
	case policy.Fail:
		return ev.Value == "false"
	case policy.Error:
		return ev.Error != ""
	case policy.Unknown:
		return ev.Unknown != ""
	default:
		return ev.NotRun != ""
	}
}

// alone holds that a rule explained alone comes to the same at the same cost.
func (a *agreement) alone(e *Engine, whole *policy.Explanation, req *policy.Request, rule string) {
	a.t.Helper()
	es := a.explain(e, req, whole.Policy, rule)
	if len(es) != 1 || len(es[0].Trials) != len(whole.Trials) {
		a.t.Fatalf("%s/%s: other trials than %s", whole.Policy, rule, whole.Policy)
	}
	for i, t := range es[0].Trials {
		all := whole.Trials[i].Validations
		j := slices.IndexFunc(all, func(ev policy.Evaluation) bool { return ev.Name == rule })
		if len(t.Validations) != 1 && t.Problem == "" {
			a.t.Fatalf("%s/%s: %d validations", whole.Policy, rule, len(t.Validations))
		}
		if t.Problem == "" {
			if d := cmp.Diff(all[j], t.Validations[0]); d != "" {
				a.t.Errorf("%s/%s on %s: -among all +alone:\n%s", whole.Policy, rule, req.Name, d)
			}
		}
	}
	for _, r := range es[0].Results {
		if strings.HasPrefix(r.Rule, "validations[") && r.Rule != rule {
			a.t.Errorf("%s/%s: has a result of %s", whole.Policy, rule, r.Rule)
		}
	}
}

// TestExplainNothing holds that a policy of another name is none.
func TestExplainNothing(t *testing.T) {
	t.Parallel()
	e, err := New(nil, Options{Kinds: testKinds{}})
	rendertest.OK(t, err)
	es, err := e.Explain(context.Background(), &policy.Request{}, "p", "")
	if err != nil || len(es) > 0 {
		t.Errorf("%v %v", es, err)
	}
}
