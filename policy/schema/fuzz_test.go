package schema

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"

	"github.com/preadmit/preadmit/render/rendertest"
)

// FuzzUnknownFields holds that the fields of a Pod which the strict decoder of Kubernetes
// refuses are those that are reported.
func FuzzUnknownFields(f *testing.F) {
	for _, s := range []string{
		`{"spec": {"hostnetwork": true, "containers": [{"name": "a", "x": 1, "env": [{"y": {}}]}]}}`, `{"metadata": {"labels": {"a": "b"}, "z": 1}, "x": null}`,
		`{"spec": {"volumes": [{"configMap": {"items": [{"key": 1}]}}], "nodeSelector": {"a": "b"}}}`, `{"spec": {"overhead": {"cpu": "1"}, "containers": [{"resources": {"limits": {"q": 1}, "limit": 1}}]}}`, `{"a": {"b": 1}}`, `{"Spec": {}}`,
	} {
		f.Add([]byte(s))
	}
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	known, err := knownOf(gvk, newest)
	rendertest.OK(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		var value map[string]any
		if json.Unmarshal(data, &value) != nil {
			return
		}
		plain, err := json.Marshal(value) // without fields that are there twice
		if err != nil {
			t.Skip(err)
		}
		strict, err := kjson.UnmarshalStrict(plain, &corev1.Pod{})
		if err != nil || len(strict) >= maxUnknown {
			return // a field has another type
		}
		var want, got []string
		for _, e := range strict {
			path, err := strconv.Unquote(strings.TrimPrefix(e.Error(), "unknown field "))
			if err != nil {
				t.Fatal(e)
			}
			want = append(want, path)
		}
		for _, u := range known.unknown(value) {
			got = append(got, u.path)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%s: unknown fields %q, and for Kubernetes %q", plain, got, want)
		}
	})
}
