package rego

import (
	"cmp"
	"regexp"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Parse reads a module. The error joins an *Error for each place that is
// wrong; where the version is not told and neither reads, those of the version
// the text looks like.
func Parse(s Source) (*ast.Module, error) {
	if s.Version != ast.RegoUndefined {
		m, errs := parseAs(s, s.Version)
		return m, join(errs)
	}
	v1, errs1 := parseAs(s, ast.RegoV1)
	if errs1 == nil {
		return v1, nil
	}
	v0, errs0 := parseAs(s, ast.RegoV0)
	if errs0 == nil {
		return v0, nil
	}
	if looksV1(s.Text, errs1, errs0) {
		return nil, join(errs1)
	}
	return nil, join(errs0)
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

// saysV1 finds what only a person who writes v1 writes.
var saysV1 = regexp.MustCompile(`(?m)^\s*import\s+rego\.v1\b|^[^#"\n]*\b(if|contains)\b`)

// looksV1 tells which version a text that reads as neither was meant in: the
// one that reads further, since its author's mistake is where it ends.
func looksV1(text string, errs1, errs0 []*Error) bool {
	if saysV1.MatchString(text) {
		return true
	}
	a, b := errs1[0], errs0[0]
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) > 0
}
