package kyvernocel

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestMutations holds what mutating policies leave.
func TestMutations(t *testing.T) {
	t.Parallel()
	apply := func(expression string) string { return mutating("ApplyConfiguration", expression) }
	patches := func(expression string) string { return mutating("JSONPatch", expression) }
	for _, c := range []struct{ name, spec, object, want string }{
		{"labels", apply(`Object{metadata: Object.metadata{labels: {"team": "a"}}}`), aPod, `{"metadata":{"labels":{"app":"web","team":"a"}}}`},
		{"containers by name", apply(`Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: 'Always'})}}`), aPod, `{"spec":{"containers":[{"name":"a","imagePullPolicy":"Always"},{"name":"b","imagePullPolicy":"Always"}]}}`},
		{"one patch on another", patches(`[JSONPatch{op: "add", path: "/metadata/annotations", value: {"a": "b"}}, JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("x/y"), value: "z"}]`), aPod, `{"metadata":{"annotations":{"a":"b","x/y":"z"}}}`},
		{"numbers", patches(`[JSONPatch{op: "add", path: "/spec/activeDeadlineSeconds", value: 900}]`), aPod, `{"spec":{"activeDeadlineSeconds":900}}`},
		{"nothing", patches(`[]`), aPod, ``},
		{"a condition over a variable", `{variables: [{name: is, expression: object.metadata.name == 'p'}], matchConditions: [{name: c, expression: variables.is}], mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/is', value: variables.is ? 'p' : 'q'}]"}}]}`, aPod, `{"metadata":{"labels":{"is":"p"}}}`},
		{"the second sees what the first did", `{mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}]"}}, {patchType: JSONPatch, jsonPatch: {expression: "object.metadata.labels.a == 'b' ? [JSONPatch{op: 'add', path: '/metadata/labels/c', value: 'd'}] : []"}}]}`, aPod, `{"metadata":{"labels":{"a":"b","c":"d"}}}`},
		{"a Deployment's pod", apply(`Object{spec: Object.spec{dnsPolicy: 'Default'}}`), aDeployment, `{"spec":{"template":{"spec":{"dnsPolicy":"Default"}}}}`},
		{"a CronJob's pod", apply(`Object{spec: Object.spec{dnsPolicy: 'Default'}}`), aCronJob, `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"dnsPolicy":"Default"}}}}}}`},
		{"a kind that nobody knows", `{matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}, ` + apply(`Object{spec: Object.spec{size: 3}}`)[1:], "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {color: red}}", `{"spec":{"size":3}}`},
	} {
		got := respond(t, policyOf(t, Mutating, c.spec), c.object, libraryMocks(t))
		if len(got) != 1 || got[0].Status != StatusPass {
			t.Errorf("%s: %s", c.name, said(got))
			continue
		}
		if c.want == "" {
			if got[0].Patched != nil {
				t.Errorf("%s: %v", c.name, got[0].Patched)
			}
			continue
		}
		var want map[string]any
		rendertest.OK(t, json.Unmarshal([]byte(c.want), &want))
		if d := cmp.Diff(tidy(want), tidy(within(want, got[0].Patched))); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func mutating(patchType, expression string) string {
	field := "applyConfiguration"
	if patchType == "JSONPatch" {
		field = "jsonPatch"
	}
	data, _ := json.Marshal(map[string]any{"mutations": []any{map[string]any{"patchType": patchType, field: map[string]any{"expression": expression}}}})
	return string(data)
}

// within is the part of got that has the keys of want.
func within(want, got any) any {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		part := map[string]any{}
		for k, v := range w {
			if value, ok := g[k]; ok {
				part[k] = within(v, value)
			}
		}
		if _, labels := w["app"]; labels {
			return g
		}
		return part
	case []any:
		g, _ := got.([]any)
		var part []any
		for i, v := range g {
			if i < len(w) {
				v = within(w[i], v)
			}
			part = append(part, v)
		}
		return part
	}
	return got
}

func TestBrokenMutations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spec, want string }{
		{mutating("ApplyConfiguration", `Object{spec: Object.metadata{}}`), "error failed to evaluate policy: type mismatch: "},
		{mutating("JSONPatch", `[JSONPatch{op: "remove", path: "/spec/x"}]`), "error failed to evaluate policy: JSON Patch: "},
		{mutating("JSONPatch", `object.x`), "error failed to evaluate policy: no such key: x"},
		{mutating("ApplyConfiguration", `Object{metadata: Object.metadata{labels: Object.metadata.labels{a: http.Get('http://x').body}}}`), "unknown needs the answer of http://x to GET"},
		{mutating("JSONPatch", `[JSONPatch{op: "copy", from: "/spec", path: "/spec/a"}].map(p, [1,2,3,4,5,6,7,8,9,0].map(i, [1,2,3,4,5,6,7,8,9,0].map(j, [1,2,3,4].map(k, p)))).flatten().flatten().flatten()`), "error failed to evaluate policy: JSON Patch: 400 operations refused, of which 400 are copies"},
	} {
		got := respond(t, policyOf(t, Mutating, c.spec), aPod, libraryMocks(t))
		if len(got) != 1 || !strings.HasPrefix(string(got[0].Status)+" "+got[0].Message, c.want) {
			t.Errorf("%s: %s, want %s", c.spec, said(got), c.want)
		}
	}
}

