package mutator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// mutatorOf is a mutator for ConfigMaps in JSON.
func mutatorOf(kind, name, location, parameters string) string {
	version := "v1"
	if kind == "AssignImage" {
		version = "v1alpha1"
	}
	return fmt.Sprintf(`{"apiVersion": "mutations.gatekeeper.sh/%s", "kind": %q, "metadata": {"name": %q}, "spec": {"applyTo": [{"groups": [""], "versions": ["v1"], "kinds": ["ConfigMap"]}], "location": %q, "parameters": %s}}
`, version, kind, name, location, parameters)
}

func readAll(t testing.TB, text string) []*render.Object {
	t.Helper()
	return rendertest.Parse(t, "policy.yaml", text)
}

// mutatorsOf reads mutators, all of which must be good.
func mutatorsOf(t testing.TB, texts ...string) *Set {
	t.Helper()
	all, err := New(readAll(t, strings.Join(texts, "---\n")))
	rendertest.OK(t, err)
	return all
}

func configMap(spec any) Target {
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "spec": spec}
	return Target{Matchable: document.Matchable{Object: object, Source: document.SourceOriginal}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Operation: "CREATE"}
}

// within fails a test that takes much longer than it should: bounds are what
// is tested here, and not speed.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > d {
		t.Errorf("took %s", took)
	}
}

// TestHostileLists goes through lists of 10,000 elements, and bounds what is
// put into them.
func TestHostileLists(t *testing.T) {
	t.Parallel()
	var list, nested []any
	for i := range 10_000 {
		list = append(list, map[string]any{"name": fmt.Sprintf("n%d", i)})
		nested = append(nested, map[string]any{"name": fmt.Sprintf("n%d", i), "l": []any{map[string]any{"name": "x"}, map[string]any{"name": "y"}}})
	}
	big := fmt.Sprintf(`{"assign": {"value": [%s1]}}`, strings.Repeat("1, ", 1000))
	for name, c := range map[string]struct {
		spec any
		m    *Set
		want error
	}{
		"all":       {map[string]any{"l": list}, mutatorsOf(t, mutatorOf("Assign", "a", "spec.l[name: *].x", `{"assign": {"value": 1}}`)), nil},
		"nested":    {map[string]any{"l": nested}, mutatorsOf(t, mutatorOf("Assign", "a", "spec.l[name: *].l[name: *].x", `{"assign": {"value": 1}}`)), nil},
		"last":      {map[string]any{"l": list}, mutatorsOf(t, mutatorOf("Assign", "a", "spec.l[name: n9999].x", `{"assign": {"value": 1}}`)), nil},
		"too large": {map[string]any{"l": list}, mutatorsOf(t, mutatorOf("Assign", "a", "spec.l[name: *].x", big)), errTooMuch},
		"set":       {map[string]any{"l": list}, mutatorsOf(t, mutatorOf("ModifySet", "a", "spec.l", `{"values": {"fromList": [{"name": "n5"}, {"name": "new"}]}}`)), nil},
	} {
		within(t, 20*time.Second, func() {
			x := configMap(c.spec)
			before := render.Copy(x.Object)
			done, err := c.m.Mutate(t.Context(), x)
			if !errors.Is(err, c.want) || err == nil && len(done.Steps) != 1 {
				t.Errorf("%s: %d steps, %v", name, len(done.Steps), err)
			}
			if !sameJSON(before, x.Object) {
				t.Errorf("%s: the object that was given is another one now", name)
			}
		})
	}
}

// TestHostileSets merges and prunes as many values as there are.
func TestHostileSets(t *testing.T) {
	t.Parallel()
	var list []any
	var values []string
	for i := range 20_000 {
		list = append(list, map[string]any{"a": int64(i)})
		values = append(values, fmt.Sprintf(`{"a": %d}`, i+10_000))
	}
	parameters := fmt.Sprintf(`{"values": {"fromList": [%s]}, "operation": %%q}`, strings.Join(values, ","))
	for operation, want := range map[string]int{"merge": 30_000, "prune": 10_000} {
		m := mutatorsOf(t, mutatorOf("ModifySet", "a", "spec.l", fmt.Sprintf(parameters, operation)))
		within(t, 20*time.Second, func() {
			done, err := m.Mutate(t.Context(), configMap(map[string]any{"l": list}))
			rendertest.OK(t, err)
			if got, _ := render.Lookup(done.Object, "/spec/l"); len(got.([]any)) != want {
				t.Errorf("%s: %d values", operation, len(got.([]any)))
			}
		})
	}
}

