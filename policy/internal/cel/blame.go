package cel

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/render"
)

// ExplainerOf returns a function that builds the explainer of an expression on its
// first call. It returns nil for an expression that can't be explained, such as one
// with a variable that does not compile.
func (n *Names) ExplainerOf(a *cel.Ast, variables []*Expression) func() *explain.Explainer {
	return sync.OnceValue(func() *explain.Explainer {
		env, err := RunEnv()
		if err != nil {
			return nil
		}
		all := make([]explain.Variable, len(n.list))
		for i, v := range variables {
			if all[i] = (explain.Variable{Name: n.list[i], AST: v.AST}); v.AST == nil {
				return nil
			}
		}
		x, err := explain.New(env, a, all)
		if err != nil {
			return nil
		}
		return x
	})
}

// A Failure is an expression that did not have the expected value.
type Failure struct {
	Source string // of the expression
	Secret bool   // it sees a Secret, so no value may be shown
}

// Fields returns the pointers of a root's fields, such as object's, that made the
// expression fail, and the texts that the expression compares them with. roots are
// the values that the expression read. It returns none if x is nil or finds none.
func (f Failure) Fields(ctx context.Context, x *explain.Explainer, roots map[string]any, root string) (fields, texts []string) {
	if x == nil {
		return nil, nil
	}
	why, err := x.Explain(ctx, explain.Input{Roots: roots, Want: true, Places: true})
	if err != nil {
		return nil, nil
	}
	for _, c := range why.Culprits {
		if c.Root == root {
			fields = append(fields, f.Pointer(&c))
			texts = append(texts, c.Literals()...)
		}
	}
	return fields, texts
}

// Pointer returns the place of a culprit. If the field is missing and its name is not
// in the expression, the name may come from a Secret's values; then it returns the
// place of the value that does not have the field.
func (f Failure) Pointer(c *explain.Culprit) string {
	path := render.Path(c.Pointer)
	if n := len(path); c.Missing && n > 0 && f.Secret && !strings.Contains(f.Source, path[n-1]) {
		return strings.TrimSuffix(c.Pointer, render.Pointer(path[n-1]))
	}
	return c.Pointer
}

// Hidden is shown instead of a value that may be a Secret's.
const Hidden = "(hidden)"

// MaxParts bounds the parts of an expression that are shown.
const MaxParts = 100

// RootsOf returns the values that expressions read, by name: the trees of the object
// and the old object, which may be nil, and the names that act has.
func RootsOf(object, old map[string]any, act cel.Activation, names ...string) map[string]any {
	roots := map[string]any{"object": any(nil), "oldObject": any(nil)}
	if object != nil {
		roots["object"] = object
	}
	if old != nil {
		roots["oldObject"] = old
	}
	for _, name := range names {
		if v, ok := act.ResolveName(name); ok {
			roots[name] = v
		}
	}
	return roots
}

// RootOf returns the root whose fields are at fault in a request.
func RootOf(op policy.Operation) string {
	if op == policy.Delete {
		return "oldObject"
	}
	return "object"
}

// Describe sets the value of an expression, or its error, in an evaluation. hide says
// that a value other than true and false may be a Secret's.
func Describe(ev *policy.Evaluation, v ref.Val, err error, hide bool) {
	switch _, verdict := v.(types.Bool); {
	case err != nil:
		ev.Error = policy.Shorten(err.Error(), policy.MaxMessage)
	case hide && !verdict:
		ev.Value = Hidden
	default:
		ev.Value = explain.Show(v)
	}
}

// Exempt returns why validations are not run, given the values of match conditions
// and their names, or "" if they are run.
func Exempt(conditions []policy.Evaluation, name func(i int) string) string {
	unsettled := ""
	for i := range conditions {
		switch conditions[i].Value {
		case "false":
			return fmt.Sprintf("exempt by match condition %q", name(i))
		case "true":
		default:
			unsettled = fmt.Sprintf("match condition %q could not be evaluated", name(i))
		}
	}
	return unsettled
}

// ErrorOf returns the error of an evaluation that gave v or err, or nil. hide says
// that the text of a variable's error may quote a Secret.
func ErrorOf(v ref.Val, err error, hide bool) error {
	broken, ok := v.(*types.Err)
	switch {
	case !ok || err != nil:
		return err
	case hide:
		return ErrHidden
	}
	return broken
}

// Explain evaluates the expression once more, and adds its parts with their values,
// and the culprits, to ev.
func (f Failure) Explain(ctx context.Context, x *explain.Explainer, roots map[string]any, ev *policy.Evaluation) {
	if x == nil {
		return
	}
	if why, err := x.Explain(ctx, explain.Input{Roots: roots, Want: true, Steps: MaxParts, Hide: f.Secret}); err == nil {
		f.Add(ev, &why)
	}
}

// Add adds an explanation to an evaluation.
func (f Failure) Add(ev *policy.Evaluation, why *explain.Explanation) {
	for _, s := range why.Steps {
		ev.Parts = append(ev.Parts, policy.Part{Depth: s.Depth, Loop: s.Loop, Text: s.Text, Value: s.Value, Error: s.Error})
	}
	ev.Summary, ev.More, ev.Incomplete = why.Summary, why.More, why.Incomplete
	for _, c := range why.Culprits {
		k := policy.Culprit{Root: c.Root, Pointer: f.Pointer(&c), Missing: c.Missing, Text: c.Text, Element: c.Element}
		if k.Pointer != c.Pointer {
			ev.Summary = "" // it has the name
		}
		switch {
		case c.Missing:
		case f.Secret:
			k.Value = Hidden
		default:
			k.Value = explain.Show(types.DefaultTypeAdapter.NativeToValue(c.Value))
		}
		ev.Culprits = append(ev.Culprits, k)
	}
}

// ErrBudget is the API server's error when a group of expressions costs too
// much.
var ErrBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

// ErrHidden replaces errors that may quote a Secret.
var ErrHidden = errors.New("not shown, since it may quote a Secret")

// ShownError returns the error of an expression. If the expression sees a Secret the
// error is replaced, since functions quote values that they can't use; but a missing
// key is shown if the expression itself names it.
func ShownError(source string, err error, secret bool) error {
	if !secret {
		return err
	}
	if key, ok := strings.CutPrefix(err.Error(), "no such key: "); ok && strings.Contains(source, key) {
		return err
	}
	return ErrHidden
}

// Message returns the text of a messageExpression. ok is false where the API
// server uses the fixed message instead: after an error, and for a text that is
// empty, too long or longer than a line.
func Message(v ref.Val, err error) (text string, ok bool) {
	s, isText := v.(types.String)
	if err != nil || !isText || len(strings.TrimSpace(string(s))) > celconfig.MaxEvaluatedMessageExpressionSizeBytes {
		return "", false
	}
	text = strings.TrimSpace(string(s))
	return text, text != "" && !strings.Contains(text, "\n")
}

// FailedMessage returns the message of a failed validation without a
// messageExpression: the first of the fixed messages that is not empty, else the
// expression.
func FailedMessage(source string, fixed ...string) string {
	for _, m := range fixed {
		if m = strings.TrimSpace(m); m != "" {
			return m
		}
	}
	return "failed expression: " + strings.TrimSpace(source)
}

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
