package cel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/debug"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/preadmit/preadmit/policy"
)

// A Folder decides expressions whose value is the same for every object, under
// assumptions such as true match conditions. It decides constants, repetitions,
// contradictions and comparisons of a field with constants. Other expressions may be
// constant too, and a decided one may still fail with an error.
type Folder struct {
	variable func(name string) *cel.Ast // nil: no such variable

	known  map[string]bool      // expressions with their value
	values map[string][]ref.Val // terms that have one of the values
	others map[string][]ref.Val // terms that have none of the values
	least  map[string]limit
	most   map[string]limit
	depth  int
	left   *int // steps left; expressions beyond are not decided
}

// maxFolds bounds the steps for one policy, and maxFolded the source of an
// expression, since each step walks a part of it.
const (
	maxFolds  = 10_000
	maxFolded = 8 << 10
)

// A limit bounds the values of a term.
type limit struct {
	value  ref.Val
	strict bool
}

// NewFolder returns a Folder that assumes nothing. variable gives the expression of a
// variable of the policy.
func NewFolder(variable func(name string) *cel.Ast) *Folder {
	left := maxFolds
	return &Folder{
		left: &left, variable: variable, known: map[string]bool{}, values: map[string][]ref.Val{}, others: map[string][]ref.Val{},
		least: map[string]limit{}, most: map[string]limit{},
	}
}

// Truth returns the value of an expression if it is the same for every object.
func (f *Folder) Truth(a *cel.Ast) (value, decided bool) {
	return f.truth(folded{a.NativeRep(), a.NativeRep().Expr()})
}

// Assume returns a Folder that also assumes that an expression has the value.
func (f *Folder) Assume(a *cel.Ast, value bool) *Folder {
	return f.assume(folded{a.NativeRep(), a.NativeRep().Expr()}, value)
}

// folded is a part of an expression.
type folded struct {
	of   *ast.AST
	expr ast.Expr
}

// maxFold bounds the depth of expressions and of variables in variables.
const maxFold = 200

func (f folded) args() []folded {
	var all []folded
	for _, a := range f.expr.AsCall().Args() {
		all = append(all, folded{f.of, a})
	}
	return all
}

// function returns the name of the called global function or operator, or "".
func (f folded) function() string {
	if f.expr.Kind() != ast.CallKind || f.expr.AsCall().IsMemberFunction() {
		return ""
	}
	return f.expr.AsCall().FunctionName()
}

// text identifies the expression.
func (f folded) text() string { return debug.ToDebugString(f.expr) }

func (f *Folder) truth(x folded) (value, decided bool) {
	*f.left--
	if f.depth++; f.depth > maxFold || *f.left < 0 {
		f.depth--
		return false, false
	}
	defer func() { f.depth-- }()
	if v, ok := f.known[x.text()]; ok {
		return v, true
	}
	if v := f.value(x); v != nil {
		b, ok := v.(types.Bool)
		return bool(b), ok
	}
	x = f.resolve(x)
	switch fn := x.function(); fn {
	case operators.LogicalAnd, operators.LogicalOr:
		return f.logical(x.args(), fn == operators.LogicalOr)
	case operators.LogicalNot:
		v, ok := f.truth(x.args()[0])
		return !v, ok
	case operators.Conditional:
		return f.conditional(x.args())
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return f.compare(fn, x.args()[0], x.args()[1])
	case operators.In:
		return f.in(x.args()[0], x.args()[1])
	}
	return false, false
}

// logical decides && or ||. One operand equal to dominant decides the result: false
// for &&, true for ||.
func (f *Folder) logical(args []folded, dominant bool) (value, decided bool) {
	left, leftKnown := f.truth(args[0])
	if leftKnown && left == dominant {
		return dominant, true
	}
	right, rightKnown := f.assume(args[0], !dominant).truth(args[1])
	if rightKnown && right == dominant {
		return dominant, true
	}
	return !dominant, leftKnown && rightKnown
}

func (f *Folder) conditional(args []folded) (value, decided bool) {
	if c, ok := f.truth(args[0]); ok {
		if c {
			return f.truth(args[1])
		}
		return f.truth(args[2])
	}
	a, aKnown := f.assume(args[0], true).truth(args[1])
	b, bKnown := f.assume(args[0], false).truth(args[2])
	return a, aKnown && bKnown && a == b
}

