package policy

import (
	"slices"
	"testing"

	"github.com/preadmit/preadmit/render"
)

// FuzzSuppressions holds that what is read of a file is written so that it reads
// the same, and that errors stand at lines of the file.
func FuzzSuppressions(f *testing.F) {
	for _, text := range []string{
		"suppressions:\n- {rule: a, object: '/Pod/*/**', path: x, reason: y, expires: 2027-03-31, owner: z}\n",
		"suppressions:\n- rule: \"a\\nb\"\n  object: |\n    c\n  reason: '#'\n  expires: 2027-03-31\n",
		"suppressions: []\n", "suppressions:\n", "a: b\n", "- x\n", "suppressions:\n- {rule: a}\n---\nb\n", "suppressions: [&a {rule: *a}]", "\xa0",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := ParseSuppressions("s.yaml", data)
		for _, e := range render.Errors(err) {
			if e.Span.File != "s.yaml" || e.Span.Line < 0 {
				t.Errorf("%q: error at %v", data, e.Span)
			}
		}
		if err != nil {
			return
		}
		again, err := ParseSuppressions("s.yaml", WriteSuppressions(all))
		same := slices.EqualFunc(all, again, func(a, b Suppression) bool {
			a.Origin, b.Origin = render.Span{}, render.Span{}
			return a == b
		})
		if err != nil || !same {
			t.Errorf("%q: written and read again it is %v, %v; was %v\n%s", data, again, err, all, WriteSuppressions(all))
		}
	})
}
