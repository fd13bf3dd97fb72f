package cel

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy/internal/reads"
)

// Reads are the parts of `object` that expressions may read. Two objects with the same
// [Reads.Key] are equal in all of them, so expressions that read nothing else have equal
// values, errors and fields at fault.
type Reads struct{ root *reads.Part }

// ReadsOf returns the parts of the object that expressions may read. It returns nil
// if they read anything else, or call a function that may depend on more than its
// arguments. variable returns the expression of the i-th variable.
func ReadsOf(expressions []*cel.Ast, names *Names, variable func(i int) *cel.Ast) *Reads {
	r := &reader{root: &reads.Part{}, names: names, variable: variable, variables: map[int]flow{}, left: maxRead}
	for _, a := range expressions {
		if a != nil {
			r.consume(r.of(a.NativeRep().Expr(), nil))
		}
	}
	if r.more {
		return nil
	}
	r.root.Seal()
	return &Reads{r.root}
}

// A reader follows parts of the object through expressions.
type reader struct {
	root      *reads.Part
	names     *Names
	variable  func(i int) *cel.Ast
	variables map[int]flow
	more      bool // something else is read
	left      int  // expressions that may still be visited; those in nested macros are several times
}

// maxRead bounds the expressions that are visited.
const maxRead = 20_000

// A flow describes the possible values of an expression: parts of the object, constant
// texts, a list that the expression makes (with the flow of its elements), or any other
// computed value. The zero flow is no value.
type flow struct {
	parts    []*reads.Part
	texts    []string
	elements *flow
	other    bool
}

// computed is a value that shares nothing with the object.
var computed = flow{other: true}

// or returns the flow of either value.
func (f flow) or(g flow) flow {
	joined := flow{parts: reads.Union(f.parts, g.parts), texts: reads.Union(f.texts, g.texts), elements: f.elements, other: f.other || g.other}
	switch {
	case joined.elements == nil:
		joined.elements = g.elements
	case g.elements != nil && g.elements != joined.elements:
		both := joined.elements.or(*g.elements)
		joined.elements = &both
	}
	return joined
}

// covers reports whether g adds nothing to f.
func (f flow) covers(g flow) bool {
	return len(reads.Union(f.parts, g.parts)) == len(f.parts) && len(reads.Union(f.texts, g.texts)) == len(f.texts) && (f.other || !g.other) &&
		(g.elements == nil || f.elements != nil && f.elements.covers(*g.elements))
}

// consume records that a value is read whole.
func (r *reader) consume(f flow) {
	for _, p := range f.parts {
		p.All = true
	}
	if f.elements != nil {
		r.consume(*f.elements)
	}
}

// each returns the part for the elements. A map is read whole if its elements are.
func each(p *reads.Part) *reads.Part {
	p.Others = true
	return p.Each()
}

// items returns the flow of a value's elements.
func (f flow) items() flow {
	e := flow{other: f.other}
	for _, p := range f.parts {
		e.parts = append(e.parts, each(p))
	}
	if f.elements != nil {
		e = e.or(*f.elements)
	}
	return e
}

// field returns the flow of a value's fields of these names.
func (f flow) field(names ...string) flow {
	e := flow{other: f.other || f.elements != nil}
	if f.elements != nil { // the field is an index of it
		e = e.or(*f.elements)
	}
	for _, p := range f.parts {
		for _, name := range names {
			e.parts = append(e.parts, p.Field(name))
		}
	}
	return e
}

// constant reports whether a value is one of the texts.
func (f flow) constant() bool {
	return len(f.texts) > 0 && len(f.parts) == 0 && f.elements == nil && !f.other
}

// A local is a variable of a macro.
type local struct {
	name  string
	value flow
	outer *local
}

func (l *local) find(name string) (flow, bool) {
	for ; l != nil; l = l.outer {
		if l.name == name {
			return l.value, true
		}
	}
	return flow{}, false
}

