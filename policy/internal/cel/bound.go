package cel

import (
	"math"
	"math/bits"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/library"
)

// Roots are the sizes of what an expression reads: of the inputs, all of them
// taken together, and of each composited variable. A variable that is not
// there may be of any size.
type Roots struct {
	Inputs    Sizes
	Variables map[string]Sizes
}

// variablesRoot is the identifier under which composited variables are read.
const variablesRoot = "variables"

// Cost is an upper bound of what evaluating the expression costs, in the API
// server's units, when it reads values no larger than roots.
func Cost(a *cel.Ast, roots Roots) uint64 {
	r, err := theRunner()
	if err != nil {
		return math.MaxUint64
	}
	estimate, err := r.cost(a, &library.CostEstimator{SizeEstimator: estimator{roots}})
	if err != nil || calls(a, "validate") {
		return math.MaxUint64
	}
	return mul(estimate.Max, margin)
}

// margin is for what the estimate leaves out: presence tests of computed maps.
// The formats' validate it underestimates by more than that.
const margin = 2

// calls says whether the expression calls a function.
func calls(a *cel.Ast, function string) bool {
	root := ast.NavigateAST(a.NativeRep())
	return len(ast.MatchDescendants(root, ast.FunctionMatcher(function))) > 0
}

// estimator answers for the sizes of what is read. The sizes of what is
// computed are cel-go's to estimate.
type estimator struct{ roots Roots }

func (e estimator) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	s, ok := e.sizes(node.Path())
	if !ok {
		return nil
	}
	n := max(s.Items, s.Length)
	switch node.Type().Kind() {
	case types.StringKind, types.BytesKind:
		n = s.Length
	case types.ListKind, types.MapKind:
		n = s.Items
	}
	return &checker.SizeEstimate{Min: 0, Max: n}
}

func (e estimator) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func (e estimator) sizes(path []string) (Sizes, bool) {
	switch {
	case len(path) == 0:
		return Sizes{}, false
	case path[0] != variablesRoot:
		return e.roots.Inputs, true
	case len(path) == 1:
		return Sizes{}, false
	}
	s, ok := e.roots.Variables[path[1]]
	return s, ok
}

// ResultSizes bounds the value of an expression. ok is false when there is no
// bound that this knows of.
func ResultSizes(a *cel.Ast, roots Roots) (s Sizes, ok bool) {
	m := measure{types: a.NativeRep().TypeMap(), roots: roots, ok: true}
	s = m.expr(a.NativeRep().Expr(), nil)
	return s, m.ok
}

// measure walks an expression and bounds its value.
type measure struct {
	types map[int64]*types.Type
	roots Roots
	ok    bool
}

// scope holds the bounds of comprehension variables.
type scope struct {
	parent *scope
	sizes  map[string]Sizes
}

func (s *scope) lookup(name string) (Sizes, bool) {
	for ; s != nil; s = s.parent {
		if sizes, ok := s.sizes[name]; ok {
			return sizes, true
		}
	}
	return Sizes{}, false
}

func (m *measure) unbounded() Sizes {
	m.ok = false
	return Sizes{}
}

func (m *measure) expr(e ast.Expr, in *scope) Sizes {
	if m.scalar(e) {
		return Sizes{Length: 64}
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return m.literal(e)
	case ast.IdentKind:
		return m.ident(e.AsIdent(), in)
	case ast.SelectKind:
		return m.selection(e, in)
	case ast.ListKind:
		return m.list(e.AsList().Elements(), in)
	case ast.MapKind:
		return m.mapping(e.AsMap().Entries(), in)
	case ast.CallKind:
		return m.call(e.AsCall(), in)
	case ast.ComprehensionKind:
		return m.comprehension(e.AsComprehension(), in)
	default:
		return m.unbounded()
	}
}

// scalar says whether the expression's type has values of a fixed size only.
func (m *measure) scalar(e ast.Expr) bool {
	switch t := m.types[e.ID()]; {
	case t == nil:
		return false
	default:
		switch t.Kind() {
		case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.NullTypeKind,
			types.TimestampKind, types.DurationKind, types.TypeKind:
			return true
		}
		return false
	}
}

