package cel

import (
	"math"
	"math/bits"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/library"
)

// Roots are the sizes of the values that an expression reads: of all inputs together,
// of objects and params apart if these are known, and of each composited variable. A
// variable without sizes may be of any size.
type Roots struct {
	Inputs    Sizes
	Objects   *Sizes // of object and oldObject
	Params    *Sizes
	Variables map[string]Sizes
}

// input returns the bounds of the values under an identifier.
func (r *Roots) input(name string) Sizes {
	switch {
	case name == paramsRoot && r.Params != nil:
		return *r.Params
	case (name == "object" || name == "oldObject") && r.Objects != nil:
		return *r.Objects
	}
	return r.Inputs
}

// The identifiers under which composited variables and parameters are read.
const (
	variablesRoot = "variables"
	paramsRoot    = "params"
)

// Cost returns an upper bound of the cost of evaluating the expression, in the API
// server's units, on values no larger than roots.
func Cost(a *cel.Ast, roots Roots) uint64 {
	r, err := theRunner()
	if err != nil {
		return math.MaxUint64
	}
	m := measured(a, roots)
	estimate, err := r.cost(a, &costEstimator{&library.CostEstimator{SizeEstimator: estimator{m}}, m})
	if err != nil || calls(a, "validate") {
		return math.MaxUint64
	}
	return mul(estimate.Max, margin)
}

// margin makes up for costs that the estimate leaves out: presence tests of computed
// maps. It underestimates the formats' validate by more than that.
const margin = 2

// calls reports whether the expression calls a function.
func calls(a *cel.Ast, function string) bool {
	root := ast.NavigateAST(a.NativeRep())
	return len(ast.MatchDescendants(root, ast.FunctionMatcher(function))) > 0
}

// ResultSizes bounds the value of an expression. ok is false if there is no known
// bound.
func ResultSizes(a *cel.Ast, roots Roots) (s Sizes, ok bool) {
	s, ok = measured(a, roots).sizes[a.NativeRep().Expr().ID()]
	return s, ok
}

// estimator returns the sizes of values that an expression reads and makes.
type estimator struct{ *measure }

func (e estimator) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	var s Sizes
	var ok bool
	if x := node.Expr(); x != nil {
		s, ok = e.sizes[x.ID()]
	}
	if !ok {
		if s, ok = e.read(node.Path()); !ok {
			return nil
		}
	}
	n := max(s.Items, s.Length)
	switch kind := node.Type().Kind(); {
	case kind == types.StringKind || kind == types.BytesKind:
		n = s.Length
	case kind == types.ListKind || kind == types.MapKind || e.isContainer(node.Expr()):
		n = s.Items
	}
	return &checker.SizeEstimate{Min: 0, Max: n}
}

func (estimator) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// A costEstimator is the API server's, but it also knows the length of the elements
// of a list that the expression made, when they are joined.
type costEstimator struct {
	*library.CostEstimator
	measure *measure
}

// EstimateCallCost implements checker.CostEstimator.
func (c *costEstimator) EstimateCallCost(function, overload string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if function != "join" || target == nil || (*target).Expr() == nil {
		return c.CostEstimator.EstimateCallCost(function, overload, target, args)
	}
	operands := []ast.Expr{(*target).Expr()}
	for _, a := range args {
		operands = append(operands, a.Expr())
	}
	for _, x := range operands {
		if x == nil {
			return c.CostEstimator.EstimateCallCost(function, overload, target, args)
		}
		if _, ok := c.measure.sizes[x.ID()]; !ok {
			return c.CostEstimator.EstimateCallCost(function, overload, target, args)
		}
	}
	size := checker.SizeEstimate{Max: c.measure.joined(operands).Length}
	return &checker.CallEstimate{CostEstimate: size.MultiplyByCostFactor(2 * common.StringTraversalCostFactor), ResultSize: &size}
}