// compare decides a comparison of two constants, of a term with itself, or of a term
// with a constant under the assumptions about the term.
func (f *Folder) compare(op string, a, b folded) (value, decided bool) {
	x, y := f.value(a), f.value(b)
	switch {
	case x != nil && y != nil:
		return holds(op, x, y)
	case x != nil:
		op, a, y = mirrored[op], b, x
	case y == nil && a.text() == b.text():
		return op == operators.Equals || op == operators.LessEquals || op == operators.GreaterEquals, true
	case y == nil:
		v, ok := f.known[a.text()+operators.Equals+b.text()]
		return v == (op == operators.Equals), ok && (op == operators.Equals || op == operators.NotEquals)
	}
	return f.compareTerm(op, f.resolve(a), y)
}

// compareTerm decides a comparison of a term with a constant.
func (f *Folder) compareTerm(op string, term folded, c ref.Val) (value, decided bool) {
	key := term.text()
	if values, ok := f.values[key]; ok {
		return agreed(values, func(v ref.Val) (bool, bool) { return holds(op, v, c) })
	}
	if (op == operators.Equals || op == operators.NotEquals) && contains(f.others[key], c) {
		return op == operators.NotEquals, true
	}
	least, hasLeast := f.least[key]
	if !hasLeast && term.expr.Kind() == ast.CallKind && term.expr.AsCall().FunctionName() == "size" {
		least, hasLeast = limit{value: types.IntZero}, true
	}
	if hasLeast {
		if v, ok := beyond(op, least, c, operators.Less, operators.Greater); ok {
			return v, true
		}
	}
	if most, ok := f.most[key]; ok {
		return beyond(op, most, c, operators.Greater, operators.Less)
	}
	return false, false
}

// beyond decides a comparison of a term with a constant if all values on the term's
// side of a bound lie on one side of the constant. under is the comparison that holds
// nearer than the bound, over the one that holds further away.
func beyond(op string, b limit, c ref.Val, under, over string) (value, decided bool) {
	further, ok := holds(over, b.value, c)
	if same, _ := holds(operators.Equals, b.value, c); same && ok {
		switch { // the term may have the value of the constant, unless the bound is strict
		case b.strict:
			further = true
		case op == orEqual[over]:
			return true, true
		case op == under:
			return false, true
		}
	}
	if !ok || !further {
		return false, false
	}
	return op == over || op == orEqual[over] || op == operators.NotEquals, true
}

var orEqual = map[string]string{operators.Less: operators.LessEquals, operators.Greater: operators.GreaterEquals}

// in decides whether a list of constants contains a constant, or a term that is
// assumed to have one of some values.
func (f *Folder) in(term, list folded) (value, decided bool) {
	elements, ok := f.elements(list)
	if !ok {
		return false, false
	}
	if len(elements) == 0 {
		return false, true
	}
	among := func(v ref.Val) (bool, bool) { return contains(elements, v), true }
	if v := f.value(term); v != nil {
		return among(v)
	}
	key := f.resolve(term).text()
	if values, ok := f.values[key]; ok {
		return agreed(values, among)
	}
	return false, !slices.ContainsFunc(elements, func(v ref.Val) bool { return !contains(f.others[key], v) })
}

// elements returns the elements of a list of constants.
func (f *Folder) elements(x folded) ([]ref.Val, bool) {
	list, ok := f.value(x).(traits.Lister)
	if !ok {
		return nil, false
	}
	var all []ref.Val
	for it := list.Iterator(); it.HasNext() == types.True; {
		all = append(all, it.Next())
	}
	return all, true
}

// agreed returns the answer if it is the same for all values.
func agreed(values []ref.Val, answer func(ref.Val) (bool, bool)) (value, decided bool) {
	for i, v := range values {
		got, ok := answer(v)
		if !ok || i > 0 && got != value {
			return false, false
		}
		value = got
	}
	return value, len(values) > 0
}

