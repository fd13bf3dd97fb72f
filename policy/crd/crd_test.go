package crd_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestGolden evaluates the objects of each archive in the API server's order and
// compares the results, one a line. An archive holds object.yaml, old.yaml
// (what is there before), with.yaml (context), and the file version.
func TestGolden(t *testing.T) {
	t.Parallel()
	rendertest.Run(t, "testdata", func(t *testing.T, fsys fs.FS) string {
		got := evaluateTree(t, fsys, nil)
		known := new(crd.Reviews)
		for range 2 { // which finds and takes what is known
			if again := evaluateTree(t, fsys, known); again != got {
				t.Errorf("a run with known reviews differs:\n%s", again)
			}
		}
		return got
	})
}

func evaluateTree(t *testing.T, fsys fs.FS, known *crd.Reviews) string {
	t.Helper()
	object, old, with := parse(t, fsys, "object.yaml"), parse(t, fsys, "old.yaml"), parse(t, fsys, "with.yaml")
	version, _ := fs.ReadFile(fsys, "version")
	var out strings.Builder
	for _, r := range evaluateBy(t, strings.TrimSpace(string(version)), known, append(with, object...), old, object) {
		writeResult(&out, &r)
	}
	return out.String()
}

// evaluate reviews what brings the cluster from old to objects.
func evaluate(t testing.TB, version string, all, old, objects []*render.Object) []policy.Result {
	t.Helper()
	return evaluateBy(t, version, nil, all, old, objects)
}

func evaluateBy(t testing.TB, version string, known *crd.Reviews, all, old, objects []*render.Object) []policy.Result {
	t.Helper()
	kinds, err := schema.New(all, schema.Options{KubeVersion: version})
	if kinds == nil {
		t.Fatal(err)
	}
	engine, err := crd.New(all, crd.Options{KubeVersion: version, Reviews: known})
	rendertest.OK(t, err)
	chain := policy.Chain{Kinds: kinds, Validators: []policy.Validator{engine}}
	results, err := chain.Review(context.Background(), policy.Requests(old, objects))
	rendertest.OK(t, err)
	return results
}

func parse(t testing.TB, fsys fs.FS, name string) []*render.Object {
	t.Helper()
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil
	}
	return rendertest.Parse(t, name, data)
}

func writeResult(out *strings.Builder, r *policy.Result) {
	fmt.Fprintf(out, "%s %s %s/%s: %s %s %s %s", r.Operation, r.Object.Kind, r.Object.Namespace, r.Object.Name, r.Outcome, r.Action, r.Policy, r.Rule)
	if r.PolicyOrigin.File != "" {
		fmt.Fprintf(out, " (%v)", r.PolicyOrigin)
	}
	if r.Message != "" {
		fmt.Fprintf(out, "\n\t%s", strings.ReplaceAll(r.Message, "\n", "⏎"))
	}
	for _, s := range append([]string{r.Reason, r.Hint}, r.Assumed...) {
		if s != "" {
			fmt.Fprintf(out, " {%s}", s)
		}
	}
	for i, f := range r.Fields {
		fmt.Fprintf(out, "\n\t%s", f)
		if i == 0 && len(r.Origins) > 0 {
			fmt.Fprintf(out, " @ %v", r.Origins[0].Span)
		}
	}
	out.WriteString("\n")
}

// TestRules documents the rules of a definition, each at its line, by the
// names that results have.
func TestRules(t *testing.T) {
	t.Parallel()
	definitions, objects := archive(t, "testdata/cel.txtar", "with.yaml"), archive(t, "testdata/cel.txtar", "object.yaml")
	engine, err := crd.New(definitions, crd.Options{KubeVersion: "1.31"})
	rendertest.OK(t, err)
	documented := map[string]render.Span{}
	for _, r := range engine.Rules() {
		documented[r.Policy+" "+r.Name] = r.Origin
	}
	if len(documented) != 3+9 {
		t.Errorf("%d rules: %v", len(documented), documented)
	}
	for _, r := range evaluate(t, "", definitions, nil, objects) {
		origin, ok := documented[r.Policy+" "+r.Rule]
		if strings.Contains(r.Rule, "x-kubernetes-validations") && (!ok || origin != r.PolicyOrigin) {
			t.Errorf("%s at %v is documented at %v", r.Rule, r.PolicyOrigin, origin)
		}
	}
	if _, err := crd.New(nil, crd.Options{KubeVersion: "newest"}); err == nil {
		t.Error("takes any version")
	}
}

