package explain

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// A program is the failed expression, or that of a variable.
type program struct {
	top   *code
	ast   *ast.AST
	codes []*code // by the ids of the AST
}

// A machine holds the programs of an Explainer as CEL's planner makes them, with a cell
// for each sub-expression, which can be evaluated by itself. It counts what evaluation
// takes, so it serves one run at a time.
type machine struct {
	cells    []cell                     // by code.index
	patterns map[ref.Val]*regexp.Regexp // of matches

	run    *run
	ctx    context.Context
	nodes  int // evaluated so far
	weight int // bytes of strings made so far
	stop   error
}

// Limits of one explanation. An expression within the API server's cost limits is far
// from them; only a hostile one gets there.
const (
	maxNodes  = 1_000_000
	maxWeight = 16 << 20
	maxParts  = 1 << 18

	maxPatterns = 32
)

var (
	errNodes     = errors.New("expression takes too many steps to explain")
	errWeight    = errors.New("expression makes too much text to be explained")
	errParts     = errors.New("expression makes a value of too many parts to be explained")
	errRecursion = errors.New("variables refer to each other in a circle")
)

// newMachine plans programs with the functions of env.
func newMachine(env *cel.Env, programs []*program, cells int) (*machine, error) {
	m := &machine{cells: make([]cell, cells)}
	called, err := m.functions(env, programs)
	adapter, provider := env.CELTypeAdapter(), env.CELTypeProvider()
	planner := interpreter.NewInterpreter(called, env.Container, provider, adapter,
		interpreter.NewAttributeFactory(env.Container, adapter, provider))
	for _, p := range programs {
		if err == nil && p != nil {
			_, err = planner.NewInterpretable(p.ast, interpreter.CustomDecoratorV2(m.decorator(p.codes)))
		}
	}
	return m, err
}

// functions returns the functions that the programs call.
func (m *machine) functions(env *cel.Env, programs []*program) (called interpreter.Dispatcher, err error) {
	called, declared := interpreter.NewDispatcher(), env.Functions()
	visitor := ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || err != nil {
			return
		}
		name := e.AsCall().FunctionName()
		_, known := called.FindOverload(name)
		if op, planned := operatorOps[name]; known || planned && op != opNot {
			return
		}
		var bindings []*functions.Overload
		bindings, err = declared[name].Bindings()
		for _, b := range bindings {
			err = errors.Join(err, called.Add(m.guard(name, b)))
		}
	})
	for _, p := range programs {
		if p != nil {
			ast.PostOrderVisit(p.ast.Expr(), visitor)
		}
	}
	return called, err
}

// decorator makes cells of what the planner makes of codes.
func (m *machine) decorator(codes []*code) interpreter.InterpretableDecoratorV2 {
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		id := i.ID()
		if id < 0 || int(id) >= len(codes) || codes[id] == nil {
			return i, nil // the operand of a select, or a part of a macro
		}
		x := codes[id]
		if x.op == opConst {
			return interpreter.NewConstValue(id, x.val), nil
		}
		c := &m.cells[x.index]
		if x.op == opIndex && x.args[1].op != opConst && c.x == nil {
			c.x = x
			return i, nil // the key, which is planned under the id of the index
		}
		*c = cell{i, x, m}
		return c, nil
	}
}

// A cell evaluates a sub-expression and counts what that takes. It is no attribute, so
// the planner can't merge it with the selects that follow.
type cell struct {
	interpreter.InterpretableV2
	x *code
	m *machine
}

// ID returns an id of no code, because the planner gives it to the operand of a select.
func (c *cell) ID() int64 { return -1 - int64(c.x.index) }

// Eval implements interpreter.Interpretable.
func (c *cell) Eval(in interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(in)) }

// Exec implements interpreter.InterpretableV2.
func (c *cell) Exec(f *interpreter.ExecutionFrame) ref.Val {
	if !c.m.step(1) {
		return types.WrapErr(c.m.stop)
	}
	return c.m.weigh(c.x, c.value(f))
}

func (c *cell) value(f *interpreter.ExecutionFrame) ref.Val {
	switch c.x.op {
	case opRoot:
		return c.m.run.root(c.x.name).val
	case opVariable:
		return c.m.run.variable(c.x.slot).val
	case opOr2:
		args := c.InterpretableV2.(interpreter.InterpretableCall).Args()
		first := args[0].Exec(f)
		switch v, ok := first.(*types.Optional); {
		case !ok:
			return types.MaybeNoSuchOverloadErr(first)
		case !v.HasValue():
			return args[1].Exec(f)
		case c.x.name == "orValue":
			return v.GetValue()
		}
		return first
	}
	return c.InterpretableV2.Exec(f)
}

// step counts evaluations and reports whether there may be more.
func (m *machine) step(n int) bool {
	if m.stop != nil {
		return false
	}
	before := m.nodes
	if m.nodes += n; m.nodes > maxNodes {
		m.stop = errNodes
	} else if m.nodes/512 != before/512 {
		m.stop = m.ctx.Err()
	}
	return m.stop == nil
}

