package kyverno

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestExplanationsAgree holds what is explained against what is evaluated: on the
// archives of the rules' tests, and on other people's policies and objects.
func TestExplanationsAgree(t *testing.T) {
	t.Parallel()
	h := &explained{t: t}
	archives, _ := filepath.Glob("testdata/rules/*.txtar")
	for _, file := range archives {
		a := rendertest.ParseArchive(t, file)
		o := Options{Kinds: plainKinds{}, Cluster: policy.NewCluster(rendertest.Parse(t, "cluster.yaml", fileOf(a, "cluster.yaml"))...)}
		engine, _ := New(rendertest.Parse(t, "policy.yaml", fileOf(a, "policy.yaml")), o)
		for _, req := range archiveRequests(t, a) {
			h.request(engine, req)
		}
	}
	h.enough(150, 40)
}

// TestPublishedExplanations is the same over Kyverno's published policies, each
// on the objects of its tests.
func TestPublishedExplanations(t *testing.T) {
	t.Parallel()
	h := &explained{t: t}
	every := 1
	if testing.Short() {
		every = 8
	}
	for i, file := range publishedTests(t) {
		if i%every == 0 {
			h.file(file)
		}
	}
	h.enough(3000/every, 600/every)
}

func publishedTests(t *testing.T) []string {
	t.Helper()
	var files []string
	seen := map[string]bool{}
	for _, row := range publishedRows(t) {
		for _, source := range []string{"kyverno-policies", "kyverno-cli"} {
			f := filepath.Join(corpora, "upstream", source, row.test)
			if found, _ := filepath.Glob(f); len(found) > 0 && !seen[f] {
				seen[f] = true
				files = append(files, f)
			}
		}
	}
	return files
}

// explained counts what was compared.
type explained struct {
	t              *testing.T
	rules, failing int
}

func (e *explained) enough(rules, failing int) {
	e.t.Helper()
	e.t.Logf("%d rules explained, %d of them failing", e.rules, e.failing)
	if e.rules < rules || e.failing < failing {
		e.t.Error("too few")
	}
}

func (e *explained) file(file string) {
	var test publishedTest
	decodeFile(e.t, file, &test)
	dir := filepath.Dir(file)
	resources := prepared(objectsOf(e.t, dir, test.Resources))
	engine, _ := New(append(objectsOf(e.t, dir, test.Policies), objectsOf(e.t, dir, test.Exceptions)...),
		Options{Kinds: plainKinds{}, Cluster: policy.NewCluster(resources...)})
	if engine == nil {
		return
	}
	for _, o := range resources {
		for _, op := range []policy.Operation{policy.Create, policy.Update, policy.Delete} {
			e.request(engine, requestFor(o, op))
		}
	}
}

// request explains every rule that there is.
func (e *explained) request(engine *Engine, req *policy.Request) {
	e.t.Helper()
	results, err := engine.Validator().Validate(context.Background(), req)
	rendertest.OK(e.t, err)
	steps, err := engine.Mutator().Mutate(context.Background(), req)
	rendertest.OK(e.t, err)
	var mutations []policy.Result
	for _, s := range steps {
		mutations = append(mutations, s.Result)
	}
	done := map[string]bool{}
	for _, p := range engine.Policies() {
		if done[p.Name] {
			continue
		}
		done[p.Name] = true
		e.agrees(engine.Validator().(policy.Explainer), req, p, "", results)
		e.agrees(engine.Mutator().(policy.Explainer), req, p, "", mutations)
		for i, rule := range p.AllRules() {
			if i < 4 {
				e.agrees(engine.Validator().(policy.Explainer), req, p, rule.Name, results)
			}
		}
	}
}

