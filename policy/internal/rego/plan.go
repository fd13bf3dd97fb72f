package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// A plan is the compiled rules of a query in the form that a machine evaluates.
// It is read-only.
type plan struct {
	documents []*virtual // of the query
	several   bool       // the answer is the array of their values
	cached    int        // the size of machine.values
	traceable bool       // a machine can trace it as OPA's evaluator does
	prints    bool       // a rule calls print()
}

// A virtual document is the rules that define one value or function below data.
type virtual struct {
	rules    []*definition
	fallback *definition // the default, or nil
	isSet    bool
	early    bool // OPA's evaluator stops at the first definition that holds
	index    int  // in machine.values
	depends  bool // on the input or data, besides arguments
	results  results
}

// A definition is one rule of a document.
type definition struct {
	rule       *ast.Rule
	names      map[ast.Var]int // the slots of its variables
	args       []operand
	key, value operand
	body       *body
	elses      []*definition // tried in turn if the rule is undefined
}

// A body is expressions that must all hold.
type body struct {
	node  ast.Body
	boxed ast.Node // node, as events have it
	steps []step
}

// A step is an expression of a body.
type step struct {
	expr     *ast.Expr
	operands []operand // of an equality, a call (with its output), or the one term
	inner    *body     // of a negation
	function *virtual  // that is called
	builtin  *ast.Builtin
	call     topdown.BuiltinFunc
	isNot    bool // inner is that of a not with a body of its own
}

// An operand is a term of an expression.
type operand struct {
	term      *ast.Term
	kind      operandKind
	slot      int        // of a variable
	reference *reference // of a reference
	made      *comprehension
	parts     []operand // of a collection; an object's keys and values in turn
}

type operandKind int8

const (
	constant operandKind = iota
	variable
	referring
	comprehended
	collection
)

// A reference is a path below the input, a document, other data, or a variable.
type reference struct {
	document *virtual // nil: the value of a slot, or of the input or data
	root     rootKind
	slot     int
	steps    []operand
}

type rootKind int8

const (
	ofSlot rootKind = iota
	ofInput
	ofData
	ofDocument
)

// A comprehension makes a collection of the solutions of a body.
type comprehension struct {
	body       *body
	key, value operand
	kind       ast.Value // an empty *ast.Array, ast.Set or ast.Object
}

// A planner makes a plan of a program's rules.
type planner struct {
	compiler  *ast.Compiler
	plan      *plan
	documents map[*ast.TreeNode]*virtual
	names     map[ast.Var]int // of the rule that is planned
	depends   bool            // the planned term depends on the input or data
	failed    bool
}

// newPlan returns nil if OPA's evaluator is needed.
func newPlan(c *ast.Compiler, refs []ast.Ref, several bool) *plan {
	p := &planner{compiler: c, plan: &plan{several: several, traceable: true}, documents: map[*ast.TreeNode]*virtual{}}
	for _, ref := range refs {
		d, rest := p.document(ref)
		if d == nil || len(rest) > 0 || p.failed {
			return nil
		}
		p.plan.documents = append(p.plan.documents, d)
	}
	return p.plan
}

func (p *planner) fail() { p.failed = true }

// document returns the rules at the front of a reference to data, and the rest of the
// reference. It returns nil if there are none.
func (p *planner) document(ref ast.Ref) (*virtual, ast.Ref) {
	node := p.compiler.RuleTree.Child(ref[0].Value)
	for i := 1; i < len(ref) && node != nil; i++ {
		if !ast.IsConstant(ref[i].Value) {
			p.fail()
			return nil, nil
		}
		if node = node.Child(ref[i].Value); node != nil && len(node.Values) > 0 {
			return p.define(node, ref[:i+1]), ref[i+1:]
		}
	}
	if node != nil {
		p.fail() // all of a package
	}
	return nil, nil
}

// define plans the rules of a node.
func (p *planner) define(node *ast.TreeNode, ref ast.Ref) *virtual {
	if d := p.documents[node]; d != nil {
		p.depends = p.depends || d.depends
		return d
	}
	outer := p.depends
	p.depends = false
	d := &virtual{index: p.plan.cached}
	defer func() {
		d.depends = p.depends
		p.depends = p.depends || outer
	}()
	p.plan.cached++
	p.documents[node] = d
	index := p.compiler.RuleIndex(ref)
	if index == nil || len(node.Children) > 0 || node.External != nil {
		p.fail()
		return d
	}
	all, err := index.AllRules(nil)
	if err != nil || !all.OnlyGroundRefs || slices.ContainsFunc(all.Rules, func(r *ast.Rule) bool { return len(r.Ref()) != len(ref) }) {
		p.fail()
		return d
	}
	d.isSet, d.early = all.Kind == ast.MultiValue, all.EarlyExit
	for _, r := range all.Rules {
		def := p.definition(r)
		for _, other := range all.Else[r] {
			def.elses = append(def.elses, p.definition(other))
		}
		d.rules = append(d.rules, def)
	}
	if all.Default != nil {
		d.fallback = p.definition(all.Default)
	}
	return d
}

func (p *planner) definition(r *ast.Rule) *definition {
	outer := p.names
	p.names = map[ast.Var]int{}
	d := &definition{rule: r, names: p.names}
	for _, a := range r.Head.Args {
		d.args = append(d.args, p.pattern(a))
	}
	if r.Head.RuleKind() == ast.MultiValue {
		d.key = p.pattern(r.Head.Key)
	} else {
		d.value = p.pattern(r.Head.Value)
	}
	d.body = p.body(r.Body)
	p.names = outer
	return d
}

