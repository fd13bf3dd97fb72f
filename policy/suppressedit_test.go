package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func suppression(rule string) Suppression {
	return Suppression{Rule: rule, Object: "/Pod/*/*", Reason: "because", Expires: "2027-01-31"}
}

// TestSuppressionEditLayout holds that what people wrote in the file stays as it is.
func TestSuppressionEditLayout(t *testing.T) {
	t.Parallel()
	add := SuppressionEdit{Add: []Suppression{suppression("new")}, Header: "# schema\n"}
	entry := "rule: \"new\"\n  object: \"/Pod/*/*\"\n  reason: because\n  expires: 2027-01-31\n"
	for name, c := range map[string]struct {
		before, want string
		d            SuppressionEdit
	}{
		"no file":       {"", "# schema\n" + "suppressions:\n- " + entry, add},
		"comments only": {"# reviewed weekly", "# reviewed weekly\nsuppressions:\n- " + entry, add},
		"comments": {
			"# reviewed weekly\nsuppressions:\n# web\n- {rule: a, object: b, reason: c, expires: 2027-01-01} # old\n\n# the end\n",
			"# reviewed weekly\nsuppressions:\n# web\n- {rule: a, object: b, reason: c, expires: 2027-01-01} # old\n- " + entry + "\n# the end\n", add,
		},
		"indented, no last line end": {
			"suppressions:\n    - rule: a\n      object: b\n      reason: c\n      expires: 2027-01-01",
			"suppressions:\n    - rule: a\n      object: b\n      reason: c\n      expires: 2027-01-01\n    - " + strings.ReplaceAll(entry, "\n  ", "\n      "), add,
		},
		"the first of two goes": {
			"suppressions:\n- rule: a\n  object: b\n  reason: c\n  expires: 2027-01-01\n\n# of web\n- rule: d\n  object: b\n  reason: |\n    c\n    # no comment\n  expires: 2027-01-01\n",
			"suppressions:\n\n# of web\n- rule: d\n  object: b\n  reason: |\n    c\n    # no comment\n  expires: 2027-01-01\n",
			SuppressionEdit{Remove: []Suppression{{Rule: "a", Object: "b", Reason: "c", Expires: "2027-01-01"}}},
		},
		"what said the same before gives way": {
			"suppressions:\n- rule: new\n  object: /Pod/*/*\n  reason: once\n  expires: 2020-01-01\n",
			"suppressions:\n- " + entry, add,
		},
		"an empty list": {"# reviewed weekly\n\nsuppressions: []\n", "# reviewed weekly\n\nsuppressions:\n- " + entry, add},
		"entries in one line": {
			"# reviewed weekly\nsuppressions: [{rule: a, object: b, reason: c, expires: 2027-01-01}]\n",
			"# reviewed weekly\nsuppressions:\n- rule: \"a\"\n  object: \"b\"\n  reason: c\n  expires: 2027-01-01\n- " + entry, add,
		},
		"what is gone already": {
			"suppressions: []\n", "suppressions: []\n",
			SuppressionEdit{Remove: []Suppression{suppression("gone")}},
		},
	} {
		got, err := c.d.Apply("s.yaml", []byte(c.before))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestSuppressionEditMeans holds, for entries of any text, that the file says what was
// decided and nothing else.
func TestSuppressionEditMeans(t *testing.T) {
	t.Parallel()
	texts := []string{"plain", "with: colon", "# hash", "- dash", "two\nlines", "\"quoted\"", "'", "日本語", "true", "2027-01-01", "a  b", "*star", "&x", "%", "key: [", "\t tab", "||", "e\u0301"}
	r := rand.New(rand.NewPCG(7, 7))
	text := func() string { return strings.TrimSpace(texts[r.IntN(len(texts))] + texts[r.IntN(len(texts))]) }
	for range 300 {
		var data []byte
		var want []Suppression
		for step := range 4 {
			var d SuppressionEdit
			for range r.IntN(3) {
				d.Add = append(d.Add, Suppression{Rule: text() + string(rune('a'+r.IntN(26))), Object: text(), Reason: text(), Expires: "2027-01-01", Owner: text()})
			}
			if len(want) > 0 && step > 1 {
				d.Remove = append(d.Remove, want[r.IntN(len(want))])
			}
			var next []Suppression
			for _, s := range want {
				if !d.removes(s) {
					next = append(next, s)
				}
			}
			want = append(next, d.Add...)
			var err error
			if data, err = d.Apply("s.yaml", data); err != nil {
				t.Fatal(err)
			}
			if !holds("s.yaml", data, want) {
				t.Fatalf("after %+v the file says:\n%s", d, data)
			}
		}
	}
}

func TestSuppressionEditRefusesBroken(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"suppressions:\n- rule: x\n", "a: b\n", "\x00", "[", "suppressions: 3\n"} {
		add := SuppressionEdit{Add: []Suppression{suppression("x")}}
		if got, err := add.Apply("s.yaml", []byte(data)); err == nil {
			t.Errorf("%q became %q", data, got)
		}
	}
}
