package rego

import (
	"slices"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxDepth bounds the chain of variables that lead to a value.
const maxDepth = 12

// reads returns the places from which the value of a term in an expression was read.
func (t *tracer) reads(f *frame, x *ast.Expr, term *ast.Term, depth int) []read {
	if depth > maxDepth {
		return nil
	}
	switch v := term.Value.(type) {
	case ast.Var:
		return t.variable(f, x, term, v, depth)
	case ast.Ref:
		return t.reference(f, x, v, depth)
	case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
		return t.comprehension(f, x)
	case *ast.Array, ast.Set, ast.Object:
		var out []read
		each(v, func(e *ast.Term) { out = append(out, t.reads(f, x, e, depth+1)...) })
		return out
	}
	return nil
}

// variable returns the places from which a variable's value was read: by the identity
// of the value, else by the expression that computed it.
func (t *tracer) variable(f *frame, x *ast.Expr, term *ast.Term, v ast.Var, depth int) []read {
	if v.Equal(ast.InputRootDocument.Value) {
		return t.reference(f, x, ast.InputRootRef, depth)
	}
	value := f.event.Plug(term)
	if place, _, ok := t.origins.of(value); ok {
		return []read{{path: place.path()}}
	}
	if g, d := t.definition(f, v); d != nil {
		if out := t.computed(g, d, term, value, depth); len(out) > 0 {
			return out
		}
	}
	if g, arg := t.argument(f, v); arg != nil {
		if out := t.reads(g, g.body[g.at], arg, depth+1); len(out) > 0 {
			return out
		}
	}
	return derived(t.elements(value))
}

// elements returns the places of the elements of a computed collection.
func (t *tracer) elements(value *ast.Term) []read {
	var out []read
	each(value.Value, func(e *ast.Term) {
		if place, _, ok := t.origins.of(e); ok && len(out) < maxReads {
			out = append(out, read{path: place.path()})
		}
	})
	return out
}

// definition returns the expression that gives a variable its value, in a body or one
// around it.
func (t *tracer) definition(f *frame, v ast.Var) (*frame, *ast.Expr) {
	if g, i, ok := t.owner(f, v); ok {
		return g, g.body[i]
	}
	return nil, nil
}

// owner returns the outermost body that has a variable, up to the rule, and the first
// expression there with it. A rule's argument has no owner.
func (t *tracer) owner(f *frame, v ast.Var) (*frame, int, bool) {
	var owner *frame
	at := 0
	for g := f; g != nil; g = g.parent {
		if i, ok := t.definitions(g)[v]; ok && i < len(g.body) && (g == f || i <= g.at) {
			owner, at = g, i
		}
		if g.rule == nil {
			continue
		}
		if slices.ContainsFunc(g.rule.Head.Args, func(a *ast.Term) bool { return a.Value.Compare(v) == 0 }) {
			return nil, 0, false
		}
		break
	}
	return owner, at, owner != nil
}

// argument returns the frame and the term that a caller passes as a rule's argument.
func (t *tracer) argument(f *frame, v ast.Var) (*frame, *ast.Term) {
	for f != nil && f.rule == nil {
		f = f.parent
	}
	if f == nil || f.parent == nil || f.parent.at >= len(f.parent.body) {
		return nil, nil
	}
	call, ok := f.parent.body[f.parent.at].Terms.([]*ast.Term)
	if !ok {
		return nil, nil
	}
	for i, a := range f.rule.Head.Args {
		if a.Value.Compare(v) == 0 && i+1 < len(call) {
			return f.parent, call[i+1]
		}
	}
	return nil, nil
}

// computed returns the reads of the expression that gave a variable its value.
func (t *tracer) computed(f *frame, x *ast.Expr, v, value *ast.Term, depth int) []read {
	terms, ok := x.Terms.([]*ast.Term)
	if !ok {
		return nil
	}
	if x.IsEquality() {
		other := terms[2]
		if terms[2].Equal(v) {
			other = terms[1]
		}
		return t.narrowed(f, v, t.reads(f, x, other, depth+1))
	}
	switch name := t.operator(x); {
	case name == "object.get" && len(terms) == 5:
		return t.objectGet(f, x, terms, depth)
	case name == "minus" && len(terms) == 4:
		return t.difference(f, x, terms, value, depth)
	case name == "walk":
		return nil
	}
	if out, isUser := t.entered(f, x, terms); isUser {
		out = derived(demoted(out, rankAssigned))
		return append(out, t.under(f, x, terms[1:len(terms)-1], depth)...)
	}
	return t.under(f, x, terms[1:len(terms)-1], depth)
}

// under returns the places from which the operands of a call were read.
func (t *tracer) under(f *frame, x *ast.Expr, operands []*ast.Term, depth int) []read {
	var out []read
	for _, o := range operands {
		out = append(out, t.reads(f, x, o, depth+1)...)
	}
	return derived(merge(out))
}

// objectGet returns the place that object.get(object, key, default) read.
func (t *tracer) objectGet(f *frame, x *ast.Expr, terms []*ast.Term, depth int) []read {
	var keys []string
	key := f.event.Plug(terms[2])
	if path, ok := key.Value.(*ast.Array); ok {
		path.Foreach(func(k *ast.Term) { keys = append(keys, plainKey(k.Value)) })
	} else {
		keys = []string{plainKey(key.Value)}
	}
	out := t.reads(f, x, terms[1], depth+1)
	for i := range out {
		out[i] = t.below(out[i], keys)
	}
	return out
}

// below returns the read of a path below r, unless the value there is a scalar.
func (t *tracer) below(r read, keys []string) read {
	if at := t.origins.find(r.path); r.derived || len(keys) == 0 || at != nil && ast.IsScalar(at.Value) {
		return r
	}
	r.path = append(slices.Clip(r.path), keys...)
	r.missing = !t.origins.exists(r.path)
	return r
}

// reference returns the place that a reference leads to, or the place of the steps
// before the first unknown one.
func (t *tracer) reference(f *frame, x *ast.Expr, ref ast.Ref, depth int) []read {
	if isData(ref) {
		return t.rule(f, x, ref)
	}
	if ref[0].Equal(ast.InputRootDocument) {
		return t.fromInput(f, ref)
	}
	head := t.reads(f, x, ref[0], depth+1)
	at := f.event.Plug(ref[0])
	if place, _, ok := t.origins.of(stepped(f, at, ref[1:])); ok {
		return append(tested(head), read{path: place.path()})
	}
	if _, isSet := at.Value.(ast.Set); isSet {
		return head
	}
	keys := t.keys(f, ref[1:])
	for i, r := range head {
		if r.rank == rankUsed {
			head[i] = t.below(r, keys)
		}
	}
	return head
}

// stepped returns the value that the known steps of a reference lead to, or null.
func stepped(f *frame, t *ast.Term, steps []*ast.Term) *ast.Term {
	for _, s := range steps {
		s = f.event.Plug(s)
		var next *ast.Term
		switch v := t.Value.(type) {
		case ast.Object:
			next = v.Get(s)
		case *ast.Array:
			next = v.Get(s)
		case ast.Set:
			next = element(v, s)
		}
		if next == nil {
			return ast.InternedNullTerm
		}
		t = next
	}
	return t
}

// element returns the set's own element that equals a term, or nil.
func element(s ast.Set, t *ast.Term) *ast.Term {
	for _, e := range s.Slice() {
		if e.Equal(t) {
			return e
		}
	}
	return nil
}

// fromInput returns the place of a reference to input, which a "with" may have
// replaced.
func (t *tracer) fromInput(f *frame, ref ast.Ref) []read {
	keys := t.keys(f, ref[1:])
	input := f.event.Input()
	if input == nil {
		return nil
	}
	if place, _, ok := t.origins.of(input); ok {
		return []read{t.below(read{path: place.path()}, keys)}
	}
	for n := len(keys); n > 0; n-- {
		if place, _, ok := t.origins.of(descend(input, keys[:n])); ok {
			return []read{t.below(read{path: place.path()}, keys[n:])}
		}
	}
	return nil
}

// keys returns the steps of a reference up to the first unknown one.
func (t *tracer) keys(f *frame, steps []*ast.Term) []string {
	var out []string
	for _, s := range steps {
		switch v := f.event.Plug(s).Value.(type) {
		case ast.String:
			out = append(out, string(v))
		case ast.Number:
			out = append(out, string(v))
		default:
			return out
		}
	}
	return out
}

// descend returns the value at keys below a term, or null.
func descend(t *ast.Term, keys []string) *ast.Term {
	for _, k := range keys {
		var next *ast.Term
		switch v := t.Value.(type) {
		case ast.Object:
			next = v.Get(ast.StringTerm(k))
		case *ast.Array:
			if i, err := strconv.Atoi(k); err == nil && i >= 0 && i < v.Len() {
				next = v.Elem(i)
			}
		}
		if next == nil {
			return ast.InternedNullTerm
		}
		t = next
	}
	return t
}

// defines reports whether the expression gives a variable its value.
func (t *tracer) defines(f *frame, x *ast.Expr, v ast.Var) bool {
	g, i, ok := t.owner(f, v)
	return ok && g == f && i == x.Index
}

// definitions returns the first expression of a body for each of its variables,
// except the rule's arguments and variables of bodies around it.
func (t *tracer) definitions(f *frame) map[ast.Var]int {
	if len(f.body) == 0 {
		return nil
	}
	if f.rule != nil {
		if d, ok := t.rules.Load(f.rule); ok {
			return d.(map[ast.Var]int)
		}
		d := firstSeen(f.body)
		t.rules.Store(f.rule, d)
		return d
	}
	d, ok := t.defs[f.body[0]]
	if !ok {
		d = firstSeen(f.body)
		t.defs[f.body[0]] = d
	}
	return d
}

func firstSeen(body ast.Body) map[ast.Var]int {
	d := map[ast.Var]int{}
	for i, x := range body {
		for v := range x.Vars(ast.VarVisitorParams{SkipClosures: true, SkipRefCallHead: true}) {
			if _, ok := d[v]; !ok {
				d[v] = i
			}
		}
	}
	return d
}

// rule returns the reads of a reference to a rule: the places of its value and the
// reasons why the rule holds. Of a set, only the referenced element counts.
func (t *tracer) rule(f *frame, x *ast.Expr, ref ast.Ref) []read {
	var out []read
	for _, c := range t.children(f, x) {
		if c.rule == nil {
			continue
		}
		head := c.rule.Ref().GroundPrefix()
		if !ref.HasPrefix(head) {
			continue
		}
		steps := ref[len(head):]
		for _, e := range c.exits {
			if c.rule.Head.RuleKind() == ast.MultiValue && len(steps) > 0 && !same(f.event.Plug(steps[0]), e.value) {
				continue
			}
			out = append(out, derived(tested(e.reads))...)
			out = append(out, t.value(f, c.rule, e.value, steps)...)
		}
	}
	if !slices.ContainsFunc(t.children(f, x), func(c *frame) bool { return len(c.exits) > 0 && !c.isDefault() }) {
		for _, c := range t.children(f, x) {
			out = append(out, c.why()...)
		}
	}
	return merge(out)
}

// isDefault reports whether the body is a rule's default, which applies because all
// others failed.
func (f *frame) isDefault() bool { return f.rule != nil && f.rule.Default }

// value returns the places of a rule's value, as far down as the steps lead.
func (t *tracer) value(f *frame, rule *ast.Rule, value *ast.Term, steps ast.Ref) []read {
	if rule.Head.RuleKind() == ast.MultiValue && len(steps) > 0 {
		steps = steps[1:]
	}
	keys := t.keys(f, steps)
	for n := len(keys); n >= 0; n-- {
		if place, _, ok := t.origins.of(descend(value, keys[:n])); ok {
			return []read{t.below(read{path: place.path()}, keys[n:])}
		}
	}
	return t.elements(value)
}

// same reports whether a step may select an element.
func same(step, element *ast.Term) bool {
	return !step.IsGround() || step.Equal(element)
}

// comprehension returns the reads by which the comprehensions of an expression have
// their elements, or have none.
func (t *tracer) comprehension(f *frame, x *ast.Expr) []read {
	var out []read
	for _, c := range t.children(f, x) {
		if c.rule != nil {
			continue
		}
		for _, e := range c.exits {
			if r := derived(tested(e.reads)); useful(r) {
				out = append(out, r...)
			} else {
				out = append(out, e.reads...)
			}
		}
		if len(c.exits) == 0 {
			out = append(out, c.why()...)
		}
	}
	return derived(merge(out))
}
