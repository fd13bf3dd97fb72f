package patch

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// TestPatchedInPart holds that an object of which only a part is written as JSON is patched as if
// all of it were, and that the object itself does not change.
func TestPatchedInPart(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	var value func(depth int) any
	value = func(depth int) any {
		switch r.IntN(14) {
		case 0:
			return nil
		case 1:
			return int64(7)
		case 2:
			return []any{1.5, 2.0, 1e300, math.NaN()}[r.IntN(4)]
		case 3:
			return pick("\xff", "\u2028<", "")
		case 4, 5, 6:
			list := make([]any, r.IntN(3))
			for i := 0; i < len(list) && depth > 0; i++ {
				list[i] = value(depth - 1)
			}
			return list
		case 7, 8, 9, 10:
			m := map[string]any{}
			for i := r.IntN(3); i > 0 && depth > 0; i-- {
				m[pick("a", "b", "x/y", "\xfe")] = value(depth - 1)
			}
			return m
		case 11:
			return map[string]any(nil)
		}
		return "text"
	}
	paths := []string{"", "/", "a/b", "/a", "/b", "/c", "/a/a", "/a/b", "/a/x~1y", "/a/0", "/a/-", "/b/1/a", "/b/-1", "/a/a/a", "/b/b"}
	inPart, same := 0, 0
	for range 10_000 {
		before := map[string]any{}
		for _, key := range []string{"a", "b", "c", "d", "\xff"} {
			if r.IntN(3) > 0 && (key != "\xff" || r.IntN(20) == 0) {
				before[key] = value(3)
			}
		}
		var operations []string
		for range 1 + r.IntN(3) {
			operations = append(operations, fmt.Sprintf(`{"op": %q, "path": %q, "from": %q, "value": %s}`,
				pick("add", "add", "remove", "replace", "test", "move", "copy", "odd"), pick(paths...), pick(paths...), pick(`1`, `{"a": 1.0}`, `null`, `[{}]`, `"text"`)))
		}
		var decoded jsonpatch.Patch
		if err := json.Unmarshal([]byte("["+strings.Join(operations, ",")+"]"), &decoded); err != nil {
			t.Fatal(err)
		}
		for _, o := range decoded {
			if null := json.RawMessage("null"); o["value"] == nil {
				o["value"] = &null
			}
		}
		kept := fmt.Sprintf("%#v", before)
		var got, want map[string]any
		done, err := false, error(nil)
		part := panics(func() { got, done = patchedInPart(before, decoded) }) // the library does, at some nulls
		whole := panics(func() { want, err = patched(before, decoded, maxPatched) })
		if part && !whole || done && whole {
			t.Fatalf("%s\n%s\npanics in part: %v, whole: %v", kept, operations, part, whole)
		}
		if !done {
			continue
		}
		inPart++
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\n%s\nin part: %#v\nwhole:   %#v, %v", kept, operations, got, want, err)
		}
		if len(want) > 0 {
			same++
		}
		if now := fmt.Sprintf("%#v", before); now != kept {
			t.Fatalf("%s\nis now\n%s", kept, now)
		}
	}
	if same < 300 {
		t.Errorf("of %d objects patched in part %d are compared", inPart, same)
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestPatchedSize holds that the parts which are not written as JSON count for the object's size.
func TestPatchedSize(t *testing.T) {
	t.Parallel()
	add := jsonpatch.Patch{}
	if err := json.Unmarshal([]byte(`[{"op": "add", "path": "/a", "value": 1}]`), &add); err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{1000, maxPatched - 1000, maxPatched} {
		before := map[string]any{"data": strings.Repeat("x", length)}
		_, err := patched(before, add, maxPatched)
		if after, done := patchedInPart(before, add); done && (err != nil || len(after) != 2) || length == 1000 && !done {
			t.Errorf("%d bytes: patched in part: %v, whole: %v", length, done, err)
		}
	}
}
