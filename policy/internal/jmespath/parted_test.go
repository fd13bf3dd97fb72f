package jmespath

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParted has a list without one of its elements give what a search of that list
// gives, at the same cost.
func TestParted(t *testing.T) {
	list := []any{
		map[string]any{"a": "x", "n": 1.0, "l": []any{"p", []any{"q"}}},
		map[string]any{"a": "y", "l": []any{}},
		map[string]any{"n": 2.0, "o": map[string]any{"k": "v"}},
		nil, "text",
	}
	for expression, parted := range map[string]bool{
		"items[].a": true, "items[*].a": true, "items[?a == 'x']": true, "items[?a != 'x'].l[]": true, "items[].l[]": true, "items[].l[][]": true,
		"items[?a == 'x'] | length(@)": true, "items[*].l[?@ == 'p'][]": true, "items[].[a, n]": true, "items[].o.*": true,
		"items[*].to_string(@)": true, "items[].a | [0]": true, "items[?n > `1`].{a: a} | [].a": true,
		"items[].length(a)": false, "length(items)": false, "items[0]": false, "items[1:]": false, "items": false, "items[].a[0] | random('a')": true,
		"items[].random('[a-z]')": false, "items[].missing(@)": false, "(items[].a)[0]": false, "other[].a": false,
	} {
		e, err := Compile(expression)
		if err != nil {
			t.Fatal(expression, err)
		}
		p := e.Part("items", list, nil)
		if (p != nil) != parted {
			t.Errorf("%s: parted is %v", expression, p != nil)
		}
		for i := 0; p != nil && i < len(list); i++ {
			for _, limits := range []Limits{{}, {Steps: 9}, {Bytes: 9}} {
				search := func(f func(*Options) (any, error)) string {
					spent, assumed := 0, []string(nil)
					v, err := f(&Options{Spent: &spent, Limits: limits, Assumed: func(text string) { assumed = append(assumed, text) }})
					if err != nil {
						return err.Error()
					}
					return fmt.Sprintf("%#v %d %q", v, spent, assumed)
				}
				rest := map[string]any{"items": slices.Concat(list[:i], list[i+1:])}
				want := search(func(o *Options) (any, error) { return e.Search(rest, o) })
				got := search(func(o *Options) (any, error) { return p.Without(i, o) })
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s without %d (-want +got):\n%s", expression, i, diff)
				}
			}
		}
	}
}
