package policy

import (
	"slices"
	"testing"

	"github.com/preadmit/preadmit/render"
)

// TestWrittenFields: what the API server moved is told by where it was written.
func TestWrittenFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		object       string
		fields, want []string
	}{
		{
			"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: eA==, b: eA==}, stringData: {a: x, c/d: z}}",
			[]string{"/data/a", "/data/b", "/data/c~1d", "/data", "/metadata/name"},
			[]string{"/stringData/a", "/data/b", "/stringData/c~1d", "/data", "/metadata/name"},
		},
		{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, stringData: {a: x}}", []string{"/data/a"}, []string{"/data/a"}},
		{"{apiVersion: v1, kind: Secret, metadata: {name: a}}", nil, nil},
	} {
		objects, err := render.Parse("o.yaml", []byte(c.object))
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(c.fields)
		if got := written(c.fields, objects[0]); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.object, got, c.want)
		}
		if !slices.Equal(before, c.fields) {
			t.Errorf("%s: the engine's own fields were changed", c.object)
		}
	}
}
