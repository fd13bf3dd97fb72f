package policytest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// obedient is a policy whose annotation "rules" names its rules. What they say
// of a resource stands in the resource's annotations, by the policy's name:
// "rule=status:message", several with commas. It mutates where a rule's status
// is "pass" and its name begins with "mutate": the label of that name is set.
type obedient struct {
	policy *render.Object
	seen   func(Phase, *KyvernoRequest)
}

func (o obedient) Rules() []string { return strings.Fields(o.policy.GetAnnotations()["rules"]) }

func (o obedient) Evaluate(_ context.Context, phase Phase, req *KyvernoRequest) (KyvernoVerdict, error) {
	o.seen(phase, req)
	v := KyvernoVerdict{Silent: o.policy.GetAnnotations()["silent"] != ""}
	subject := req.Subject()
	for _, said := range strings.Split(subject.GetAnnotations()[o.policy.GetName()], ",") {
		rule, status, ok := strings.Cut(said, "=")
		if !ok || phaseOfRule(rule) != phase {
			continue
		}
		status, message, _ := strings.Cut(status, ":")
		r := KyvernoResponse{Rule: strings.TrimPrefix(rule, "cel"), Status: status, Message: message}
		switch {
		case phase == Generating:
			r.Generated = []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": rule, "namespace": "default"}}}
		case phase == Mutating && status == "pass":
			v.Object = runtime.DeepCopyJSON(subject.Object)
			v.Object["metadata"].(map[string]any)["labels"] = map[string]any{rule: "yes"}
		}
		v.Silent, v.Rules = false, append(v.Rules, r)
	}
	return v, nil
}

func phaseOfRule(rule string) Phase {
	for _, p := range []Phase{Mutating, Generating} {
		if strings.Contains(rule, string(p)) {
			return p
		}
	}
	return Validating
}

