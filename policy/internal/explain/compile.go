package explain

import (
	"errors"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
)

// An op is the operation of a piece of code. Macros are recognised in their
// expanded form, so an AST without macro calls works too.
type op uint8

const (
	opConst op = iota
	opRoot
	opLocal
	opVariable
	opSelect
	opHas
	opIndex // also optional selects and indices
	opAnd
	opOr
	opNot
	opCond
	opEqual
	opNotEqual
	opOr2 // a.or(b), a.orValue(b)
	opCall
	opList
	opMapLit
	opStruct
	opAll
	opExists
	opExistsOne
	opMap       // map with or without filter, transformList
	opFilter    // filter
	opTransform // transformMap, transformMapEntry
	opBind      // optMap, optFlatMap, sortBy
	opUnknown   // a comprehension that is none of the above, which is not explained
)

// code is a checked expression, whose values CEL gives.
type code struct {
	op     op
	name   string // of a root, variable, field or function
	val    ref.Val
	args   []*code
	slot   int   // of an opLocal in its frame, or of an opVariable
	level  int   // number of frames around a comprehension, or around that of an opLocal
	binds  scope // the variables of a comprehension
	index  int   // of its cell in a machine
	ranged bool  // a comprehension iterates over its value

	expr ast.Expr
	info *ast.SourceInfo
	once sync.Once
	text string

	quoting sync.Once
	quoted  []string
}

// Parts of comprehensions in args.
const (
	argRange = iota
	argTest  // the predicate; nil for a map without a filter
	argBody  // the expression that a map evaluates for an element
	argBody2 // a transformMap's value
	argInit
	argResult
	argCount
)

// source returns the text of the expression in CEL's form.
func (c *code) source() string {
	c.once.Do(func() {
		text, err := parser.Unparse(c.expr, c.info)
		if err != nil {
			text = c.name
		}
		c.text = text
	})
	return c.text
}

// shortSource returns the source, cut to the maximum length of a culprit's
// text.
func (c *code) shortSource() string { return cut(c.source(), maxAtom) }

type compiler struct {
	env       *cel.Env
	ast       *ast.AST
	codes     []*code // of this AST, by their ids
	count     int
	spare     []code
	variables map[string]int
	needed    []int // variables that were referred to
	scopes    []scope
	err       error
}

// A scope holds the names of the variables that one comprehension declares: one or two.
type scope [2]string

// Slots of a frame.
const (
	slotFirst = iota
	slotSecond
)

func (c *compiler) program(a *cel.Ast) (*program, error) {
	c.ast, c.codes = a.NativeRep(), nil
	top := c.compile(c.ast.Expr())
	if readsAllVariables(top) {
		for _, i := range c.variables {
			c.needed = append(c.needed, i)
		}
	}
	return &program{top: top, ast: c.ast, codes: c.codes}, c.err
}

// readsAllVariables reports whether x uses variables as a map, not by name.
func readsAllVariables(x *code) bool {
	if x == nil || x.op == opRoot {
		return x != nil && x.name == "variables"
	}
	return slices.ContainsFunc(x.args, readsAllVariables)
}

