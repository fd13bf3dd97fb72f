package rego

import (
	"regexp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// succeeded returns the reads that make a body true.
func (t *tracer) succeeded(f *frame) []read {
	reads := make([][]read, len(f.body))
	for i, x := range f.body {
		reads[i] = t.success(f, x)
	}
	var out []read
	for i := range f.body {
		if t.isExemption(f.body, reads, i) {
			demoted(reads[i], rankUsed)
		}
		out = append(out, reads[i]...)
	}
	return merge(out)
}

// Names of helpers by which rules exempt objects. Reads in an exemption are not the
// reason for a denial if anything else is tested. Reads in a permission are not if
// something is tested afterwards.
var (
	pardons = regexp.MustCompile(`(?i)exempt|exclu|ignor|skip|whitelist|is_update|is_delete|exception`)
	permits = regexp.MustCompile(`(?i)allow|permit`)
)

// isExemption reports whether an expression only excludes exempt objects.
func (t *tracer) isExemption(body ast.Body, reads [][]read, i int) bool {
	if !body[i].Negated {
		return false
	}
	name := t.operator(body[i])
	all := pardons.MatchString(name)
	if !all && !permits.MatchString(name) {
		return false
	}
	others := slices.Concat(reads[i+1:]...)
	if all {
		others = append(others, slices.Concat(reads[:i]...)...)
	}
	return useful(slices.DeleteFunc(others, func(r read) bool { return r.rank < rankCompared }))
}

// success returns the reads that make an expression true.
func (t *tracer) success(f *frame, x *ast.Expr) []read {
	if x.Negated {
		return t.refused(f, x)
	}
	switch terms := x.Terms.(type) {
	case *ast.Term:
		return atLeast(t.truth(f, x, terms), rankIterated)
	case []*ast.Term:
		return t.call(f, x, terms)
	case *ast.Every:
		return append(ranked(t.reads(f, x, terms.Domain, 0), rankIterated), t.bodies(f, x)...)
	case *ast.Not:
		return t.refused(f, x)
	}
	return t.bodies(f, x)
}

// truth returns the reads that make a reference true. A reference that iterates
// selects elements; any other one is a test.
func (t *tracer) truth(f *frame, x *ast.Expr, term *ast.Term) []read {
	r := t.reads(f, x, term, 0)
	if ref, ok := term.Value.(ast.Ref); ok && t.iterates(f, x, ref) {
		return r
	}
	return atLeast(r, rankCompared)
}

// iterates reports whether a reference binds a variable in the expression, so that it
// goes through elements.
func (t *tracer) iterates(f *frame, x *ast.Expr, ref ast.Ref) bool {
	for _, s := range ref[1:] {
		if v, ok := s.Value.(ast.Var); ok && t.defines(f, x, v) {
			return true
		}
	}
	return false
}

// refused returns the reads that make a negation true: the reasons why its body
// failed.
func (t *tracer) refused(f *frame, x *ast.Expr) []read {
	var out []read
	for _, c := range t.children(f, x) {
		out = append(out, c.why()...)
	}
	return atLeast(out, rankRefused)
}

// before returns the reads of the expressions before one that failed on something
// outside the object, such as a parameter without elements.
func (t *tracer) before(f *frame, x *ast.Expr, reads []read) []read {
	if useful(reads) {
		return nil
	}
	var out []read
	for _, e := range f.body[:min(x.Index, len(f.body))] {
		if t.budget--; t.budget > 0 && !e.Negated {
			out = append(out, t.success(f, e)...)
		}
	}
	return weak(merge(out), true)
}

// tried returns the reads before the furthest failure on something outside the
// object.
func (f *frame) tried() []read {
	var out []read
	last := -1
	for _, x := range f.fails {
		if x.index >= last && len(x.before) > 0 {
			out, last = x.before, x.index
		}
	}
	return out
}

// why returns the reads of the last failures of a body.
func (f *frame) why() []read {
	last := -1
	for _, x := range f.fails {
		if useful(x.reads) {
			last = max(last, x.index)
		}
	}
	var out []read
	times := 0
	for _, x := range f.fails {
		if x.index == last || last < 0 {
			out = append(out, x.reads...)
			times++
		}
	}
	if times > 1 {
		out = common(out)
	}
	return merge(out)
}

// call returns the reads that make an equality or a call true.
func (t *tracer) call(f *frame, x *ast.Expr, terms []*ast.Term) []read {
	if x.IsEquality() {
		return t.equality(f, x, terms[1], terms[2])
	}
	name := t.operator(x)
	out, isUser := t.entered(f, x, terms)
	if output := t.output(f, x, terms); output != nil {
		if isUser {
			return demoted(out, rankAssigned)
		}
		return ranked(t.operands(f, x, terms[1:len(terms)-1], rankUsed), rankUsed)
	}
	switch {
	case isUser:
		return append(ranked(t.operands(f, x, terms[1:], rankUsed), rankUsed), out...)
	case name == "walk" || name == "internal.print":
		return t.operands(f, x, terms[1:2], rankUsed)
	}
	return t.operands(f, x, terms[1:], rankCompared)
}

// equality returns the reads that make an assignment, an iteration or a comparison
// true.
func (t *tracer) equality(f *frame, x *ast.Expr, a, b *ast.Term) []read {
	if !t.isDefined(f, x, a) {
		a, b = b, a
	}
	if !t.isDefined(f, x, a) {
		return atLeast(append(t.reads(f, x, a, 0), t.reads(f, x, b, 0)...), rankCompared)
	}
	out := t.reads(f, x, b, 0)
	ref, ok := b.Value.(ast.Ref)
	if ok && t.iterates(f, x, ref) {
		return t.narrowed(f, a, atLeast(out, rankIterated))
	}
	if ok && isData(ref) {
		return demoted(out, rankAssigned)
	}
	return ranked(out, rankUsed)
}

// narrowed drops reads of elements other than the variable's.
func (t *tracer) narrowed(f *frame, v *ast.Term, reads []read) []read {
	value := f.event.Plug(v)
	place, _, ok := t.origins.of(value)
	if !ok {
		return named(reads, value)
	}
	at := place.path()
	return slices.DeleteFunc(reads, func(r read) bool { return !within(r.path, at) && !within(at, r.path) })
}

// named keeps the places whose key is the value, if there are any.
func named(reads []read, value *ast.Term) []read {
	isOther := func(r read) bool { return len(r.path) == 0 || r.path[len(r.path)-1] != textOf(value) }
	if kept := slices.DeleteFunc(slices.Clone(reads), isOther); len(kept) > 0 {
		return kept
	}
	return reads
}

// isDefined reports whether a term is a variable that gets its value in the
// expression, or an array with one.
func (t *tracer) isDefined(f *frame, x *ast.Expr, term *ast.Term) bool {
	switch v := term.Value.(type) {
	case ast.Var:
		return t.defines(f, x, v)
	case *ast.Array:
		for i := range v.Len() {
			if t.isDefined(f, x, v.Elem(i)) {
				return true
			}
		}
	}
	return false
}

// output returns the variable that receives a call's result, or nil.
func (t *tracer) output(f *frame, x *ast.Expr, terms []*ast.Term) *ast.Term {
	last := terms[len(terms)-1]
	if len(terms) > 2 && t.isDefined(f, x, last) {
		return last
	}
	return nil
}

// operands returns the reads of the operands of a call.
func (t *tracer) operands(f *frame, x *ast.Expr, terms []*ast.Term, r rank) []read {
	var out []read
	for _, o := range terms {
		out = append(out, t.reads(f, x, o, 0)...)
	}
	return atLeast(out, r)
}

// entered returns the reads that make the rules of a call true. It returns false if
// the call is not of rules.
func (t *tracer) entered(f *frame, x *ast.Expr, terms []*ast.Term) ([]read, bool) {
	if ref, ok := terms[0].Value.(ast.Ref); !ok || !isData(ref) {
		return nil, false
	}
	return t.bodies(f, x), true
}

// bodies returns the reads that make the bodies in an expression true.
func (t *tracer) bodies(f *frame, x *ast.Expr) []read {
	var out []read
	for _, c := range t.children(f, x) {
		for _, e := range c.exits {
			out = append(out, e.reads...)
		}
	}
	return merge(out)
}

// failed returns the reads that make an expression false.
func (t *tracer) failed(f *frame, x *ast.Expr) []read {
	if x.Negated {
		return atLeast(t.bodies(f, x), rankCompared)
	}
	var out []read
	for _, c := range t.children(f, x) {
		out = append(out, c.why()...)
		if x.IsEvery() {
			continue // an element that held is not why another did not
		}
		for _, e := range c.exits {
			out = append(out, tested(e.reads)...)
		}
	}
	if !useful(out) {
		for _, c := range t.children(f, x) {
			out = append(out, c.tried()...)
		}
	}
	switch terms := x.Terms.(type) {
	case *ast.Term:
		out = append(out, t.reads(f, x, terms, 0)...)
	case []*ast.Term:
		if _, isUser := t.entered(f, x, terms); !isUser || !useful(out) {
			out = append(out, weak(t.operands(f, x, terms[1:], rankUsed), isUser)...)
		}
	case *ast.Every:
		if !useful(out) {
			out = append(out, t.reads(f, x, terms.Domain, 0)...)
		}
	}
	return merge(atLeast(out, rankCompared))
}

// children returns the bodies that an expression evaluated, including those of an
// every's elements.
func (t *tracer) children(f *frame, x *ast.Expr) []*frame {
	if x.Index >= len(f.slots) {
		return nil
	}
	var out []*frame
	for _, c := range f.slots[x.Index].children {
		if !c.every {
			out = append(out, c)
			continue
		}
		for _, s := range c.slots {
			out = append(out, s.children...)
		}
	}
	return out
}

// operator returns the name of the function, rule or document of an expression.
func (t *tracer) operator(x *ast.Expr) string {
	name, ok := t.names[x]
	if !ok {
		name = operator(x)
		t.names[x] = name
	}
	return name
}

func operator(x *ast.Expr) string {
	switch terms := x.Terms.(type) {
	case *ast.Term:
		if ref, ok := terms.Value.(ast.Ref); ok && isData(ref) {
			return ref.String()
		}
	case []*ast.Term:
		return terms[0].String()
	}
	return ""
}

func isData(ref ast.Ref) bool { return ref.HasPrefix(ast.DefaultRootRef) }