// joined bounds the string of a list that is joined with a separator.
func (m *measure) joined(operands []ast.Expr) Sizes {
	list, separator := m.sizes[operands[0].ID()], Sizes{}
	if len(operands) > 1 {
		separator = m.sizes[operands[1].ID()]
	}
	return Sizes{Length: mul(list.Items, add(list.Length, separator.Length))}
}

// read bounds the value at a path from a root.
func (e estimator) read(path []string) (Sizes, bool) {
	switch {
	case len(path) == 0:
		return Sizes{}, false
	case path[0] != variablesRoot:
		return e.roots.input(path[0]), true
	case len(path) == 1:
		return Sizes{}, false
	}
	s, ok := e.roots.Variables[path[1]]
	return s, ok
}

// measure walks an expression and bounds the values of its parts.
type measure struct {
	types map[int64]*types.Type
	roots Roots
	sizes map[int64]Sizes // by expression; those without a bound are not in it

	containers map[int64]bool // expressions that fail unless they are lists or maps
}

func measured(a *cel.Ast, roots Roots) *measure {
	m := &measure{types: a.NativeRep().TypeMap(), roots: roots, sizes: map[int64]Sizes{}, containers: map[int64]bool{}}
	m.expr(a.NativeRep().Expr(), nil)
	return m
}

// contain records that an expression is used as a list or map, so any other value
// fails. Then the operands of a sum and the chosen branch of a condition are lists or
// maps, too. Adding two texts of unknown type costs one unit, however long they are.
func (m *measure) contain(e ast.Expr) {
	m.containers[e.ID()] = true
	if e.Kind() != ast.CallKind {
		return
	}
	parts := e.AsCall().Args()
	switch e.AsCall().FunctionName() {
	case operators.Add, "dyn":
	case operators.Conditional:
		parts = parts[1:]
	default:
		return
	}
	for _, x := range parts {
		m.contain(x)
	}
}

func (m *measure) isContainer(e ast.Expr) bool { return e != nil && m.containers[e.ID()] }

// scope holds the bounds of comprehension variables.
type scope struct {
	parent *scope
	bounds map[string]bound
}

// A bound is the bound of a value's sizes, if there is one.
type bound struct {
	Sizes
	ok bool
}

func (s *scope) lookup(name string) (bound, bool) {
	for ; s != nil; s = s.parent {
		if b, ok := s.bounds[name]; ok {
			return b, true
		}
	}
	return bound{}, false
}

func bounded(s Sizes) bound { return bound{s, true} }

func (b bound) max(c bound) bound { return bound{b.Sizes.Max(c.Sizes), b.ok && c.ok} }

func (m *measure) expr(e ast.Expr, in *scope) bound {
	b := m.value(e, in)
	if m.scalar(e) {
		b = bounded(Sizes{Length: scalarLength})
	}
	delete(m.sizes, e.ID())
	if b.ok {
		m.sizes[e.ID()] = b.Sizes
	}
	return b
}

// scalarLength bounds the length of a number or a time as a string.
const scalarLength = 64

func (m *measure) value(e ast.Expr, in *scope) bound {
	switch e.Kind() {
	case ast.LiteralKind:
		return literal(e)
	case ast.IdentKind:
		return m.ident(e.AsIdent(), in)
	case ast.SelectKind:
		return m.selection(e.AsSelect(), in)
	case ast.ListKind:
		return m.all(e.AsList().Elements(), in).max(bounded(Sizes{Items: uint64(len(e.AsList().Elements()))}))
	case ast.MapKind:
		return m.mapping(e.AsMap().Entries(), in)
	case ast.CallKind:
		return m.call(e.AsCall(), in)
	case ast.ComprehensionKind:
		return m.comprehension(e.AsComprehension(), in)
	default:
		return bound{}
	}
}

// scalar reports whether the expression's type has values of a fixed size only.
func (m *measure) scalar(e ast.Expr) bool {
	t := m.types[e.ID()]
	if t == nil {
		return false
	}
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.NullTypeKind,
		types.TimestampKind, types.DurationKind, types.TypeKind:
		return true
	}
	return false
}

