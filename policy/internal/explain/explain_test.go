package explain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

var rootNames = []string{"object", "oldObject", "params", "request", "namespaceObject", "self", "oldSelf"}

// testEnv is the API server's environment with roots of unknown type.
var testEnv = sync.OnceValue(func() *cel.Env {
	var opts []cel.EnvOption
	for _, name := range append([]string{"variables"}, rootNames...) {
		opts = append(opts, cel.Variable(name, cel.DynType))
	}
	opts = append(opts, cel.Variable("authorizer", library.AuthorizerType), cel.EnableMacroCallTracking())
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 37)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: opts,
	})
	if err != nil {
		panic(err)
	}
	return set.StoredExpressionsEnv()
})

func compileExpr(t testing.TB, env *cel.Env, expr string) *cel.Ast {
	t.Helper()
	ast, issues := env.Compile(expr)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expr, issues.Err())
	}
	return ast
}

// A fixture is what the cases of one archive share.
type fixture struct {
	roots     map[string]any
	variables []Variable
}

func (f *fixture) load(t testing.TB, name string, data []byte) {
	t.Helper()
	if name == "variables" {
		var vars []struct{ Name, Expression string }
		rendertest.OK(t, yaml.UnmarshalStrict(data, &vars))
		for _, v := range vars {
			f.variables = append(f.variables, Variable{v.Name, compileExpr(t, testEnv(), v.Expression)})
		}
		return
	}
	f.roots[name] = parseYAML(t, data)
}

func parseYAML(t testing.TB, data []byte) any {
	t.Helper()
	var v any
	rendertest.OK(t, yaml.Unmarshal(data, &v))
	return integers(v)
}

// integers makes int64 of whole numbers, as the API server's decoder does.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = integers(v[k])
		}
	}
	return v
}

func newFixture() *fixture {
	f := &fixture{roots: make(map[string]any)}
	for _, name := range rootNames {
		f.roots[name] = nil
	}
	f.roots["authorizer"] = library.NewAuthorizerVal(nil, denyAll{})
	return f
}

type denyAll struct{}

func (denyAll) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "no", nil
}

func (denyAll) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecision{}
}

func (f *fixture) explain(t testing.TB, expr string, steps int) Explanation {
	t.Helper()
	e, err := New(testEnv(), compileExpr(t, testEnv(), expr), f.variables)
	rendertest.OK(t, err)
	ex, err := e.Explain(t.Context(), Input{Roots: f.roots, Want: true, Steps: steps})
	rendertest.OK(t, err)
	return ex
}

func describe(ex Explanation) string {
	var b strings.Builder
	for _, c := range ex.Culprits {
		fmt.Fprintf(&b, "%s#%s", c.Root, c.Pointer)
		switch v := c.Value.(type) {
		case map[string]any, []any:
			b.WriteString(" = …")
		case string:
			fmt.Fprintf(&b, " = %q", v)
		default:
			if c.Missing {
				b.WriteString(" missing")
				break
			}
			fmt.Fprintf(&b, " = %v", v)
		}
		b.WriteByte('\n')
	}
	if ex.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", ex.More)
	}
	fmt.Fprintf(&b, "%s\n", ex.Summary)
	for _, s := range ex.Steps {
		fmt.Fprintf(&b, "%s%s  ->  %s", strings.Repeat("  ", s.Depth), s.Text, s.Value)
		if s.Loop != "" {
			fmt.Fprintf(&b, "  (%s)", s.Loop)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestGolden explains the failures in testdata. In an archive, *.yaml are the
// roots and variables, NAME.cel is an expression that should be true and
// NAME.want its explanation. A name that ends in -steps asks for the steps too.
func TestGolden(t *testing.T) {
	t.Parallel()
	rendertest.Each(t, "testdata", golden)
}

func golden(t *testing.T, file string) {
	ar := rendertest.ParseArchive(t, file)
	f := newFixture()
	var out []txtar.File
	for i, part := range ar.Files {
		name, ext := strings.TrimSuffix(part.Name, filepath.Ext(part.Name)), filepath.Ext(part.Name)
		switch ext {
		case ".yaml":
			f.load(t, name, part.Data)
			out = append(out, part)
		case ".cel":
			steps := 0
			if strings.HasSuffix(name, "-steps") {
				steps = 100
			}
			got := describe(f.explain(t, string(part.Data), steps))
			out = append(out, part, txtar.File{Name: name + ".want", Data: []byte(got)})
			f.check(t, name, string(part.Data))
			if os.Getenv("UPDATE_GOLDEN") != "" {
				continue
			}
			if i+1 == len(ar.Files) || ar.Files[i+1].Name != name+".want" {
				t.Errorf("%s: no %s.want after it", name, name)
			} else if diff := cmp.Diff(string(ar.Files[i+1].Data), got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", name, diff)
			}
		}
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		ar.Files = out
		rendertest.OK(t, os.WriteFile(file, txtar.Format(ar), 0o644))
	}
}

// check holds our evaluation against CEL's own.
func (f *fixture) check(t *testing.T, name, expr string) {
	t.Helper()
	want := f.evaluate(t, expr)
	e, err := New(testEnv(), compileExpr(t, testEnv(), expr), f.variables)
	rendertest.OK(t, err)
	got := e.evaluate(t, f.roots)
	if types.IsError(got) != types.IsError(want) || !types.IsError(want) && got.Equal(want) != types.True {
		t.Errorf("%s: evaluates to %v, CEL says %v", name, got, want)
	}
	if want == types.True {
		t.Errorf("%s: does not fail", name)
	}
}