// TestHostileDepth makes objects as deep as locations may be.
func TestHostileDepth(t *testing.T) {
	t.Parallel()
	deep := "spec" + strings.Repeat(".a[k: v]", (maxParts-2)/2) + ".z"
	done, err := mutatorsOf(t, mutatorOf("Assign", "a", deep, `{"assign": {"value": 1}}`)).Mutate(t.Context(), configMap(map[string]any{}))
	if err != nil || len(done.Steps) != 1 || Weight(done.Object) < maxParts {
		t.Errorf("%d values, %v", Weight(done.Object), err)
	}
	_, err = New(readAll(t, mutatorOf("Assign", "a", "spec"+strings.Repeat(".a", 100_000), `{"assign": {"value": 1}}`)))
	if err == nil || len(err.Error()) > 2*policy.MaxMessage {
		t.Errorf("too deep: %.100v", err)
	}
}

// TestHostileRounds has as many mutators as it takes for many rounds, each of
// which has to wait for the one behind it.
func TestHostileRounds(t *testing.T) {
	t.Parallel()
	chain := func(n int) *Set {
		texts := []string{mutatorOf("Assign", fmt.Sprintf("m%05d", n), fmt.Sprintf("spec.f%d.x", n), `{"assign": {"value": 1}}`)}
		for i := range n {
			texts = append(texts, mutatorOf("Assign", fmt.Sprintf("m%05d", i), fmt.Sprintf("spec.f%d.x", i),
				fmt.Sprintf(`{"assign": {"value": 1}, "pathTests": [{"subPath": "spec.f%d", "condition": "MustExist"}]}`, i)))
		}
		return mutatorsOf(t, texts...)
	}
	within(t, 2*time.Minute, func() {
		if _, err := chain(200).Mutate(t.Context(), configMap(map[string]any{})); err != nil {
			t.Error(err)
		}
	})
	var texts []string
	for i := range 3000 {
		texts = append(texts, mutatorOf("Assign", fmt.Sprintf("m%05d", i), fmt.Sprintf("spec.f%d", i), `{"assign": {"value": 1}}`))
	}
	m := mutatorsOf(t, texts...)
	within(t, 2*time.Minute, func() {
		if _, err := m.Mutate(t.Context(), configMap(map[string]any{})); !errors.Is(err, errTooLong) {
			t.Errorf("3000 mutators that each change the object: %v", err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Mutate(ctx, configMap(map[string]any{})); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestHostileConflicts compares many mutators, and gives up on too many.
func TestHostileConflicts(t *testing.T) {
	t.Parallel()
	many := func(n int, common string) []*render.Object {
		objects := make([]*render.Object, n)
		for i := range n {
			location := "spec.l[name: a].x"
			if i%2 == 0 {
				location = "spec.l.x"
			}
			objects[i] = &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "mutations.gatekeeper.sh/v1", "kind": "Assign", "metadata": map[string]any{"name": fmt.Sprintf("m%d", i)},
				"spec": map[string]any{
					"applyTo":  []any{map[string]any{"groups": []any{""}, "versions": []any{"v1"}, "kinds": []any{fmt.Sprintf("K%d", i), cmp.Or(common, fmt.Sprintf("L%d", i))}}},
					"location": location, "parameters": map[string]any{"assign": map[string]any{"value": int64(1)}},
				},
			}}}
		}
		return objects
	}
	within(t, 2*time.Minute, func() {
		m, err := New(many(300, "ConfigMap"))
		if len(m.Applied) != 0 || len(render.Errors(err)) != 300 || !strings.Contains(err.Error(), "and others:") {
			t.Errorf("%d are applied, %d errors", len(m.Applied), len(render.Errors(err)))
		}
	})
	within(t, 2*time.Minute, func() {
		if m, _ := New(many(3500, "ConfigMap")); len(m.Applied) != 0 {
			t.Errorf("%d are applied", len(m.Applied))
		}
		if _, err := New(many(3500, "")); err == nil || !strings.Contains(err.Error(), "too many mutators") {
			t.Errorf("%.100v", err)
		}
	})
}
