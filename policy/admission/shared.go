package admission

import (
	"strconv"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
)

// Policies of one author often begin with the same variables, such as the containers
// of whatever kind. An equal variable that reads nothing but the object is evaluated
// once for a request, whatever policy has it.

// share numbers the variables of all policies, so that equal definitions get
// equal numbers. A definition is the expression with the numbers of the
// variables that it reads. 0 marks a variable that is not shared.
func share(policies []*bound) (definitions int) {
	numbers := make(map[string]int)
	for _, b := range policies {
		for i, e := range b.variables {
			definition, ok := b.definition(i)
			if !ok {
				continue
			}
			if numbers[definition] == 0 {
				numbers[definition] = len(numbers) + 1
			}
			e.definition = numbers[definition]
		}
	}
	return len(numbers)
}

// definition returns the text that reports whether variables are equal. ok is false for
// a variable that reads more than the object and shared variables.
func (c *compiled) definition(i int) (text string, ok bool) {
	var b strings.Builder
	b.WriteString(c.variables[i].source)
	root := celast.NavigateAST(c.variables[i].ast.NativeRep())
	local := make(map[string]bool)
	for _, e := range celast.MatchDescendants(root, celast.KindMatcher(celast.ComprehensionKind)) {
		fold := e.AsComprehension()
		for _, name := range []string{fold.IterVar(), fold.IterVar2(), fold.AccuVar()} {
			local[name] = true
		}
	}
	for _, name := range []string{"object", "oldObject", "params", "request", "namespaceObject", "variables", "authorizer"} {
		if local[name] {
			return "", false
		}
	}
	for _, e := range celast.MatchDescendants(root, celast.KindMatcher(celast.IdentKind)) {
		switch name := e.AsIdent(); {
		case name == "object", name == "oldObject", local[name]:
		case name == "variables":
			n, ok := c.read(e, i)
			if !ok {
				return "", false
			}
			b.WriteString("\x00" + strconv.Itoa(n))
		default:
			return "", false
		}
	}
	return b.String(), true
}

// read returns the number of the shared variable that is read from `variables`, by
// variable i.
func (c *compiled) read(variables celast.NavigableExpr, i int) (number int, ok bool) {
	parent, ok := variables.Parent()
	if !ok || parent.Kind() != celast.SelectKind {
		return 0, false
	}
	k, ok := c.names.Index(parent.AsSelect().FieldName())
	if !ok || k >= i {
		return 0, false
	}
	number = c.variables[k].definition
	return number, number > 0
}

// shared returns the cached value of a variable that several policies define
// alike. It returns nil for a variable that is not shared or whose cost is
// counted.
func (r *run) shared(e *expression) *ref.Val {
	req := r.review
	if e.definition == 0 || !r.meter.Uncounted(e.program) || r.as.Kind != req.req.Kind {
		return nil
	}
	if req.shared == nil {
		req.shared = make([]ref.Val, req.engine.definitions)
	}
	return &req.shared[e.definition-1]
}
