package fix

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/render"
)

// celLeaves returns the values that a CEL expression compares fields with: constants, and fields of
// the policy's parameters. A field that the expression does not want is removed. Which branch of the
// expression failed is not asked, since every fix is proved.
func celLeaves(expression string, params []map[string]any) []leaf {
	env, err := cel.NewEnv(cel.ClearMacros())
	if err != nil {
		return nil
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return nil
	}
	c := comparisons{params: params}
	ast.PostOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(c.visit))
	slices.SortStableFunc(c.leaves, func(a, b leaf) int { // what changes least is tried first
		return cmp.Or(cmp.Compare(btoi(a.remove), btoi(b.remove)), cmp.Compare(len(b.keys), len(a.keys)))
	})
	return c.leaves
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

type comparisons struct {
	params []map[string]any
	leaves []leaf
}

// compares has the operators and functions that compare two values.
var compares = map[string]bool{
	operators.Equals: true, operators.LessEquals: true, operators.GreaterEquals: true, operators.In: true,
	operators.Less: true, operators.Greater: true, "isLessThan": true, "isGreaterThan": true, "compareTo": true,
}

func (c *comparisons) visit(e ast.Expr) {
	if e.Kind() != ast.CallKind {
		return
	}
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	switch name := call.FunctionName(); {
	case name == operators.LogicalNot && len(args) == 1:
		if args[0].Kind() == ast.CallKind && args[0].AsCall().FunctionName() == operators.Has && len(args[0].AsCall().Args()) == 1 {
			args = args[0].AsCall().Args()
		}
		if l, ok := field(args[0]); ok {
			c.leaves = append(c.leaves, l.with(false), leaf{keys: l.keys, below: l.below, remove: true})
		}
	case compares[name] && len(args) == 2:
		for i := range args {
			l, ok := field(bare(args[i]))
			if !ok || name == operators.In && i == 1 {
				continue
			}
			for _, v := range c.values(bare(args[1-i])) {
				c.leaves = append(c.leaves, l.with(v))
			}
		}
	}
}

// bare returns the argument of a conversion, such as quantity("1Gi").
func bare(e ast.Expr) ast.Expr {
	if e.Kind() == ast.CallKind {
		if call := e.AsCall(); !call.IsMemberFunction() && len(call.Args()) == 1 && (call.FunctionName() == "quantity" || call.FunctionName() == "int" || call.FunctionName() == "string") {
			return call.Args()[0]
		}
	}
	return e
}

// field returns the leaf, without a value, that an expression such as object.spec.replicas or
// c.securityContext.privileged is about.
func field(e ast.Expr) (leaf, bool) {
	var keys []string
	for {
		switch e.Kind() {
		case ast.SelectKind:
			keys = append([]string{e.AsSelect().FieldName()}, keys...)
			e = e.AsSelect().Operand()
			continue
		case ast.CallKind:
			call := e.AsCall()
			if args := call.Args(); call.FunctionName() == operators.Index && len(args) == 2 {
				if args[1].Kind() == ast.LiteralKind {
					if text, ok := args[1].AsLiteral().Value().(string); ok {
						keys = append([]string{text}, keys...)
					}
				}
				e = args[0]
				continue
			}
		case ast.IdentKind:
			root := e.AsIdent()
			return leaf{keys: keys, below: root != "object"}, len(keys) > 0 && root != "params" && root != "variables"
		}
		return leaf{}, false
	}
}

// values returns the values of a constant, of a list of one constant, or of a field of the
// parameters.
func (c *comparisons) values(e ast.Expr) []any {
	switch e.Kind() {
	case ast.LiteralKind:
		return plain(e.AsLiteral())
	case ast.ListKind:
		if list := e.AsList().Elements(); len(list) == 1 && list[0].Kind() == ast.LiteralKind {
			return plain(list[0].AsLiteral())
		}
	case ast.SelectKind:
		var keys []string
		for ; e.Kind() == ast.SelectKind; e = e.AsSelect().Operand() {
			keys = append([]string{e.AsSelect().FieldName()}, keys...)
		}
		if e.Kind() != ast.IdentKind || e.AsIdent() != "params" {
			return nil
		}
		var all []any
		for _, p := range c.params {
			v, ok := render.Lookup(p, render.PathPointer(keys))
			if list, isList := v.([]any); isList && len(list) == 1 {
				v = list[0]
			}
			if ok && render.IsScalar(v) {
				all = append(all, v)
				if text, isText := v.(string); isText && !strings.ContainsAny(text, "*^$") {
					for _, x := range determined(text) { // a ConfigMap's numbers are texts
						if x != v {
							all = append(all, x)
						}
					}
				}
			}
		}
		return all
	}
	return nil
}

func plain(v ref.Val) []any {
	switch v := v.Value().(type) {
	case string, bool, int64, float64:
		return []any{v}
	}
	return nil
}
