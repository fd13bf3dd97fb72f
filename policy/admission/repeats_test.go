package admission

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/enginetest"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// readingExpressions read objects in every way that the reads of a policy tell apart.
var readingExpressions = []string{
	"has(object.spec.a)", "object.spec.a == null", "object.spec.?a.orValue(1) != 1", "object.spec.l != null && size(object.spec.l) < 2",
	"object.spec.l == []", "size(object.spec.a) > 3", "object.spec.m == {}", "'k' in object.spec.m", "'k' in object.spec.l", "'k' in object.spec.a",
	"object.metadata.name in object.spec.m", "object.spec.m[object.spec.a] == 'k'", "object.spec.m['k'] == object.spec.a", "object.spec.l[0].k == 'k'",
	"object.spec.l[object.spec.i] == 'k'", "object.spec[?'a'].hasValue()", "object.spec.l.all(x, has(x.k))", "object.spec.m.all(k, k != 'k')",
	"object.spec.m.exists(k, object.spec.m[k] == 'k')", "object.spec.l.exists_one(x, x.k == 'k')", "object.spec.l.map(x, x.k).exists(y, y == 'k')",
	"object.spec.l.filter(x, x.k == 'k').map(x, x.v).size() == 1", "(object.spec.l + object.spec.?more.orValue([])).all(x, x.k != 'k')",
	"(object.spec.a + object.metadata.name).size() < 9", "size(object.spec.a + 'x') < 3", "type(object.spec.a) == string", "string(object.spec.a) == 'k'",
	"['a', 'i'].all(k, k in object.spec)", "['a', 'm'].all(k, type(object.spec[k]) != map)", "['a', 'i'].filter(k, k in object.spec).all(k, object.spec[k] != 'k')",
	"object.spec.?m.?k.optMap(x, x + '!').orValue('') != 'k!'", "object.spec.l.map(x, [x]).all(y, y[0].k == 'k')",
	"{'x': object.spec.m}.x.k == 'k'", "[object.spec.m, object.spec.l[0]].exists(x, x.k == 'k')", "(object.spec.i > 2 ? object.spec.l : object.spec.more).size() == 1",
	"[?object.spec.?a].size() == 1", "object.spec.l.all(x, object.spec.l.exists(y, y.k == x.v))", "object.spec.l.isSorted()", "object.spec.l.map(x, x.v).isSorted()",
	"quantity(object.spec.a).isLessThan(quantity('1'))", "object.spec.a.matches('^k')", "variables.list.exists(x, variables.named == x.k)",
	"variables.list.all(x, x.?v.orValue('v') != '')", "dyn(object.spec.i) == 2.0", "object.spec.i == 2", "object.spec.l.exists(x, x == null)",
	"object.spec.l == object.spec.more", "!(object.spec.a in ['k', 'v'])", "object.spec.l[?0].?k.orValue('') != 'k'", "has(object.spec.m.k) ? object.spec.m.k != 'k' : true",
	"object.spec.m.size() == 0", "object.spec.m.map(k, k).join(',') == 'k,v'", "object.spec.l.map(x, x.k).join(',') != 'k,k'", "object.spec.a.split('').size() < 3",
	"object.spec.m != 'x'", "object.spec.l == 'x'", // errors for kinds that are built in
}

// TestRepeats holds that verdicts on objects that are equal in what a policy reads are
// those that evaluating each gives: over policies of every kind of expression and those
// of the pack, and objects that differ a little.
func TestRepeats(t *testing.T) {
	t.Parallel()
	t.Run("expressions", func(t *testing.T) {
		holdRepeats(t, rendertest.Parse(t, "p.yaml", readingPolicies()), rendertest.Parse(t, "o.yaml", readObjects))
	})
	t.Run("pack", func(t *testing.T) {
		files, err := filepath.Glob("../packs/best-practices/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatal("no policies", err)
		}
		var policies []*render.Object
		for _, f := range files {
			data := rendertest.ReadFile(t, f)
			policies = append(policies, rendertest.Parse(t, f, data)...)
		}
		holdRepeats(t, policies, rendertest.Parse(t, "o.yaml", fmt.Sprintf(benchObject, 1)+restlessObject))
	})
}

func readingPolicies() string {
	var text strings.Builder
	for i, e := range readingExpressions {
		fmt.Fprintf(&text, "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p%d}\nspec:\n"+
			"  matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE], resources: ['*']}]}\n"+
			"  variables:\n  - {name: list, expression: 'object.spec.l + object.spec.?more.orValue([])'}\n  - {name: named, expression: object.spec.a}\n"+
			"  validations:\n  - {expression: %q, messageExpression: %q}\n  - {expression: %q}\n"+
			"---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: p%d}\nspec: {policyName: p%d, validationActions: [Deny]}\n",
			i, e, "'of ' + object.metadata.name + string("+e+")", "!("+e+")", i, i)
	}
	return text.String()
}

const readObjects = `
apiVersion: v1
kind: Pod
metadata: {name: k}
spec: {a: k, i: 2, m: {k: k, v: v}, l: [{k: k, v: v}, {k: v}], more: [{k: k}]}
---
apiVersion: v1
kind: Pod
metadata: {name: v}
spec: {a: "1", i: 0, m: {}, l: []}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: k}
spec: {a: k, i: 2, m: {k: k, v: v}, l: [{k: k, v: v}, {k: v}], more: [{k: k}]}
`

const restlessObject = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, annotations: {a: b}}
spec:
  hostPID: true
  nodeSelector: {kubernetes.io/os: linux}
  volumes: [{name: v, hostPath: {path: /var/run/docker.sock}}, {name: w, emptyDir: {medium: Memory}}]
  containers:
  - name: a
    image: nginx:latest
    env: [{name: PASSWORD, value: x}, {name: A, value: b}, {name: A, value: c}]
    ports: [{name: http, containerPort: 80}]
    livenessProbe: {httpGet: {port: http}}
    readinessProbe: {httpGet: {port: other}}
    volumeMounts: [{name: v, mountPath: /x}]
    securityContext: {readOnlyRootFilesystem: true}
    resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}
`

func holdRepeats(t *testing.T, policies, objects []*render.Object) {
	t.Helper()
	kinds, err := schema.New(nil, schema.Options{})
	rendertest.OK(t, err)
	cluster := policy.NewCluster()
	engine := func() *Engine {
		e, err := New(policies, Options{Cluster: cluster, Kinds: kinds})
		rendertest.OK(t, err)
		return e
	}
	with, without := engine(), engine()
	for _, b := range without.policies {
		b.repeats = cel.Repeats[verdict]{}
	}
	enginetest.Repeats(t, kinds, with, without, objects, 1000, enginetest.Changes{Fields: []string{"spec", "metadata"}, Key: "k", Values: []any{
		"k", "v", "", "longer than nine", "1", int64(2), int64(0), 2.0, true, nil,
		map[string]any{},
		map[string]any{"k": "v"},
		[]any{},
		[]any{"k"},
		[]any{map[string]any{"k": "k"}},
	}})
	looked := 0
	for _, b := range with.policies {
		if b.repeats.Found() > 50 {
			looked++
		}
	}
	if looked < 15 {
		t.Errorf("only %d of %d policies saw repeats", looked, len(with.policies))
	}
}
