package kyverno

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/enginetest"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// readingRules read objects in every way that the reads of a rule tell apart.
var readingRules = []string{
	"pattern: {spec: {a: k}}", "pattern: {spec: {=(a): '?*'}}", "pattern: {spec: {(a): k, i: '>1'}}", "pattern: {spec: {X(a): 'null'}}",
	"pattern: {spec: {m: '*'}}", "pattern: {spec: {l: [{k: k}]}}", "pattern: {spec: {^(l): [{k: v}]}}", "pattern: {spec: {l: [{(k): k, v: v}]}}",
	"pattern: {spec: {<(i): '2', a: k}}", "pattern: {spec: {m: {k*: k}}}", "pattern: {metadata: {labels: {k*: k}}}", "pattern: {spec: {l: k}}",
	"anyPattern: [{spec: {a: k}}, {spec: {i: 2}}]", "pattern: {spec: {a: '{{ request.object.spec.m.k }}'}}",
	deny("request.object.spec.a", "Equals", "k"), deny("request.object.spec.l[].k", "AnyIn", "[k]"), deny("request.object.spec.m.keys(@)", "AnyIn", "[k]"),
	deny("length(request.object.spec.l)", "GreaterThan", "1"), deny("request.object.spec.l[?k=='k'].v", "AllIn", "[v]"),
	deny("request.object.spec.[l, more][].k | [0] || 'k'", "NotEquals", "k"), deny("request.object.spec.l[-1].k || ''", "Equals", "v"),
	deny("request.object.spec.m.* | [0] || 'k'", "NotEquals", "k"), deny("request.object.spec.{x: a, y: i}.x || ''", "Equals", "k"),
	deny("request.object.spec.l[*].v[] | length(@)", "Equals", "0"), deny("request.object.spec.a && 'x'", "Equals", "x"), deny("!request.object.spec.b", "Equals", "true"),
	deny("request.object.spec.a == request.object.spec.m.k", "Equals", "true"), deny("request.operation || 'k'", "Equals", "CREATE"),
	deny("request.object.spec.more[0:1].k", "AnyIn", "[k]"), deny("request.name", "Equals", "k"), deny("request.oldObject.spec.a || 'k'", "Equals", "k"),
	deny("to_string(request.object.spec.m)", "Equals", "'{}'"), deny("request.object.spec.l[].sort_by(@, &k)[0].k", "AnyIn", "[k]"),
	deny("request.object.metadata.labels.\"{{ request.object.spec.a }}\" || ''", "Equals", "k"),
	foreach("request.object.spec.l", "pattern: {k: k}"), foreach("request.object.spec.[l, more][]", "pattern: {v: '?*'}"), foreach("request.object.spec.l[]", "elementScope: false, pattern: {spec: {a: k}}"),
	foreach("request.object.spec.l[?v]", deny("element.v", "Equals", "k")), foreach("request.object.spec.a", deny("element", "Equals", "k")),
	foreach("request.object.spec.l", deny("element.keys(@)", "AllIn", "[k, v]")), foreach("request.object.spec.more", "foreach: [{list: 'element.l', "+deny("element1.k", "Equals", "k")+"}]"),
	foreach("request.object.spec.l", "context: [{name: e, variable: {jmesPath: 'element.k', default: v}}], "+deny("e", "Equals", "'{{ element.v }}'")),
	foreach("request.object.spec.m.values(@)", deny("element", "Equals", "k")), foreach("request.object.spec.l", "preconditions: {all: [{key: '{{ elementIndex }}', operator: Equals, value: 0}]}, pattern: {k: k}"),
	foreach("found", "pattern: {k: k}"), deny("found[].k", "AnyIn", "[k]"), deny("found[?v=='v'] | length(@)", "Equals", "1"),
}

func deny(key, operator, value string) string {
	return fmt.Sprintf("deny: {conditions: {any: [{key: %q, operator: %s, value: %s}]}}", "{{ "+key+" }}", operator, value)
}

func foreach(list, body string) string {
	return fmt.Sprintf("foreach: [{list: %q, %s}]", list, body)
}

func readingPolicies() string {
	var text strings.Builder
	for i, rule := range readingRules {
		for j, more := range []string{"", "preconditions: {all: [{key: '{{ request.object.spec.b || `false` }}', operator: NotEquals, value: true, message: 'b is {{ request.object.spec.b }}'}]}, "} {
			fmt.Fprintf(&text, "---\napiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p%d-%d}\nspec:\n  rules:\n  - {name: r, match: {any: [{resources: {kinds: [Thing]}}]}, "+
				"context: [{name: found, variable: {jmesPath: 'request.object.spec.[l, more][]', default: []}}], %svalidate: {message: 'of {{ request.object.metadata.name }} {{ request.object.spec.a }}', %s}}\n", i, j, more, rule)
		}
	}
	return text.String()
}

