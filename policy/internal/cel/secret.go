package cel

import (
	"slices"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
)

// Quotes says whether the value of an expression may hold more of an object
// than what identifies it: what must not be shown of a Secret. What variables,
// parameters and functions bring may be anything.
func Quotes(a *cel.Ast) bool {
	root := celast.NavigateAST(a.NativeRep())
	idents := celast.MatchDescendants(root, celast.KindMatcher(celast.IdentKind))
	return slices.ContainsFunc(idents, func(e celast.NavigableExpr) bool {
		switch e.AsIdent() {
		case "object", "oldObject":
			return !slices.ContainsFunc(harmless, func(path []string) bool { return selects(e, path) })
		case "variables", "params", "resource", "globalContext", "http", "image", "images":
			return true
		}
		return false
	})
}

// harmless are the fields that may be shown of any object.
var harmless = [][]string{{"kind"}, {"apiVersion"}, {"type"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "labels"}}

// selects says whether the fields of a path, or what is below them, are all
// that is taken of an identifier.
func selects(e celast.NavigableExpr, path []string) bool {
	for _, field := range path {
		parent, ok := e.Parent()
		if !ok || parent.Kind() != celast.SelectKind || parent.AsSelect().FieldName() != field {
			return false
		}
		e = parent
	}
	return true
}