func (e *explained) agrees(x policy.Explainer, req *policy.Request, p *Policy, rule string, results []policy.Result) {
	e.t.Helper()
	es, err := x.Explain(context.Background(), req, p.Name, rule)
	rendertest.OK(e.t, err)
	var got, want []policy.Result
	for i := range es {
		got = append(got, es[i].Results...)
		e.explanation(&es[i])
	}
	asked := make(map[string]bool) // the rule and those that autogen made from it
	for _, one := range p.AllRules() {
		asked[one.Name] = rule == "" || one.Name == rule || one.Base != nil && one.Base.Name == rule
	}
	for _, r := range results {
		if r.Policy == p.Name && asked[r.Rule] {
			want = append(want, r)
		}
	}
	byRule := func(a, b policy.Result) int { return strings.Compare(a.Rule+a.Message, b.Rule+b.Message) }
	slices.SortStableFunc(got, byRule)
	slices.SortStableFunc(want, byRule)
	if d := cmp.Diff(want, got); d != "" {
		e.t.Errorf("%s/%s on %s %s: -judged +explained:\n%s", p.Name, rule, req.Operation, req.Name, d)
	}
	if rule != "" {
		return
	}
	if again, _ := x.Explain(context.Background(), req, p.Name, rule); !slices.Equal(bytesOf(es), bytesOf(again)) {
		e.t.Errorf("%s/%s on %s %s: a second explanation differs", p.Name, rule, req.Operation, req.Name)
	}
}

func bytesOf(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}

// explanation holds that what an explanation says about its parts comes to what
// it says about the whole.
func (e *explained) explanation(x *policy.Explanation) {
	e.t.Helper()
	e.rules++
	what := x.Policy + "/" + x.Rules[0].Name
	if got := matched(x.Match); x.Matches != got && !(x.Matches == policy.Undecided && tells(x, policy.Unknown)) {
		e.t.Errorf("%s: matches %s, and its checks come to %s: %+v", what, x.Matches, got, x.Match)
	}
	if x.Matches == policy.No && len(x.Trials)+len(x.Results) > 0 {
		e.t.Errorf("%s: does not match, and is evaluated", what)
	}
	for _, r := range x.Results {
		if r.Outcome == policy.Pass || r.Outcome == policy.Skip {
			continue
		}
		e.failing++
		if !tells(x, r.Outcome) {
			e.t.Errorf("%s: %s, but no step came to that: %s\n%s", what, r.Outcome, r.Message, bytesOf(x.Trials))
		}
	}
	if size := len(bytesOf(x)); size > 1<<20 {
		e.t.Errorf("%s: %d bytes", what, size)
	}
}

// tells reports whether some step came to an outcome.
func tells(x *policy.Explanation, o policy.Outcome) bool {
	for _, c := range x.Match {
		if o == policy.Unknown && c.Answer == policy.Undecided {
			return true
		}
	}
	for _, t := range x.Trials {
		for _, e := range slices.Concat(t.Conditions, t.Variables, t.Validations) {
			switch {
			case o == policy.Unknown && e.Unknown != "", o == policy.Error && e.Error != "", o == policy.Fail && e.Value == "false" && !strings.Contains(e.Name, "reconditions"), o == policy.Fail && e.Error != "":
				return true
			}
		}
		if t.Problem != "" {
			return true
		}
	}
	return false
}

// matched is what checks come to: of the filters of match any one or all, and
// none of exclude. The filters of exceptions tell nothing of that.
func matched(checks []policy.Check) policy.Answer {
	filters := map[string]policy.Answer{}
	var order []string
	for _, c := range checks {
		name := c.Name
		switch {
		case strings.HasPrefix(name, "exception"):
			continue
		case strings.HasPrefix(name, "match"), strings.HasPrefix(name, "exclude"):
			if i := strings.Index(name, "]"); i >= 0 {
				name = name[:i+1]
			} else {
				name, _, _ = strings.Cut(name, ".")
			}
		}
		if _, ok := filters[name]; !ok {
			filters[name] = policy.Yes
			order = append(order, name)
		}
		if filters[name] != policy.No && c.Answer != policy.Yes {
			filters[name] = c.Answer
		}
	}
	return allOf(filters, order)
}

func allOf(filters map[string]policy.Answer, order []string) policy.Answer {
	anyMatch, excludedAll, excludes := false, true, 0
	for _, name := range order {
		holds := filters[name] != policy.No
		switch {
		case strings.HasPrefix(name, "match.any"):
			anyMatch = anyMatch || holds
		case strings.HasPrefix(name, "match"):
			anyMatch = anyMatch || holds
			if !holds {
				return policy.No
			}
		case strings.HasPrefix(name, "exclude.any"):
			if filters[name] == policy.Yes {
				return policy.No
			}
		case strings.HasPrefix(name, "exclude"):
			excludes++
			excludedAll = excludedAll && filters[name] == policy.Yes
		case !holds:
			return policy.No
		}
	}
	return answer(anyMatch && (excludes == 0 || !excludedAll))
}