const readObjects = `
apiVersion: example.org/v1
kind: Thing
metadata: {name: k, namespace: default, labels: {k: k}}
spec: {a: k, i: 2, b: false, m: {k: k, v: v}, l: [{k: k, v: v}, {k: v}], more: [{k: k, l: [{k: k}]}]}
---
apiVersion: example.org/v1
kind: Thing
metadata: {name: v, namespace: default}
spec: {a: "1", i: 0, m: {}, l: []}
`

// TestRepeats evaluates each object alone, and again with shared verdicts for objects that
// are equal in all that a rule reads. Both must give the same results, for rules of every
// kind, for published policies where they are present, and for objects that differ a little.
func TestRepeats(t *testing.T) {
	t.Parallel()
	t.Run("rules", func(t *testing.T) {
		holdRepeats(t, rendertest.Parse(t, "p.yaml", readingPolicies()), rendertest.Parse(t, "o.yaml", readObjects), 1000, len(readingRules)/2, 0)
	})
	t.Run("published", func(t *testing.T) {
		var policies []*render.Object
		for _, f := range rendertest.GlobOrSkip(t, filepath.Join(corpora, "upstream/kyverno-policies/*/*/*.yaml")) {
			data := rendertest.ReadFile(t, f)
			objects, _ := render.Parse(f, data)
			policies = append(policies, objects...)
		}
		holdRepeats(t, policies, rendertest.Parse(t, "o.yaml", publishedObject), 1000, 20, 10)
	})
}

const publishedObject = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, labels: {app: web}, annotations: {a: b}}
spec:
  hostPID: true
  nodeSelector: {kubernetes.io/os: linux}
  volumes: [{name: v, hostPath: {path: /var/run/docker.sock}}, {name: w, emptyDir: {medium: Memory}}]
  containers:
  - name: a
    image: nginx:latest
    env: [{name: PASSWORD, value: x}, {name: A, value: b}]
    ports: [{name: http, containerPort: 80, hostPort: 80}]
    livenessProbe: {httpGet: {port: http}}
    volumeMounts: [{name: v, mountPath: /x}]
    securityContext: {readOnlyRootFilesystem: true, capabilities: {add: [SYS_ADMIN], drop: [ALL]}}
    resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}
  - {name: b, image: "ghcr.io/b:1"}
