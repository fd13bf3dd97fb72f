package crd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/render"
)

// A walk evaluates the rules of a schema over one object, as validate of
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel does. It visits the
// keys of maps in sorted order, so that the same rule always exhausts the budget.
type walk struct {
	ctx      context.Context
	budget   int64
	ratchets bool // the API server's version supports ratcheting
	evals    int
	stopped  bool
	held     []bool // by the rules' indices
	broken   []bool
	report   func(violation)
}

// A violation is a rule that failed at a place.
type violation struct {
	rule      *rule
	node      *node
	at        *place
	err       *field.Error
	ratchet   bool // the value is unchanged, so it is a warning
	undecided bool // by preadmit, but not by the API server
	self      ref.Val
	old       ref.Val
}

// correlation pairs a value with the old value at the same place; see
// ratchetingOptions upstream.
type correlation struct {
	current, parent *common.CorrelatedObject
}

func (c correlation) unchanged() bool {
	if c.current != nil {
		return c.current.CachedDeepEqual()
	}
	return c.parent.CachedDeepEqual()
}

func (c correlation) key(name string) correlation {
	switch {
	case c.current == nil:
		return c
	case c.parent == nil && (name == "apiVersion" || name == "kind"):
		return correlation{}
	}
	return correlation{c.current.Key(name), c.current}
}

func (c correlation) index(i int) correlation {
	if c.current == nil {
		return c
	}
	return correlation{c.current.Index(i), c.current}
}

// maxEvaluations bounds the evaluations for one object; rules that cost
// nothing are not bounded by the budget.
const maxEvaluations = 200_000

func (w *walk) node(n *node, at *place, value, old any, c correlation) {
	if n == nil || value == nil || w.stopped {
		return
	}
	w.rules(n, at, value, old, c)
	for _, branch := range n.allOf {
		w.node(branch, at, value, old, correlation{parent: c.parent})
	}
	switch v := value.(type) {
	case []any:
		before, _ := old.([]any)
		w.list(n, at, v, before, c)
	case map[string]any:
		before, _ := old.(map[string]any)
		w.mapping(n, at, v, before, c)
	}
}

func (w *walk) list(n *node, at *place, list, old []any, c correlation) {
	if n.items == nil {
		return
	}
	before := common.MakeMapList(n.model, old)
	for i, v := range list {
		w.node(n.items, at.item(i), v, before.Get(v), c.index(i))
	}
}

func (w *walk) mapping(n *node, at *place, m, old map[string]any, c correlation) {
	if n.values == nil && n.properties == nil {
		return
	}
	if !schemacel.MapIsCorrelatable(n.schema.XMapType) {
		old = nil
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if n.values != nil {
			w.node(n.values, at.entry(key), m[key], old[key], c.key(key))
		}
		if child := n.properties[key]; child != nil {
			w.node(child, at.child(key), m[key], old[key], c.key(key))
		}
	}
}

// rules evaluates the rules of one node.
func (w *walk) rules(n *node, at *place, value, old any, c correlation) {
	if n.fault != "" {
		w.fail(violation{node: n, at: at}, invalid(at, n, "rule compiler initialization error: %s", n.fault))
		return
	}
	if len(n.rules) == 0 {
		return
	}
	if w.budget <= 0 {
		w.exhausted(violation{rule: n.rules[0], node: n, at: at})
		return
	}
	input := &activation{self: valueOf(value, n.typed)}
	if n.transition && old != nil {
		input.old = valueOf(old, n.typed)
	}
	for _, r := range n.rules {
		if w.stopped {
			return
		}
		v := violation{rule: r, node: n, at: at, self: input.self, old: input.old}
		if r.fault != "" {
			w.fail(v, invalid(at, n, "rule compile error: %s", r.fault))
			continue
		}
		if r.program == nil || r.transition && old == nil && !(r.optional && w.ratchets) {
			continue
		}
		w.rule(v, value, input.as(r), c)
	}
}

// rule evaluates one rule on one value.
func (w *walk) rule(v violation, value any, input *activation, c correlation) {
	r, n, at := v.rule, v.node, v.at
	if w.evals++; w.evals > maxEvaluations || w.ctx.Err() != nil {
		w.stopped, v.undecided = true, true
		w.fail(v, invalid(at, n, "more than %d evaluations of validation rules: the rest was not run", maxEvaluations))
		return
	}
	got, cost, err := r.program.Eval(w.ctx, input)
	if cost > w.budget {
		w.exhausted(v)
		return
	}
	w.budget -= cost
	switch {
	case err != nil:
		w.error(v, err)
	case got == types.True:
		w.held[r.index] = true
	default:
		w.refuse(v, value, input, !r.transition && c.unchanged())
	}
}

func (w *walk) exhausted(v violation) {
	w.stopped = true
	w.fail(v, invalid(v.at, v.node, "validation failed due to running out of cost budget, no further validation rules will be run"))
}

const overCallLimit = "operation cancelled: actual cost limit exceeded"

// error adds the result of a rule that failed with an error, with the API
// server's wording.
func (w *walk) error(v violation, err error) {
	text, rule := err.Error(), ruleText(v.rule)
	switch {
	case strings.HasPrefix(text, "no such overload"):
		text = fmt.Sprintf("'%s': call arguments did not match a supported operator, function or macro signature for rule: %s", text, rule)
	case strings.HasPrefix(text, overCallLimit):
		w.stopped = true
		text = fmt.Sprintf("'%s': no further validation rules will be run due to call cost exceeds limit for rule: %s", text, rule)
	default:
		v.undecided = guarded(text)
		text = fmt.Sprintf("%s evaluating rule: %s", text, rule)
	}
	w.fail(v, invalid(v.at, v.node, "%s", text))
}

