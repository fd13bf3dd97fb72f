package explain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// A generator makes an expression of choices.
type generator struct {
	choose func(n int) int
	vars   []string
	size   int
	most   int // choices, after which it ends the expression
}

func (g *generator) pick(of ...func() string) string {
	if g.size++; g.size > g.most {
		return of[0]()
	}
	return of[g.choose(len(of))]()
}

func (g *generator) word(words string) string {
	all := strings.Fields(words)
	return all[g.choose(len(all))]
}

func (g *generator) boolean() string {
	return g.pick(
		func() string { return fmt.Sprintf("%s %s %s", g.value(), g.word("== != < <= > >="), g.value()) },
		func() string { return "has(" + g.field() + ")" },
		func() string { return "!(" + g.boolean() + ")" },
		func() string { return fmt.Sprintf("(%s && %s)", g.boolean(), g.boolean()) },
		func() string { return fmt.Sprintf("(%s || %s)", g.boolean(), g.boolean()) },
		func() string { return fmt.Sprintf("(%s ? %s : %s)", g.boolean(), g.boolean(), g.boolean()) },
		func() string { return g.macro("all exists exists_one", g.boolean) },
		func() string { return g.macro2("all exists exists_one existsOne", g.boolean) },
		func() string { return fmt.Sprintf("%s in %s", g.value(), g.container()) },
		func() string { return fmt.Sprintf("%s.%s('a')", g.value(), g.word("startsWith contains matches")) },
		func() string { return fmt.Sprintf("%s.orValue(false)", g.optional()) },
		func() string { return g.optional() + ".hasValue()" },
		func() string {
			return fmt.Sprintf("sets.%s(%s, %s)", g.word("contains intersects equivalent"), g.container(), g.container())
		},
		func() string { return fmt.Sprintf("dyn(%s)", g.value()) },
	)
}

func (g *generator) field() string {
	return g.base() + "." + g.word("spec containers name image env value ports resources limits volumes labels metadata replicas nope")
}

func (g *generator) base() string {
	return g.pick(
		func() string {
			if len(g.vars) == 0 {
				return "object"
			}
			return g.vars[g.choose(len(g.vars))]
		},
		func() string { return g.word("object oldObject params request variables.spec variables.containers") },
		func() string { return "object.spec.template.spec" },
		func() string { return g.field() },
		func() string { return g.base() + "[0]" },
		func() string { return g.base() + "['name']" },
	)
}

func (g *generator) optional() string {
	return g.pick(
		func() string { return fmt.Sprintf("%s.?%s", g.base(), g.word("name spec limits nope")) },
		func() string { return fmt.Sprintf("%s[?%s]", g.base(), g.word("0 5 'name'")) },
		func() string { return fmt.Sprintf("optional.of(%s)", g.value()) },
		func() string { return fmt.Sprintf("%s.or(%s)", g.optional(), g.optional()) },
		func() string {
			return g.with("o", func() string { return fmt.Sprintf("%s.optMap(o, %s)", g.optional(), g.value()) })
		},
		func() string {
			return g.with("o", func() string { return fmt.Sprintf("%s.optFlatMap(o, %s)", g.optional(), g.optional()) })
		},
	)
}

func (g *generator) with(name string, f func() string) string {
	g.vars = append(g.vars, name)
	defer func() { g.vars = g.vars[:len(g.vars)-1] }()
	return f()
}

func (g *generator) macro(names string, body func() string) string {
	v := fmt.Sprintf("x%d", len(g.vars))
	list := g.container()
	return g.with(v, func() string { return fmt.Sprintf("%s.%s(%s, %s)", list, g.word(names), v, body()) })
}

func (g *generator) macro2(names string, body func() string) string {
	k, v := fmt.Sprintf("k%d", len(g.vars)), fmt.Sprintf("v%d", len(g.vars))
	list := g.container()
	return g.with(k, func() string {
		return g.with(v, func() string { return fmt.Sprintf("%s.%s(%s, %s, %s)", list, g.word(names), k, v, body()) })
	})
}

func (g *generator) container() string {
	return g.pick(
		func() string {
			return g.word("variables.spec.containers variables.spec.volumes object.metadata.labels params.allowedRegistries variables.containers variables.images")
		},
		func() string { return g.field() },
		func() string { return g.macro("map", g.value) },
		func() string { return g.macro("filter", g.boolean) },
		func() string { return g.macro2("transformList transformMap", g.value) },
		func() string { return fmt.Sprintf("(%s + %s)", g.container(), g.container()) },
		func() string { return fmt.Sprintf("[%s, %s]", g.value(), g.value()) },
		func() string { return fmt.Sprintf("[?%s]", g.optional()) },
		func() string { return fmt.Sprintf("{'a': %s, ?'b': %s}", g.value(), g.optional()) },
		func() string { return fmt.Sprintf("%s.orValue([])", g.optional()) },
		func() string { return fmt.Sprintf("%s.%s()", g.container(), g.word("distinct sort flatten")) },
		func() string { return fmt.Sprintf("string(%s).split(',')", g.value()) },
		func() string { return g.macro("sortBy", g.field) },
	)
}