// weigh counts what x's value v takes. Maps that the expression makes get an order.
func (m *machine) weigh(x *code, v ref.Val) ref.Val {
	switch x.op {
	case opCall:
		if s, ok := v.(types.String); ok {
			if m.weight += len(s); m.weight > maxWeight {
				m.stop = errWeight
			}
		}
		if _, ok := v.(traits.Lister); ok {
			m.count(v)
		}
	case opMapLit, opTransform:
		if made, ok := v.(traits.Mapper); ok {
			v = &placedMap{Mapper: made}
		}
		m.count(v)
	case opList, opMap, opFilter:
		m.count(v)
	}
	if x.ranged {
		if sized, ok := v.(traits.Sizer); ok {
			if n, ok := sized.Size().(types.Int); ok {
				m.step(int(n))
			}
		}
	}
	if m.stop != nil {
		return types.WrapErr(m.stop)
	}
	return v
}

// count counts the parts of a value. A part that the expression's own lists contain
// several times counts each time.
func (m *machine) count(v ref.Val) {
	left := maxParts
	var walk func(v ref.Val)
	walk = func(v ref.Val) {
		left--
		if placeOf(v) != nil {
			return
		}
		switch v := v.(type) {
		case types.String:
			left -= len(v) / 32
		case traits.Mapper:
			for it := v.Iterator(); left > 0 && it.HasNext() == types.True; {
				if value, ok := v.Find(it.Next()); ok {
					walk(value)
				}
			}
		case traits.Lister:
			for it := v.Iterator(); left > 0 && it.HasNext() == types.True; {
				walk(it.Next())
			}
		}
	}
	if walk(v); left <= 0 {
		m.stop = errParts
	}
	m.step((maxParts - left) / 16)
}

// guard makes a function check that its arguments are not too large, and keep compiled
// patterns.
func (m *machine) guard(name string, o *functions.Overload) *functions.Overload {
	switch name {
	case "matches", "find", "findAll", "quantity", "isQuantity", "replace", "join":
	default:
		return o
	}
	call := func(args ...ref.Val) ref.Val {
		pattern := m.pattern(name, args)
		switch {
		case !m.affordable(name, args):
			return types.WrapErr(m.stop)
		case pattern != nil:
			return types.Bool(pattern.MatchString(string(args[0].(types.String))))
		case o.Function != nil:
			return o.Function(args...)
		case len(args) == 1:
			return o.Unary(args[0])
		}
		return o.Binary(args[0], args[1])
	}
	return &functions.Overload{Operator: o.Operator, OperandTrait: o.OperandTrait, NonStrict: o.NonStrict, Function: call}
}

// pattern returns the compiled pattern of matches, or nil if the function is another
// one or gives an error.
func (m *machine) pattern(name string, args []ref.Val) *regexp.Regexp {
	if name != "matches" || args[0].Type() != types.StringType || args[1].Type() != types.StringType {
		return nil
	}
	re, ok := m.patterns[args[1]]
	if !ok {
		re, _ = regexp.Compile(string(args[1].(types.String)))
		if m.patterns == nil || len(m.patterns) == maxPatterns {
			m.patterns = make(map[ref.Val]*regexp.Regexp)
		}
		m.patterns[args[1]] = re
	}
	return re
}

// maxText is the longest pattern or number text that is evaluated, because no
// cost limit covers these functions.
const maxText = 64 << 10

// affordable reports whether a function may be called. Explanations evaluate quantifiers
// for every element, so CEL's cost limit does not bound them.
func (m *machine) affordable(name string, args []ref.Val) bool {
	var sizes [4]int
	for i, a := range args {
		if s, ok := a.(types.String); ok && i < len(sizes) {
			sizes[i] = len(s)
		}
	}
	need, ok := 0, true
	switch name {
	case "matches", "find", "findAll":
		ok = sizes[0] <= maxText && sizes[1] <= maxText
	case "quantity", "isQuantity":
		if s, isText := args[0].(types.String); isText {
			ok = shortNumber(string(s))
		}
	case "replace":
		need = sizes[0] + (sizes[0]/max(sizes[1], 1)+1)*sizes[2]
	case "join":
		if l, isList := args[0].(traits.Lister); isList {
			if count, isInt := l.Size().(types.Int); isInt {
				need = int(count) * (sizes[1] + 1)
			}
		}
	}
	if !ok || m.weight+need > maxWeight {
		m.stop = errWeight
	}
	return m.stop == nil
}

// shortNumber keeps away quantities such as 1e999999999, which take minutes to
// parse.
func shortNumber(s string) bool {
	if len(s) > 256 {
		return false
	}
	_, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	digits := strings.TrimLeft(exponent, "+-0")
	return len(digits) <= 4 || strings.Trim(digits, "0123456789") != ""
}
