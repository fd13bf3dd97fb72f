package rego

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

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

// maxHints bounds the fields that the details of one violation name.
const maxHints = 16

// hintKeys are the keys under which violations name their field, the most reliable
// first.
var hintKeys = []string{
	"pointer", "pointers", "jsonPointer", "json_pointer", "field", "fields", "_field", "fieldPath", "field_path",
	"path", "paths", "jsonPath", "json_path", "jsonpath", "_loc", "loc", "location",
}

// Hinted returns the fields that a violation's details name, as JSON pointers, if the
// object has the field or its parent. Both arguments are Go's JSON.
func Hinted(details, object any) []string {
	top, _ := details.(map[string]any)
	for _, within := range []any{top, top["details"], top["metadata"]} {
		m, ok := within.(map[string]any)
		if !ok {
			continue
		}
		for _, key := range hintKeys {
			if found := fieldsOf(m[key], object); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// fieldsOf returns the fields of a hint: a text, a list of segments, or a list of
// either.
func fieldsOf(hint any, object any) []string {
	switch hint := hint.(type) {
	case string:
		return existing(object, readings(hint))
	case []any:
		if found := existing(object, segments(hint)); len(found) > 0 {
			return found
		}
		var all []string
		for _, h := range hint {
			for _, p := range fieldsOf(h, object) {
				if !slices.Contains(all, p) && len(all) < maxHints {
					all = append(all, p)
				}
			}
		}
		return all
	case map[string]any:
		for _, key := range hintKeys {
			if found := fieldsOf(hint[key], object); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// segments converts a list to a path; nil if an element can't be a segment.
func segments(list []any) []string {
	path := make([]string, len(list))
	for i, e := range list {
		switch e := e.(type) {
		case string:
			path[i] = e
		case int64:
			path[i] = strconv.FormatInt(e, 10)
		default:
			return nil
		}
	}
	return path
}

// readings returns the paths that a text may mean: a JSON pointer, or fields with
// dots and brackets.
func readings(text string) []string {
	if strings.HasPrefix(text, "/") {
		return render.Path(text)
	}
	return dotted(text)
}

// dotted parses spec.containers[0].image, also with quoted keys in brackets. It
// returns nil if the text is no such path.
func dotted(text string) []string {
	var path []string
	for text = strings.TrimPrefix(text, "."); text != ""; {
		key, rest := text, ""
		switch i := strings.IndexAny(text, ".["); {
		case text[0] == '[':
			end := strings.IndexByte(text, ']')
			if end < 0 {
				return nil
			}
			key, rest = strings.Trim(text[1:end], `"'`), text[end+1:]
		case i == 0:
			return nil
		case i > 0:
			key, rest = text[:i], text[i:]
		}
		path, text = append(path, key), strings.TrimPrefix(rest, ".")
	}
	return path
}

// existing returns the pointer of a path that the object has, or whose parent it has.
// The path may begin with a name that rules use for the object.
func existing(object any, path []string) []string {
	for i := range path {
		if i > 0 && !slices.Contains([]string{"$", "input", "review", "object"}, path[i-1]) {
			return nil
		}
		if p := render.PathPointer(path[i:]); exists(object, path[i:], p) {
			return []string{p}
		}
	}
	return nil
}

func exists(object any, path []string, pointer string) bool {
	if _, ok := render.Lookup(object, pointer); ok {
		return true
	}
	parent, ok := render.Lookup(object, render.PathPointer(path[:len(path)-1]))
	_, isMap := parent.(map[string]any)
	return ok && isMap && len(path) > 1
}
