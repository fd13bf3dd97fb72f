package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhereValuesBegin holds where the parser has values begin: properties are part of them,
// and an alias stands for what it brings.
func TestWhereValuesBegin(t *testing.T) {
	t.Parallel()
	docs, err := Documents("a.yaml", []byte("# above\na: &x 1\nb: [*x, \"é\", c]\nd:\n  e: f\n"), YAML11)
	ok(t, err)
	var got []string
	docs[0].Positions.Each(func(pointer string, line, column int) {
		got = append(got, fmt.Sprintf("%s %d:%d", pointer, line, column))
	})
	want := []string{" 2:1", "/a 2:4", "/b 3:4", "/b/0 2:4", "/b/0 3:5", "/b/1 3:9", "/b/2 3:14", "/d 5:3", "/d/e 5:6"}
	if d := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
