package patch

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/preadmit/preadmit/render/rendertest"
)

// twins is a value made of our literals, and the same of the API server's.
type twins struct{ ours, theirs ref.Val }

func randomTwins(r *rand.Rand, name string, depth int) twins {
	kinds := 8
	if depth == 0 {
		kinds = 5
	}
	switch r.IntN(kinds) {
	case 0:
		return twins{types.String("a"), types.String("a")}
	case 1:
		return twins{types.Int(1), types.Int(1)}
	case 2:
		return twins{types.True, types.True}
	case 3:
		return twins{types.NullValue, types.NullValue}
	case 4:
		l := types.DefaultTypeAdapter.NativeToValue([]string{"x"})
		return twins{l, l}
	case 5:
		var ours, theirs []ref.Val
		for range r.IntN(3) {
			t := randomTwins(r, name, depth-1)
			ours, theirs = append(ours, t.ours), append(theirs, t.theirs)
		}
		a := types.DefaultTypeAdapter
		return twins{types.NewRefValList(a, ours), types.NewRefValList(a, theirs)}
	case 6:
		ours, theirs := map[ref.Val]ref.Val{}, map[ref.Val]ref.Val{}
		var key ref.Val = types.String("k")
		if r.IntN(20) == 0 {
			key = types.Int(3)
		}
		t := randomTwins(r, name, depth-1)
		ours[key], theirs[key] = t.ours, t.theirs
		a := types.DefaultTypeAdapter
		return twins{types.NewRefValMap(a, ours), types.NewRefValMap(a, theirs)}
	}
	return randomLiteral(r, name, depth)
}

func randomLiteral(r *rand.Rand, name string, depth int) twins {
	ours, theirs := map[string]ref.Val{}, map[string]ref.Val{}
	for i := range r.IntN(3) {
		key := fmt.Sprint("f", i)
		below := name + "." + key
		if r.IntN(40) == 0 {
			below = "Object.other"
		}
		t := randomTwins(r, below, max(depth-1, 0))
		ours[key], theirs[key] = t.ours, t.theirs
	}
	of, ok := new(Resolver).Resolve(name)
	if !ok {
		panic(name)
	}
	return twins{of.Val(ours), dynamic.NewObjectType(name).Val(theirs)}
}

// plain replaces the values of CEL that a conversion leaves below lists and maps.
func plain(v any) any {
	switch x := v.(type) {
	case error:
		return "error"
	case ref.Val:
		return plain(x.Value())
	case []any:
		list := make([]any, len(x))
		for i, e := range x {
			list[i] = plain(e)
		}
		return list
	case []ref.Val:
		list := make([]any, len(x))
		for i, e := range x {
			list[i] = plain(e)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(x))
		for k, e := range x {
			m[k] = plain(e)
		}
		return m
	case map[ref.Val]ref.Val:
		m := make(map[any]any, len(x))
		for k, e := range x {
			m[plain(k)] = plain(e)
		}
		return m
	}
	return v
}

// TestLiterals holds that object literals convert as the API server's do.
func TestLiterals(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	mismatches, failures := 0, 0
	for range 3000 {
		v := randomLiteral(r, "Object", 5)
		ours, theirs := v.ours.(*literal), v.theirs.(*dynamic.ObjectVal)
		ourErr, theirErr := ours.checkTypeNames(), theirs.CheckTypeNamesMatchFieldPathNames()
		if (ourErr == nil) != (theirErr == nil) {
			t.Fatalf("type names: %v, want %v", ourErr, theirErr)
		}
		if ourErr != nil {
			mismatches++
		}
		for _, to := range []reflect.Type{reflect.TypeFor[map[string]any](), reflect.TypeFor[*structpb.Value](), reflect.TypeFor[*structpb.Struct](), reflect.TypeFor[string]()} {
			got, err := ours.ConvertToNative(to)
			want, wantErr := theirs.ConvertToNative(to)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("to %v: %v, want %v", to, err, wantErr)
			}
			if err != nil {
				failures++
				continue
			}
			if diff := cmp.Diff(plain(want), plain(got), protocmp.Transform()); diff != "" {
				t.Fatalf("to %v (-want +got):\n%s", to, diff)
			}
		}
		if ours.Equal(ours) != types.True || ours.Equal(types.True) != types.False || ours.Type().TypeName() != "Object" {
			t.Fatalf("a literal of type %v does not equal itself alone", ours.Type())
		}
		if same := ours.ConvertToType(types.NewObjectType("Object")); same != ref.Val(ours) {
			t.Fatalf("converted to its own type: %T", same)
		}
	}
	if mismatches == 0 || failures == 0 {
		t.Errorf("%d mismatches, %d failures: the values are too plain", mismatches, failures)
	}
}

// TestDeepLiteral holds that the depth of a literal does not multiply the work.
func TestDeepLiteral(t *testing.T) {
	t.Parallel()
	const depth = 60
	name := "Object"
	names := []string{name}
	for range depth {
		name += ".f"
		names = append(names, name)
	}
	var v ref.Val = types.String("leaf")
	for i := depth; i >= 0; i-- {
		of, _ := new(Resolver).Resolve(names[i])
		v = of.Val(map[string]ref.Val{"f": v})
	}
	m, err := Configuration(v)
	rendertest.OK(t, err)
	for range depth {
		m = m["f"].(map[string]any)
	}
	if m["f"] != "leaf" {
		t.Error(m)
	}
}