// TestSecretsAreNotExplained holds that no explanation of a Secret, or of what
// a rule holds against one, has its values.
func TestSecretsAreNotExplained(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"testdata/rules/secret-quotes.txtar", "testdata/rules/secret.txtar", "testdata/explain/secret.txtar"} {
		a := rendertest.ParseArchive(t, file)
		engine, _ := New(rendertest.Parse(t, "policy.yaml", fileOf(a, "policy.yaml")), Options{
			Kinds: plainKinds{}, Cluster: policy.NewCluster(rendertest.Parse(t, "cluster.yaml", fileOf(a, "cluster.yaml"))...),
		})
		told := 0
		for _, req := range archiveRequests(t, a) {
			for _, x := range []any{engine.Validator(), engine.Mutator()} {
				for _, p := range engine.Policies() {
					es, err := x.(policy.Explainer).Explain(context.Background(), req, p.Name, "")
					rendertest.OK(t, err)
					for i := range es {
						told++
						es[i].Rules = nil // the policy's own text
						for _, secret := range []string{"hunter2", "aHVudGVy", "4711", "NDcxMQ", "YQ=="} {
							if text := string(bytesOf(es[i])); strings.Contains(text, secret) {
								t.Errorf("%s: %s on %s quotes %q: %s", file, p.Name, req.Name, secret, text)
							}
						}
					}
				}
			}
		}
		if told == 0 {
			t.Errorf("%s: nothing explained", file)
		}
	}
}

// TestExplainNothing holds that a policy of another name is none.
func TestExplainNothing(t *testing.T) {
	t.Parallel()
	e := engineOf(t, onPods("validate: {deny: {}}"), Options{})
	req := requestFor(podWith(map[string]any{}, nil), policy.Create)
	for _, name := range []string{"q", ""} {
		if es, err := e.Validator().(policy.Explainer).Explain(context.Background(), req, name, ""); err != nil || len(es) > 0 {
			t.Errorf("%q: %v %v", name, es, err)
		}
	}
	if es, _ := e.Validator().(policy.Explainer).Explain(context.Background(), req, "p", "s"); len(es) > 0 {
		t.Error(es)
	}
}

// TestHostileExplanations holds that what is told of much is little.
func TestHostileExplanations(t *testing.T) {
	t.Parallel()
	containers := make([]any, 20_000)
	for i := range containers {
		containers[i] = map[string]any{"name": strings.Repeat("n", 200), "image": strings.Repeat("\x1b[31mi", 100)}
	}
	containers[len(containers)-1] = map[string]any{"name": "last", "image": "bad"}
	pod := podWith(map[string]any{}, map[string]any{"containers": containers})
	for _, rule := range []string{
		`validate: {pattern: {spec: {containers: [{image: "!bad", =(securityContext): {=(privileged): false}}]}}}`,
		`validate: {foreach: [{list: request.object.spec.containers, deny: {conditions: {any: [{key: "{{ element.image }}", operator: Equals, value: bad}]}}}]}`,
		`validate: {foreach: [{list: request.object.spec.containers, pattern: {image: "!bad"}}]}`,
		`validate: {deny: {conditions: {any: [{key: "{{ request.object.spec.containers[].image }}", operator: AnyIn, value: [bad]}]}}}`,
	} {
		e := engineOf(t, onPods(rule), Options{})
		es, err := e.Validator().(policy.Explainer).Explain(context.Background(), requestFor(pod, policy.Create), "p", "")
		if err != nil || len(es) != 1 || len(es[0].Results) != 1 || es[0].Results[0].Outcome != policy.Fail {
			t.Fatalf("%s: %v %+v", rule, err, es)
		}
		v := es[0].Trials[0].Validations[0]
		if v.Value != "false" || len(v.Parts) == 0 || len(v.Parts) > maxParts || len(bytesOf(es)) > 200_000 {
			t.Errorf("%s: %s, %d parts, %d bytes", rule, v.Value, len(v.Parts), len(bytesOf(es)))
		}
		if text := string(bytesOf(v)); !strings.Contains(text, "containers[19999]") && !strings.Contains(rule, "[].image") {
			t.Errorf("%s: the last is not told: %s", rule, text)
		}
	}
}
