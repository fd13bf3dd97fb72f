package rego

import (
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// A tracer watches an evaluation and records the places of the input that make each
// expression of the current bodies succeed or fail. It finds them at once, while
// variables are bound. The reads of helpers, negations and comprehensions are passed
// up to the expressions that contain them.
type tracer struct {
	origins *origins
	frames  []*frame // by the identifier of their query
	wanted  []ast.Value
	found   [][]read
	from    []*ast.Rule // the definition that gave each first
	budget  int         // how many more successes and failures are examined
	defs    map[*ast.Expr]map[ast.Var]int
	rules   *sync.Map            // of *ast.Rule: defs of rules' bodies, for all evaluations
	names   map[*ast.Expr]string // operators
}

// A frame is one evaluation of a body.
type frame struct {
	event  bindings
	parent *frame
	rule   *ast.Rule // nil for a negation, comprehension or every
	every  bool      // it goes through the domain of an every
	exact  bool      // only its successes matter, not its failures
	body   ast.Body
	at     int // the expression that is evaluated
	slots  []slot
	fails  []failure
	exits  []exit
}

// A slot holds the bodies entered since an expression was last begun.
type slot struct{ children []*frame }

// A failure is why an expression failed.
type failure struct {
	index  int
	reads  []read
	before []read // reads of the expressions before, if its own are not useful
}

// An exit is the result of a body, with its reasons.
type exit struct {
	value *ast.Term // of a rule: its element or value
	reads []read
}

// maxLooks bounds the successes and failures that are examined.
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

// bindings give the values of variables.
type bindings interface {
	Plug(*ast.Term) *ast.Term
	Input() *ast.Term
}

// enter begins a body. Its parent is the query that contains it; the first has none.
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

// frame returns the frame of a query, or nil.
func (t *tracer) frame(query uint64) *frame {
	if query < uint64(len(t.frames)) {
		return t.frames[query]
	}
	return nil
}

// isExact reports whether the tracer ignores why a query's expressions fail.
func (t *tracer) isExact(query uint64) bool { return t.frame(query).exact }

// needs reports whether the current expression can't hold unless the rule does,
// because it calls the rule or goes through its elements.
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

// isAnswer reports whether a frame evaluates a definition of the query's document,
// whose elements are the answer.
func (f *frame) isAnswer() bool {
	return f.rule != nil && f.parent != nil && f.parent.parent == nil && f.parent.rule == nil
}

// slot returns the slot of an expression of the body.
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

// redo goes back to an expression: bodies entered next belong to it.
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

// answer records the reads of the wanted elements of the query's answer.
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

// holds reports whether a collection contains an element.
func holds(collection, element ast.Value) bool {
	switch c := collection.(type) {
	case ast.Set:
		return c.Contains(ast.NewTerm(element))
	case *ast.Array:
		return c.Until(func(t *ast.Term) bool { return t.Value.Compare(element) == 0 })
	}
	return false
}

// headValue returns the term of a rule that becomes its element or value.
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

// noCache is a cache that stores nothing, so that the reads of a helper are seen each
// time that it is called.
type noCache struct{}

func (noCache) Push()                         {}
func (noCache) Pop()                          {}
func (noCache) Get(ast.Ref) (*ast.Term, bool) { return nil, false }
func (noCache) Put(ast.Ref, *ast.Term)        {}
func (noCache) Keys() []ast.Ref               { return nil }