func contains(all []ref.Val, v ref.Val) bool {
	return slices.ContainsFunc(all, func(x ref.Val) bool { return x.Equal(v) == types.True })
}

// mirrored maps comparisons to the ones with their sides exchanged.
var mirrored = map[string]string{
	operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals,
	operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
	operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
}

// negated maps comparisons to their opposites.
var negated = map[string]string{
	operators.Equals: operators.NotEquals, operators.NotEquals: operators.Equals,
	operators.Less: operators.GreaterEquals, operators.LessEquals: operators.Greater,
	operators.Greater: operators.LessEquals, operators.GreaterEquals: operators.Less,
}

// holds compares two constants. It does not decide constants without an order.
func holds(op string, a, b ref.Val) (value, decided bool) {
	if op == operators.Equals || op == operators.NotEquals {
		return (a.Equal(b) == types.True) == (op == operators.Equals), true
	}
	c, ok := a.(traits.Comparer)
	if !ok {
		return false, false
	}
	n, ok := c.Compare(b).(types.Int)
	if !ok {
		return false, false
	}
	switch op {
	case operators.Less:
		return n < 0, true
	case operators.LessEquals:
		return n <= 0, true
	case operators.Greater:
		return n > 0, true
	default:
		return n >= 0, true
	}
}

// resolve replaces a variable of the policy by its expression.
func (f *Folder) resolve(x folded) folded {
	for range maxFold {
		if x.expr.Kind() != ast.SelectKind || x.expr.AsSelect().IsTestOnly() || f.variable == nil {
			break
		}
		s := x.expr.AsSelect()
		if s.Operand().Kind() != ast.IdentKind || s.Operand().AsIdent() != "variables" {
			break
		}
		a := f.variable(s.FieldName())
		if a == nil {
			break
		}
		x = folded{a.NativeRep(), a.NativeRep().Expr()}
	}
	return x
}

// value returns the value of an expression of constants, else nil.
func (f *Folder) value(x folded) ref.Val {
	x = f.resolve(x)
	if x.expr.Kind() == ast.LiteralKind {
		return x.expr.AsLiteral()
	}
	if !closed(x.expr, nil) {
		return nil
	}
	checked, err := ast.ToProto(ast.NewCheckedAST(ast.NewAST(x.expr, x.of.SourceInfo()), x.of.TypeMap(), x.of.ReferenceMap()))
	if err != nil {
		return nil
	}
	p, err := Plan(cel.CheckedExprToAst(checked))
	if err != nil {
		return nil
	}
	v, _, err := p.Eval(context.Background(), cel.NoVars())
	if err != nil || types.IsUnknownOrError(v) {
		return nil
	}
	return v
}

// pure lists functions that depend on their arguments alone, and are cheap.
var pure = []string{"size", "startsWith", "endsWith", "contains", "matches", "int", "string", "double", "bool", "lowerAscii", "upperAscii", "quantity", "isQuantity"}

// closed reports whether an expression reads nothing but the variables of its own
// loops.
func closed(e ast.Expr, bound []string) bool {
	all := func(list []ast.Expr) bool {
		return !slices.ContainsFunc(list, func(x ast.Expr) bool { return !closed(x, bound) })
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.IdentKind:
		return slices.Contains(bound, e.AsIdent())
	case ast.ListKind:
		return all(e.AsList().Elements())
	case ast.CallKind:
		c := e.AsCall()
		if fn := c.FunctionName(); !slices.Contains(pure, fn) && !strings.ContainsAny(fn, "_@!") {
			return false
		}
		return all(c.Args()) && (!c.IsMemberFunction() || closed(c.Target(), bound))
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		bound = append(slices.Clip(bound), c.IterVar(), c.IterVar2(), c.AccuVar())
		return all([]ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()})
	}
	return false
}

// assume returns a copy that assumes that an expression is true or false.
func (f *Folder) assume(x folded, value bool) *Folder {
	next := *f
	next.known, next.values, next.others = maps.Clone(f.known), maps.Clone(f.values), maps.Clone(f.others)
	next.least, next.most = maps.Clone(f.least), maps.Clone(f.most)
	next.learn(x, value)
	return &next
}

