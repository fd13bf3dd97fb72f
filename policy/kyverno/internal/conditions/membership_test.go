package conditions

import "testing"

// TestIndex holds that a search of many keys finds what one of few keys finds.
func TestIndex(t *testing.T) {
	t.Parallel()
	lists := [][]string{nil, {"a"}, {"a*", "b"}, {"", "?"}, {"ab", "abc", "*c"}}
	found := 0
	for _, list := range lists {
		plain, indexed := values{list: list}, values{list: list}
		indexed.index()
		for _, key := range []string{"", "a", "b", "ab", "abc", "a*", "?", "*", "x", "?b"} {
			if plain.has(key) != indexed.has(key) {
				t.Errorf("%q in %q: %v without an index, %v with it", key, list, plain.has(key), indexed.has(key))
			}
			if plain.has(key) {
				found++
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d keys are found", found)
	}
}
