package pattern

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWildcard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "anything\nwith/lines", true},
		{"**", "", true},
		{"?", "", false},
		{"?", "é", true},
		{"??", "é", false},
		{"*??", "€", false},
		{"?*", "x", true},
		{"?*", "", false},
		{"a", "A", false},
		{"a*c", "abc", true},
		{"a*c", "ac", true},
		{"a*c", "abcd", false},
		{"*.io/*", "ghcr.io/x", true},
		{"*a*b*c*", "xxaxxbxxcxx", true},
		{"*a*b*c", "abcab", false},
		{"ab?ba", "abbba", true},
		{"ab?ba", "abbbba", false},
		{"[a]", "a", false},
		{`\*`, "*", false},
		{`\*`, `\x`, true},
		{"a?", "a", false},
		{"*:*", "nginx:1", true},
		{"*:*", "nginx", false},
	} {
		if got := Wildcard(c.pattern, c.text); got != c.want {
			t.Errorf("Wildcard(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

// Neither many stars nor long texts between them take long.
func TestWildcardOfHostileText(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", 1<<20)
	for _, p := range []string{strings.Repeat("a*", 1<<18) + "b", "*" + strings.Repeat("a", 1<<19) + "b*", strings.Repeat("?*", 1<<18) + "b"} {
		if Wildcard(p, text) {
			t.Errorf("%.10s matched", p)
		}
	}
}

func TestLeaf(t *testing.T) {
	t.Parallel()
	object, list := map[string]any{"a": 1.0}, []any{"a"}
	for _, c := range []struct {
		value, pattern any
		want           bool
	}{
		// booleans, numbers, null
		{true, true, true},
		{true, false, false},
		{"true", true, false},
		{nil, false, false},
		{5.0, 5.0, true},
		{int64(5), 5.0, true},
		{5.0, int64(5), true},
		{5.5, 5.0, false},
		{"5", 5.0, true},
		{"5.0", 5.0, true},
		{"5", int64(5), true},
		{"5.0", int64(5), false},
		{"5e0", int64(5), false},
		{"x", 5.0, false},
		{"", 5.0, false},
		{true, 1.0, false},
		{nil, 0.0, false},
		{json.Number("5"), 5.0, true},
		{nil, nil, true},
		{"", nil, true},
		{0.0, nil, true},
		{int64(0), nil, true},
		{false, nil, true},
		{"x", nil, false},
		{object, nil, false},
		{list, nil, false},
		{object, map[string]any{}, true},
		{"x", map[string]any{}, false},
		{nil, map[string]any{}, false},
		{"x", []any{"x"}, false},
		// texts, and, or
		{"a", "a", true},
		{"a", "b", false},
		{"a | b", "a | b", true},
		{"b", "a | b", true},
		{"c", "a | b", false},
		{"ab", "a* & *b", true},
		{"ac", "a* & *b", false},
		{"c", "a* & *b | c", true},
		{"", "", true},
		{nil, "", false},
		{"x", "", false},
		{"true", "true", true},
		{true, "true", true},
		{true, "!false", true},
		// operators
		{"nginx", "!redis", true},
		{"redis", "!redis", false},
		{"nginx:1", "!*:latest", true},
		{"nginx:latest", "!*:latest", false},
		{"!", "!", true},
		{"x", "!", false},
		{"10", ">9", true},
		{"10", "> 9", true},
		{10.0, ">9", true},
		{"10", "<9", false},
		{"9", ">=9", true},
		{"9", "<=9", true},
		{"9", ">9", false},
		{"x", ">9", false},
		{"x", "<9", false},
		{"1Gi", ">=1000Mi", true},
		{"1Gi", "1024Mi", true},
		{"1Gi", "!1024Mi", false},
		{"500m", "<1", true},
		{"1h", ">59m", true},
		{"60m", "1h", true},
		{"60m", "!1h", false},
		{"5", "!5", false},
		{"6", "!5", true},
		{"1Gi", "1G*", true},
		{">5", ">5", true},
		// ranges
		{"5", "1-10", true},
		{"1", "1-10", true},
		{"10", "1-10", true},
		{"11", "1-10", false},
		{5.5, "1-10", true},
		{"-3", "-5-1", true},
		{"2", "-5-1", false},
		{"5Mi", "1Mi-10Mi", true},
		{"5m", "1m-1h", true},
		{"5", "1!-10", false},
		{"11", "1!-10", true},
		{"0", "1!-10", true},
		{"5", "!1-10", true},
		{"1-10", "!1-10", false},
		{"5", "1!-10 & !7", false},
		{"11", "1!-10 & !12", true},
		{"12", "1!-10 & !12", false},
		{"v1-10", "v1-10", true},
		{"x", "1-10", false},
		{"2021-10-01", "2021-10-*", true},
		// numbers as texts
		{8080.0, "80*", false},
		{8080.0, "8.08E+03", true},
		{8080.0, "?*", true},
		{int64(8080), "8080", true},
		{8080.0, "!8080", false},
		{0.5, "500m", true},
		// what is missing counts as 0
		{nil, "<10", true},
		{nil, "<=1Gi", true},
		{nil, ">=0", true},
		{nil, "0", true},
		{nil, "!5", true},
		{nil, "<1h", true},
		{nil, ">0", false},
		{nil, "?*", false},
		{nil, "*", false},
		{nil, "x", false},
		{nil, "!x", false},
		{nil, "0-5", true},
		{nil, "null", false},
		// maps and lists never match a text
		{object, "*", false},
		{object, "!x", false},
		{list, "*", false},
		{object, "<5", false},
	} {
		if got := Leaf(c.value, c.pattern); got != c.want {
			t.Errorf("Leaf(%#v, %#v) = %v", c.value, c.pattern, got)
		}
	}
}

// Quantities whose exponent would keep the parser busy are none.
func TestQuantityOfHostileText(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"1e-2147483647", "1E999999999", strings.Repeat("9", 1<<20), "1e+99999"} {
		if _, ok := Quantity(s); ok {
			t.Errorf("%.20s is a quantity", s)
		}
	}
	for _, s := range []string{"1", "1e3", "1E-3", ".5", "+1Gi", "-1", "100n", "1e+03"} {
		if _, ok := Quantity(s); !ok {
			t.Errorf("%s is no quantity", s)
		}
	}
	if !Leaf(math.MaxFloat64, ">1Gi") || Leaf(1e-300, ">1n") {
		t.Error("numbers at the ends of their range")
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"1-10": true, "1Mi-2Mi": true, "-5-5": true, "1.5-2.5": true, "1!-10": false, "!1-10": false,
		"a-b": false, "1-": false, "-": false, ">1-10": false, "1-2-3": false, "1 - 2": false,
	} {
		if Range(s) != want {
			t.Errorf("Range(%q) = %v", s, !want)
		}
	}
}

// FuzzWildcard holds the matcher against the definition.
func FuzzWildcard(f *testing.F) {
	for _, s := range [][2]string{{"a*b?c", "axxbxc"}, {"**?", "é"}, {"", ""}, {"*a*a*", "aaaa"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern)*len(text) > 1<<10 || !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			t.Skip()
		}
		if got, want := Wildcard(pattern, text), defined([]rune(pattern), []rune(text)); got != want {
			t.Errorf("Wildcard(%q, %q) = %v", pattern, text, got)
		}
	})
}

func defined(p, s []rune) bool {
	row := make([]bool, len(s)+1)
	row[0] = true
	for _, c := range p {
		next := make([]bool, len(s)+1)
		for i := range next {
			switch {
			case c == '*':
				next[i] = row[i] || i > 0 && next[i-1]
			case i > 0:
				next[i] = row[i-1] && (c == '?' || c == s[i-1])
			}
		}
		row = next
	}
	return row[len(s)]
}
