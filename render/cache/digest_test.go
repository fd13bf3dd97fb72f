package cache_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
)

// TestDigests holds that equal objects have one digest, whether they share parts or not, and that
// others have another.
func TestDigests(t *testing.T) {
	t.Parallel()
	object := func(fields map[string]any) *render.Object {
		return &render.Object{Unstructured: &unstructured.Unstructured{Object: fields}}
	}
	spec := map[string]any{"a": "x", "b": []any{"x", int64(1)}}
	d, other := cache.NewDigests(), cache.NewDigests()
	first, err := other.Of(object(map[string]any{"spec": spec}))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i, fields := range []map[string]any{
		{"spec": spec},
		{"status": spec},
		{"spec": spec["b"]},
		{"spec": []any{first}},
		{"spec": spec["b"].([]any)[:1]},
		{"spec": "x"},
		{"spec": map[string]any{}},
		{"spec": map[string]any(nil)},
		{"spec": []any{}},
		{"spec": []any(nil)},
		{"spec": nil},
		{},
	} {
		sum, err := d.Of(object(fields))
		copied, failed := other.Of(object(render.Copy(fields).(map[string]any)))
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		if was, ok := seen[sum]; ok {
			t.Errorf("objects %d and %d have one digest", was, i)
		}
		if seen[sum] = i; copied != sum && i != 7 && i != 9 { // a copy has no nil maps and lists
			t.Errorf("object %d: a copy has another digest", i)
		}
	}
	for range 2 {
		if _, err := d.Of(object(map[string]any{"spec": map[string]any{"a": struct{}{}}})); err == nil {
			t.Error("no error for a value that is not JSON")
		}
	}
}
