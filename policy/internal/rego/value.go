package rego

import (
	"encoding/json"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Value converts Go's JSON (maps, slices, strings, numbers, bools, nil) to a term.
// The term shares nothing with it. A value of another type becomes its text.
func Value(x any) *ast.Term { return &ast.Term{Value: value(x)} }

func value(x any) ast.Value {
	v, err := ast.InterfaceToValue(x)
	if err != nil {
		return ast.String(fmt.Sprint(x))
	}
	return v
}

// Plain converts a value to Go's JSON: integers to int64, other numbers to float64,
// or json.Number if that would lose digits; sets, and objects with keys that are not
// strings, in order.
func Plain(v ast.Value) any {
	switch v := v.(type) {
	case nil, ast.Null:
		return nil
	case ast.Boolean:
		return bool(v)
	case ast.String:
		return string(v)
	case ast.Number:
		return plainNumber(v)
	case *ast.Array:
		out := make([]any, 0, v.Len())
		v.Foreach(func(t *ast.Term) { out = append(out, Plain(t.Value)) })
		return out
	case ast.Set:
		out := make([]any, 0, v.Len())
		v.Foreach(func(t *ast.Term) { out = append(out, Plain(t.Value)) })
		return out
	case ast.Object:
		out := make(map[string]any, v.Len())
		v.Foreach(func(k, t *ast.Term) { out[plainKey(k.Value)] = Plain(t.Value) })
		return out
	}
	return v.String()
}

// plainKey returns the JSON key for a key of an object, as OPA writes it: a string, or
// the text of another value.
func plainKey(v ast.Value) string {
	if s, ok := v.(ast.String); ok {
		return string(s)
	}
	return v.String()
}

func plainNumber(n ast.Number) any {
	if i, ok := n.Int64(); ok {
		return i
	}
	j := json.Number(n)
	if f, err := j.Float64(); err == nil {
		return f
	}
	return j
}
