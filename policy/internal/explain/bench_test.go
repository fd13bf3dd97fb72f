package explain

import (
	"fmt"
	"testing"

	"golang.org/x/tools/txtar"
)

var benchmarks = map[string]string{
	"limits":   "object.spec.template.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && has(c.resources.limits.memory))",
	"variable": "variables.badImages.size() == 0",
	"nested":   "variables.spec.containers.all(c, params.allowedRegistries.exists(r, c.image.startsWith(r)))",
	"replicas": "object.spec.replicas <= int(params.data.maxReplicas)",
}

func benchFixture(b *testing.B) *fixture {
	b.Helper()
	ar, err := txtar.ParseFile("testdata/deployment.txtar")
	if err != nil {
		b.Fatal(err)
	}
	f := newFixture()
	for _, part := range ar.Files {
		var name string
		if n, _ := fmt.Sscanf(part.Name, "%s", &name); n == 1 && len(name) > 5 && name[len(name)-5:] == ".yaml" {
			f.load(b, name[:len(name)-5], part.Data)
		}
	}
	return f
}

// BenchmarkWarm is one more failure of a known expression.
func BenchmarkWarm(b *testing.B) {
	f := benchFixture(b)
	for name, expr := range benchmarks {
		b.Run(name, func(b *testing.B) {
			e, err := New(testEnv(), compileExpr(b, testEnv(), expr), f.variables)
			if err != nil {
				b.Fatal(err)
			}
			in := Input{Roots: f.roots, Want: true}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Explain(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCold is the first failure of an expression that is compiled already.
func BenchmarkCold(b *testing.B) {
	f := benchFixture(b)
	ast := compileExpr(b, testEnv(), benchmarks["variable"])
	in := Input{Roots: f.roots, Want: true}
	b.ReportAllocs()
	for b.Loop() {
		e, err := New(testEnv(), ast, f.variables)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := e.Explain(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkManyAtFault is a list of a thousand elements, all at fault.
func BenchmarkManyAtFault(b *testing.B) {
	e, err := New(testEnv(), compileExpr(b, testEnv(), "object.l.all(m, m.name == 'y')"), nil)
	if err != nil {
		b.Fatal(err)
	}
	in := Input{Roots: map[string]any{"object": map[string]any{"l": list(1000, map[string]any{"name": "x"})}}, Want: true}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Explain(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