func literal(e ast.Expr) bound {
	switch v := e.AsLiteral().(type) {
	case types.String:
		return bounded(Sizes{Length: uint64(len(v))})
	case types.Bytes:
		return bounded(Sizes{Length: uint64(len(v))})
	}
	return bounded(Sizes{})
}

func (m *measure) ident(name string, in *scope) bound {
	if b, ok := in.lookup(name); ok {
		return b
	}
	if name == variablesRoot {
		return bound{}
	}
	return bounded(m.roots.input(name))
}

func (m *measure) selection(sel ast.SelectExpr, in *scope) bound {
	of := m.expr(sel.Operand(), in)
	if op := sel.Operand(); op.Kind() == ast.IdentKind && op.AsIdent() == variablesRoot {
		s, ok := m.roots.Variables[sel.FieldName()]
		return bound{s, ok}
	}
	return of
}

// all returns the largest bound of several expressions.
func (m *measure) all(list []ast.Expr, in *scope) bound {
	b := bounded(Sizes{})
	for _, e := range list {
		b = b.max(m.expr(e, in))
	}
	return b
}

func (m *measure) mapping(entries []ast.EntryExpr, in *scope) bound {
	b := bounded(Sizes{Items: uint64(len(entries))})
	for _, e := range entries {
		b = b.max(m.expr(e.AsMapEntry().Key(), in)).max(m.expr(e.AsMapEntry().Value(), in))
	}
	return b
}

// call bounds functions whose results are no larger than their arguments, or the sum
// of them.
func (m *measure) call(c ast.CallExpr, in *scope) bound {
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	largest, total := bounded(Sizes{}), Sizes{}
	for _, a := range args {
		b := m.expr(a, in)
		largest = largest.max(b)
		total = Sizes{add(total.Items, b.Items), add(total.Length, b.Length)}
	}
	if c.FunctionName() == operators.In && len(args) == 2 {
		m.contain(args[1])
	}
	switch c.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect, operators.Conditional,
		"orValue", "kyverno_orValue", "or", "value", "optional.of", "optional.ofNonZeroValue", "optional.none", "dyn",
		"lowerAscii", "upperAscii", "trim", "substring", "charAt", "slice", "sort", "distinct", "reverse",
		"first", "last", "min", "max", "url", "getHost", "getHostname", "getPort", "getScheme", "find":
		return largest
	case operators.Add:
		return bound{total, largest.ok}
	case "string":
		return largest.max(bounded(Sizes{Length: scalarLength}))
	case "split", "findAll":
		return bound{Sizes{Items: add(largest.Length, 1), Length: largest.Length}, largest.ok}
	case "join":
		return bound{m.joined(args), largest.ok}
	case "flatten":
		return bound{Sizes{Items: mul(largest.Items, largest.Items), Length: largest.Length}, largest.ok}
	default:
		return bound{}
	}
}

// comprehension bounds the results of macros: filter, map and transformList copy or
// add an element for each of the range, and optMap returns the value of its body, for
// a variable that is not accumulated.
func (m *measure) comprehension(c ast.ComprehensionExpr, in *scope) bound {
	m.contain(c.IterRange())
	over, made := m.expr(c.IterRange(), in), m.expr(c.AccuInit(), in)
	inside := func(accu bound) *scope {
		vars := map[string]bound{c.IterVar(): over, c.AccuVar(): accu}
		if c.HasIterVar2() {
			vars[c.IterVar2()] = over
		}
		return &scope{in, vars}
	}
	if c.IterRange().Kind() != ast.ListKind || c.IterRange().AsList().Size() > 0 {
		// A step's addition is bounded without the accumulator, to which macros only
		// add.
		step := m.expr(c.LoopStep(), inside(bounded(Sizes{})))
		grown := bounded(Sizes{Items: add(made.Items, over.Items)})
		made = made.max(step).max(over).max(grown)
	}
	m.expr(c.LoopCondition(), inside(made))
	return m.expr(c.Result(), inside(made))
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
