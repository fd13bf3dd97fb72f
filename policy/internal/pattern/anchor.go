package pattern

import "strings"

// An Anchor is the anchor of a key in a pattern.
type Anchor byte

// The anchors, by the sign before the parenthesis. A plain key has None.
const (
	None      Anchor = 0
	Condition Anchor = '('
	Equality  Anchor = '='
	Existence Anchor = '^'
	Negation  Anchor = 'X'
	Global    Anchor = '<'
	Addition  Anchor = '+'
)

// ParseKey splits a key of a pattern into anchor and name: "=(image)" gives
// Equality and image. A key without an anchor gives None and the key itself.
func ParseKey(key string) (Anchor, string) {
	s := strings.TrimSpace(key)
	if !strings.HasSuffix(s, ")") || strings.Contains(s, "\n") {
		return None, key
	}
	a, inner := Condition, s
	switch s[0] {
	case '+', '<', '=', 'X', '^':
		a, inner = Anchor(s[0]), s[1:]
	}
	if len(inner) < 3 || inner[0] != '(' {
		return None, key
	}
	return a, inner[1 : len(inner)-1]
}

// HasAnchors reports whether any key of a pattern, at any depth, has an anchor.
func HasAnchors(p any) bool { return anyKey(p, maxDepth, func(a Anchor) bool { return a != None }) }

// ordersKeys reports whether a pattern contains an anchor that makes Kyverno
// match its key before the plain ones.
func ordersKeys(p any) bool {
	return anyKey(p, maxDepth, func(a Anchor) bool { return a != None && a != Addition })
}

func anyKey(p any, depth int, is func(Anchor) bool) bool {
	if depth < 0 {
		return false
	}
	switch p := p.(type) {
	case map[string]any:
		for key, v := range p {
			if a, _ := ParseKey(key); is(a) || anyKey(v, depth-1, is) {
				return true
			}
		}
	case []any:
		for _, v := range p {
			if anyKey(v, depth-1, is) {
				return true
			}
		}
	}
	return false
}