// refuse adds the result of a violated rule.
func (w *walk) refuse(v violation, value any, input *activation, unchanged bool) {
	r := v.rule
	path := v.at.path()
	if r.fieldPath != "" {
		path = path.Child(r.fieldPath)
	}
	v.ratchet = unchanged
	detail, err := w.detail(v, input)
	if err != nil {
		w.stopped = true
		w.fail(v, field.Invalid(path, v.node.schema.Type, err.Error()))
		return
	}
	if t := v.node.schema.Type; t == "object" || t == "array" {
		value = field.OmitValueType{}
	}
	w.fail(v, reasoned(path, value, detail, r.Reason))
}

// detail returns the rule's message. It fails if the cost budget is exhausted.
func (w *walk) detail(v violation, input *activation) (string, error) {
	r := v.rule
	if r.message != nil {
		text, err := w.message(r, input)
		if err != nil {
			return "", err
		}
		if text != "" {
			return text, nil
		}
	}
	if r.Message != "" {
		return strings.TrimSpace(r.Message), nil
	}
	return "failed rule: " + ruleText(r), nil
}

// message evaluates messageExpression. It returns "" if the result is not a
// usable message.
func (w *walk) message(r *rule, input *activation) (string, error) {
	v, cost, err := r.message.Eval(w.ctx, input)
	switch {
	case cost > w.budget:
		return "", errors.New("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run")
	case err != nil && strings.HasPrefix(err.Error(), overCallLimit):
		return "", fmt.Errorf("no further validation rules will be run due to call cost exceeds limit for messageExpression: %q", r.MessageExpression)
	}
	w.budget -= cost
	if err != nil {
		return "", nil
	}
	text, _ := v.Value().(string)
	if text = strings.TrimSpace(text); len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return "", nil
	}
	return text, nil
}

// guarded reports whether an error comes from policy/internal/cel, which
// refuses to run calls that could stall the process and that the API server
// would have run.
func guarded(text string) bool {
	return strings.HasPrefix(text, "quantity out of range: ") || strings.HasPrefix(text, "regular expression of ")
}

func (w *walk) fail(v violation, err *field.Error) {
	if v.rule != nil {
		w.broken[v.rule.index] = true
	}
	v.err = err
	w.report(v)
}

func ruleText(r *rule) string {
	if r.Message != "" {
		return strings.TrimSpace(r.Message)
	}
	return strings.TrimSpace(r.Rule)
}

func invalid(at *place, n *node, format string, args ...any) *field.Error {
	return field.Invalid(at.path(), n.schema.Type, fmt.Sprintf(format, args...))
}

func reasoned(path *field.Path, value any, detail string, reason *v1.FieldValueErrorReason) *field.Error {
	if reason != nil {
		switch *reason {
		case v1.FieldValueForbidden:
			return field.Forbidden(path, detail)
		case v1.FieldValueRequired:
			return field.Required(path, detail)
		case v1.FieldValueDuplicate:
			return field.Duplicate(path, value)
		}
	}
	return field.Invalid(path, value, detail)
}

// activation holds the variables of a rule. old is nil where there is none.
type activation struct {
	self, old ref.Val
	optional  bool
}

// as returns the activation with the rule's variables.
func (a *activation) as(r *rule) *activation {
	if !r.optional {
		return a
	}
	return &activation{self: a.self, old: a.old, optional: true}
}

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case schemacel.ScopedVarName:
		return a.self, true
	case schemacel.OldScopedVarName:
		old := a.oldSelf()
		return old, old != nil
	}
	return nil, false
}

func (a *activation) oldSelf() ref.Val {
	switch {
	case !a.optional:
		return a.old
	case a.old == nil:
		return types.OptionalNone
	default:
		return types.OptionalOf(a.old)
	}
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }

// blame returns pointers to the fields that made a rule fail, the likeliest cause first.
// If the rule has a fieldPath, that field comes first, unless a field at fault is
// within it.
func (v *violation) blame(ctx context.Context) []string {
	base := v.at.pointer()
	var fields, inside []string
	stated := base
	if v.rule != nil {
		stated += render.Pointer(v.rule.fieldKeys...)
	}
	for _, p := range v.culprits(ctx) {
		if stated != base && within(base+p, stated) {
			inside = append(inside, base+p)
		} else {
			fields = append(fields, base+p)
		}
	}
	switch {
	case len(inside) > 0:
		return append(inside, fields...)
	case stated != base || len(fields) == 0:
		return append([]string{stated}, fields...)
	}
	return fields
}

// culprits returns the fields of self that decided.
func (v *violation) culprits(ctx context.Context) []string {
	if v.rule == nil || v.rule.explainer == nil || v.self == nil {
		return nil
	}
	x := v.rule.explainer()
	if x == nil {
		return nil
	}
	a := activation{self: v.self, old: v.old, optional: v.rule.optional}
	roots := map[string]any{schemacel.ScopedVarName: v.self}
	if old := a.oldSelf(); old != nil {
		roots[schemacel.OldScopedVarName] = old
	}
	why, err := x.Explain(ctx, explain.Input{Roots: roots, Want: true, Places: true})
	if err != nil {
		return nil
	}
	var pointers []string
	for _, c := range why.Culprits {
		if c.Root == schemacel.ScopedVarName {
			pointers = append(pointers, c.Pointer)
		}
	}
	return pointers
}
