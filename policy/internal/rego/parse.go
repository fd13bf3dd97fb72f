package rego

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Bounds of a module's text. OPA reads brackets a hundred thousand deep, and
// compiles long ones in the square of their length.
const (
	maxSource = 1 << 20
	maxNested = 250
)

// Parse parses a module. The error joins an *Error for each wrong place. If the
// version is undefined and neither version parses, they are the errors of the version
// that the text looks like.
func Parse(s Source) (*ast.Module, error) {
	if err := readable(s); err != nil {
		return nil, err
	}
	if s.Version != ast.RegoUndefined {
		m, errs := parseAs(s, s.Version)
		return m, join(errs)
	}
	v1, errs1 := parseAs(s, ast.RegoV1)
	if errs1 == nil && !callsDeprecated(v1) {
		return v1, nil
	}
	v0, errs0 := parseAs(s, ast.RegoV0)
	switch {
	case errs0 == nil:
		return v0, nil
	case errs1 == nil:
		return v1, nil // the compiler reports functions that v1 lacks
	case looksV1(s.Text, errs1, errs0):
		return nil, join(errs1)
	}
	return nil, join(errs0)
}

// callsDeprecated reports whether a module calls a function that v1 refuses: a v0
// module that imports its keywords may also parse as v1.
func callsDeprecated(m *ast.Module) bool {
	found := false
	ast.WalkRefs(m, func(r ast.Ref) bool {
		b, ok := ast.BuiltinMap[r.String()]
		found = found || ok && b.IsDeprecated()
		return found
	})
	return found
}

// readable returns an error for a text that is too long or too deeply nested.
func readable(s Source) error {
	if len(s.Text) > maxSource {
		return &Error{Name: s.Name, Line: 1, Column: 1, Text: fmt.Sprintf("the module is longer than %d bytes", maxSource)}
	}
	if line, column := nested(s.Text); line > 0 {
		return &Error{Name: s.Name, Line: line, Column: column, Text: fmt.Sprintf("brackets nest deeper than %d", maxNested)}
	}
	return nil
}

// nested returns the place where brackets nest too deep, or 0. Texts and comments are
// left out.
func nested(text string) (line, column int) {
	depth, start := 0, 0
	line = 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			line, start = line+1, i+1
		case '(', '[', '{':
			if depth++; depth > maxNested {
				return line, i - start + 1
			}
		case ')', ']', '}':
			depth--
		case '#':
			i += max(strings.IndexByte(text[i:], '\n'), 1) - 1
		case '"', '`':
			n := textEnd(text[i+1:], c)
			line += strings.Count(text[i:i+1+n], "\n")
			i += n
		}
	}
	return 0, 0
}

// textEnd returns the length of a quoted text, to its closing quote.
func textEnd(s string, quote byte) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote == '"':
			i++
		case s[i] == quote, s[i] == '\n' && quote == '"':
			return i + 1
		}
	}
	return len(s)
}

func parseAs(s Source, v ast.RegoVersion) (*ast.Module, []*Error) {
	m, err := ast.ParseModuleWithOpts(s.Name, s.Text, ast.ParserOptions{
		Capabilities:      capabilities(v),
		ProcessAnnotation: !s.NoMetadata,
		RegoVersion:       v,
	})
	if err != nil {
		return nil, moduleErrors(s.Name, err)
	}
	return m, nil
}

// v1Syntax matches syntax that only v1 allows.
var v1Syntax = regexp.MustCompile(`(?m)^\s*import\s+rego\.v1\b|^[^#"\n]*\b(if|contains)\b`)

// looksV1 reports which version the author meant, if neither parses: the one that
// parses further, since the mistake is where it ends.
func looksV1(text string, errs1, errs0 []*Error) bool {
	if v1Syntax.MatchString(text) {
		return true
	}
	a, b := errs1[0], errs0[0]
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) > 0
}
