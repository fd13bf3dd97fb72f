package mutation

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// mutantsOf are the mutants of all that is in a file.
func mutantsOf(t testing.TB, file string) ([]Mutant, []byte) {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	if strings.HasSuffix(file, ".rego") {
		return OfModule(file, data), data
	}
	objects := rendertest.Parse(t, file, data)
	var all []Mutant
	for _, o := range objects {
		all = append(all, OfPolicy(t.Context(), o, data, true)...)
	}
	return all, data
}

// TestMutants holds the mutants of a policy of each engine: their places, their
// changes and their diffs.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"vap.yaml", "clusterpolicy.yaml", "template.yaml", "deny.rego"} {
		file := filepath.Join("testdata", name)
		all, data := mutantsOf(t, file)
		var b strings.Builder
		for i := range all {
			m := &all[i]
			fmt.Fprintf(&b, "%d:%d %s/%s %s: %s", m.Origin.Line, m.Origin.Column, m.Policy, m.Rule, m.Mutator, m.Change)
			if m.Equivalent {
				b.WriteString(" (equivalent)")
			}
			fmt.Fprintf(&b, "\n%s\n", strings.Join(m.Diff(data), "\n"))
		}
		rendertest.Golden(t, file+".txt", b.String())
	}
}

// TestMatchNotEvaluated holds that where tests do not ask what a policy matches, its
// match is not changed.
func TestMatchNotEvaluated(t *testing.T) {
	t.Parallel()
	data, _ := os.ReadFile("testdata/vap.yaml")
	objects := rendertest.Parse(t, "vap.yaml", data)
	all := OfPolicy(t.Context(), objects[0], data, false)
	for i := range all {
		if all[i].Mutator == Match {
			t.Errorf("%v: %s", all[i].Origin, all[i].Change)
		}
	}
	if len(all) == 0 {
		t.Error("no mutants")
	}
}

// TestMutantsDiffer holds that each mutant is another file, and that no two are the
// same.
func TestMutantsDiffer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"vap.yaml", "clusterpolicy.yaml", "template.yaml", "deny.rego"} {
		all, data := mutantsOf(t, filepath.Join("testdata", name))
		seen := map[string]string{string(data): "the file itself"}
		for i := range all {
			now := string(all[i].Apply(data))
			if was := seen[now]; was != "" {
				t.Errorf("%s:%d: %s is the same as %s", name, all[i].Origin.Line, all[i].Change, was)
			}
			seen[now] = all[i].Change
		}
	}
}

// TestEquivalent holds what folding shows to decide alike.
func TestEquivalent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"size(object.x) >= 0 && object.y == 1", "object.y == 1", true},
		{"object.x != null && object.x == 'a'", "object.x == 'a'", true},
		{"object.a && object.a", "object.a", true},
		{"object.a && object.b", "object.a", false},
		{"object.n > 3", "object.n >= 3", false},
		{"has(object.a) && object.a == 1", "object.a == 1", false},
		{"object.list.all(x, x > 1)", "object.list.exists(x, x > 1)", false},
		{"true || object.a", "true || object.b", true},
	} {
		if got := (&editor{}).same(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

// FuzzTokens holds that tokens stand in order and cover everything but blanks and
// comments.
func FuzzTokens(f *testing.F) {
	for _, s := range []string{`a.all(x, x.y != "b\"")`, "r'\\' + '''a'b'''", "[{(", "x // y\n && z", "a[?0].?b", "not x; y == `z`", "&& y", "a ? : b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, l := range []language{celLanguage, regoLanguage, jmespathLanguage} {
			tokens, ok := l.tokens(s)
			at := 0
			for _, x := range tokens {
				if x.from < at || x.to <= x.from || x.to > len(s) || x.text != s[x.from:x.to] {
					t.Fatalf("%q: token %+v behind %d", s, x, at)
				}
				at = x.to
			}
			if ok {
				celChanges(s)
			}
		}
	})
}

// FuzzPolicy holds that whatever a policy looks like, no change fails or lies outside
// of the file.
func FuzzPolicy(f *testing.F) {
	for _, name := range []string{"vap.yaml", "clusterpolicy.yaml", "template.yaml"} {
		data, _ := os.ReadFile(filepath.Join("testdata", name))
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, _ := render.Parse("a.yaml", data)
		for _, o := range objects {
			all := OfPolicy(t.Context(), o, data, true)
			for k := range all {
				if bytes.Equal(all[k].Apply(data), data) {
					t.Fatalf("%s changes nothing", all[k].Change)
				}
				all[k].Diff(data)
			}
		}
	})
}