func (f *Folder) learn(x folded, value bool) {
	*f.left--
	if f.depth++; f.depth > maxFold || *f.left < 0 {
		f.depth--
		return
	}
	defer func() { f.depth-- }()
	f.known[x.text()] = value
	x = f.resolve(x)
	f.known[x.text()] = value
	switch fn := x.function(); {
	case fn == operators.LogicalAnd && value, fn == operators.LogicalOr && !value:
		for _, a := range x.args() {
			f.learn(a, value)
		}
	case fn == operators.LogicalNot:
		f.learn(x.args()[0], !value)
	case fn == operators.In:
		f.learnMembership(x.args()[0], x.args()[1], value)
	case mirrored[fn] != "":
		if !value {
			fn = negated[fn]
		}
		f.learnComparison(fn, x.args()[0], x.args()[1])
	}
}

func (f *Folder) learnMembership(term, list folded, value bool) {
	elements, ok := f.elements(list)
	key := f.resolve(term).text()
	switch {
	case !ok || f.value(term) != nil:
	case !value:
		f.others[key] = slices.Concat(f.others[key], elements)
	case f.values[key] == nil:
		f.values[key] = elements
	}
}

func (f *Folder) learnComparison(op string, a, b folded) {
	x, y := f.value(a), f.value(b)
	if x != nil {
		op, a, y = mirrored[op], b, x
	}
	key := f.resolve(a).text()
	switch {
	case x != nil && f.value(b) != nil:
	case y == nil:
		if op == operators.Equals || op == operators.NotEquals {
			f.known[a.text()+operators.Equals+b.text()] = op == operators.Equals
			f.known[b.text()+operators.Equals+a.text()] = op == operators.Equals
		}
	case op == operators.Equals:
		f.values[key] = []ref.Val{y}
	case op == operators.NotEquals:
		f.others[key] = append(slices.Clip(f.others[key]), y)
	case op == operators.Less, op == operators.LessEquals:
		f.most[key] = limit{y, op == operators.Less}
	default:
		f.least[key] = limit{y, op == operators.Greater}
	}
}

// Constants returns a policy's conditions that can't hold, and validations that can't
// fail, can't pass, or only fail where an earlier one does, whatever the object is.
// Expressions that did not compile are left out.
func (n *Names) Constants(name string, variables, conditions, validations []*Expression) []policy.Result {
	var all []policy.Result
	find := func(kind string, e *Expression, format string, args ...any) {
		all = append(all, policy.NewFinding(kind, name, e.Origin, "%s", name+"/"+e.Rule+" "+fmt.Sprintf(format, args...)))
	}
	alone := NewFolder(func(variable string) *cel.Ast {
		if i, ok := n.index[variable]; ok {
			return variables[i].AST
		}
		return nil
	})
	given := alone
	for _, e := range conditions {
		if e.AST == nil || len(e.Source) > maxFolded {
			continue
		}
		if v, ok := given.Truth(e.AST); ok && !v {
			find(policy.NeverApplies, e, "can't hold%s, so the policy never applies", given.because(alone, e, "given the conditions before it"))
			return all // the rest never runs
		}
		given = given.Assume(e.AST, true)
	}
	before := given
	for _, e := range validations {
		if e.AST == nil || len(e.Source) > maxFolded {
			continue
		}
		v, ok := given.Truth(e.AST)
		switch {
		case ok && v:
			find(policy.NeverFails, e, "can't fail%s", given.because(alone, e, "given the match conditions"))
		case ok && strings.TrimSpace(e.Source) != "false": // which policies use to deny everything
			find(policy.NeverPasses, e, "can't pass%s", given.because(alone, e, "given the match conditions"))
		case !ok:
			if v, ok := before.Truth(e.AST); ok && v {
				find(policy.Shadowed, e, "only fails where an earlier validation fails too")
			}
			before = before.Assume(e.AST, true)
		}
	}
	return all
}

// because returns why an expression is constant: by itself, or under the assumptions.
func (f *Folder) because(alone *Folder, e *Expression, given string) string {
	if _, ok := alone.Truth(e.AST); ok {
		return ", whatever the object is"
	}
	return " " + given
}
