package schema

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestForms holds the conversion of every built-in kind against the library's,
// over objects with fields that are there or not by chance.
func TestForms(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "1.36")
	all := 0
	for i, b := range kinds.sortedKinds(func(b *builtin) bool { return b.goType() != nil }) {
		typ := b.goType()
		if typ.form == nil {
			t.Errorf("%v has no form", b.gvk)
			continue
		}
		for seed := range 40 {
			object := (&generator{Rand: rand.New(rand.NewPCG(uint64(i), uint64(seed)))}).kind(b)
			want := reflect.New(typ.typ)
			if runtime.DefaultUnstructuredConverter.FromUnstructured(object, want.Interface()) != nil {
				continue
			}
			got := reflect.New(typ.typ)
			if err := typ.form.set(got.Elem(), object); err != nil {
				t.Errorf("%v: %v", b.gvk, err)
				break
			}
			if !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%v: the typed objects differ: %s", b.gvk, cmp.Diff(want.Interface(), got.Interface()))
				break
			}
			all++
			sameTree(t, typ, want)
			completed, err := typ.complete(kinds.release, want.Interface().(runtime.Object), "", nil)
			rendertest.OK(t, err)
			sameTree(t, typ, reflect.ValueOf(completed))
		}
	}
	if all < 3000 {
		t.Errorf("only %d objects were compared", all)
	}
	t.Logf("%d objects", all)
}

// sameTree compares the value trees of one typed object.
func sameTree(t *testing.T, typ *goType, typed reflect.Value) {
	t.Helper()
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed.Interface())
	rendertest.OK(t, err)
	got, err := typ.form.object(typed.Elem())
	rendertest.OK(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v: the trees differ: %s", typ.typ, diff)
	}
}
