package podsecurity

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// places is a Provenance whose files are the pointers.
type places struct{}

func (places) At(pointer string) []render.Origin {
	return []render.Origin{{Span: render.Span{File: pointer}, Role: render.Manifest}}
}

// integers turns the whole floats of JSON into the int64 of rendered objects.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = integers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = integers(x)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

func objects(t testing.TB, text string) []*render.Object {
	t.Helper()
	var all []*render.Object
	docs := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		doc, err := docs.Read()
		if err == io.EOF {
			return all
		}
		var tree map[string]any
		if err == nil {
			err = sigsyaml.Unmarshal(doc, &tree)
		}
		rendertest.OK(t, err)
		integers(tree)
		all = append(all, &render.Object{Unstructured: &unstructured.Unstructured{Object: tree}, Provenance: places{}})
	}
}

func object(t testing.TB, text string) *render.Object {
	t.Helper()
	return objects(t, text)[0]
}

// request is one as Chain.Review makes it. These objects are written as the
// API server would hold them.
func request(t testing.TB, op policy.Operation, o, old *render.Object) *policy.Request {
	t.Helper()
	req := &policy.Request{Operation: op, Object: o, OldObject: old}
	req.Kind = req.Subject().GroupVersionKind()
	req.Name = req.Subject().GetName()
	if req.Kind.Kind != "Namespace" {
		req.Namespace = "default"
		if ns := req.Subject().GetNamespace(); ns != "" {
			req.Namespace = ns
		}
	}
	if o != nil {
		req.Admitted = runtime.DeepCopyJSON(o.Object)
	}
	if old != nil {
		req.OldAdmitted = runtime.DeepCopyJSON(old.Object)
	}
	return req
}

func results(t testing.TB, e *Engine, op policy.Operation, text string) []policy.Result {
	t.Helper()
	got, err := e.Validate(t.Context(), request(t, op, object(t, text), nil))
	rendertest.OK(t, err)
	return got
}

// TestGolden evaluates objects.yaml, as updates of those in old.yaml, among the
// Namespaces of cluster.yaml, and compares with want. The archive's comment
// ends in a line "level [version]".
func TestGolden(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata", func(t *testing.T, a *txtar.Archive) string {
		content := make(map[string]string)
		for _, f := range a.Files {
			content[f.Name] = string(f.Data)
		}
		return evaluate(t, string(a.Comment), content)
	})
}

func evaluate(t *testing.T, comment string, content map[string]string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(comment), "\n")
	words := strings.Fields(lines[len(lines)-1] + " ")
	opts := Options{Level: words[0], Cluster: policy.NewCluster(objects(t, content["cluster.yaml"])...)}
	if len(words) > 1 {
		opts.KubeVersion = words[1]
	}
	e, err := New(opts)
	rendertest.OK(t, err)
	reqs := policy.Requests(objects(t, content["old.yaml"]), objects(t, content["objects.yaml"]))
	var b strings.Builder
	for i := range reqs {
		req := request(t, reqs[i].Operation, reqs[i].Object, reqs[i].OldObject)
		rs, err := e.Validate(t.Context(), req)
		rendertest.OK(t, err)
		checkDocumented(t, e.Rules(), rs)
		fmt.Fprintf(&b, "%s %s %s/%s\n", req.Operation, req.Kind.Kind, req.Namespace, req.Name)
		printResults(&b, rs)
	}
	return b.String()
}

// checkDocumented: each result is of a documented rule, and no harder.
func checkDocumented(t *testing.T, rules []policy.Rule, rs []policy.Result) {
	t.Helper()
	for _, r := range rs {
		documented := slices.ContainsFunc(rules, func(rule policy.Rule) bool {
			return rule.Policy == r.Policy && rule.Name == r.Rule && rule.Action.AtLeast(r.Action) && rule.Severity == r.Severity
		})
		if !documented {
			t.Errorf("%s %s/%s is not documented", r.Action, r.Policy, r.Rule)
		}
	}
}

