package cel

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/preadmit/preadmit/render"
)

// Quotes reports whether the value of an expression may contain a part of an object
// that a Secret must not show. Variables, parameters and functions may return
// anything.
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

// harmless lists the fields that may be shown of any object.
var harmless = [][]string{{"kind"}, {"apiVersion"}, {"type"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "labels"}}

// selects reports whether only the fields of a path, or values below it, are read of
// an identifier.
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

// gram is the length from which on a text may not contain a piece of a secret value.
const gram = 6

// Reveals reports whether a text contains a piece of the objects' values, besides
// those that identify them: as written, in base64, in upper or lower case. So a
// message that quotes a value is distinguished from one that names its key.
func Reveals(text string, objects ...map[string]any) bool {
	text = strings.ToLower(text)
	grams := make(map[string]bool, len(text))
	for i := 0; i+gram <= len(text); i++ {
		grams[text[i:i+gram]] = true
	}
	return slices.ContainsFunc(objects, func(o map[string]any) bool {
		for key, value := range o {
			switch key {
			case "kind", "apiVersion", "type":
				continue
			case "metadata":
				meta, _ := value.(map[string]any)
				value = meta["annotations"]
			}
			if reveals(text, grams, value) {
				return true
			}
		}
		return false
	})
}

func reveals(text string, grams map[string]bool, value any) bool {
	for _, v := range render.Values(value) {
		if s, ok := v.(string); ok {
			decoded, err := base64.StdEncoding.DecodeString(s)
			if pieceOf(text, grams, s) || err == nil && pieceOf(text, grams, string(decoded)) {
				return true
			}
		}
	}
	return false
}

// pieceOf reports whether the text contains a piece of a value, or a short value
// whole. Values of one or two letters don't count.
func pieceOf(text string, grams map[string]bool, value string) bool {
	value = strings.ToLower(strings.TrimSpace(value))
	if len(value) < gram {
		return len(value) > 2 && strings.Contains(text, value)
	}
	for i := 0; i+gram <= len(value); i++ {
		if grams[value[i:i+gram]] {
			return true
		}
	}
	return false
}
