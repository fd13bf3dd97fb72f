package explain

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
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

// code is a checked expression, prepared for evaluation with a trace.
type code struct {
	op       op
	name     string // of a root, variable, field or function
	val      ref.Val
	args     []*code
	optional []bool // elements of a list or map literal, or args[1:] of opIndex
	fn       *functions.Overload
	pattern  *regexp.Regexp // of matches, if it is a constant
	overload string
	depth    int    // opLocal: frames up
	slot     int    // opLocal: index of the frame's variable
	vars     int    // comprehensions: 1 or 2 variables
	level    int    // comprehensions: number of enclosing frames
	uses     uint64 // the enclosing frames that it reads, as bits

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

// maxDepth is the deepest nesting of an expression that is explained. The walk
// is recursive, and CEL's own parser allows 250 levels.
const maxDepth = 1000

var errDepth = errors.New("expression nests too deep to be explained")

type compiler struct {
	env       *cel.Env
	ast       *ast.AST
	variables map[string]int
	needed    []int // variables that were referred to
	scopes    []scope
	depth     int
	overloads map[string]*functions.Overload
	known     map[string]bool // functions with overloads in overloads
}

// A scope holds the names of the variables that one comprehension declares: one or two.
type scope [2]string

// Slots of a frame.
const (
	slotFirst = iota
	slotSecond
)

func (c *compiler) program(a *cel.Ast) (*code, error) {
	c.ast = a.NativeRep()
	x, err := c.compile(c.ast.Expr())
	if err == nil && readsAllVariables(x) {
		for _, i := range c.variables {
			c.needed = append(c.needed, i)
		}
	}
	return x, err
}

// readsAllVariables reports whether x uses variables as a map, not by name.
func readsAllVariables(x *code) bool {
	if x == nil || x.op == opRoot {
		return x != nil && x.name == "variables"
	}
	return slices.ContainsFunc(x.args, readsAllVariables)
}

func (c *compiler) compile(e ast.Expr) (*code, error) {
	if c.depth++; c.depth > maxDepth {
		return nil, errDepth
	}
	defer func() { c.depth-- }()
	x := &code{expr: e, info: c.ast.SourceInfo()}
	var err error
	switch e.Kind() {
	case ast.LiteralKind:
		x.op, x.val = opConst, e.AsLiteral()
	case ast.IdentKind:
		err = c.ident(x, e.AsIdent())
	case ast.SelectKind:
		err = c.selection(x, e)
	case ast.CallKind:
		err = c.call(x, e)
	case ast.ListKind:
		err = c.list(x, e.AsList())
	case ast.MapKind:
		err = c.mapLiteral(x, e.AsMap())
	case ast.StructKind:
		err = c.structLiteral(x, e.AsStruct())
	case ast.ComprehensionKind:
		err = c.comprehension(x, e.AsComprehension())
	default:
		err = fmt.Errorf("expression of unknown kind %d", e.Kind())
	}
	if err != nil {
		return nil, err
	}
	c.markFrames(x)
	return x, nil
}

// markFrames records on which enclosing frames x depends, counted from the outermost.
func (c *compiler) markFrames(x *code) {
	if x.op == opLocal {
		x.uses |= 1 << min(len(c.scopes)-1-x.depth, 63)
	}
	for _, a := range x.args {
		if a != nil {
			x.uses |= a.uses
		}
	}
}

func (c *compiler) compileAll(x *code, exprs ...ast.Expr) error {
	for _, e := range exprs {
		a, err := c.compile(e)
		if err != nil {
			return err
		}
		x.args = append(x.args, a)
	}
	return nil
}

func (c *compiler) ident(x *code, name string) error {
	for up := range len(c.scopes) {
		for slot, v := range c.scopes[len(c.scopes)-1-up] {
			if v == name && v != "" {
				x.op, x.depth, x.slot, x.name = opLocal, up, slot, name
				return nil
			}
		}
	}
	x.op, x.name = opRoot, name
	if r, ok := c.ast.ReferenceMap()[x.expr.ID()]; ok {
		x.name = r.Name
		if r.Value != nil {
			x.op, x.val = opConst, r.Value
			return nil
		}
	}
	if c.ast.GetType(x.expr.ID()).Kind() == types.TypeKind {
		if t, ok := c.env.CELTypeProvider().FindIdent(x.name); ok {
			x.op, x.val = opConst, t
		}
	}
	return nil
}

func (c *compiler) selection(x *code, e ast.Expr) error {
	if r, ok := c.ast.ReferenceMap()[e.ID()]; ok {
		return c.ident(x, r.Name)
	}
	sel := e.AsSelect()
	x.op, x.name = opSelect, sel.FieldName()
	if sel.IsTestOnly() {
		x.op = opHas
	}
	if err := c.compileAll(x, sel.Operand()); err != nil {
		return err
	}
	x.val = types.String(x.name)
	c.variable(x, x.name)
	return nil
}

// variable makes x a reference to a composited variable if it is one.
func (c *compiler) variable(x *code, name string) {
	if x.args[0].op != opRoot || x.args[0].name != "variables" {
		return
	}
	i, ok := c.variables[name]
	switch {
	case !ok:
	case x.op == opHas:
		x.op, x.val, x.args = opConst, types.True, nil
	default:
		x.op, x.slot, x.name, x.args = opVariable, i, name, nil
		c.needed = append(c.needed, i)
	}
}

var operatorOps = map[string]op{
	operators.LogicalAnd: opAnd, operators.LogicalOr: opOr, operators.LogicalNot: opNot,
	operators.Conditional: opCond, operators.Equals: opEqual, operators.NotEquals: opNotEqual,
	operators.Index: opIndex, operators.OptIndex: opIndex, operators.OptSelect: opIndex,
}

func (c *compiler) call(x *code, e ast.Expr) error {
	call := e.AsCall()
	x.op, x.name = opCall, call.FunctionName()
	r := c.ast.ReferenceMap()[e.ID()]
	if r != nil && len(r.OverloadIDs) == 1 {
		x.overload = r.OverloadIDs[0]
	}
	if o, ok := operatorOps[x.name]; ok {
		x.op = o
	}
	if call.IsMemberFunction() {
		if err := c.compileAll(x, call.Target()); err != nil {
			return err
		}
		switch {
		case len(call.Args()) != 1:
		case x.name == "or" && (x.overload == "" || x.overload == "optional_or_optional"),
			x.name == "orValue" && (x.overload == "" || x.overload == "optional_orValue_value"):
			x.op = opOr2
		}
	}
	if err := c.compileAll(x, call.Args()...); err != nil {
		return err
	}
	return c.finish(x)
}

func (c *compiler) finish(x *code) error {
	switch x.op {
	case opIndex:
		x.optional = []bool{x.name != operators.Index}
		if k := x.args[1]; x.name == operators.Index && k.op == opConst {
			if s, ok := k.val.(types.String); ok {
				c.variable(x, string(s))
			}
		}
	case opCall:
		fn, err := c.function(x.name, x.overload)
		x.fn = fn
		x.compilePattern()
		return err
	}
	return nil
}

func (c *compiler) function(name, overload string) (*functions.Overload, error) {
	if !c.known[name] {
		c.known[name] = true
		bindings, err := c.env.Functions()[name].Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			c.overloads[b.Operator] = b
		}
	}
	if fn := c.overloads[overload]; fn != nil && overload != "" {
		return fn, nil
	}
	return c.overloads[name], nil
}

func (c *compiler) list(x *code, l ast.ListExpr) error {
	x.op = opList
	x.optional = make([]bool, l.Size())
	for _, i := range l.OptionalIndices() {
		x.optional[i] = true
	}
	return c.compileAll(x, l.Elements()...)
}

func (c *compiler) mapLiteral(x *code, m ast.MapExpr) error {
	x.op = opMapLit
	for _, e := range m.Entries() {
		entry := e.AsMapEntry()
		x.optional = append(x.optional, entry.IsOptional())
		if err := c.compileAll(x, entry.Key(), entry.Value()); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) structLiteral(x *code, s ast.StructExpr) error {
	x.op, x.name = opStruct, s.TypeName()
	if r, ok := c.ast.ReferenceMap()[x.expr.ID()]; ok {
		x.name = r.Name
	}
	for _, e := range s.Fields() {
		f := e.AsStructField()
		x.optional = append(x.optional, f.IsOptional())
		x.args = append(x.args, &code{op: opConst, val: types.String(f.Name()), expr: f.Value(), info: x.info})
		if err := c.compileAll(x, f.Value()); err != nil {
			return err
		}
	}
	return nil
}
