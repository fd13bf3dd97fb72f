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
)

// TestExplanationsAgree holds what is explained against what is evaluated: on
// the archives of the golden tests, and on other people's policies and objects.
func TestExplanationsAgree(t *testing.T) {
	t.Parallel()
	h := &agreement{t: t}
	archives, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range archives {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
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

func (h *agreement) archive(a *txtar.Archive) {
	objects := map[string][]*render.Object{}
	for _, f := range a.Files {
		if strings.HasSuffix(f.Name, ".yaml") {
			objects[f.Name] = parse(h.t, f.Name, f.Data)
		}
	}
	cluster := append(objects["cluster.yaml"], objects["object.yaml"]...)
	h.engine(objects["policy.yaml"], cluster, objects["object.yaml"])
}

func (h *agreement) published(c *publishedCase) {
	context := append(c.objects("params"), append(c.objects("crds"), c.objects("cluster")...)...)
	h.engine(append(c.objects("policies"), c.objects("bindings")...), context, c.objects("resources"))
}

func (h *agreement) engine(policies, cluster, objects []*render.Object) {
	kinds := testKinds{crds(cluster)}
	e, _ := New(policies, Options{Kinds: kinds, Cluster: policy.NewCluster(cluster...), AssumeBound: always})
	for _, o := range objects {
		for _, req := range requestsAbout(h.t, kinds, o) {
			results, err := e.Validate(context.Background(), &req)
			if err != nil {
				h.t.Fatal(err)
			}
			for _, b := range e.policies {
				if !b.namesake {
					h.policy(e, b, &req, results)
				}
			}
		}
	}
}

func (h *agreement) policy(e *Engine, b *bound, req *policy.Request, all []policy.Result) {
	h.t.Helper()
	es := h.explain(e, req, b.policy.Name, "")
	if len(es) != 1 {
		h.t.Fatalf("%d explanations of %s", len(es), b.policy.Name)
	}
	ex := &es[0]
	h.explanations++
	var want []policy.Result
	for _, r := range all {
		if r.Policy == b.policy.Name {
			want = append(want, r)
		}
	}
	if d := cmp.Diff(want, ex.Results); d != "" {
		h.t.Errorf("%s on %s: results -judged +explained:\n%s", b.policy.Name, req.Name, d)
	}
	if got := answered(ex.Match); got != ex.Matches {
		h.t.Errorf("%s on %s: matches %s, but its checks come to %s: %+v", b.policy.Name, req.Name, ex.Matches, got, ex.Match)
	}
	if ex.Matches == policy.No && len(ex.Trials)+len(ex.Results) > 0 {
		h.t.Errorf("%s on %s: does not match, and is evaluated", b.policy.Name, req.Name)
	}
	h.results(ex, b, req)
	for _, x := range b.validations {
		h.alone(e, ex, req, x.rule)
	}
}

// explain explains twice: the bytes must be the same.
func (h *agreement) explain(e *Engine, req *policy.Request, name, rule string) []policy.Explanation {
	h.t.Helper()
	es, err := e.Explain(context.Background(), req, name, rule)
	if err != nil {
		h.t.Fatal(err)
	}
	again, _ := e.Explain(context.Background(), req, name, rule)
	x, _ := json.Marshal(es)
	y, _ := json.Marshal(again)
	if string(x) != string(y) {
		h.t.Errorf("%s on %s: a second explanation differs", name, req.Name)
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
func (h *agreement) results(ex *policy.Explanation, b *bound, req *policy.Request) {
	h.t.Helper()
	for _, r := range ex.Results {
		if !strings.HasPrefix(r.Rule, "validations[") || strings.Contains(r.Message, "finds no ") || strings.Contains(r.Message, "cost budget") {
			continue
		}
		h.evaluations++
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
					h.t.Errorf("%s/%s on %s: is %s, and in parts %s", r.Policy, r.Rule, req.Name, ev.Value, ev.Parts[0].Value)
				}
				for _, c := range ev.Culprits {
					fields = append(fields, c.Pointer)
				}
			}
		}
		h.culprits += len(fields)
		if !found {
			h.t.Errorf("%s/%s on %s: %s, but no evaluation came to that: %+v", r.Policy, r.Rule, req.Name, r.Outcome, ex.Trials)
		}
		for _, f := range r.Fields {
			if !slices.Contains(fields, f) {
				h.t.Errorf("%s/%s on %s: field %s is no culprit: %q", r.Policy, r.Rule, req.Name, f, fields)
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
func (h *agreement) alone(e *Engine, whole *policy.Explanation, req *policy.Request, rule string) {
	h.t.Helper()
	es := h.explain(e, req, whole.Policy, rule)
	if len(es) != 1 || len(es[0].Trials) != len(whole.Trials) {
		h.t.Fatalf("%s/%s: other trials than %s", whole.Policy, rule, whole.Policy)
	}
	for i, t := range es[0].Trials {
		all := whole.Trials[i].Validations
		j := slices.IndexFunc(all, func(ev policy.Evaluation) bool { return ev.Name == rule })
		if len(t.Validations) != 1 && t.Problem == "" {
			h.t.Fatalf("%s/%s: %d validations", whole.Policy, rule, len(t.Validations))
		}
		if t.Problem == "" {
			if d := cmp.Diff(all[j], t.Validations[0]); d != "" {
				h.t.Errorf("%s/%s on %s: -among all +alone:\n%s", whole.Policy, rule, req.Name, d)
			}
		}
	}
	for _, r := range es[0].Results {
		if strings.HasPrefix(r.Rule, "validations[") && r.Rule != rule {
			h.t.Errorf("%s/%s: has a result of %s", whole.Policy, rule, r.Rule)
		}
	}
}

// TestExplainNothing holds that a policy of another name is none.
func TestExplainNothing(t *testing.T) {
	t.Parallel()
	e, err := New(nil, Options{Kinds: testKinds{}})
	if err != nil {
		t.Fatal(err)
	}
	es, err := e.Explain(context.Background(), &policy.Request{}, "p", "")
	if err != nil || len(es) > 0 {
		t.Errorf("%v %v", es, err)
	}
}