// TestTargets holds policies that change objects which are there.
func TestTargets(t *testing.T) {
	t.Parallel()
	spec := `{targetMatchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}, targetMatchConditions: [{name: c, expression: object.metadata.namespace == 'prod'}], ` +
		mutating("JSONPatch", `[JSONPatch{op: "add", path: "/data/seen", value: "yes"}]`)[1:]
	mocks := libraryMocks(t)
	mocks.Targets = mocks.Resources
	var got []string
	for _, r := range respond(t, policyOf(t, Mutating, spec), aPod, mocks) {
		data, _ := r.Patched["data"].(map[string]any)
		got = append(got, fmt.Sprint(r.Target.GetName(), " ", r.Status, " ", data["seen"]))
	}
	rendertest.Equal(t, []string{"cm pass yes", "other skip <nil>"}, got)
}

// TestGenerated holds what generating policies make.
func TestGenerated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, kind, spec, want string }{
		{"in a namespace", Generating, `{generate: [{expression: "generator.Apply('dev', [{'kind': dyn('ConfigMap'), 'apiVersion': dyn('v1'), 'metadata': dyn({'name': object.metadata.name})}])"}]}`, `[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"p","namespace":"dev"}}]`},
		{"of unlike values", Generating, `{generate: [{expression: "generator.apply('dev', [{'kind': 'ConfigMap', 'apiVersion': 'v1', 'metadata': {'name': 'x'}, 'data': {'a': 1}}])"}]}`, `[{"apiVersion":"v1","data":{"a":1},"kind":"ConfigMap","metadata":{"name":"x","namespace":"dev"}}]`},
		{"of what is there", Generating, `{generate: [{expression: "generator.apply('dev', [resource.Get('v1', 'configmaps', 'prod', 'cm')])"}]}`, `[{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"labels":{"team":"a"},"name":"cm","namespace":"dev"}}]`},
		{"of a list of what is there", Generating, `{generate: [{expression: "generator.apply('qa', [resource.List('v1', 'configmaps', 'dev')])"}]}`, `[{"apiVersion":"v1","data":{"k":"w"},"kind":"ConfigMap","metadata":{"name":"other","namespace":"qa"}}]`},
		{"for each", Generating, `{generate: [{expression: "['a', 'b'].all(ns, generator.apply(ns, [{'kind': 'X', 'metadata': {'name': ns}}]))"}]}`, `[{"kind":"X","metadata":{"name":"a","namespace":"a"}},{"kind":"X","metadata":{"name":"b","namespace":"b"}}]`},
		{"in its own namespace", "NamespacedGeneratingPolicy", `{generate: [{expression: "generator.apply([{'kind': 'X', 'metadata': {'name': 'a'}}])"}]}`, `[{"kind":"X","metadata":{"name":"a","namespace":"prod"}}]`},
		{"of a template", Generating, `{variables: [{name: labels, expression: "{'a': 'b'}"}], generate: [{template: {interpolate: cel, value: "kind: X\nmetadata: {name: (( object.metadata.name ))-x, labels: (( variables.labels )), n: (( 1 + 1 ))}\ntext: \"\\\\((no)) (( ')' ))\"\nlist: [(( size('abc') )), 4]\n---\nkind: Y"}}]}`, `[{"kind":"X","list":[3,4],"metadata":{"labels":{"a":"b"},"n":2,"name":"p-x"},"text":"((no)) )"},{"kind":"Y"}]`},
		{"of a template as it is", Generating, `{generate: [{template: {value: "kind: X\nname: (( object.metadata.name ))"}}]}`, `[{"kind":"X","name":"(( object.metadata.name ))"}]`},
	} {
		got := respond(t, policyOf(t, c.kind, c.spec), aPod, libraryMocks(t))
		if len(got) != 1 || got[0].Status != StatusPass {
			t.Errorf("%s: %s", c.name, said(got))
			continue
		}
		data, err := json.Marshal(got[0].Generated)
		if err != nil || string(data) != c.want {
			t.Errorf("%s: %s, want %s", c.name, data, c.want)
		}
	}
	broken := `{generate: [{template: {interpolate: cel, value: "kind: X\nname: a-(( object.metadata ))"}}]}`
	if got := respond(t, policyOf(t, Generating, broken), aPod, nil); got[0].Status != StatusError {
		t.Errorf("an object in a text: %s", said(got))
	}
}