// printResults writes a result a line, passes by their number alone.
func printResults(b *strings.Builder, rs []policy.Result) {
	passes := make(map[string]int)
	for _, r := range rs {
		if r.Outcome == policy.Pass {
			passes[fmt.Sprintf("%s %s", r.Action, r.Policy)]++
			continue
		}
		fmt.Fprintf(b, "  %s %s %s/%s (%s): %s\n", r.Action, r.Outcome, r.Policy, r.Rule, r.Severity, r.Message)
		for _, f := range r.Fields {
			fmt.Fprintf(b, "    %s\n", f)
		}
		if r.PolicyOrigin.File != "" {
			fmt.Fprintf(b, "    by %s\n", r.PolicyOrigin.File)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(passes)) {
		fmt.Fprintf(b, "  %s pass: %d\n", k, passes[k])
	}
}

// TestCancelled: the error is for cancellation.
func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := New(Options{Level: "baseline"})
	rendertest.OK(t, err)
	if _, err := e.Validate(ctx, request(t, policy.Create, object(t, "kind: Pod\napiVersion: v1"), nil)); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

// TestHostile: what is odd in an object ends in a result, and soon.
func TestHostile(t *testing.T) {
	t.Parallel()
	e, err := New(Options{Level: "restricted"})
	rendertest.OK(t, err)
	endless := results(t, e, policy.Create, `
apiVersion: v1
kind: Pod
spec:
  overhead: {cpu: "1e-2147483647"}
  containers:
  - name: c
    resources: {limits: {memory: "1e2147483647"}}
  volumes:
  - name: v
    emptyDir: {sizeLimit: "1e-2147483647"}
`)
	if len(endless) < 15 {
		t.Errorf("got %v", endless)
	}
	odd := results(t, e, policy.Create, "apiVersion: v1\nkind: Pod\nspec: {hostNetwork: [1]}\n")
	if len(odd) != 1 || odd[0].Outcome != policy.Error || odd[0].Message == "" {
		t.Errorf("got %v", odd)
	}
	long := "apiVersion: v1\nkind: Pod\nspec:\n  volumes:\n" + strings.Repeat("  - {name: größe, hostPath: {path: /}}\n", 4000)
	for _, r := range results(t, e, policy.Create, long) {
		if len(r.Message) > 4096 || !bytes.Equal(bytes.ToValidUTF8([]byte(r.Message), nil), []byte(r.Message)) || len(r.Fields) > 100 {
			t.Errorf("%s: message of %d bytes, %d fields", r.Rule, len(r.Message), len(r.Fields))
		}
	}
}

// TestSubresources: only those that carry a pod are looked at.
func TestSubresources(t *testing.T) {
	t.Parallel()
	e, err := New(Options{Level: "baseline"})
	rendertest.OK(t, err)
	tests := []struct {
		kind, sub string
		evaluated bool
	}{
		{"v1\nkind: Pod", "ephemeralcontainers", true},
		{"v1\nkind: Pod", "resize", true},
		{"v1\nkind: Pod", "status", false},
		{"v1\nkind: Pod", "binding", false},
		{"apps/v1\nkind: Deployment", "scale", false},
		{"v1\nkind: Namespace\nmetadata: {labels: {pod-security.kubernetes.io/warn: x}}", "status", false},
	}
	for _, test := range tests {
		req := request(t, policy.Create, object(t, "apiVersion: "+test.kind+"\nspec: {template: {spec: {}}}\n"), nil)
		req.SubResource = test.sub
		rs, err := e.Validate(t.Context(), req)
		if err != nil || len(rs) > 0 != test.evaluated {
			t.Errorf("%s %s: %d results, %v", test.kind, test.sub, len(rs), err)
		}
	}
}

// TestAssumed: an answer for a namespace that is not in the tree says so.
func TestAssumed(t *testing.T) {
	t.Parallel()
	ns := object(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: known}\n")
	e, err := New(Options{Level: "baseline", Cluster: policy.NewCluster(ns)})
	rendertest.OK(t, err)
	for name, want := range map[string]string{
		"known": "[]", "other": `[namespace "other" is not in the tree: assumed to have no pod-security labels]`,
	} {
		for _, r := range results(t, e, policy.Create, "apiVersion: v1\nkind: Pod\nmetadata: {namespace: "+name+"}\nspec: {}\n") {
			if got := fmt.Sprint(r.Assumed); got != want {
				t.Errorf("%s: %s assumed %s", name, r.Rule, got)
			}
		}
	}
}

// BenchmarkValidate evaluates a Deployment that holds the baseline level, and one
// that breaks it.
func BenchmarkValidate(b *testing.B) {
	const text = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: prod}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: [{name: init, image: "i:1"}]
      containers:
      - {name: web, image: "w:1", ports: [{containerPort: 80}], resources: {limits: {memory: 1Gi}}, env: [{name: A, value: b}]}
      - {name: side, image: "s:1", securityContext: {privileged: PRIVILEGED}}
      volumes: [{name: tmp, emptyDir: {}}, {name: cfg, configMap: {name: cfg}}]
`
	for _, privileged := range []string{"false", "true"} {
		b.Run("privileged="+privileged, func(b *testing.B) {
			e, err := New(Options{Level: "baseline"})
			if err != nil {
				b.Fatal(err)
			}
			req := request(b, policy.Create, object(b, strings.ReplaceAll(text, "PRIVILEGED", privileged)), nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Validate(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestDefaultedPorts: host ports that the API server sets are traced to what
// made it do so.
func TestDefaultedPorts(t *testing.T) {
	t.Parallel()
	e, err := New(Options{Level: "baseline"})
	rendertest.OK(t, err)
	req := request(t, policy.Create, object(t, `
apiVersion: v1
kind: Pod
spec: {hostNetwork: true, containers: [{name: c, ports: [{containerPort: 80}]}]}
`), nil)
	ports, _ := render.Lookup(req.Admitted, "/spec/containers/0/ports/0")
	ports.(map[string]any)["hostPort"] = int64(80)
	rs, err := e.Validate(t.Context(), req)
	rendertest.OK(t, err)
	for _, r := range rs {
		if r.Rule == "hostPorts" {
			rendertest.Equal(t, []string{"/spec/hostNetwork", "/spec/containers/0/ports/0/hostPort"}, r.Fields)
			return
		}
	}
	t.Error("no result for hostPorts")
}
