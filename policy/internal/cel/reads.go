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
	r := &reader{root: &reads.Part{}, names: names, variable: variable, variables: map[int]reads.Flow{}, left: maxRead}
	for _, a := range expressions {
		if a != nil {
			r.of(a.NativeRep().Expr(), nil).Consume()
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
	variables map[int]reads.Flow
	more      bool // something else is read
	left      int  // expressions that may still be visited; those in nested macros are several times
}

// maxRead bounds the expressions that are visited.
const maxRead = 20_000

// computed is a value that shares nothing with the object.
var computed = reads.Flow{Other: true}

// covers reports whether g adds nothing to f.
func covers(f, g reads.Flow) bool {
	return len(reads.Union(f.Parts, g.Parts)) == len(f.Parts) && len(reads.Union(f.Texts, g.Texts)) == len(f.Texts) && (f.Other || !g.Other) &&
		(g.Elements == nil || f.Elements != nil && covers(*f.Elements, *g.Elements))
}

// each returns the part for the elements. A map is read whole if its elements are.
func each(p *reads.Part) *reads.Part {
	p.Others = true
	return p.Each()
}

// items returns the flow of a value's elements.
func items(f reads.Flow) reads.Flow {
	e := reads.Flow{Other: f.Other}
	for _, p := range f.Parts {
		e.Parts = append(e.Parts, each(p))
	}
	if f.Elements != nil {
		e = e.Or(*f.Elements)
	}
	return e
}

// field returns the flow of a value's fields of these names.
func field(f reads.Flow, names ...string) reads.Flow {
	e := reads.Flow{Other: f.Other || f.Elements != nil}
	if f.Elements != nil { // the field is an index of it
		e = e.Or(*f.Elements)
	}
	for _, p := range f.Parts {
		for _, name := range names {
			e.Parts = append(e.Parts, p.Field(name))
		}
	}
	return e
}

// constant reports whether a value is one of the texts.
func constant(f reads.Flow) bool {
	return len(f.Texts) > 0 && len(f.Parts) == 0 && f.Elements == nil && !f.Other
}

// A local is a variable of a macro.
type local struct {
	name  string
	value reads.Flow
	outer *local
}

func (l *local) find(name string) (reads.Flow, bool) {
	for ; l != nil; l = l.outer {
		if l.name == name {
			return l.value, true
		}
	}
	return reads.Flow{}, false
}

// of returns the flow of an expression's value, and records the parts of the object that
// the expression reads.
func (r *reader) of(e ast.Expr, scope *local) reads.Flow {
	if r.left--; r.left < 0 {
		r.more = true
	}
	if r.more {
		return reads.Flow{}
	}
	switch e.Kind() {
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().(types.String); ok {
			return reads.Flow{Texts: []string{string(s)}}
		}
		return computed
	case ast.IdentKind:
		return r.ident(e.AsIdent(), scope)
	case ast.SelectKind:
		return r.selected(e.AsSelect(), scope)
	case ast.CallKind:
		return r.call(e.AsCall(), scope)
	case ast.ListKind:
		var elements reads.Flow
		for _, x := range e.AsList().Elements() {
			elements = elements.Or(r.of(x, scope))
		}
		return reads.Flow{Elements: &elements}
	case ast.MapKind:
		for _, x := range e.AsMap().Entries() {
			r.of(x.AsMapEntry().Key(), scope).Consume()
			r.of(x.AsMapEntry().Value(), scope).Consume()
		}
		return computed
	case ast.ComprehensionKind:
		return r.fold(e.AsComprehension(), scope)
	}
	r.more = true
	return reads.Flow{}
}

func (r *reader) ident(name string, scope *local) reads.Flow {
	if f, ok := scope.find(name); ok {
		return f
	}
	if name == "object" {
		return reads.Flow{Parts: []*reads.Part{r.root}}
	}
	r.more = r.more || !slices.Contains(typeNames, name)
	return computed
}

var typeNames = []string{"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"}

func (r *reader) selected(s ast.SelectExpr, scope *local) reads.Flow {
	if o := s.Operand(); o.Kind() == ast.IdentKind && o.AsIdent() == variablesRoot {
		if _, shadowed := scope.find(variablesRoot); !shadowed && !s.IsTestOnly() {
			return r.composited(s.FieldName())
		}
	}
	f := field(r.of(s.Operand(), scope), s.FieldName())
	if s.IsTestOnly() {
		return computed
	}
	return f
}

// composited returns the flow of a variable of the policy.
func (r *reader) composited(name string) reads.Flow {
	i, ok := r.names.Index(name)
	if !ok || r.variable(i) == nil {
		r.more = true
		return reads.Flow{}
	}
	f, known := r.variables[i]
	if !known {
		r.variables[i] = reads.Flow{} // of one that reads itself, which is an error wherever it is read
		f = r.of(r.variable(i).NativeRep().Expr(), nil)
		r.variables[i] = f
	}
	return f
}

func (r *reader) call(c ast.CallExpr, scope *local) reads.Flow {
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
		r.of(args[0], scope).Consume()
		return r.of(args[1], scope).Or(r.of(args[2], scope))
	case "size":
		r.measure(r.each(args, scope))
	case operators.Add:
		f := r.each(args, scope)
		r.measure(f)
		f.Texts, f.Other = nil, f.Other || len(f.Texts) > 0
		return f
	case "orValue", "kyverno_orValue", "or", "value", "optional.of", "dyn":
		return r.each(args, scope)
	case "hasValue", "type":
		r.each(args, scope)
	case operators.Equals, operators.NotEquals:
		if f := r.each(args, scope); !slices.ContainsFunc(args, isNull) { // which is a type, too
			f.Consume()
		}
	default:
		r.each(args, scope).Consume()
		r.more = r.more || !slices.Contains(computing, name)
	}
	return computed
}

