package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// mutatedBy takes an object through one policy, and gives what would be stored
// and the results.
func mutatedBy(t testing.TB, p mutationPolicy, o *render.Object) (*render.Object, []policy.Result) {
	t.Helper()
	var faults strings.Builder
	chain := newChain(t, map[string][]*render.Object{
		"policy.yaml":  {object(t, tree(t, p.build()))},
		"cluster.yaml": rendertest.Parse(t, "ns.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: default}}"),
	}, map[string]string{"unbound": "assume"}, &faults)
	if faults.Len() > 0 {
		t.Fatal(faults.String())
	}
	stored, results, err := chain.Stored(context.Background(), policy.Requests(nil, []*render.Object{o}))
	rendertest.OK(t, err)
	return stored[0], results
}

// TestHostileMutations: what would grow or recurse without end is refused, and
// soon.
func TestHostileMutations(t *testing.T) {
	t.Parallel()
	config := rendertest.Parse(t, "c.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, annotations: {a: b}}, data: {k: "+strings.Repeat("x", 1000)+"}}")[0]
	gadget := rendertest.Parse(t, "g.yaml", "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g}, spec: {a: {b: "+strings.Repeat("x", 1000)+"}}}")[0]
	doubling := `["a", "b", "c", "d"].map(i, ["a", "b", "c", "d", "e"].map(j, JSONPatch{op: "copy", from: "/spec", path: "/spec/a/" + i + j})).flatten()`
	for _, c := range []struct {
		name, expression, want string
		object                 *render.Object
	}{
		{"doubling copies", doubling, "copies refused", gadget},
		{"a copy a thousand times", `lists.range(1000).map(i, JSONPatch{op: "copy", from: "/data/k", path: "/data/k" + string(i)})`, "1000 are copies", config},
		{"operations without end", `lists.range(20000).map(i, JSONPatch{op: "test", path: "/metadata/name", value: "c"})`, "", config},
		{"deep pointers", `[JSONPatch{op: "add", path: "/data/" + ["x", "y"].map(i, lists.range(1000).map(j, "a").join("/")).join("/"), value: "x"}]`, "", config},
		{"nested objects", `[JSONPatch{op: "add", path: "/metadata/annotations", value: ` + strings.Repeat(`{"a": `, 40) + "1" + strings.Repeat("}", 40) + "}]", "", config},
	} {
		start := time.Now()
		p := one(c.expression)
		if !strings.HasPrefix(c.expression, "[") {
			p = one("[" + "JSONPatch{op: \"test\", path: \"/metadata/name\", value: object.metadata.name}] + " + c.expression)
		}
		_, results := mutatedBy(t, p, c.object)
		if len(results) != 1 {
			t.Errorf("%s: %v", c.name, results)
			continue
		}
		r := results[0]
		t.Logf("%s: %s %s in %v", c.name, r.Outcome, policy.FirstLine(r.Message), time.Since(start))
		if r.Outcome != policy.Error || !strings.Contains(r.Message, c.want) || len(r.Message) > 5000 {
			t.Errorf("%s: %s: %s", c.name, r.Outcome, r.Message)
		}
		if spent := time.Since(start); spent > 20*time.Second {
			t.Errorf("%s took %v", c.name, spent)
		}
	}
}

// TestPublishedMutations compares what would be stored with the objects that
// others publish beside their policies.
func TestPublishedMutations(t *testing.T) {
	t.Parallel()
	cases := rendertest.GlobOrSkip(t, corpora+"kyverno-cli/cli__test-mutating-admission-policy__*")
	right := 0
	for _, dir := range cases {
		if strings.HasSuffix(dir, "-two-params") {
			t.Logf("difference: %s: a list of parameters at once is Kyverno's own", filepath.Base(dir))
			continue
		}
		if publishedMutation(t, dir) {
			right++
		}
	}
	t.Logf("table MAP outcomes: %d / %d", right, len(cases))
	if right < 12 {
		t.Errorf("only %d cases are as published", right)
	}
}

