package yamledit

import (
	"testing"

	"github.com/preadmit/preadmit/render"
)

// FuzzApply edits files of any content: what Apply returns can be read again, and the same edit
// changes it no further.
func FuzzApply(f *testing.F) {
	f.Add("a: {b: 1}\n", "/a/c", "x", false)
	f.Add("a:\n- b\n# c\n", "/a/0", "", true)
	f.Fuzz(func(t *testing.T, data, pointer, value string, remove bool) {
		e := render.Edit{Pointer: pointer, Delete: remove, Value: value}
		after, err := Apply("x", []byte(data), 0, e)
		if err != nil || remove {
			return
		}
		docs, _ := render.Documents("x", after, render.YAML11)
		if len(docs) == 0 {
			t.Fatalf("%q can't be read", after)
		}
		if got, ok := render.Lookup(docs[0].Value, pointer); ok && got != value {
			t.Fatalf("%q has %v, not %q", after, got, value)
		}
	})
}
