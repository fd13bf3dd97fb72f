package explain

import (
	"regexp"
	"strings"
)

// Literals are the texts that the failing part of the expression has in
// quotes: what it looked for in the field, or held it against.
func (c *Culprit) Literals() []string {
	if !strings.ContainsAny(c.Text, `'"`) {
		return nil
	}
	var all []string
	for _, m := range literal.FindAllStringSubmatch(c.Text, -1) {
		if s := strings.ReplaceAll(m[1]+m[2], `\\`, `\`); s != "" {
			all = append(all, s)
		}
	}
	return all
}

var literal = regexp.MustCompile(`'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"`)