func (m *measure) literal(e ast.Expr) Sizes {
	switch v := e.AsLiteral().(type) {
	case types.String:
		return Sizes{Length: uint64(len(v))}
	case types.Bytes:
		return Sizes{Length: uint64(len(v))}
	}
	return Sizes{}
}

func (m *measure) ident(name string, in *scope) Sizes {
	if s, ok := in.lookup(name); ok {
		return s
	}
	if name == variablesRoot {
		return m.unbounded()
	}
	return m.roots.Inputs
}

func (m *measure) selection(e ast.Expr, in *scope) Sizes {
	sel := e.AsSelect()
	if op := sel.Operand(); op.Kind() == ast.IdentKind && op.AsIdent() == variablesRoot {
		s, ok := m.roots.Variables[sel.FieldName()]
		if !ok {
			return m.unbounded()
		}
		return s
	}
	return m.expr(sel.Operand(), in)
}

func (m *measure) list(elements []ast.Expr, in *scope) Sizes {
	s := Sizes{Items: uint64(len(elements))}
	for _, e := range elements {
		s = s.Max(m.expr(e, in))
	}
	return s
}

func (m *measure) mapping(entries []ast.EntryExpr, in *scope) Sizes {
	s := Sizes{Items: uint64(len(entries))}
	for _, e := range entries {
		s = s.Max(m.expr(e.AsMapEntry().Key(), in)).Max(m.expr(e.AsMapEntry().Value(), in))
	}
	return s
}

// call bounds the functions whose results hold no more than their arguments,
// or the sum of them.
func (m *measure) call(c ast.CallExpr, in *scope) Sizes {
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	var largest, sum Sizes
	for _, a := range args {
		s := m.expr(a, in)
		largest = largest.Max(s)
		sum = Sizes{add(sum.Items, s.Items), add(sum.Length, s.Length)}
	}
	switch c.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect, operators.Conditional,
		"orValue", "or", "value", "optional.of", "optional.ofNonZeroValue", "optional.none", "dyn",
		"lowerAscii", "upperAscii", "trim", "substring", "charAt", "slice", "sort", "distinct", "reverse",
		"first", "last", "min", "max", "url", "getHost", "getHostname", "getPort", "getScheme", "find":
		return largest
	case operators.Add:
		return sum
	case "string":
		return Sizes{Length: max(largest.Length, 64)}
	case "split", "findAll":
		return Sizes{Items: add(largest.Length, 1), Length: largest.Length}
	case "flatten":
		return Sizes{Items: mul(largest.Items, largest.Items), Length: largest.Length}
	default:
		return m.unbounded()
	}
}

// comprehension bounds what the macros make: filter, map, transformList and
// transformMap take over or add an element for each of the range, and optMap
// and bind-like forms yield what their body does.
func (m *measure) comprehension(c ast.ComprehensionExpr, in *scope) Sizes {
	over := m.expr(c.IterRange(), in)
	init := m.expr(c.AccuInit(), in)
	bound := map[string]Sizes{c.IterVar(): over, c.AccuVar(): init}
	if c.HasIterVar2() {
		bound[c.IterVar2()] = over
	}
	step := m.expr(c.LoopStep(), &scope{in, bound})
	if over.Items == 0 { // bound by optMap: the body is the result
		step = step.Max(init)
	}
	made := Sizes{Items: max(step.Items, add(init.Items, over.Items)), Length: max(step.Length, init.Length)}
	result := m.expr(c.Result(), &scope{in, map[string]Sizes{c.AccuVar(): made, c.IterVar(): over}})
	return result
}

func add(a, b uint64) uint64 {
	if s, carry := bits.Add64(a, b, 0); carry == 0 {
		return s
	}
	return math.MaxUint64
}

func mul(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return lo
	}
	return math.MaxUint64
}