`

// TestRequestKeys holds which objects share the verdicts of a rule.
func TestRequestKeys(t *testing.T) {
	t.Parallel()
	long := "{l: [" + strings.Repeat("{k: k}, ", fewElements+1) + "]}"
	for _, test := range []struct{ rule, a, b, want string }{
		{"pattern: {spec: {a: k}}", "{a: k, i: 1}", "{a: k, i: 2}", "same"},
		{"pattern: {spec: {a: k}}", "{a: k}", "{a: v}", "differ"},
		{"pattern: {spec: {a: '*'}}", "{a: k}", "{a: v}", "same"},
		{"pattern: {spec: {a: '*'}}", "{a: k}", "{a: null}", "differ"},
		{"pattern: {spec: {a: k}}", "{a: '{{x}}'}", "{a: '{{x}}'}", "none"},
		{"pattern: {spec: {a: k}}", "{a: 'x{'}", "{a: 'x{'}", "none"},
		{"pattern: {spec: {a: '{{ request.object.spec.i }}'}}", "{a: k, i: 1}", "{a: k, i: 1, v: 2}", "differ"},
		{deny("request.object.spec.a", "Equals", "'{{ request.object.spec.i }}'"), "{a: k, i: 1}", "{a: k, i: 2}", "differ"},
		{deny("request.object.spec.a", "Equals", "'{{ request.userInfo.username }}'"), "{a: k}", "{a: k}", "none"},
		{deny("request.object.spec.m.keys(@)", "AnyIn", "[k]"), "{m: {k: 1}}", "{m: {k: 2}}", "same"},
		{deny("request.object.spec.m.keys(@)", "AnyIn", "[k]"), "{m: {k: 1}}", "{m: {v: 1}}", "differ"},
		{deny("length(request.object.spec.l)", "Equals", "1"), "{l: [1]}", "{l: [2]}", "differ"},
		{foreach("request.object.spec.l", "pattern: {k: k}"), "{l: [{k: k, v: 1}]}", "{l: [{k: k, v: 2}]}", "same"},
		{foreach("request.object.spec.l", "pattern: {k: k}"), long, long, "none"},
		{foreach("request.object.spec.l[?k]", "pattern: {k: k}"), "{l: [{k: k, v: 1}]}", "{l: [{k: k, v: 2}]}", "differ"}, // its place is searched
		{foreach("request.object.spec.[l, l][]", "pattern: {k: k}"), "{l: [{k: k, v: 1}]}", "{l: [{k: k, v: 2}]}", "differ"},
		{foreach("request.object.spec.l", "elementScope: false, pattern: {spec: {a: k}}"), "{l: [{k: k}], a: k}", "{l: [{k: v}], a: k}", "same"},
		{foreach("request.object.spec.l", "elementScope: false, pattern: {spec: {a: k}}"), "{l: [{k: k}], a: k}", "{l: [{k: k}], a: v}", "differ"},
		{foreach("request.object.spec.l", "pattern: {spec: {a: k}}"), "{l: [k], a: k}", "{l: [k], a: v}", "differ"},
		{"message: 'of {{ request.object.spec.i }}', pattern: {spec: {a: k}}", "{a: v, i: 1}", "{a: v, i: 2}", "same, but for messages"},
		{"message: 'of {{ found }}', foreach: [{list: request.object.spec.l, context: [{name: found, variable: {value: '{{ element.v }}'}}], pattern: {k: k}}]", "{l: [{k: v}]}", "{l: [{k: v}]}", "same, without messages"},
		{"message: 'a {{', deny: {conditions: {any: [{key: a, operator: Equals, value: a, message: ' request.object.spec.i }}'}]}}", "{a: 1}", "{a: 1}", "same, without messages"},
	} {
		e, err := New(rendertest.Parse(t, "p.yaml", "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  background: false\n  rules:\n  - {name: r, match: {any: [{resources: {kinds: [Thing]}}]}, "+
			"context: [{name: found, variable: {value: found}}], validate: {"+test.rule+"}}\n"), Options{Cluster: policy.NewCluster()})
		if e == nil || len(e.policies) == 0 {
			t.Errorf("%s: %v", test.rule, err)
			continue
		}
		got := sharing(e, rendertest.Parse(t, "a.yaml", "apiVersion: example.org/v1\nkind: Thing\nspec: "+test.a)[0].Object, rendertest.Parse(t, "b.yaml", "apiVersion: example.org/v1\nkind: Thing\nspec: "+test.b)[0].Object)
		if got != test.want {
			t.Errorf("%s: %s and %s: %s, want %s", test.rule, test.a, test.b, got, test.want)
		}
	}
}

// sharing says whether the only rule's keys of two objects are the same.
func sharing(e *Engine, a, b map[string]any) string {
	g := e.programs[e.policies[0].AllRules()[0]]
	key := func(object map[string]any, messages bool) (string, bool) {
		k, ok := requestKey{&run{program: g, review: &review{object: object, req: &policy.Request{}}}}.Append(nil, messages)
		return string(k), ok
	}
	ka, ok := key(a, false)
	kb, also := key(b, false)
	ma, messages := key(a, true)
	mb, _ := key(b, true)
	switch {
	case !ok || !also:
		return "none"
	case ka != kb:
		return "differ"
	case !messages:
		return "same, without messages"
	case ma != mb:
		return "same, but for messages"
	}
	return "same"
}

func holdRepeats(t *testing.T, policies, objects []*render.Object, n, least, leastCEL int) {
	t.Helper()
	kinds, err := schema.New(nil, schema.Options{})
	rendertest.OK(t, err)
	engine := func() *Engine {
		e, err := New(policies, Options{Cluster: policy.NewCluster(), Kinds: kinds})
		if e == nil {
			t.Fatal(err)
		}
		return e
	}
	with, without := engine(), engine()
	for _, g := range without.programs {
		g.reads = func() ruleReads { return ruleReads{} }
		if g.cel != nil {
			g.cel().repeats = nil
		}
	}
	enginetest.Repeats(t, kinds, with.Validator(), without.Validator(), objects, n, enginetest.Changes{Fields: []string{"spec", "metadata"}, Key: "k", Values: []any{
		"k", "v", "", "1", "{{ request.name }}", "{", int64(2), int64(0), 2.5, true, nil,
		map[string]any{},
		map[string]any{"k": "v"},
		[]any{},
		[]any{"k"},
		[]any{map[string]any{"k": "k"}},
		slices.Repeat([]any{map[string]any{"k": "k"}}, 12),
	}})
	looked, cel := 0, 0
	for _, g := range with.programs {
		if g.repeats.Found() > 50 {
			looked++
		}
		if g.cel != nil && g.cel().repeats != nil && g.cel().repeats.Found() > 50 {
			cel++
		}
	}
	if cel < leastCEL {
		t.Errorf("only %d rules in CEL saw repeats", cel)
	}
	if looked < least {
		t.Errorf("only %d of %d rules saw repeats", looked, len(with.programs))
	}
}