// kyvernoFiles are policies and resources that tests are about.
func kyvernoFiles(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{
		"policies.yaml": {Data: []byte(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p, annotations: {rules: "a b mutate-it generate-it"}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: v}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: silent, annotations: {silent: "yes"}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: broken}
`)},
		"resources.yaml": {Data: []byte(`
apiVersion: v1
kind: Pod
metadata: {name: good, annotations: {p: "a=pass:fine,mutate-it=pass:done,generate-it=pass", v: "cel=pass:success"}}
---
apiVersion: v1
kind: Pod
metadata: {name: bad, annotations: {p: "a=fail:not fine,b=skip:later", v: "cel=fail:no"}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: bad, namespace: prod, annotations: {p: "autogen-a=fail:not fine"}}
---
apiVersion: v1
kind: Pod
metadata: {name: bare}
`)},
	}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

const kyvernoHead = "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [policies.yaml]\nresources: [resources.yaml]\n"

func kyvernoEngines(seen func(Phase, *KyvernoRequest)) Engines {
	e := testEngines(new([]*policy.Request))
	e.Kyverno = func(p *render.Object, _ *KyvernoSetup) (KyvernoPolicy, error) {
		if p.GetName() == "broken" {
			return nil, &render.Error{Span: p.Span(""), Err: fmt.Errorf("is refused")}
		}
		if seen == nil {
			seen = func(Phase, *KyvernoRequest) {}
		}
		return obedient{p, seen}, nil
	}
	return e
}

func runKyvernoSuite(t *testing.T, text string, files map[string]string, seen func(Phase, *KyvernoRequest)) Suite {
	t.Helper()
	fsys := kyvernoFiles(files)
	fsys["kyverno-test.yaml"] = &fstest.MapFile{Data: []byte(text)}
	r, err := Run(context.Background(), Options{FS: fsys, Engines: kyvernoEngines(seen)}, "kyverno-test.yaml")
	rendertest.OK(t, err)
	return r.Suites[0]
}

// line is a case in short.
func (c Case) line() string {
	verdict := "ok"
	switch {
	case c.Got == "":
		verdict = "ERROR"
	case !c.OK:
		verdict = "FAIL"
	case c.Vacuous:
		verdict = "VACUOUS"
	}
	return fmt.Sprintf("%s %s/%s %s %s: want %s, got %s: %s", verdict, c.Policy, c.Rule, c.Kind, c.Resource, c.Want, c.Got, c.Reason)
}

// TestKyvernoCases holds what comes of results, misspelt ones among them.
func TestKyvernoCases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, result string
		want         []string
	}{
		{"as expected", "{policy: p, rule: a, kind: Pod, resources: [good], result: pass}", []string{"ok p/a Pod default/good: want pass, got pass: fine"}},
		{"otherwise", "{policy: p, rule: a, kind: Pod, resources: [good], result: fail}", []string{"FAIL p/a Pod default/good: want fail, got pass: fine"}},
		{"one name, several objects, each its rule", "{policy: p, rule: a, kind: Pod, resources: [bad], result: fail}", []string{
			"ok p/a Pod default/bad: want fail, got fail: not fine", "ok p/autogen-a Deployment prod/bad: want fail, got fail: not fine",
		}},
		{"namespace", "{policy: p, rule: a, kind: Deployment, resources: [prod/bad], result: fail}", []string{"ok p/autogen-a Deployment prod/bad: want fail, got fail: not fine"}},
		{"generated rule by name", "{policy: p, rule: autogen-a, kind: Deployment, resources: [prod/bad], result: fail}", []string{"ok p/autogen-a Deployment prod/bad: want fail, got fail: not fine"}},
		{"skip", "{policy: p, rule: b, kind: Pod, resources: [default/bad], result: skip}", []string{"ok p/b Pod default/bad: want skip, got skip: later"}},
		{"excluded", "{policy: p, rule: b, kind: Pod, resources: [good], result: fail}", []string{"VACUOUS p/b Pod default/good: want fail, got excluded: rule b does not match it"}},
		{"CEL", "{policy: v, isValidatingPolicy: true, kind: Pod, resources: [good, default/bad], result: pass}", []string{
			"ok v/ Pod default/good: want pass, got pass: success", "FAIL v/ Pod default/bad: want pass, got fail: no",
		}},
		{"flags in any case, a rule's name for nothing", "{policy: v, ISVALIDATINGPOLICY: true, rule: whatever, kind: Pod, resources: [good], result: pass}", []string{"ok v/ Pod default/good: want pass, got pass: success"}},
		{"no response at all", "{policy: silent, isValidatingPolicy: true, kind: Pod, resources: [good], result: fail}", []string{"FAIL silent/ Pod default/good: want fail, got excluded: the policy does not match it"}},
		{"misspelt rule", "{policy: p, rule: c, kind: Pod, resources: [good], result: pass}", []string{`ERROR p/c Pod good: want pass, got : kyverno-test.yaml:7:15: policy p has no rule "c"; there are a, b, mutate-it, generate-it`}},
		{"no rule", "{policy: p, kind: Pod, resources: [good], result: pass}", []string{"ERROR p/ Pod good: want pass, got : kyverno-test.yaml:7:4: rule is missing: name the rule of policy p that gives the result; there are a, b, mutate-it, generate-it"}},
		{"misspelt policy", "{policy: q, rule: a, kind: Pod, resources: [good], result: pass}", []string{`ERROR q/a Pod good: want pass, got : kyverno-test.yaml:7:4: there is no policy "q" among the policies; there are p, v, silent, broken`}},
		{"misspelt resource", "{policy: p, rule: a, kind: Pod, resources: [good, godo], result: pass}", []string{
			"ok p/a Pod default/good: want pass, got pass: fine",
			`ERROR p/a Pod godo: want pass, got : kyverno-test.yaml:7:53: there is no Pod "godo" among the resources; there are default/bad, default/bare, default/good`,
		}},
		{"misspelt kind", "{policy: p, rule: a, kind: Pood, resources: [good], result: pass}", []string{`ERROR p/a Pood good: want pass, got : kyverno-test.yaml:7:24: "good" is not of kind "Pood": there are Pod default/good`}},
		{"wrong kind", "{policy: p, rule: a, kind: Deployment, resources: [good], result: pass}", []string{`ERROR p/a Deployment good: want pass, got : kyverno-test.yaml:7:24: "good" is not of kind "Deployment": there are Pod default/good`}},
		{"wrong kind of one", "{policy: p, rule: a, kind: Pod, resources: [good, prod/bad], result: pass}", []string{
			"ok p/a Pod default/good: want pass, got pass: fine",
			`ERROR p/a Pod prod/bad: want pass, got : kyverno-test.yaml:7:24: "prod/bad" is not of kind "Pod": there are Deployment prod/bad`,
		}},
		{"wrong kind of all", "{policy: p, rule: a, kind: Service, result: pass}", []string{`ERROR p/a Service : want pass, got : kyverno-test.yaml:7:24: none of the resources is of kind "Service": there are Pod default/good, Pod default/bad, Deployment prod/bad, Pod default/bare`}},
		{"misspelt result", "{policy: p, rule: a, kind: Pod, resources: [good], result: passed}", []string{`ERROR p/a Pod good: want passed, got : kyverno-test.yaml:7:54: result "passed" is none of pass, fail, skip, warn, error`}},
		{"no result", "{policy: p, rule: a, kind: Pod, resources: [good]}", []string{"ERROR p/a Pod good: want , got : kyverno-test.yaml:7:3: result is missing; there are pass, fail, skip, warn, error"}},
		{"operation", "{policy: p, rule: a, kind: Pod, resources: [good], result: pass, operation: create}", []string{`ERROR p/a Pod good: want pass, got : kyverno-test.yaml:7:68: operation "create" is none of CREATE, UPDATE, DELETE, CONNECT`}},
		{"flag of another kind", "{policy: p, rule: a, isValidatingPolicy: true, kind: Pod, resources: [good], result: pass}", []string{"ERROR p/a Pod good: want pass, got : kyverno-test.yaml:7:24: isValidatingPolicy is set, and policy p is a ClusterPolicy"}},
		{"policy that is refused", "{policy: broken, rule: a, kind: Pod, resources: [good], result: pass}", []string{`ERROR broken/a Pod good: want pass, got : policy broken is not valid: policies.yaml:16:18: is refused`}},
		{"no resources named: all", "{policy: p, rule: b, kind: Pod, result: skip}", []string{
			"VACUOUS p/b Pod default/good: want skip, got excluded: rule b does not match it", "ok p/b Pod default/bad: want skip, got skip: later",
			"VACUOUS p/b Deployment prod/bad: want skip, got excluded: rule b does not match it", "VACUOUS p/b Pod default/bare: want skip, got excluded: rule b does not match it",
		}},
		{"resourceSpecs", "{policy: p, rule: a, kind: Deployment, resourceSpecs: [{group: apps, version: v1, namespace: prod, name: bad}, {version: v1, namespace: prod, name: bad}], result: fail}", []string{
			"ok p/autogen-a Deployment prod/bad: want fail, got fail: not fine",
			`ERROR p/a Deployment prod/bad: want fail, got : kyverno-test.yaml:7:114: there is no Deployment "prod/bad" among the resources; there are prod/bad`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := runKyvernoSuite(t, kyvernoHead+"results:\n- "+c.result+"\n", nil, nil)
			var got []string
			for _, one := range s.Cases {
				got = append(got, one.line())
			}
			if d := cmp.Diff(c.want, got); d != "" || s.Error != "" {
				t.Error(d, s.Error)
			}
		})
	}
}

// TestKyvernoMutatedAndGenerated holds what mutations and generations are compared with.
func TestKyvernoMutatedAndGenerated(t *testing.T) {
	t.Parallel()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  annotations: {p: \"a=pass:fine,mutate-it=pass:done,generate-it=pass\", v: \"cel=pass:success\"}\n  labels: {mutate-it: \"%s\"}\n"
	files := map[string]string{
		"same.yaml": fmt.Sprintf(pod, "good", "yes"), "other.yaml": fmt.Sprintf(pod, "good", "no"),
		"several.yaml": fmt.Sprintf(pod, "x", "yes") + "---\n" + fmt.Sprintf(pod, "y", "yes"),
		"made.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: generate-it, labels: {app.kubernetes.io/managed-by: kyverno}}\ndata: {}\n",
	}
	for _, c := range []struct{ name, result, want string }{
		{"same", "rule: mutate-it, patchedResources: same.yaml, result: pass", "ok p/mutate-it Pod default/good: want pass, got pass: done"},
		{"other", "rule: mutate-it, patchedResources: other.yaml, result: pass", `FAIL p/mutate-it Pod default/good: want pass, got fail: not as in patchedResources (other.yaml:4:9): /metadata/labels/mutate-it: want "no", got "yes"`},
		{"other, as expected", "rule: mutate-it, patchedResources: other.yaml, result: fail", `ok p/mutate-it Pod default/good: want fail, got fail: not as in patchedResources (other.yaml:4:9): /metadata/labels/mutate-it: want "no", got "yes"`},
		{"not in it", "rule: mutate-it, patchedResources: several.yaml, result: pass", "VACUOUS p/mutate-it Pod default/good: want pass, got pass: done"},
		{"not in it, and must be", "rule: mutate-it, failOnMissingResources: true, patchedResources: several.yaml, result: pass", "FAIL p/mutate-it Pod default/good: want pass, got fail: patchedResources: no such document for Pod default/good"},
		{"generated", "rule: generate-it, generatedResource: made.yaml, result: pass", "ok p/generate-it Pod default/good: want pass, got pass: "},
		{"generated, other", "rule: generate-it, generatedResource: same.yaml, result: pass", `FAIL p/generate-it Pod default/good: want pass, got fail: not as in generatedResource (same.yaml:4:9): /kind: want "Pod", got "ConfigMap"`},
		{"no file", "rule: mutate-it, patchedResources: nothing.yaml, result: pass", "ERROR p/mutate-it Pod good: want pass, got : kyverno-test.yaml:7:62: patchedResources can't be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := runKyvernoSuite(t, kyvernoHead+"results:\n- {policy: p, kind: Pod, resources: [good], "+c.result+"}\n", files, nil)
			if len(s.Cases) != 1 || s.Cases[0].line() != c.want {
				t.Errorf("want %s, got %+v", c.want, s.Cases)
			}
		})
	}
}

// TestKyvernoMocks holds what values make of a request.
func TestKyvernoMocks(t *testing.T) {
	t.Parallel()
	text := kyvernoHead + `
values:
  globalValues: {all: 1, one: global}
  policies:
  - name: p
    resources: [{name: good, values: {one: own, request.operation: UPDATE}}]
    rules: [{name: a, values: {x.y: z}, foreachValues: {e: [1, 2]}}]
  - name: nobody
    resources: [{name: good, values: {a: b}}]
  namespaceSelector: [{name: prod, labels: {env: prod}}]
results:
- {policy: p, rule: a, kind: Pod, resources: [good], result: pass}
- {policy: p, rule: a, kind: Pod, resources: [good], result: pass, operation: DELETE}
`
	var got []string
	s := runKyvernoSuite(t, text, nil, func(phase Phase, req *KyvernoRequest) {
		if phase == Validating && req.Name == "good" && len(req.Rules) > 0 {
			got = append(got, fmt.Sprint(req.Operation, req.Object != nil, req.OldObject != nil, req.Variables, req.Rules, req.Foreach, req.Namespace))
		}
	})
	want := []string{
		"UPDATEtrue true map[all:1 one:own request.operation:UPDATE] map[a:map[x.y:z]] map[a:map[e:[1 2]]]default",
		"DELETEfalse true map[all:1 one:own request.operation:DELETE] map[a:map[x.y:z]] map[a:map[e:[1 2]]]default",
	}
	if d := cmp.Diff(want, slices.Compact(got)); d != "" || s.Error != "" {
		t.Error(d, s.Error)
	}
	if notes := []string{`kyverno-test.yaml:13:5: values are for policy "nobody", which is not among the policies`}; !slices.Equal(s.Notes, notes) {
		t.Errorf("%q", s.Notes)
	}
}

// TestKyvernoChecks holds assertions over what rules say.
func TestKyvernoChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ check, want string }{
		{"{match: {rule: {name: b}}, assert: {status: skip, message: later}}", "ok p/b Pod default/bad: want assert, got assert: later"},
		{"{match: {rule: {name: b}}, assert: {status: pass}}", `FAIL p/b Pod default/bad: want assert, got error: status: want "pass", got "skip"`},
		{"{match: {rule: {name: b}}, error: {status: pass}}", `ok p/b Pod default/bad: want error, got error: status: want "pass", got "skip"`},
		{"{match: {resource: {metadata: {name: nobody}}}, assert: {status: pass}}", "VACUOUS /  : want assert, got excluded: no rule gave a response that the check matches"},
		{"{match: {policy: {metadata: {name: v}}, resource: {metadata: {name: good}}}, assert: {ruleType: Validation}}", "ok v/ Pod default/good: want assert, got assert: success"},
		{"{match: {rule: {name: b}}, assert: {(x)->y: 1}}", "FAIL p/b Pod default/bad: want assert, got error: the response: bindings, such as (x)->y, are not evaluated"},
		{"{match: {rule: {name: b}}}", "ERROR /  : want , got : kyverno-test.yaml:7:3: checks[0] has neither assert nor error"},
	} {
		s := runKyvernoSuite(t, kyvernoHead+"checks:\n- "+c.check+"\n", nil, nil)
		if len(s.Cases) != 1 || s.Cases[0].line() != c.want || s.Error != "" {
			t.Errorf("%s: want %s, got %+v %s", c.check, c.want, s.Cases, s.Error)
		}
	}
}

// TestKyvernoBroken holds that what can't be read is an error of the suite with
// its line, and passes nothing that depends on it.
func TestKyvernoBroken(t *testing.T) {
	t.Parallel()
	const result = "results:\n- {policy: p, rule: a, kind: Pod, resources: [good], result: pass}\n"
	for _, c := range []struct{ text, want string }{
		{"kind: Test\n" + result, "kyverno-test.yaml:1:7: apiVersion must be cli.kyverno.io/v1alpha1"},
		{kyvernoHead + "polices: []\n" + result, `kyverno-test.yaml:6:1: unknown key "polices" in the suite`},
		{kyvernoHead + "results:\n- {policy: p, rules: a, kind: Pod, resources: [good], result: pass}\n", `kyverno-test.yaml:7:15: unknown key "rules" in results[0]`},
		{kyvernoHead + "results:\n- {policy: p, rule: a, status: pass, resource: good}\n", "kyverno-test.yaml:7:38: resource was removed from results: use resources"},
		{strings.Replace(kyvernoHead, "resources.yaml", "nothing.yaml", 1) + result, "kyverno-test.yaml:5:13: nothing.yaml: no such file"},
		{strings.Replace(kyvernoHead, "resources.yaml", "https://example.com/r.yaml", 1) + result, "https://example.com/r.yaml is not read: nothing is fetched"},
		{strings.Replace(kyvernoHead, "resources.yaml", "/etc/passwd", 1) + result, `"/etc/passwd" is not a path relative to the suite`},
		{strings.Replace(kyvernoHead, "resources.yaml", "../../x", 1) + result, "path leads out of the tree"},
		{kyvernoHead, "has neither results nor checks"},
		{kyvernoHead + "variables: values.yaml\n" + result, "kyverno-test.yaml:6:1: values.yaml: no such file"},
		{kyvernoHead + "userinfo: policies.yaml\n" + result, "policies.yaml contains 4 documents, not one"},
		{kyvernoHead + "values: {globalValues: [], polices: []}\n" + result, `unknown key "polices" in values`},
		{kyvernoHead + "values: {globalValues: []}\n" + result, "globalValues must be a mapping"},
		{"[]", "the suite must be a mapping"},
		{"null", "kind must be Test"},
		{"", "contains no test"},
		{"a: &a [*a]", ""},
		{"kind: Test\nresults: 7", "results must be a list"},
		{kyvernoHead + "results: [7]", "results[0] must be a mapping"},
		{kyvernoHead + "results: [{policy: {}, rule: [], resources: {}, result: []}]", "policy must be a string"},
		{kyvernoHead + "Results: []\n" + result, "results is given twice in the suite"},
	} {
		s := runKyvernoSuite(t, c.text, nil, nil)
		if !strings.Contains(s.Error, c.want) || s.Error == "" {
			t.Errorf("%q: want %s, got %s", c.text, c.want, s.Error)
		}
	}
}
