package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestMadeAsControllers compares what is made of random workloads with what Kubernetes' own controllers
// created of them: testdata/made.json is what the command testdata/apiserver/controllers wrote.
func TestMadeAsControllers(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/made.json")
	rendertest.OK(t, err)
	var records []struct {
		Maker map[string]any
		Made  []map[string]any
	}
	rendertest.OK(t, json.Unmarshal(data, &records))
	compared := map[schema.GroupVersionKind]int{}
	for _, r := range records {
		u := &unstructured.Unstructured{Object: r.Maker}
		req := &Request{
			Operation: Create, Kind: u.GroupVersionKind(), Namespace: u.GetNamespace(), Admitted: r.Maker,
			Object: &render.Object{Unstructured: u},
		}
		products := req.products(func(schema.GroupVersionKind) bool { return true })
		for _, p := range products {
			is := newMade(req, p).Object
			want := created(r.Made, p.kind, is.GetName())
			if want == nil {
				continue // pods of Jobs, and claims of pods that another controller creates
			}
			compared[p.kind]++
			(&unstructured.Unstructured{Object: want}).SetNamespace("shop") // the client says it apart
			if diff := cmp.Diff(withoutChoice(t, want), withoutChoice(t, is.Object)); diff != "" {
				t.Errorf("%s of %s: -controller +made\n%s", p.kind.Kind, req.Kind.Kind, diff)
			}
		}
	}
	for _, kind := range []schema.GroupVersionKind{PodKind, ClaimKind, jobKind, replicaSetKind} {
		if compared[kind] < 10 {
			t.Errorf("compared %d %ss", compared[kind], kind.Kind)
		}
	}
}

// created returns what controllers created of a kind, of claims the one of that name.
func created(all []map[string]any, kind schema.GroupVersionKind, name string) map[string]any {
	for _, o := range all {
		if u := (&unstructured.Unstructured{Object: o}); u.GroupVersionKind() == kind && (kind != ClaimKind || u.GetName() == name) {
			return o
		}
	}
	return nil
}

// chosen matches what controllers choose: hashes of templates, and times, in minutes too.
var chosen = regexp.MustCompile(`-[0-9a-z]{8,10}(-?)$|^\d{4}-\d\d-\d\dT\S*Z$|^[0-9a-z]{8,10}$`)

// withoutChoice returns an object as JSON has it, without its status, empty values and what a controller chooses.
func withoutChoice(t *testing.T, o map[string]any) any {
	t.Helper()
	o = maps.Clone(o)
	delete(o, "status")
	data, err := json.Marshal(o)
	rendertest.OK(t, err)
	var v any
	rendertest.OK(t, json.Unmarshal(data, &v))
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			return chosen.ReplaceAllString(v, "CHOSEN")
		case map[string]any:
			for key, e := range v {
				if v[key] = walk(e); v[key] == nil {
					delete(v, key)
				}
			}
			if len(v) == 0 {
				return nil
			}
		case []any:
			for i, e := range v {
				v[i] = walk(e)
			}
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) // volumes
		}
		return v
	}
	return walk(v)
}
