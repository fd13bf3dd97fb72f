package gatekeeper

import (
	"encoding/json"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
)

// terms converts JSON values to Rego terms.
type terms struct {
	// floats converts integers as Go's JSON decoder does, so that they are
	// printed with six digits at most before the exponent. Gatekeeper passes
	// objects to Rego through JSON, so its policies print 1e+06. Parameters
	// keep integers.
	floats bool
	// texts are terms of the texts so far, which many objects share, or nil.
	texts map[string]*ast.Term
}

var (
	exact    = terms{}
	overJSON = terms{floats: true}
)

// term converts a JSON value to a term. It shares nothing with the value.
func (t terms) term(x any) *ast.Term {
	switch x := x.(type) {
	case nil:
		return ast.NullTerm()
	case string:
		return t.text(x)
	case bool:
		return ast.BooleanTerm(x)
	case int64:
		return ast.NewTerm(t.integer(x))
	case float64:
		return ast.FloatNumberTerm(x)
	case []any:
		elems := make([]*ast.Term, len(x))
		for i, e := range x {
			elems[i] = t.term(e)
		}
		return ast.ArrayTerm(elems...)
	case map[string]any:
		pairs := make([][2]*ast.Term, 0, len(x))
		for k, v := range x {
			pairs = append(pairs, [2]*ast.Term{t.text(k), t.term(v)})
		}
		return ast.NewTerm(ast.NewObject(pairs...))
	case int:
		return ast.NewTerm(t.integer(int64(x)))
	case json.Number:
		return ast.NumberTerm(x)
	}
	return ast.NullTerm()
}

func (t terms) text(s string) *ast.Term {
	known := t.texts[s]
	if known == nil {
		known = ast.StringTerm(s)
		if t.texts != nil {
			t.texts[s] = known
		}
	}
	return known
}

func (t terms) integer(n int64) ast.Number {
	if t.floats && (n >= 1e6 || n <= -1e6) {
		return ast.Number(strconv.FormatFloat(float64(n), 'g', -1, 64))
	}
	return ast.Number(strconv.FormatInt(n, 10))
}