func (g *generator) value() string {
	return g.pick(
		func() string { return g.base() },
		func() string { return g.word("1 9 'a' 'app' true null 1.5 []") },
		func() string { return g.field() },
		func() string { return fmt.Sprintf("size(%s)", g.container()) },
		func() string { return fmt.Sprintf("(%s + %s)", g.value(), g.value()) },
		func() string { return fmt.Sprintf("string(%s)", g.value()) },
		func() string { return fmt.Sprintf("quantity(string(%s))", g.value()) },
		func() string { return fmt.Sprintf("%s.orValue(%s)", g.optional(), g.value()) },
		func() string { return fmt.Sprintf("%s[%s]", g.container(), g.value()) },
		func() string { return fmt.Sprintf("%s.%s()", g.container(), g.word("max min sum isSorted")) },
		func() string { return fmt.Sprintf("(%s ? %s : %s)", g.boolean(), g.value(), g.value()) },
		func() string { return g.boolean() },
	)
}

func fuzzFixture(t testing.TB) *fixture {
	t.Helper()
	ar := rendertest.ParseArchive(t, "testdata/deployment.txtar")
	f := newFixture()
	for _, part := range ar.Files {
		if name, ok := strings.CutSuffix(part.Name, ".yaml"); ok {
			f.load(t, name, part.Data)
		}
	}
	return f
}

// probe explains any expression: our verdict is CEL's, the culprits stand
// where they say, and asking twice gives the same.
func (f *fixture) probe(t testing.TB, expr string) (compiled, blamed bool) {
	t.Helper()
	ast := tryCompile(expr)
	if ast == nil {
		return false, false
	}
	e, err := New(testEnv(), ast, f.variables)
	if err != nil {
		return false, false
	}
	in := Input{Roots: f.roots, Want: true, Steps: 50}
	ex, err := e.Explain(t.Context(), in)
	if err != nil {
		return true, false
	}
	want, err := evaluateAST(ast, f.roots, f.variables)
	if err == nil && !(types.IsError(want) && strings.HasPrefix(fmt.Sprint(want), "internal error")) { // which is a panic of cel-go
		got := ours(t, ast, f.roots, f.variables)
		if types.IsError(got) != types.IsError(want) || !types.IsError(got) && !alike(got, want) {
			t.Errorf("%s: %v, CEL says %v", expr, got, want)
		}
	}
	again, err := e.Explain(t.Context(), in)
	if diff := cmp.Diff(describe(ex), describe(again)); diff != "" || err != nil {
		t.Errorf("%s: not the same twice: %v %s", expr, err, diff)
	}
	for i, c := range ex.Culprits {
		if _, there := lookup(f.roots[c.Root], tokens("/x"+c.Pointer, nil)[1:]); there == c.Missing && c.Root != "authorizer" && c.Pointer != "" {
			t.Errorf("%s: %s#%s: missing is %v", expr, c.Root, c.Pointer, c.Missing)
		}
		for _, d := range ex.Culprits[:i] {
			if c.Root == d.Root && (c.Pointer == d.Pointer || strings.HasPrefix(c.Pointer, d.Pointer+"/") || strings.HasPrefix(d.Pointer, c.Pointer+"/")) {
				t.Errorf("%s: %s and %s", expr, c.Pointer, d.Pointer)
			}
		}
	}
	return true, len(ex.Culprits) > 0
}

// tryCompile compiles what it can: cel-go 0.31.0's validator of aggregate
// literals panics on [?x] and {'a': ?x} where x is dyn.
func tryCompile(expr string) (ast *cel.Ast) {
	defer func() { _ = recover() }()
	a, issues := testEnv().Compile(expr)
	if len(issues.Errors()) > 0 {
		return nil
	}
	return a
}

func lookup(v any, path []string) (any, bool) {
	for _, key := range path {
		switch c := v.(type) {
		case map[string]any:
			x, ok := c[key]
			if !ok {
				return nil, false
			}
			v = x
		case []any:
			var i int
			if _, err := fmt.Sscanf(key, "%d", &i); err != nil || i < 0 || i >= len(c) {
				return nil, false
			}
			v = c[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// TestRandom probes expressions made at random, the same ones every time.
func TestRandom(t *testing.T) {
	t.Parallel()
	f := fuzzFixture(t)
	compiled, blamed := 0, 0
	for seed := range uint64(600) {
		random := rand.New(rand.NewPCG(seed, 1))
		g := &generator{choose: random.IntN, most: 60}
		c, b := f.probe(t, g.boolean())
		if c {
			compiled++
		}
		if b {
			blamed++
		}
	}
	t.Logf("%d compiled, %d blamed", compiled, blamed)
	if compiled < 100 || blamed < 100 {
		t.Errorf("%d compiled, %d blamed: too few to tell", compiled, blamed)
	}
}

// FuzzExplain probes expressions whose every choice is a byte of the input.
func FuzzExplain(f *testing.F) {
	fix := fuzzFixture(f)
	f.Add([]byte{6, 2, 0, 1, 4, 3})
	f.Add([]byte("explain why this did not hold"))
	f.Add([]byte("X012"))
	f.Add([]byte("e;plann whydthis did iot h\x8el "))
	f.Fuzz(func(t *testing.T, choices []byte) {
		g := &generator{most: 20, choose: func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0]) % n
			choices = choices[1:]
			return c
		}}
		fix.probe(t, g.boolean())
	})
}
