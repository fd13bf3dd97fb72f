package rego

import (
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// A tracer watches an evaluation and keeps of each body that is being
// evaluated what made its expressions succeed or fail: places of the input.
// They are found at once, while the evaluator still knows what its variables
// stand for, and handed up from the bodies of helpers, negations and
// comprehensions to the expressions they belong to.
type tracer struct {
	origins *origins
	frames  []*frame // by the identifier of their query
	wanted  []ast.Value
	found   [][]read
	from    []*ast.Rule // the definition that gave each first
	budget  int         // how many more successes and failures are looked into
	defs    map[*ast.Expr]map[ast.Var]int
	rules   *sync.Map            // of *ast.Rule: the same of rules' bodies, which stay
	names   map[*ast.Expr]string // operators
}

// A frame is one evaluation of a body.
type frame struct {
	event  bindings
	parent *frame
	rule   *ast.Rule // nil for a negation, comprehension or every
	every  bool      // it goes through the domain of an every
	exact  bool      // what depends on it depends on how it succeeds alone
	body   ast.Body
	at     int // the expression that is evaluated
	slots  []slot
	fails  []failure
	exits  []exit
}

// A slot is what the evaluation of an expression entered, since it was last
// begun.
type slot struct{ children []*frame }

// A failure is why an expression failed.
type failure struct {
	index  int
	reads  []read
	before []read // what came before it read, where its own reads tell nothing
}

// An exit is the result of a body, with its reasons.
type exit struct {
	value *ast.Term // of a rule: its element or value
	reads []read
}

// maxLooks bounds how much of an evaluation is looked into.
const maxLooks = 100_000

func newTracer(o *origins, wanted []ast.Value) *tracer {
	return &tracer{
		origins: o, wanted: wanted, found: make([][]read, len(wanted)), from: make([]*ast.Rule, len(wanted)),
		budget: maxLooks, defs: map[*ast.Expr]map[ast.Var]int{}, names: map[*ast.Expr]string{},
	}
}

func (t *tracer) Enabled() bool { return true }

func (t *tracer) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

func (t *tracer) TraceEvent(e topdown.Event) {
	switch e.Op {
	case topdown.EnterOp:
		t.enter(e.Node, e.QueryID, e.ParentID, &e)
	case topdown.EvalOp:
		t.eval(e.QueryID, expression(e))
	case topdown.RedoOp:
		t.redo(e.QueryID, expression(e))
	case topdown.FailOp:
		t.fail(e.QueryID, expression(e))
	case topdown.ExitOp:
		t.exit(e.QueryID)
	}
}

// bindings give the values of an evaluation's variables.
type bindings interface {
	Plug(*ast.Term) *ast.Term
	Input() *ast.Term
}

// enter begins a body. The query that it is part of is its parent, but for the first.
func (t *tracer) enter(node ast.Node, query, parent uint64, b bindings) {
	f := &frame{event: b}
	switch n := node.(type) {
	case *ast.Rule:
		f.rule, f.body = n, n.Body
	case ast.Body:
		f.body = n
	case *ast.Expr: // an every, whose domain has a body of one expression
		f.body, f.every = ast.Body{n}, true
	}
	if p := t.frame(parent); p != nil && parent != query {
		f.parent = p
		s := p.slot(p.at)
		s.children = append(s.children, f)
	}
	f.exact = f.parent == nil || f.isAnswer() || f.parent.exact && f.parent.needs(f.rule)
	for uint64(len(t.frames)) <= query {
		t.frames = append(t.frames, nil)
	}
	t.frames[query] = f
}

// frame is that of a query, or nil.
func (t *tracer) frame(query uint64) *frame {
	if query < uint64(len(t.frames)) {
		return t.frames[query]
	}
	return nil
}

// isExact reports whether the tracer ignores why a query's expressions fail.
func (t *tracer) isExact(query uint64) bool { return t.frame(query).exact }

// needs says whether the expression that is evaluated can't hold unless the rule
// does: it calls it, or goes through its elements.
func (f *frame) needs(rule *ast.Rule) bool {
	if rule == nil || f.at >= len(f.body) || f.body[f.at].Negated {
		return false
	}
	var operands []*ast.Term
	switch terms := f.body[f.at].Terms.(type) {
	case *ast.Term:
		operands = []*ast.Term{terms}
	case []*ast.Term:
		operands = terms[1:]
	default:
		return false
	}
	for _, o := range operands {
		switch v := o.Value.(type) {
		case ast.Var, ast.String, ast.Number, ast.Boolean, ast.Null:
		case ast.Ref:
			inner := slices.ContainsFunc(v[1:], func(s *ast.Term) bool { _, ok := s.Value.(ast.Ref); return ok })
			if inner || isData(v) && rule.Head.RuleKind() != ast.MultiValue {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// isAnswer says whether a frame is of a definition that the query asks for: its
// elements are the answer.
func (f *frame) isAnswer() bool {
	return f.rule != nil && f.parent != nil && f.parent.parent == nil && f.parent.rule == nil
}

// slot is that of an expression of the body.
func (f *frame) slot(i int) *slot {
	for len(f.slots) <= i {
		f.slots = append(f.slots, slot{})
	}
	return &f.slots[i]
}

func (t *tracer) eval(query uint64, x *ast.Expr) {
	f := t.frame(query)
	if f == nil || x == nil {
		return
	}
	f.at = x.Index
	for i := x.Index; i < len(f.slots); i++ {
		f.slots[i].children = nil
	}
}

// redo goes back to an expression: what is entered next belongs to it.
func (t *tracer) redo(query uint64, x *ast.Expr) {
	if f := t.frame(query); f != nil && x != nil {
		f.at = x.Index
	}
}

func (t *tracer) fail(query uint64, x *ast.Expr) {
	f := t.frame(query)
	if f == nil || x == nil || f.every || t.budget <= 0 {
		return
	}
	f.at = x.Index
	if f.exact {
		return
	}
	t.budget--
	if reads := t.failed(f, x); len(reads) > 0 && len(f.fails) < maxReads {
		f.fails = append(f.fails, failure{x.Index, reads, t.before(f, x, reads)})
	}
}

func (t *tracer) exit(query uint64) {
	f := t.frame(query)
	if f == nil || f.every || f.parent == nil || t.budget <= 0 {
		return
	}
	t.budget--
	x := exit{reads: t.succeeded(f)}
	if f.rule != nil {
		x.value = f.event.Plug(headValue(f.rule))
	}
	if len(f.exits) < maxReads {
		f.exits = append(f.exits, x)
	}
	if f.isAnswer() {
		t.answer(f.rule, x)
	}
}

// answer keeps the reads that an element of the query's answer depends on.
func (t *tracer) answer(r *ast.Rule, x exit) {
	for i, w := range t.wanted {
		if x.value.Value.Compare(w) == 0 || holds(x.value.Value, w) {
			t.found[i] = append(t.found[i], x.reads...)
			if t.from[i] == nil {
				t.from[i] = r
			}
		}
	}
}

// holds says whether a rule's value is a collection with an element.
func holds(collection, element ast.Value) bool {
	switch c := collection.(type) {
	case ast.Set:
		return c.Contains(ast.NewTerm(element))
	case *ast.Array:
		return c.Until(func(t *ast.Term) bool { return t.Value.Compare(element) == 0 })
	}
	return false
}

// headValue is the term of a rule that becomes its element or value.
func headValue(r *ast.Rule) *ast.Term {
	if r.Head.RuleKind() == ast.MultiValue {
		return r.Head.Key
	}
	return r.Head.Value
}

func expression(e topdown.Event) *ast.Expr {
	x, _ := e.Node.(*ast.Expr)
	return x
}

// forgetful is a cache of rules' values that remembers none: a helper that is
// asked again must show again what it reads.
type forgetful struct{}

func (forgetful) Push()                         {}
func (forgetful) Pop()                          {}
func (forgetful) Get(ast.Ref) (*ast.Term, bool) { return nil, false }
func (forgetful) Put(ast.Ref, *ast.Term)        {}
func (forgetful) Keys() []ast.Ref               { return nil }
