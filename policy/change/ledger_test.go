package change

import (
	"bytes"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
)

// TestVerdict holds the verdict of each pair of states.
func TestVerdict(t *testing.T) {
	t.Parallel()
	want := map[State]map[State]Verdict{ // by the base's state and the head's
		NotDeployed:     {NotDeployed: Ignored, PerhapsDeployed: Counts, Deployed: Counts},
		PerhapsDeployed: {NotDeployed: Counts, PerhapsDeployed: Counts, Deployed: Counts},
		Deployed:        {NotDeployed: Stops, PerhapsDeployed: Stops, Deployed: Counts},
	}
	for base, row := range want {
		for head, verdict := range row {
			if got := (Entry{Base: base, Head: head}).Verdict(); got != verdict {
				t.Errorf("base %d, head %d: %d, want %d", base, head, got, verdict)
			}
		}
	}
}

// TestCount holds that a unit counts if the base has no object of a controller, whatever the
// head adds, and not if both sides have some that leave it out.
func TestCount(t *testing.T) {
	t.Parallel()
	unreached := func() *Side {
		s := side(unit("apps/h.yaml", nil, nil, "h"))
		s.Units[0].State = render.Unreached
		return s
	}
	base, head := side(), unreached()
	perhaps, _ := Count(base, head)
	if head.Units[0].State == render.Unreached || perhaps["apps/h.yaml"] == "" {
		t.Errorf("without objects in the base: %q, %v", head.Units[0].State, perhaps)
	}
}

// TestSameFile holds that files are the same by their bytes where they can't be read.
func TestSameFile(t *testing.T) {
	t.Parallel()
	pointer := func(id string) []byte {
		return []byte("version https://git-lfs.github.com/spec/v1\noid sha256:" + id + "\nsize 1\n")
	}
	large := func(end string) []byte { return append(bytes.Repeat([]byte("a"), render.Limit+1), end...) }
	for name, c := range map[string]struct {
		a, b []byte
		want bool
	}{
		"same pointer":  {pointer("a"), pointer("a"), true},
		"other pointer": {pointer("a"), pointer("b"), false},
		"same large":    {large("x"), large("x"), true},
		"other large":   {large("x"), large("y"), false},
		"other secret":  {[]byte("\x00GITCRYPT\x00a"), []byte("\x00GITCRYPT\x00b"), false},
		"moved down":    {[]byte("a: 1\n"), []byte("# b\na: 1\n"), true},
		"gone":          {pointer("a"), nil, false},
	} {
		trees := [2]fstest.MapFS{{}, {}}
		for i, data := range [][]byte{c.a, c.b} {
			if data != nil {
				trees[i]["f.yaml"] = &fstest.MapFile{Data: data}
			}
		}
		if got := SameFile(trees[0], trees[1], "f.yaml"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
