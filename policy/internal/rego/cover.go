package rego

import (
	"strings"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/preadmit/preadmit/policy"
)

// A CoveredExpr is an expression of a rule's body whose outcomes are counted.
type CoveredExpr struct {
	Module   string // its name
	Rule     string
	Text     string
	Location *ast.Location
}

// A Cover returns the counters of how often an expression held and failed.
type Cover func(CoveredExpr) (held, failed *atomic.Int64)

// NewCover returns a Cover that declares a branch for each outcome of an expression.
// branchOf returns the expression's policy and place; ok is false if it is not counted.
// If c is nil, the Cover is nil, too.
func NewCover(c *policy.Coverage, branchOf func(CoveredExpr) (b policy.Branch, ok bool)) Cover {
	if c == nil {
		return nil
	}
	return func(e CoveredExpr) (held, failed *atomic.Int64) {
		b, ok := branchOf(e)
		if !ok {
			return nil, nil
		}
		b.Rule, b.Part, b.Case = e.Rule, policy.Shorten(e.Text, maxCoveredText), "true"
		held = c.Declare(b)
		b.Case = "false"
		return held, c.Declare(b)
	}
}

// maxCoveredText bounds the text of an expression.
const maxCoveredText = 200

// coverage holds the counters of a program's expressions.
type coverage map[exprKey]*exprCount

// An exprKey is the place of an expression in its module. The compiler adds further
// expressions at the same place; generated marks these.
type exprKey struct {
	file           string
	line           int
	column         int
	negated, every bool
}

type exprCount struct{ held, failed *atomic.Int64 }

func keyOf(e *ast.Expr) (exprKey, bool) {
	l := e.Location
	if l == nil || len(l.Text) == 0 {
		return exprKey{}, false
	}
	return exprKey{l.File, l.Row, l.Col, e.Negated, e.IsEvery()}, true
}

// newCoverage declares the expressions of modules, those of tests excepted.
func newCoverage(modules map[string]*ast.Module, declare Cover) coverage {
	if declare == nil {
		return nil
	}
	c := make(coverage)
	for name, m := range modules {
		for _, r := range m.Rules {
			rule := string(r.Head.Name)
			if rule == "" {
				rule = r.Head.Ref().String()
			}
			if r.Default || strings.HasPrefix(rule, "test_") || strings.HasPrefix(rule, "todo_test_") {
				continue
			}
			for ; r != nil; r = r.Else {
				ast.WalkExprs(r.Body, func(e *ast.Expr) bool {
					c.declare(declare, name, rule, e)
					return false
				})
			}
		}
	}
	return c
}

func (c coverage) declare(declare Cover, module, rule string, e *ast.Expr) {
	key, ok := keyOf(e)
	if !ok || c[key] != nil || alwaysHolds(e) {
		return
	}
	held, failed := declare(CoveredExpr{module, rule, strings.Join(strings.Fields(string(e.Location.Text)), " "), e.Location})
	if held != nil {
		c[key] = &exprCount{held, failed}
	}
}

// alwaysHolds reports whether an expression is the constant true or false, such as the body of a
// rule without one, or assigns a constant to a variable, such as a message.
func alwaysHolds(e *ast.Expr) bool {
	if e.IsAssignment() {
		_, isVar := e.Operand(0).Value.(ast.Var)
		return isVar && ast.IsScalar(e.Operand(1).Value)
	}
	t, _ := e.Terms.(*ast.Term)
	if t == nil {
		return false
	}
	_, ok := t.Value.(ast.Boolean)
	return ok
}

// A coverTracer counts the outcomes of one evaluation.
type coverTracer struct {
	coverage
	begun map[evaluation]bool // that have not failed
}

// An evaluation identifies one evaluation of an expression: the query and the
// expression's place in it.
type evaluation struct {
	query uint64
	expr  exprKey
}

func (c coverage) tracer() *coverTracer {
	return &coverTracer{c, make(map[evaluation]bool)}
}

// Enabled implements topdown.QueryTracer.
func (c *coverTracer) Enabled() bool { return true }

// Config implements topdown.QueryTracer.
func (c *coverTracer) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent implements topdown.QueryTracer. An expression counts as true if it
// is evaluated and no event reports that it failed. Several events may report it. If an
// expression that the compiler generated from it fails, it failed too.
func (c *coverTracer) TraceEvent(e topdown.Event) {
	x, ok := e.Node.(*ast.Expr)
	if !ok || e.Op != topdown.EvalOp && e.Op != topdown.FailOp {
		return
	}
	key, ok := keyOf(x)
	n := c.coverage[key]
	if !ok || n == nil {
		return
	}
	at := evaluation{e.QueryID, key}
	switch {
	case e.Op == topdown.EvalOp && !x.Generated:
		n.held.Add(1)
		c.begun[at] = true
	case e.Op == topdown.FailOp && c.begun[at]:
		n.held.Add(-1)
		n.failed.Add(1)
		delete(c.begun, at)
	case e.Op == topdown.FailOp && x.Generated:
		n.failed.Add(1)
	}
}