func (p *planner) body(b ast.Body) *body {
	out := &body{node: b, boxed: b}
	for _, e := range b {
		if p.failed {
			break
		}
		out.steps = append(out.steps, p.step(e))
	}
	return out
}

func (p *planner) step(e *ast.Expr) step {
	s := step{expr: e}
	if len(e.With) > 0 {
		p.fail()
		return s
	}
	if e.Negated {
		s.inner = p.body(ast.NewBody(e.ComplementNoWith()))
		return s
	}
	switch terms := e.Terms.(type) {
	case *ast.Term:
		s.operands = []operand{p.operand(terms)}
	case []*ast.Term:
		p.calls(&s, terms)
	case *ast.Not:
		s.inner, s.isNot = p.body(terms.Body), true
	default:
		p.fail()
	}
	return s
}

// calls plans an equality or a call.
func (p *planner) calls(s *step, terms []*ast.Term) {
	ref, ok := terms[0].Value.(ast.Ref)
	if !ok {
		p.fail()
		return
	}
	equality := s.expr.IsEquality()
	for _, t := range terms[1:] {
		o := p.operand(t)
		if !equality && (o.kind == referring || o.kind == comprehended) {
			p.fail()
		}
		s.operands = append(s.operands, o)
	}
	switch {
	case equality:
	case isData(ref):
		if s.function, _ = p.document(ref); s.function == nil {
			p.fail()
		}
	default:
		p.callsBuiltin(s, ref.String())
	}
}

func (p *planner) callsBuiltin(s *step, name string) {
	p.plan.prints = p.plan.prints || name == "internal.print"
	if own := ownBuiltins[name]; own != nil || timed[name] != nil {
		p.depends = true
	}
	if own := ownBuiltins[name]; own != nil {
		s.builtin, s.call = own.Decl, own.Func
	} else {
		s.builtin, s.call = ast.BuiltinMap[name], topdown.GetBuiltin(name)
	}
	if s.builtin == nil || s.call == nil {
		p.fail()
	}
}

// pattern returns the operand of a term that needs no evaluation.
func (p *planner) pattern(t *ast.Term) operand {
	o := p.operand(t)
	if o.kind == referring || o.kind == comprehended {
		p.fail()
	}
	return o
}

func (p *planner) slot(v ast.Var) int {
	i, ok := p.names[v]
	if !ok {
		i = len(p.names)
		p.names[v] = i
	}
	return i
}

func (p *planner) operand(t *ast.Term) operand {
	o := operand{term: t}
	switch v := t.Value.(type) {
	case ast.Var:
		if t.Equal(ast.InputRootDocument) || t.Equal(ast.DefaultRootDocument) {
			p.fail()
		}
		o.kind, o.slot = variable, p.slot(v)
	case ast.Ref:
		o.kind, o.reference = referring, p.reference(v)
	case *ast.ArrayComprehension:
		o.kind, o.made = comprehended, p.comprehension(t, v.Body, nil, v.Term, ast.InternedEmptyArrayValue)
	case *ast.SetComprehension:
		o.kind, o.made = comprehended, p.comprehension(t, v.Body, nil, v.Term, ast.InternedEmptySet.Value)
	case *ast.ObjectComprehension:
		o.kind, o.made = comprehended, p.comprehension(t, v.Body, v.Key, v.Value, ast.InternedEmptyObject.Value)
	case *ast.Array, ast.Set, ast.Object:
		if !ast.IsConstant(v) {
			o.kind, o.parts = collection, p.parts(v)
		}
	case ast.Null, ast.Boolean, ast.Number, ast.String:
	default:
		p.fail()
	}
	return o
}

// parts returns the operands of a collection.
func (p *planner) parts(v ast.Value) []operand {
	var out []operand
	switch v := v.(type) {
	case ast.Object:
		v.Foreach(func(k, t *ast.Term) { out = append(out, p.pattern(k), p.pattern(t)) })
	default:
		each(v, func(t *ast.Term) { out = append(out, p.pattern(t)) })
	}
	return out
}

func (p *planner) comprehension(t *ast.Term, b ast.Body, key, value *ast.Term, kind ast.Value) *comprehension {
	if p.compiler.ComprehensionIndex(t) != nil {
		p.plan.traceable = false // OPA evaluates it once for all keys
	}
	c := &comprehension{kind: kind}
	if key != nil {
		c.key = p.pattern(key)
	}
	c.value = p.pattern(value)
	c.body = p.body(b)
	return c
}

func (p *planner) reference(ref ast.Ref) *reference {
	r, steps := &reference{}, ref[1:]
	switch head, isVar := ref[0].Value.(ast.Var); {
	case !isVar:
		p.fail()
	case ref[0].Equal(ast.InputRootDocument):
		r.root, p.depends = ofInput, true
	case isData(ref):
		r.root = ofData
		p.depends = p.depends || !p.startsRules(ref)
		if p.startsRules(ref) {
			r.root = ofDocument
			r.document, steps = p.document(ref)
			if r.document == nil {
				p.fail()
			}
		}
	default:
		r.slot = p.slot(head)
	}
	for _, s := range steps {
		r.steps = append(r.steps, p.pattern(s))
	}
	return r
}

// startsRules reports whether a reference to data may reach rules.
func (p *planner) startsRules(ref ast.Ref) bool {
	node := p.compiler.RuleTree.Child(ref[0].Value)
	for _, s := range ref[1:] {
		if node == nil {
			return false
		}
		if len(node.Values) > 0 || !ast.IsConstant(s.Value) {
			return true
		}
		node = node.Child(s.Value)
	}
	return node != nil
}