// of returns the flow of an expression's value, and records the parts of the object that
// the expression reads.
func (r *reader) of(e ast.Expr, scope *local) flow {
	if r.left--; r.left < 0 {
		r.more = true
	}
	if r.more {
		return flow{}
	}
	switch e.Kind() {
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().(types.String); ok {
			return flow{texts: []string{string(s)}}
		}
		return computed
	case ast.IdentKind:
		return r.ident(e.AsIdent(), scope)
	case ast.SelectKind:
		return r.selected(e.AsSelect(), scope)
	case ast.CallKind:
		return r.call(e.AsCall(), scope)
	case ast.ListKind:
		var elements flow
		for _, x := range e.AsList().Elements() {
			elements = elements.or(r.of(x, scope))
		}
		return flow{elements: &elements}
	case ast.MapKind:
		for _, x := range e.AsMap().Entries() {
			r.consume(r.of(x.AsMapEntry().Key(), scope))
			r.consume(r.of(x.AsMapEntry().Value(), scope))
		}
		return computed
	case ast.ComprehensionKind:
		return r.fold(e.AsComprehension(), scope)
	}
	r.more = true
	return flow{}
}

func (r *reader) ident(name string, scope *local) flow {
	if f, ok := scope.find(name); ok {
		return f
	}
	if name == "object" {
		return flow{parts: []*reads.Part{r.root}}
	}
	r.more = r.more || !slices.Contains(typeNames, name)
	return computed
}

var typeNames = []string{"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"}

func (r *reader) selected(s ast.SelectExpr, scope *local) flow {
	if o := s.Operand(); o.Kind() == ast.IdentKind && o.AsIdent() == variablesRoot {
		if _, shadowed := scope.find(variablesRoot); !shadowed && !s.IsTestOnly() {
			return r.composited(s.FieldName())
		}
	}
	f := r.of(s.Operand(), scope).field(s.FieldName())
	if s.IsTestOnly() {
		return computed
	}
	return f
}

// composited returns the flow of a variable of the policy.
func (r *reader) composited(name string) flow {
	i, ok := r.names.Index(name)
	if !ok || r.variable(i) == nil {
		r.more = true
		return flow{}
	}
	f, known := r.variables[i]
	if !known {
		r.variables[i] = flow{} // of one that reads itself, which is an error wherever it is read
		f = r.of(r.variable(i).NativeRep().Expr(), nil)
		r.variables[i] = f
	}
	return f
}

func (r *reader) call(c ast.CallExpr, scope *local) flow {
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	switch name := c.FunctionName(); name {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return r.index(args, scope)
	case operators.In:
		return r.contains(args, scope)
	case operators.Conditional:
		r.consume(r.of(args[0], scope))
		return r.of(args[1], scope).or(r.of(args[2], scope))
	case "size":
		r.measure(r.each(args, scope))
	case operators.Add:
		f := r.each(args, scope)
		r.measure(f)
		f.texts, f.other = nil, f.other || len(f.texts) > 0
		return f
	case "orValue", "kyverno_orValue", "or", "value", "optional.of", "dyn":
		return r.each(args, scope)
	case "hasValue", "type":
		r.each(args, scope)
	case operators.Equals, operators.NotEquals:
		if f := r.each(args, scope); !slices.ContainsFunc(args, isNull) { // which is a type, too
			r.consume(f)
		}
	default:
		r.consume(r.each(args, scope))
		r.more = r.more || !slices.Contains(computing, name)
	}
	return computed
}

func isNull(e ast.Expr) bool {
	return e.Kind() == ast.LiteralKind && e.AsLiteral() == types.NullValue
}

// each returns the flow of any of the values.
func (r *reader) each(args []ast.Expr, scope *local) (f flow) {
	for _, a := range args {
		f = f.or(r.of(a, scope))
	}
	return f
}

// measure records that the size of a value is read: the length of a list, or all of
// another value.
func (r *reader) measure(f flow) {
	for _, p := range f.parts {
		p.Others = true
	}
}

func (r *reader) index(args []ast.Expr, scope *local) flow {
	f, key := r.of(args[0], scope), r.of(args[1], scope)
	if key.constant() {
		return f.field(key.texts...)
	}
	r.consume(key)
	return f.items()
}

// contains returns the flow of the operator in.
func (r *reader) contains(args []ast.Expr, scope *local) flow {
	key, f := r.of(args[0], scope), r.of(args[1], scope)
	if !key.constant() {
		r.consume(key)
		r.consume(f)
		return computed
	}
	f.field(key.texts...) // whether it is there always counts
	for _, p := range f.parts {
		p.Lists = true
	}
	if f.elements != nil {
		r.consume(*f.elements)
	}
	return computed
}

