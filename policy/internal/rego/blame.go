package rego

import (
	"cmp"
	"context"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/render"
)

// A Field is a place of the input that a violation depends on.
type Field struct {
	Path    []string // keys and indices below input
	Missing bool     // nothing is there
	Sure    bool     // the failed expression names it; otherwise it was only read
}

// maxFields bounds the fields of one violation.
const maxFields = 8

// Unsure is the assumption of a result whose fields were only read.
const Unsure = "the policy does not say which field is at fault: these are those that it read"

// Pointers returns the fields below one of the roots, paths of the input, as JSON
// pointers from there: the sure ones if there are any, else those that were only
// read.
func Pointers(fields []Field, roots ...[]string) (pointers []string, sure bool) {
	for _, sure := range []bool{true, false} {
		for _, f := range fields {
			i := slices.IndexFunc(roots, func(root []string) bool { return within(f.Path, root) })
			if f.Sure != sure || i < 0 {
				continue
			}
			if p := render.PathPointer(f.Path[len(roots[i]):]); !slices.Contains(pointers, p) {
				pointers = append(pointers, p)
			}
		}
		if len(pointers) > 0 {
			return pointers, sure
		}
	}
	return nil, false
}

// about returns the path of the reviewed object in the input.
func (o *origins) about() []string {
	review := []string{"review", "object"}
	if o.exists(review) {
		return review
	}
	return nil
}

// fields returns the likeliest places of those that a violation depends on.
func fields(reads []read, root []string) []Field {
	best := likeliest(reads, root)
	slices.SortStableFunc(best, func(a, b read) int { return cmp.Compare(len(b.path), len(a.path)) })
	var out []Field
	for _, r := range merge(slices.Clone(best)) {
		above := slices.ContainsFunc(best, func(o read) bool { return len(o.path) > len(r.path) && within(o.path, r.path) })
		if !above && len(out) < maxFields {
			out = append(out, Field{r.path, r.missing, r.rank >= rankAssigned && !r.weak && len(best) <= maxFields})
		}
	}
	return out
}

// likeliest returns the reads of the highest weight, the last read first: rules
// select objects before they test them.
func likeliest(reads []read, root []string) []read {
	var out []read
	top := -1
	for _, r := range slices.Backward(reads) {
		w := weight(r, root)
		if w > top {
			out, top = nil, w
		}
		if w == top {
			out = append(out, r)
		}
	}
	return out
}

// weight rates how likely a person would change the place. Places outside of the
// object are a last resort. A guard, or the whole object, weighs little more than a
// part of the message.
func weight(r read, root []string) int {
	switch {
	case !within(r.path, root):
		return 0
	case r.rank > rankUsed && (len(r.path) == len(root) || isGuard(r.path[len(root):])):
		return 2
	case r.rank == rankUsed && isGuard(r.path[len(root):]):
		return 0
	case r.rank == rankUsed:
		return 1
	}
	return 2 + int(r.rank)
}

// useful reports whether any read is more than a guard.
func useful(reads []read) bool {
	return slices.ContainsFunc(reads, func(r read) bool {
		path := r.path
		if len(path) > 2 && path[0] == "review" {
			if path[1] != "object" && path[1] != "oldObject" {
				return false
			}
			path = path[2:]
		}
		return len(path) > 0 && path[0] != "parameters" && !isGuard(path)
	})
}

// isGuard reports whether rules usually select objects by a path of the object.
func isGuard(path []string) bool {
	if len(path) > 2 && isIndex(path[0]) && path[1] == "contents" {
		path = path[2:] // conftest's --combine
	}
	switch len(path) {
	case 1:
		return path[0] == "kind" || path[0] == "apiVersion"
	case 2:
		return path[0] == "metadata" && (path[1] == "namespace" || path[1] == "name")
	}
	return false
}

// A Cause explains why a value is in a query's answer.
type Cause struct {
	Fields []Field   // the places of the input that it depends on, the likeliest first
	Rule   *ast.Rule // the first definition that yields the value; nil if unknown
}

// Causes evaluates the query again and returns the cause of each of the values,
// elements of its set. A value that isn't in the answer, or doesn't depend on the
// input, has no fields.
func (q *Query) Causes(ctx context.Context, in Question, values []ast.Value) ([]Cause, error) {
	o := in.origins()
	in.Input, in.Print = o.input, nil
	t := q.tracer(o, values)
	if !q.trace(ctx, &in, t) {
		t = q.tracer(o, values)
		_, _, err := q.run(ctx, in, newBound(ctx, q.program.time), setup{cache: noCache{}, tracer: t})
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	causes := make([]Cause, len(values))
	for i, reads := range t.found {
		causes[i] = Cause{fields(reads, o.about()), t.from[i]}
	}
	return causes, nil
}

func (q *Query) tracer(o *origins, values []ast.Value) *tracer {
	t := newTracer(o, values)
	t.rules = &q.program.seen
	return t
}

// maxLiterals bounds the texts of a definition.
const maxLiterals = 20

// Literals returns the texts in a rule's body, except names of fields and parts of
// messages, the last first: rules select objects before they test them.
func Literals(b ast.Body) []string {
	var found []string
	var look func(*ast.Term) bool
	walk := func(terms []*ast.Term) {
		if len(terms) > 0 && terms[0].Equal(ast.NewTerm(ast.Sprintf.Ref())) {
			return
		}
		for _, t := range terms {
			ast.WalkTerms(t, look)
		}
	}
	look = func(t *ast.Term) bool {
		switch v := t.Value.(type) {
		case ast.Ref:
			return true
		case ast.Call:
			walk(v)
			return true
		case ast.String:
			if len(v) > 1 && !slices.Contains(found, string(v)) {
				found = append(found, string(v))
			}
		}
		return false
	}
	for _, x := range slices.Backward(b) {
		switch terms := x.Terms.(type) {
		case *ast.Term:
			ast.WalkTerms(terms, look)
		case []*ast.Term:
			walk(terms)
		}
	}
	return found[:min(len(found), maxLiterals)]
}