// TestExplain holds what an explanation has: questions, values, culprits.
func TestExplain(t *testing.T) {
	t.Parallel()
	spec := "matchConditions: [{name: c, expression: 'true'}]\nvariables: [{name: all, expression: object.spec.containers}, {name: unread, expression: '1'}]\n" +
		validating("variables.all.all(c, c.?securityContext.?privileged.orValue(false) == false)")
	c := chainOf(t, Options{}, policyOf(t, Validating, spec))
	es, err := c.Explain(context.Background(), policy.Requests(nil, parsed(t, aDeployment))[0], "p", "")
	if err != nil || len(es) != 1 || len(es[0].Trials) != 1 {
		t.Fatalf("%+v %v", es, err)
	}
	trial := es[0].Trials[0]
	v := trial.Validations[0]
	got := []string{
		string(es[0].Matches), es[0].Match[0].Name, trial.Conditions[0].Value, v.Value, v.Culprits[0].Pointer, v.Culprits[0].Value,
		trial.Variables[1].NotRun, string(es[0].Results[0].Outcome), es[0].Rules[0].Name,
	}
	want := []string{"yes", "resourceRules[0]", "true", "false", "/spec/template/spec/containers/0/securityContext/privileged", "true", "nothing read it", "fail", "validations[0]"}
	rendertest.Equal(t, want, got)
}

// TestSecrets holds that no value of a Secret is told.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: prod}, stringData: {k: hunter2}}"
	for _, expression := range []string{"int(object.data.k) == 1", "object.data[object.data.k] == 'x'", "duration(object.data.k) == duration('1s')"} {
		spec := "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [secrets]}]}\n" + validating(expression)
		for _, line := range reviewed(t, chainOf(t, Options{}, policyOf(t, Validating, spec)), secret) {
			if strings.Contains(line, "hunter2") || strings.Contains(line, "aHVudGVyMg") {
				t.Errorf("%s: %s", expression, line)
			}
		}
	}
}

// TestMessagesOfSecrets holds that messages tell what a Secret is called, and
// not what it holds, also of one that is looked up.
func TestMessagesOfSecrets(t *testing.T) {
	t.Parallel()
	const secret = "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: prod}, data: {k: aHVudGVyMg==}}"
	for expression, want := range map[string]string{
		"string(object.data.k)": "not shown, since it may quote a Secret",
		"object.metadata.name":  "it is s",
		"string(resource.Get('v1', 'secrets', 'prod', 's').data.k)": "not shown, since it may quote a Secret",
	} {
		spec := "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [secrets]}]}\n" +
			"validations: [{expression: '1 == 2', messageExpression: \"'it is ' + " + expression + "\"}]\n"
		lines := reviewed(t, chainOf(t, Options{Cluster: policy.NewCluster(parsed(t, secret)...)}, policyOf(t, Validating, spec)), secret)
		if all := strings.Join(lines, "\n"); !strings.Contains(all, want) || strings.Contains(all, "aHVudGVyMg") {
			t.Errorf("%s: %s, want %s", expression, all, want)
		}
	}
}

// TestHostile holds expressions and policies that are made to stall.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, [1,2,3,4,5,6,7,8,9,10].all(g, [1,2,3,4,5,6,7,8,9,10].all(h, a + b + c + d + e + f + g + h > 0))))))))`,
		`lists.range(1000000).all(i, sha256(object.metadata.annotations.big) != '')`,
		`quantity('1e999999999').isGreaterThan(quantity('1'))`,
		`'a'.replace('a', 'b').matches('(((((a*)*)*)*)*)*$')`,
		`random('(a{1000}){1000}') == ''`,
		`yaml.parse('a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\ng: [*f, *f, *f, *f, *f, *f, *f, *f, *f]').g.size() == 9`,
	} {
		big := strings.Replace(aPod, "labels: {app: web}", "annotations: {big: "+strings.Repeat("x", 100_000)+"}", 1)
		got := respond(t, policyOf(t, Validating, validating(expression)), big, nil)
		if len(got) != 1 || got[0].Status == StatusUndecided {
			t.Errorf("%s: %s", expression, said(got))
		}
	}
	var aliases strings.Builder
	aliases.WriteString("a: &a [x, x]\nb: &b [*a, *a]\n")
	for c := 'c'; c < 'z'; c++ {
		fmt.Fprintf(&aliases, "%c: &%c [*%c, *%c]\n", c, c, c-1, c-1)
	}
	p := policyOf(t, Generating, `{generate: [{template: {value: "kind: X"}}]}`)
	spec := p.Object["spec"].(map[string]any)
	spec["generate"] = []any{map[string]any{"template": map[string]any{"value": aliases.String()}}}
	if _, err := New([]*render.Object{p}, Options{Kinds: kindsOf(t)}); err == nil || !strings.Contains(err.Error(), "is too large") {
		t.Errorf("a template of aliases: %v", err)
	}
}

// TestConcurrent evaluates by one engine from several sides.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	kinds := kindsOf(t)
	e, err := New(benchPolicies(t, 4), Options{Kinds: kinds})
	rendertest.OK(t, err)
	reqs := benchRequests(t, kinds, 40)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, req := range reqs {
				if results, err := e.Validator().Validate(context.Background(), req); err != nil || len(results) != 8 {
					t.Errorf("%d results, %v", len(results), err)
				}
			}
		})
	}
	all.Wait()
}
