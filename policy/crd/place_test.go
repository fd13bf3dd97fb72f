package crd

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/preadmit/preadmit/render"
)

// TestFind makes pointers of paths as the API server writes them.
func TestFind(t *testing.T) {
	t.Parallel()
	value := map[string]any{
		"spec": map[string]any{
			"a.b/c": map[string]any{"d]": []any{"x", map[string]any{"e": 1}}},
			"a":     map[string]any{"b": "other"},
			"list":  []any{[]any{"y"}},
			"":      map[string]any{},
		},
	}
	for _, c := range []struct {
		path  string
		whole bool
		want  string
	}{
		{"<nil>", false, ""},
		{"", false, ""},
		{"spec", false, "/spec"},
		{".spec", true, "/spec"},
		{"spec.a.b", false, "/spec/a/b"},
		{"spec.a.b/c", false, "/spec/a.b~1c"},
		{"spec[a.b/c]", false, "/spec/a.b~1c"},
		{"spec.a.b/c[d]][1].e", false, "/spec/a.b~1c/d]/1/e"},
		{"spec.list[0][0]", false, "/spec/list/0/0"},
		{"spec.list[0][7]", false, "/spec/list/0/7"},
		{"spec.none.of.these[x]", false, "/spec/none/of/these/x"},
		{"spec.app.kubernetes.io/name", true, "/spec/app.kubernetes.io~1name"},
		{"spec.a.c.d", true, "/spec/a/c.d"},
	} {
		if got := find(value, c.path, c.whole); got != c.want {
			t.Errorf("find(%q, %v) = %q, want %q", c.path, c.whole, got, c.want)
		}
	}
}

// TestFindRandom finds places in random trees by the paths that the API server
// would write for them: a place of that path, since two may have the same.
func TestFindRandom(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		tree := randomTree(random, 4)
		at, value := randomPlace(random, tree)
		if at == nil {
			continue
		}
		path := at.path().String()
		pointer := find(tree, path, false)
		got, ok := render.Lookup(tree, pointer)
		if !ok {
			t.Fatalf("%v: %s is at %s, found %q", tree, path, at.pointer(), pointer)
		}
		if p := placeOf(pointer, tree); p.path().String() != path && pointer != at.pointer() {
			t.Fatalf("%v: %s is at %s, found %q: %v, not %v", tree, path, at.pointer(), pointer, got, value)
		}
	}
}

var randomKeys = []string{"a", "b", "a.b", "a[0]", "c/d", "e~f", "a]"}

func randomTree(random *rand.Rand, depth int) any {
	switch n := random.IntN(4); {
	case depth == 0 || n == 0:
		return random.IntN(100)
	case n == 1:
		list := make([]any, random.IntN(3))
		for i := range list {
			list[i] = randomTree(random, depth-1)
		}
		return list
	default:
		m := map[string]any{}
		for range random.IntN(4) {
			m[randomKeys[random.IntN(len(randomKeys))]] = randomTree(random, depth-1)
		}
		return m
	}
}

func randomPlace(random *rand.Rand, tree any) (*place, any) {
	var at *place
	for range 4 {
		switch v := tree.(type) {
		case []any:
			if len(v) == 0 {
				return at, tree
			}
			i := random.IntN(len(v))
			at, tree = at.item(i), v[i]
		case map[string]any:
			keys := slices.Sorted(maps.Keys(v))
			if len(keys) == 0 {
				return at, tree
			}
			key := keys[random.IntN(len(keys))]
			at, tree = at.child(key), v[key]
		}
	}
	return at, tree
}

func placeOf(pointer string, tree any) *place {
	var at *place
	for _, key := range render.Path(pointer) {
		if list, ok := tree.([]any); ok {
			for i := range list {
				if render.Pointer(i) == "/"+key {
					at, tree = at.item(i), list[i]
					break
				}
			}
			continue
		}
		at, tree = at.child(key), tree.(map[string]any)[key]
	}
	return at
}