func isNull(e ast.Expr) bool {
	return e.Kind() == ast.LiteralKind && e.AsLiteral() == types.NullValue
}

// each returns the flow of any of the values.
func (r *reader) each(args []ast.Expr, scope *local) (f reads.Flow) {
	for _, a := range args {
		f = f.Or(r.of(a, scope))
	}
	return f
}

// measure records that the size of a value is read: the length of a list, or all of
// another value.
func (r *reader) measure(f reads.Flow) {
	for _, p := range f.Parts {
		p.Others = true
	}
}

func (r *reader) index(args []ast.Expr, scope *local) reads.Flow {
	f, key := r.of(args[0], scope), r.of(args[1], scope)
	if constant(key) {
		return field(f, key.Texts...)
	}
	key.Consume()
	return items(f)
}

// contains returns the flow of the operator in.
func (r *reader) contains(args []ast.Expr, scope *local) reads.Flow {
	key, f := r.of(args[0], scope), r.of(args[1], scope)
	if !constant(key) {
		key.Consume()
		f.Consume()
		return computed
	}
	field(f, key.Texts...) // whether it is there always counts
	for _, p := range f.Parts {
		p.Lists = true
	}
	if f.Elements != nil {
		f.Elements.Consume()
	}
	return computed
}

// fold returns the flow of a macro, whose accumulator may grow with each turn.
func (r *reader) fold(c ast.ComprehensionExpr, scope *local) reads.Flow {
	over := r.of(c.IterRange(), scope)
	turn := &local{c.IterVar(), items(over), scope}
	if c.HasIterVar2() {
		turn = &local{c.IterVar2(), items(over), turn}
	}
	result := r.of(c.AccuInit(), scope)
	const turns = 8
	for range turns {
		inner := &local{c.AccuVar(), result, turn}
		r.of(c.LoopCondition(), inner).Consume()
		next := r.of(c.LoopStep(), inner)
		if covers(result, next) {
			return r.of(c.Result(), &local{c.AccuVar(), result, scope})
		}
		result = result.Or(next)
	}
	r.more = true
	return reads.Flow{}
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
	if m, ok := object.(*Map); ok && m.typed {
		buffer = append(buffer, 't')
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
