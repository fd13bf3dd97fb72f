package sample

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// anyKinds takes every object but those with spec.invalid.
type anyKinds struct{ policy.Kinds }

func (anyKinds) Admit(o *render.Object, _ string) (map[string]any, error) {
	if _, found, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "invalid"); found {
		return nil, fmt.Errorf("spec.invalid: unknown field")
	}
	return o.Object, nil
}

func deployment(name string, spec map[string]any) *render.Object {
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "namespace": "prod"}, "spec": spec,
	}}}
}

// replicasAtMost is a policy about spec.replicas.
func replicasAtMost(limit int64) func(*render.Object) ([]Result, string) {
	return func(o *render.Object) ([]Result, string) {
		n, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		switch {
		case o.GetKind() != "Deployment":
			return nil, ""
		case found && n > limit:
			return []Result{{Rule: "replicas", Status: "fail", Fields: []string{"/spec/replicas"}}}, ""
		}
		return []Result{{Rule: "replicas", Status: "pass"}}, ""
	}
}

var bothStatuses = []Goal{{Rule: "replicas", Status: "pass"}, {Rule: "replicas", Status: "fail"}}

// chosen describes the samples of a test.
func chosen(f *Finder) []string {
	all := []string{}
	for _, x := range f.Choose() {
		var edits []string
		for _, e := range x.Edits {
			edits = append(edits, e.String())
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", x.Results[0].Status, x.Name(), strings.Join(edits, "; "))))
	}
	return all
}

// TestFind holds that unchanged objects come first, that small ones do among them,
// and that a status which none has is reached by one change of a literal's field.
func TestFind(t *testing.T) {
	t.Parallel()
	large := deployment("large", map[string]any{"replicas": int64(3), "note": strings.Repeat("x", 50)})
	tests := []struct {
		name    string
		objects []*render.Object
		want    []string
	}{
		{"both are there", []*render.Object{large, deployment("small", map[string]any{"replicas": int64(1)}), deployment("many", map[string]any{"replicas": int64(9)})}, []string{"fail prod/many", "pass prod/small"}},
		{"one is changed", []*render.Object{large}, []string{"pass prod/large", "fail prod/large spec.replicas: 7"}},
		{"invalid changes are left out", []*render.Object{deployment("a", map[string]any{"replicas": int64(3)})}, []string{"pass prod/a", "fail prod/a spec.replicas: 7"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := Find(t.Context(), Search{
				Evaluate: replicasAtMost(5), Coverage: policy.NewCoverage(), Statuses: bothStatuses, Kinds: anyKinds{},
				Texts: []any{"object.spec.invalid == 7 || object.spec.replicas <= 5"},
			}, tt.objects)
			got := chosen(f)
			slices.Sort(got)
			slices.Sort(tt.want)
			rendertest.Equal(t, tt.want, got)
		})
	}
}

// TestFindEnds holds that a search for what can't be reached ends after the same
// number of evaluations each time: few of large objects, and more if two rules are
// without a status.
func TestFindEnds(t *testing.T) {
	t.Parallel()
	evaluations := func(size int, rules ...string) int {
		spec := map[string]any{"large": strings.Repeat("x", size)}
		for i := range 400 {
			spec[fmt.Sprint("field", i)] = int64(i)
		}
		n := 0
		var goals []Goal
		for _, r := range rules {
			goals = append(goals, Goal{Rule: r, Status: "fail"})
		}
		Find(t.Context(), Search{
			Coverage: policy.NewCoverage(), Statuses: goals, Kinds: anyKinds{}, Texts: []any{"object.spec.other == 3"},
			Evaluate: func(o *render.Object) ([]Result, string) {
				n++
				return []Result{{Rule: "r", Status: "pass", Fields: []string{"/spec/" + fmt.Sprint(n)}}}, "" // never alike, so each is changed again
			},
		}, []*render.Object{deployment("a", spec)})
		return n
	}
	small := evaluations(0, "a")
	if again := evaluations(0, "a"); again != small {
		t.Errorf("%d evaluations, and %d the second time", small, again)
	}
	if small > ruleEffort+2 {
		t.Errorf("%d evaluations in vain, and %d are allowed for a rule", small, ruleEffort)
	}
	if two := evaluations(0, "a", "b"); two <= small || two > 2*ruleEffort+2 {
		t.Errorf("%d evaluations for two rules, %d for one", two, small)
	}
	if large := evaluations(10*largeObject, "a"); large > small/5 {
		t.Errorf("%d evaluations of large objects, %d of small ones", large, small)
	}
}

// TestMatches holds that an object which the policy does not match is told apart from
// one for which it can't be decided.
func TestMatches(t *testing.T) {
	t.Parallel()
	for want, evaluate := range map[string]func(*render.Object) ([]Result, string){
		"false":                 func(*render.Object) ([]Result, string) { return nil, "" },
		"false needs a Service": func(*render.Object) ([]Result, string) { return nil, "needs a Service" },
		"true":                  replicasAtMost(5),
	} {
		f := Find(t.Context(), Search{Evaluate: evaluate, Coverage: policy.NewCoverage(), Statuses: bothStatuses, Kinds: anyKinds{}}, []*render.Object{deployment("a", map[string]any{})})
		matches, undecided := f.Matches()
		if got := strings.TrimSpace(fmt.Sprint(matches, " ", undecided)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