func (c *compiler) compile(e ast.Expr) *code {
	if len(c.spare) == 0 {
		c.spare = make([]code, 16)
	}
	x := &c.spare[0]
	c.spare = c.spare[1:]
	x.expr, x.info, x.index = e, c.ast.SourceInfo(), c.count
	if more := int(e.ID()) + 1 - len(c.codes); more > 0 {
		c.codes = append(c.codes, make([]*code, more)...)
	}
	c.codes[e.ID()] = x
	c.count++
	switch e.Kind() {
	case ast.LiteralKind:
		x.op, x.val = opConst, e.AsLiteral()
	case ast.IdentKind:
		c.ident(x, e.AsIdent())
	case ast.SelectKind:
		c.selection(x, e)
	case ast.CallKind:
		c.call(x, e.AsCall())
	case ast.ListKind:
		x.op = opList
		c.compileAll(x, e.AsList().Elements()...)
	case ast.MapKind:
		x.op = opMapLit
		for _, entry := range e.AsMap().Entries() {
			c.compileAll(x, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		x.op = opStruct
		for _, f := range e.AsStruct().Fields() {
			c.compileAll(x, f.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c.comprehension(x, e.AsComprehension())
	}
	return x
}

func (c *compiler) compileAll(x *code, exprs ...ast.Expr) {
	x.args = slices.Grow(x.args, len(exprs))
	for _, e := range exprs {
		x.args = append(x.args, c.compile(e))
	}
}

// reads reports whether x depends on the variables of the loop at that level.
func (c *code) reads(level int) bool {
	return c != nil && (c.op == opLocal && c.level == level ||
		slices.ContainsFunc(c.args, func(a *code) bool { return a.reads(level) }))
}

func (c *compiler) ident(x *code, name string) {
	x.name = name
	for level, names := range slices.Backward(c.scopes) {
		if slot := slices.Index(names[:], name); slot >= 0 {
			x.op, x.level, x.slot = opLocal, level, slot
			return
		}
	}
	x.op = opRoot
	if r, ok := c.ast.ReferenceMap()[x.expr.ID()]; ok {
		x.name = r.Name
		if r.Value != nil {
			x.op, x.val = opConst, r.Value
			return
		}
	}
	if c.ast.GetType(x.expr.ID()).Kind() == types.TypeKind {
		if t, ok := c.env.CELTypeProvider().FindIdent(x.name); ok {
			x.op, x.val = opConst, t
		}
	}
}

func (c *compiler) selection(x *code, e ast.Expr) {
	if r, ok := c.ast.ReferenceMap()[e.ID()]; ok {
		c.ident(x, r.Name)
		return
	}
	sel := e.AsSelect()
	x.op, x.name, x.val = opSelect, sel.FieldName(), types.String(sel.FieldName())
	if sel.IsTestOnly() {
		x.op = opHas
	}
	c.compileAll(x, sel.Operand())
	c.variable(x, x.name)
}

// variable makes x a reference to a composited variable if it is one.
func (c *compiler) variable(x *code, name string) {
	i, ok := c.variables[name]
	if !ok || x.args[0].op != opRoot || x.args[0].name != "variables" {
		return
	}
	if x.args = nil; x.op == opHas {
		x.op, x.val = opConst, types.True
		return
	}
	x.op, x.slot, x.name = opVariable, i, name
	c.needed = append(c.needed, i)
}

var operatorOps = map[string]op{
	operators.LogicalAnd: opAnd, operators.LogicalOr: opOr, operators.LogicalNot: opNot,
	operators.Conditional: opCond, operators.Equals: opEqual, operators.NotEquals: opNotEqual,
	operators.Index: opIndex, operators.OptIndex: opIndex, operators.OptSelect: opIndex,
}

func (c *compiler) call(x *code, call ast.CallExpr) {
	x.op, x.name = opCall, call.FunctionName()
	if o, ok := operatorOps[x.name]; ok {
		x.op = o
	}
	if call.IsMemberFunction() {
		c.compileAll(x, call.Target())
	}
	c.compileAll(x, call.Args()...)
	if x.name == operators.Index && x.args[1].op == opConst {
		if s, ok := x.args[1].val.(types.String); ok {
			c.variable(x, string(s))
		}
	}
	if name := x.name; (name == "or" || name == "orValue") && len(x.args) == 2 {
		switch overloads := c.ast.GetOverloadIDs(x.expr.ID()); {
		case len(overloads) != 1, overloads[0] == "optional_or_optional", overloads[0] == "optional_orValue_value":
			x.op = opOr2
		}
	}
}

func (c *compiler) comprehension(x *code, e ast.ComprehensionExpr) {
	x.level, x.binds, x.args = len(c.scopes), scope{e.IterVar(), e.IterVar2()}, make([]*code, argCount)
	x.args[argRange] = c.compile(e.IterRange())
	x.args[argRange].ranged = true
	var parts []ast.Expr
	if isList(e.IterRange(), 0) && isLiteral(e.LoopCondition(), types.False) { // cel.bind
		x.op, x.binds, parts = opBind, scope{e.AccuVar()}, []ast.Expr{argResult: e.Result()}
		x.args[argInit] = c.compile(e.AccuInit())
	} else if x.op, parts = macro(e); x.op == opUnknown {
		c.err = errMacro
	}
	c.scopes = append(c.scopes, x.binds)
	for i, part := range parts {
		if part != nil {
			x.args[i] = c.compile(part)
		}
	}
	c.scopes = c.scopes[:len(c.scopes)-1]
}

var errMacro = errors.New("expression has a macro that can't be explained")

// macro returns the parts of the macro that a comprehension was expanded from, by the
// expression that it evaluates for each element.
func macro(e ast.ComprehensionExpr) (op, []ast.Expr) {
	step, accu := e.LoopStep(), e.AccuVar()
	var test ast.Expr
	if args := call(step, operators.Conditional); len(args) == 3 && isIdent(args[2], accu) {
		test, step = args[0], args[1]
	}
	if step.Kind() != ast.CallKind || len(step.AsCall().Args()) < 2 || !isIdent(step.AsCall().Args()[0], accu) {
		return opUnknown, nil
	}
	name, args := step.AsCall().FunctionName(), step.AsCall().Args()
	if name == operators.Add && isLiteral(args[1], types.IntOne) && call(e.Result(), operators.Equals) != nil {
		return opExistsOne, []ast.Expr{argTest: test}
	}
	switch given := isIdent(e.Result(), accu); {
	case given && name == operators.LogicalAnd && isLiteral(e.AccuInit(), types.True):
		return opAll, []ast.Expr{argTest: args[1]}
	case given && name == operators.LogicalOr && isLiteral(e.AccuInit(), types.False):
		return opExists, []ast.Expr{argTest: args[1]}
	case given && name == operators.Add && isList(args[1], 1):
		body := args[1].AsList().Elements()[0]
		if test != nil && !e.HasIterVar2() && isIdent(body, e.IterVar()) {
			return opFilter, []ast.Expr{argTest: test}
		}
		return opMap, []ast.Expr{argTest: test, argBody: body}
	case given && name == "cel.@mapInsert":
		return opTransform, append([]ast.Expr{argTest: test}, args[1:]...)
	}
	return opUnknown, nil
}

// call returns the arguments of a call of that function.
func call(e ast.Expr, name string) []ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != name {
		return nil
	}
	return e.AsCall().Args()
}

func isIdent(e ast.Expr, name string) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == name }

func isLiteral(e ast.Expr, v ref.Val) bool { return e.Kind() == ast.LiteralKind && e.AsLiteral() == v }

func isList(e ast.Expr, size int) bool { return e.Kind() == ast.ListKind && e.AsList().Size() == size }
