package schema

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	serverjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// An object with one value of a wrong type has a fault exactly if the API
// server's decoder refuses it, and it is at that value or above it.
func TestFaultsAsTheDecoder(t *testing.T) {
	t.Parallel()
	wrong := []any{"text", int64(7), int64(1) << 40, 1.5, true, map[string]any{"a": "b"}, []any{"a"}, "10", nil, -1.0}
	refused := 0
	for i, b := range newKinds(t, "").sortedKinds(func(b *builtin) bool { return b.goType() != nil }) {
		for seed := range 60 {
			g := &generator{Rand: rand.New(rand.NewPCG(uint64(i), uint64(seed)))}
			object := g.kind(b)
			pointers := leaves("", object, nil)
			pointer := pointers[g.IntN(len(pointers))]
			put(object, pointer, wrong[g.IntN(len(wrong))])
			f := b.goType().shape.faults(object)
			data, err := json.Marshal(object)
			rendertest.OK(t, err)
			err = serverjson.Unmarshal(data, reflect.New(b.goType().typ).Interface())
			if (err != nil) != (f.first != "") {
				value, _ := render.Lookup(object, pointer)
				t.Errorf("%v: %s = %v: fault at %q, decoder: %v", b.gvk, pointer, value, f.first, err)
			}
			if f.first != "" {
				refused++
				if len(f.first) > len(pointer) || pointer[:len(f.first)] != f.first {
					t.Errorf("%v: fault at %s, want it at %s", b.gvk, f.first, pointer)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// leaves are the pointers to the scalars in a value, in order.
func leaves(at string, value any, found []string) []string {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = leaves(at+render.Pointer(key), v[key], found)
		}
	case []any:
		for i := range v {
			found = leaves(at+render.Pointer(i), v[i], found)
		}
	default:
		found = append(found, at)
	}
	return found
}

// put replaces the value at a pointer.
func put(object map[string]any, pointer string, value any) {
	path := render.Path(pointer)
	parent, _ := render.Lookup(object, render.Pointer(anys(path[:len(path)-1])...))
	last := path[len(path)-1]
	switch p := parent.(type) {
	case map[string]any:
		p[last] = value
	case []any:
		for i := range p {
			if render.Pointer(i) == "/"+last {
				p[i] = value
			}
		}
	}
}
