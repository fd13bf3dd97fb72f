package explain

import (
	"regexp"
	"strings"
)

// Literals returns the string literals in the failed part of the expression,
// with which the field was compared.
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
