package explain

import (
	"regexp"
	"strings"
)

// Literals are the texts that the failing part of the expression has in
// quotes: what it looked for in the field, or held it against.
func (c *Culprit) Literals() []string {
	if c.failed == nil {
		return nil
	}
	return c.failed.literals()
}

// literals returns the texts that the expression has in quotes.
func (c *code) literals() []string {
	c.quoting.Do(func() {
		text := c.shortSource()
		if !strings.ContainsAny(text, `'"`) {
			return
		}
		for _, m := range literal.FindAllStringSubmatch(text, -1) {
			if s := strings.ReplaceAll(m[1]+m[2], `\\`, `\`); s != "" {
				c.quoted = append(c.quoted, s)
			}
		}
	})
	return c.quoted
}

var literal = regexp.MustCompile(`'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"`)