// TestReasonBehindLongValue holds that a message keeps its reason if the value before it is
// too long to show.
func TestReasonBehindLongValue(t *testing.T) {
	t.Parallel()
	var fields strings.Builder
	for i := range 20 {
		fmt.Fprintf(&fields, "          f%d: {type: string}\n", i)
	}
	objects := rendertest.Parse(t, "crd.yaml", []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-embedded-resource: true
        properties:
`+fields.String()))
	for _, r := range evaluate(t, "", objects, nil, objects) {
		if strings.HasSuffix(r.Message, "at the root of the schema if the status subresource is enabled") {
			return
		}
	}
	t.Error("no such message")
}

// TestDropped holds that server-side apply refuses unknown fields, but drops those below
// x-kubernetes-preserve-unknown-fields and in maps without a list of fields.
func TestDropped(t *testing.T) {
	t.Parallel()
	objects := rendertest.Parse(t, "crd.yaml", []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: triggers.example.com}
spec:
  group: example.com
  names: {kind: Trigger, plural: triggers}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          any:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties: {list: {type: array, items: {type: object, properties: {known: {type: string}}}}}
          metadata: {type: object}
          none: {type: object}
          resource: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
          some: {type: object, properties: {known: {type: string}}}
---
apiVersion: example.com/v1
kind: Trigger
metadata: {name: a, lables: {a: b}}
resource: {apiVersion: v1, kind: Pod, metadata: {lables: {a: b}}, taken: b}
any: {list: [{unknown: x}], taken: b}
none: {unknown: x}
some: {unknown: x}
unknown: x
`))
	engine, err := crd.New(objects, crd.Options{})
	rendertest.OK(t, err)
	kinds, err := schema.New(objects, schema.Options{})
	rendertest.OK(t, err)
	for method, want := range map[policy.Method][]string{
		policy.Apply:           {"/any/list/0/unknown", "/metadata/lables", "/none/unknown", "/resource/metadata/lables", "/some/unknown", "/unknown"},
		policy.ApplyServerSide: {"/metadata/lables", "/resource/metadata/lables", "/some/unknown", "/unknown"},
	} {
		results, err := policy.Chain{Kinds: kinds, Validators: []policy.Validator{engine}}.Review(t.Context(), []policy.Request{{Operation: policy.Create, Object: objects[1], Method: method}})
		rendertest.OK(t, err)
		var refused []string
		fields := 0
		for _, r := range results {
			if r.Outcome == policy.Fail {
				if fields++; r.Action == policy.Deny {
					refused = append(refused, r.Fields[0])
				}
			}
		}
		slices.Sort(refused)
		rendertest.Equal(t, strings.Join(want, "\n"), strings.Join(refused, "\n"))
		rendertest.Equal(t, 6, fields)
	}
}

// TestFormatsOfNumbers holds that the API server validates formats of numbers from 1.36, and where it says so.
func TestFormatsOfNumbers(t *testing.T) {
	t.Parallel()
	objects := rendertest.Parse(t, "crd.yaml", []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: peers.example.com}
spec:
  group: example.com
  names: {kind: Peer, plural: peers}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          peers:
            type: array
            items: {type: object, properties: {asn: {type: integer, format: int32, maximum: 4294967295}}}
          weight: {type: number, format: float}
          port: {type: integer, format: port}
---
apiVersion: example.com/v1
kind: Peer
metadata: {name: a}
peers:
- {asn: 1}
- {asn: 4200000000}
weight: 1e+50
`))
	for v, want := range map[string][]string{
		"1.35": nil,
		"1.36": {
			`/peers/0/asn: Invalid value: "": Maximum boundary value must be of type integer with format int32 in peers[0].asn`,
			`/peers/1/asn: Invalid value: "": Checked value must be of type integer with format int32 in peers[1].asn`,
			`/peers/1/asn: Invalid value: "": Maximum boundary value must be of type integer with format int32 in peers[1].asn`,
			`/spec/versions/0/schema/openAPIV3Schema/properties/port/format: unrecognized format "port"`,
			`/weight: Invalid value: "": Checked value must be of type number with format float in weight`,
		},
	} {
		var got []string
		for _, r := range evaluate(t, v, objects, nil, objects) {
			if r.Outcome == policy.Fail {
				got = append(got, r.Fields[0]+": "+r.Message)
			}
		}
		slices.Sort(got)
		rendertest.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// TestOrder evaluates an object with many faults again and again. The upstream validator finds them in any order.
func TestOrder(t *testing.T) {
	t.Parallel()
	properties, fields := map[string]any{}, map[string]any{}
	for i := range 12 {
		name := fmt.Sprint("f", i)
		properties[name], fields[name] = map[string]any{"type": "integer"}, "text"
	}
	rules := []any{map[string]any{"rule": "self.f0 > 0"}}
	definition := definitionOf(map[string]any{"type": "object", "properties": properties, "x-kubernetes-validations": rules}, nil)
	write := func() string {
		var out strings.Builder
		for _, r := range evaluate(t, "", []*render.Object{definition}, nil, []*render.Object{thing(fields)}) {
			writeResult(&out, &r)
		}
		return out.String()
	}
	first := write()
	if !strings.Contains(first, "were not checked") {
		t.Fatalf("the rule is checked:\n%s", first)
	}
	for range 20 {
		if again := write(); again != first {
			t.Fatalf("not the same results:\n%s\n%s", first, again)
		}
	}
}