func publishedMutation(t *testing.T, dir string) bool {
	read := func(sub string) (all []*render.Object) {
		files, _ := filepath.Glob(filepath.Join(dir, sub, "*.yaml"))
		for _, f := range files {
			data := rendertest.ReadFile(t, f)
			objects, _ := render.Parse(filepath.Base(f), data)
			all = append(all, objects...)
		}
		return all
	}
	cluster := read("params")
	for _, n := range []string{"staging", "production", "testing", "default"} {
		cluster = append(cluster, rendertest.Parse(t, "ns.yaml", fmt.Appendf(nil, "{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: %s}}", n, labelsIn(t, dir, n)))...)
	}
	var faults strings.Builder
	chain := newChain(t, map[string][]*render.Object{"policy.yaml": read("policies"), "cluster.yaml": cluster}, map[string]string{"unbound": "assume"}, &faults)
	reqs := policy.Requests(nil, read("resources"))
	for i := range reqs {
		reqs[i].UserInfo = policy.UserInfo{Username: "e2e", Groups: []string{"system:authenticated"}}
	}
	stored, results, err := chain.Stored(context.Background(), reqs)
	rendertest.OK(t, err)
	got := map[string]*render.Object{}
	for _, o := range stored {
		got[o.GetName()] = o
	}
	ok := true
	for _, want := range read("expected") {
		o := got[want.GetName()]
		if o == nil {
			t.Errorf("%s: no %s", dir, want.GetName())
			return false
		}
		wanted, err := chain.Kinds.Admit(want, o.GetNamespace())
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			return false
		}
		if d := cmp.Diff(wanted, o.Object); d != "" {
			t.Errorf("%s: %s: -published +ours: %s\n%+v %s", filepath.Base(dir), want.GetName(), d, results, faults.String())
			ok = false
		}
	}
	return ok
}

// labelsIn are those of a namespace in a case's values, as flow YAML.
func labelsIn(t *testing.T, dir, namespace string) string {
	var values struct {
		NamespaceSelector []struct {
			Name   string
			Labels map[string]string
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "values", "*.yaml"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err == nil {
			err = yaml.Unmarshal(data, &values)
		}
		rendertest.OK(t, err)
	}
	for _, n := range values.NamespaceSelector {
		if n.Name == namespace {
			data, _ := json.Marshal(n.Labels)
			return string(data)
		}
	}
	return "{}"
}

// BenchmarkMutate is one Deployment through ten policies with two mutations
// each, all of which change it.
func BenchmarkMutate(b *testing.B) {
	for _, kind := range []string{"ApplyConfiguration", "JSONPatch"} {
		var policies []*render.Object
		for i := range 10 {
			m := one(fmt.Sprintf(`Object{metadata: Object.metadata{labels: {"a%d": object.metadata.name}}}`, i), fmt.Sprintf(`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "c%d", image: "i"}]}}}}`, i))
			if kind == "JSONPatch" {
				m = one(fmt.Sprintf(`[JSONPatch{op: "add", path: "/metadata/labels/a%d", value: object.metadata.name}]`, i), fmt.Sprintf(`[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value: Object.spec.template.spec.containers{name: "c%d", image: "i"}}]`, i))
			}
			m.name = fmt.Sprintf("p%d", i)
			policies = append(policies, object(b, tree(b, m.build())))
		}
		objects := rendertest.Parse(b, "objects.yaml", oracleObjects)[:1]
		var faults strings.Builder
		chain := newChain(b, map[string][]*render.Object{
			"policy.yaml":  policies,
			"cluster.yaml": rendertest.Parse(b, "ns.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: default}}"),
		}, map[string]string{"unbound": "assume"}, &faults)
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, results, err := chain.Stored(context.Background(), policy.Requests(nil, objects))
				if err != nil || len(results) != 20 || results[0].Outcome != policy.Pass || faults.Len() > 0 {
					b.Fatal(results, err, faults.String())
				}
			}
		})
	}
}
