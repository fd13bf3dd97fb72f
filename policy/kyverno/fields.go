package kyverno

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/render"
)

// maxFields is the most fields of an object that a response names.
const maxFields = 32

// places collects the pointers of the object's fields from which expressions
// took their values.
type places struct {
	scope    *scope
	pointers []string
	depth    int // depth of context entries that read others
}

// template adds the fields read by a template's variables.
func (p *places) template(t *template) {
	if t == nil || t.static || t.err != nil {
		return
	}
	_, _ = t.root.fill(&filling{scope: p.scope, search: p.expression}) // its errors are reported by the evaluation
}

// expression adds the fields that an expression reads, and returns its value.
func (p *places) expression(expr *jmespath.Expression) (any, error) {
	value, pointers, err := expr.Trace(p.scope, &p.scope.review.search)
	for _, pointer := range pointers {
		p.pointer(pointer)
	}
	return value, err
}

func (p *places) add(pointer string) {
	if len(p.pointers) < maxFields && pointer != "" && !slices.Contains(p.pointers, pointer) {
		p.pointers = append(p.pointers, pointer)
	}
}

// pointer adds the object's field at a path of the scope.
func (p *places) pointer(pointer string) {
	path := render.Path(pointer)
	if len(path) == 0 || p.depth > maxNesting {
		return
	}
	rest := strings.TrimPrefix(pointer, "/"+strings.SplitN(pointer, "/", 3)[1])
	if b, in, i := p.scope.find(path[0]); b != nil {
		p.bound(b, in, i, rest)
		return
	}
	switch path[0] {
	case "request":
		p.request(path, rest)
	case "images":
		p.image(path)
	}
}

// request adds a field of the object, which on DELETE is the old object.
func (p *places) request(path []string, rest string) {
	object := "object"
	if p.scope.review.object == nil {
		object = "oldObject"
	}
	if len(path) > 2 && path[1] == object {
		p.add(strings.TrimPrefix(rest, "/"+object))
	}
}

// bound adds a field of a name's value: a field of the list element, or the field
// from which a context entry took its value.
func (p *places) bound(b *binding, in *scope, i int, rest string) {
	if b.entry == nil {
		if b.pointer == nil {
			return
		}
		if at := b.pointer(); at != "" {
			p.add(at + rest)
		}
		return
	}
	inner := &places{scope: in.before(i), depth: p.depth + 1}
	inner.entry(b.entry)
	for _, at := range inner.pointers {
		if _, found := render.Lookup(p.scope.review.seen(), at+rest); found && len(inner.pointers) == 1 {
			at += rest
		}
		p.add(at)
	}
}

func (p *places) entry(e *entry) {
	if e.Variable == nil {
		return
	}
	if e.value != nil {
		p.template(e.value)
		return
	}
	if expr, err := e.path(p.scope); err == nil && expr != nil {
		_, _ = p.expression(expr)
	}
}

// image adds the field of the image that images.GROUP.NAME describes.
func (p *places) image(path []string) {
	if len(path) < 3 {
		return
	}
	images, _, _ := p.scope.Lookup("images")
	if v, found := render.Lookup(images, render.Pointer(path[1], path[2], "jsonPointer")); found {
		if at, ok := v.(string); ok {
			p.add(at)
		}
	}
}

// elementPointer returns the pointer of a list's i-th element in the object, or
// "" if the expression computed the element.
func (s *scope) elementPointer(list *jmespath.Expression, i int, element any) string {
	asked := s.review.questions
	defer func() { s.review.questions = asked }()
	p := &places{scope: s}
	_, _ = p.expression(list)
	candidates := make([]string, 0, len(p.pointers)+1)
	if i < len(p.pointers) {
		candidates = append(candidates, p.pointers[i])
	}
	for _, at := range p.pointers {
		candidates = append(candidates, at+"/"+strconv.Itoa(i))
	}
	candidates = append(candidates, p.pointers...)
	subject := s.review.seen()
	for _, at := range candidates {
		if v, found := render.Lookup(subject, at); found && reflect.DeepEqual(v, element) {
			return at
		}
	}
	if len(p.pointers) > 0 {
		return p.pointers[0]
	}
	return ""
}