// fold returns the flow of a macro, whose accumulator may grow with each turn.
func (r *reader) fold(c ast.ComprehensionExpr, scope *local) flow {
	over := r.of(c.IterRange(), scope)
	turn := &local{c.IterVar(), over.items(), scope}
	if c.HasIterVar2() {
		turn = &local{c.IterVar2(), over.items(), turn}
	}
	result := r.of(c.AccuInit(), scope)
	const turns = 8
	for range turns {
		inner := &local{c.AccuVar(), result, turn}
		r.consume(r.of(c.LoopCondition(), inner))
		next := r.of(c.LoopStep(), inner)
		if result.covers(next) {
			return r.of(c.Result(), &local{c.AccuVar(), result, scope})
		}
		result = result.or(next)
	}
	r.more = true
	return flow{}
}

// computing lists functions whose value depends on their arguments alone, besides
// those of call.
var computing = []string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse,
	operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
	"bool", "bytes", "double", "int", "string", "uint", "optional.none", "optional.ofNonZeroValue",
	"contains", "endsWith", "matches", "startsWith", "charAt", "indexOf", "lastIndexOf", "join", "lowerAscii", "upperAscii",
	"replace", "split", "substring", "trim", "reverse", "format", "find", "findAll",
	"isSorted", "sum", "min", "max", "sort", "distinct", "flatten", "slice", "lists.range", "first", "last",
	"sets.contains", "sets.equivalent", "sets.intersects",
	"quantity", "isQuantity", "isInteger", "asInteger", "asApproximateFloat", "sign", "add", "sub",
	"isGreaterThan", "isLessThan", "compareTo",
}

// Key appends the parts of an object that are read to a buffer. ok is false if r is
// nil, or for a value that JSON can't hold.
func (r *Reads) Key(buffer []byte, object ref.Val) (key []byte, ok bool) {
	if r == nil {
		return buffer, false
	}
	return appendPart(buffer, r.root, object)
}

// appendPart writes each value after its type and length, so that different values have
// different texts.
func appendPart(b []byte, p *reads.Part, v ref.Val) ([]byte, bool) {
	list, isList := v.(*List)
	if p.All || isList && p.Lists || !isList && p.Others {
		return appendWhole(b, v)
	}
	ok := true
	switch v := v.(type) {
	case *Map:
		if len(v.keys) == 0 {
			return append(b, 'e'), true
		}
		b = append(b, 'm')
		for _, name := range p.Names {
			field, found := v.Lookup(name)
			if !found {
				b = append(b, '-')
				continue
			}
			if b, ok = appendPart(b, p.Fields[name], field); !ok {
				return b, false
			}
		}
		return b, true
	case *List:
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(list.elems)))
		for i := 0; p.Elements != nil && i < len(list.elems); i++ {
			if b, ok = appendPart(b, p.Elements, list.elems[i]); !ok {
				return b, false
			}
		}
		return b, true
	}
	if v == types.String("") { // comparisons cost less
		return append(b, 't'), true
	}
	kind := kindOf(v)
	return append(b, kind), kind != 0
}

// kindOf returns a letter for the type of a value; 0 for a type that JSON does not
// have.
func kindOf(v ref.Val) byte {
	switch v.(type) {
	case types.Null:
		return '0'
	case types.Bool:
		return 'b'
	case types.Int:
		return 'i'
	case types.Double:
		return 'd'
	case types.String:
		return 's'
	}
	return 0
}

func appendWhole(b []byte, v ref.Val) (_ []byte, ok bool) {
	switch v := v.(type) {
	case types.Bool:
		if v {
			return append(b, 'b', 1), true
		}
		return append(b, 'b', 0), true
	case types.Int:
		return binary.AppendVarint(append(b, 'i'), int64(v)), true
	case types.Double:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(float64(v))), true
	case types.String:
		return appendText(append(b, 's'), string(v)), true
	case *List:
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(v.elems)))
		for _, e := range v.elems {
			if b, ok = appendWhole(b, e); !ok {
				return b, false
			}
		}
		return b, true
	case *Map:
		b = binary.AppendUvarint(append(b, 'm'), uint64(len(v.keys)))
		for i, key := range v.keys {
			if b, ok = appendWhole(appendText(b, key), v.vals[i]); !ok {
				return b, false
			}
		}
		return b, true
	}
	kind := kindOf(v)
	return append(b, kind), kind != 0
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
