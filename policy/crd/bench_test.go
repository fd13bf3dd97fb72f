package crd_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// archive parses a file of an archive in testdata.
func archive(t testing.TB, name, file string) []*render.Object {
	t.Helper()
	a := rendertest.ParseArchive(t, name)
	for _, f := range a.Files {
		if f.Name != file {
			continue
		}
		return rendertest.Parse(t, file, f.Data)
	}
	t.Fatalf("%s has no %s", name, file)
	return nil
}

// requests are those that create objects, as the chain completes them.
func requests(b *testing.B, definitions, objects []*render.Object) (*crd.Engine, []policy.Request) {
	b.Helper()
	kinds, err := schema.New(definitions, schema.Options{})
	if err != nil {
		b.Fatal(err)
	}
	engine, err := crd.New(definitions, crd.Options{})
	if err != nil {
		b.Fatal(err)
	}
	reqs := policy.Requests(nil, objects)
	for i := range reqs {
		r := &reqs[i]
		r.Kind = r.Object.GroupVersionKind()
		r.Resource = kinds.Resource(r.Kind)
		if r.Admitted, err = kinds.Admit(r.Object, "default"); err != nil {
			b.Fatal(err)
		}
	}
	return engine, reqs
}

func benchmark(b *testing.B, engine *crd.Engine, req *policy.Request) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := engine.Validate(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCustom evaluates a custom resource by a schema with seven rules: one
// that holds, and one that fails most of them.
func BenchmarkCustom(b *testing.B) {
	engine, reqs := requests(b, archive(b, "testdata/cel.txtar", "with.yaml"), archive(b, "testdata/cel.txtar", "object.yaml"))
	for i, name := range []string{"pass", "fail"} {
		b.Run(name, func(b *testing.B) { benchmark(b, engine, &reqs[i]) })
	}
}

// BenchmarkDefinition validates a definition of 24 rules in 12 nodes.
func BenchmarkDefinition(b *testing.B) {
	properties := map[string]any{}
	for i := range 12 {
		properties[fmt.Sprint("p", i)] = map[string]any{
			"type": "object", "properties": map[string]any{"a": map[string]any{"type": "integer"}, "b": map[string]any{"type": "string", "maxLength": int64(20)}},
			"x-kubernetes-validations": []any{
				map[string]any{"rule": "self.a > 1 && self.b != ''", "message": "no"},
				map[string]any{"rule": "!has(self.b) || self.b.startsWith('x')"},
			},
		}
	}
	d := definitionOf(map[string]any{"type": "object", "properties": properties}, nil)
	for _, version := range []string{"", "1.30"} {
		b.Run("version"+version, func(b *testing.B) {
			_, reqs := requests(b, nil, []*render.Object{d})
			engine, err := crd.New(nil, crd.Options{KubeVersion: version})
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, engine, &reqs[0])
		})
	}
}

// BenchmarkPublished validates the definitions of published repositories.
func BenchmarkPublished(b *testing.B) {
	if _, err := os.Stat("../../../shared/repos"); err != nil {
		b.Skip("no repositories here")
	}
	definitions := publishedDefinitions("../../../shared/repos")
	engine, reqs := requests(b, nil, definitions)
	b.ReportAllocs()
	for b.Loop() {
		for i := range reqs {
			if _, err := engine.Validate(b.Context(), &reqs[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(reqs)), "µs/definition")
}
