package render

import "strings"

// Glob reports whether text matches a pattern in which * matches any text
// without a slash and ** any text. No other character is special. The time it
// takes grows with the product of both lengths.
func Glob(pattern, text string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == text
	}
	// held[i] is true if the pattern so far matches text[:i].
	held := make([]bool, len(text)+1)
	held[0] = true
	for pattern != "" {
		rest := strings.TrimLeft(pattern, "*")
		switch stars := len(pattern) - len(rest); stars {
		case 0:
			for i := len(text); i > 0; i-- {
				held[i] = held[i-1] && text[i-1] == pattern[0]
			}
			held[0] = false
			pattern = pattern[1:]
		default:
			for i := range len(text) {
				held[i+1] = held[i+1] || held[i] && (stars > 1 || text[i] != '/')
			}
			pattern = rest
		}
	}
	return held[len(text)]
}
