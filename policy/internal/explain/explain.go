// Package explain finds out why a CEL expression did not have the expected
// result. It returns the fields of the root objects that decided, as JSON
// pointers, down to single elements of lists.
//
// [New] takes a checked AST and its environment. [Explainer.Explain] takes, for
// each failure, the values of the variables, and returns an [Explanation]. CEL evaluates
// the expression once more, over maps and lists that know their places in the roots. Its
// program is planned such that each sub-expression can be evaluated by itself, with any
// values of loop variables. So a node is made for each sub-expression that an
// explanation asks for: its value, its place, the nodes from which the value was
// computed, and each iteration of a macro. blame walks these nodes down from the
// result. CEL stops at the first element that decides a quantifier; nodes are made for
// the others, too, so that all elements at fault are named. The package does not depend
// on admission: it works for CEL over any JSON.
//
// compile.go classifies the parts of an AST, machine.go plans them and bounds what they
// take, eval.go makes nodes of them, with the values of value.go and the places of
// place.go. blame.go, operators.go and search.go find the culprits, summary.go the
// likeliest ones.
package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// An Explainer explains the failures of one expression. It is made once, is
// read-only, and safe for concurrent use.
type Explainer struct {
	env      *cel.Env
	programs []*program // the expression, then the variables; nil if it reads none of that name
	names    []string   // of the variables
	cells    int
	idle     atomic.Pointer[machine]
}

// A Variable is a composited variable that expressions read as variables.NAME.
type Variable struct {
	Name string
	AST  *cel.Ast
}

// Input describes one failed evaluation.
type Input struct {
	// Roots are the variables of the expression by name: values of
	// map[string]any, []any, string, int64, float64, bool and nil, or CEL
	// values, such as an authorizer or objects typed by a schema, whose
	// property names are unescaped in pointers. They are only read.
	Roots map[string]any

	// Want is the expected value of the expression.
	Want bool

	// Steps is the most steps that the explanation shows.
	Steps int

	// Hide leaves out all values, as is done anyway if a root is a Secret.
	Hide bool

	// Places leaves out texts: culprits have only the root, the pointer,
	// Missing and literals, and there is no summary.
	Places bool
}

// MaxCulprits is the most culprits that an explanation names.
const MaxCulprits = 32

// A Culprit is a field that decided the result.
type Culprit struct {
	Root    string // the name of the root, such as object
	Pointer string // RFC 6901, within the root
	Missing bool   // the field does not exist; the pointer is where it would be
	Value   any    // value in the root; may be secret
	Text    string // the part of the expression that failed on it
	Element string // the list element it belongs to, such as `containers[1] "side"`

	failed *code // the code that failed on it, or nil if unknown
}

// A Step is a sub-expression and the value it had.
type Step struct {
	Depth int    // how deep it nests
	Loop  string // the element it was evaluated for, such as `c = containers[1] "side"`
	Text  string
	Value string // cut to a line's length; hidden where a Secret is involved
	Error bool
}

// An Explanation is the reason why an expression failed.
type Explanation struct {
	// Culprits are ordered by root (the request's objects before policies'
	// parameters), then by likelihood, then as in the document. They are nil if
	// the failure can't be explained, because no pointer is better than a wrong
	// one.
	Culprits []Culprit

	// More is the number of culprits left out beyond MaxCulprits. Incomplete
	// reports that there may be others still, because there were too many
	// elements to evaluate.
	More       int
	Incomplete bool

	Steps   []Step
	Summary string // one line
}

// ErrLimit is the error for an evaluation that takes too much time or memory to
// explain.
var ErrLimit = errors.New("expression is too expensive to explain")

// New prepares the explanation of a checked expression. env must have the
// functions and types of the environment in which ast and the variables were
// checked; its program options, such as cost tracking, are ignored. Variables
// must be in the order of their declaration. If the ASTs were compiled with
// cel.EnableMacroCallTracking, macros are shown as written.
func New(env *cel.Env, ast *cel.Ast, variables []Variable) (*Explainer, error) {
	e := &Explainer{env: env, programs: make([]*program, 1+len(variables)), names: make([]string, len(variables))}
	c := &compiler{env: env, variables: make(map[string]int, len(variables)), needed: make([]int, 0, len(variables))}
	for i, v := range variables {
		c.variables[v.Name] = i
		e.names[i] = v.Name
	}
	var err error
	if e.programs[0], err = c.program(ast); err != nil {
		return nil, err
	}
	for len(c.needed) > 0 {
		i := c.needed[0]
		if c.needed = c.needed[1:]; e.programs[1+i] != nil {
			continue
		}
		if e.programs[1+i], err = c.program(variables[i].AST); err != nil {
			return nil, err
		}
	}
	e.cells = c.count
	m, err := newMachine(env, e.programs, e.cells)
	if err != nil {
		return nil, err
	}
	e.idle.Store(m)
	return e, nil
}

// Explain explains why the expression did not have the value in.Want. It fails
// with ctx's error or ErrLimit.
func (e *Explainer) Explain(ctx context.Context, in Input) (Explanation, error) {
	r, err := e.start(ctx, in)
	if err != nil {
		return Explanation{}, err
	}
	defer e.release(r.machine)
	top := r.eval(e.programs[0].top, new(frame))
	if r.stop != nil {
		if err := ctx.Err(); err != nil {
			return Explanation{}, err
		}
		return Explanation{}, ErrLimit
	}
	r.nodes = 0
	ex := r.explain(top)
	if r.stop != nil {
		ex.Incomplete = true
	}
	return ex, ctx.Err()
}

func (e *Explainer) start(ctx context.Context, in Input) (*run, error) {
	m := e.idle.Swap(nil)
	if m == nil {
		var err error
		if m, err = newMachine(e.env, e.programs, e.cells); err != nil {
			return nil, err
		}
	}
	m.ctx, m.nodes, m.weight, m.stop = ctx, 0, 0, nil
	m.run = &run{machine: m, e: e, input: in, roots: make(map[string]*node), vars: make([]*node, len(e.names))}
	return m.run, nil
}

// release keeps a machine for the next run, but not what this one has read.
func (e *Explainer) release(m *machine) {
	m.run, m.ctx = nil, nil
	e.idle.Store(m)
}

func (r *run) explain(top *node) Explanation {
	ex := Explanation{Incomplete: r.incomplete}
	if r.input.Steps > 0 {
		ex.Steps = r.steps(top)
	}
	if top.val == types.Bool(r.input.Want) {
		return ex // this evaluation disagrees with the caller's, so there is no explanation
	}
	c := &collector{r: r}
	c.begin(collectorBudget)
	c.blame(top, r.input.Want, strong)
	found := c.reduce()
	ex.More = max(0, len(found)-MaxCulprits)
	ex.Culprits = slices.Clip(r.culprits(found[:len(found)-ex.More]))
	if !r.input.Places {
		ex.Summary = r.summary(top, found)
	}
	return ex
}

// A tracer lists the sub-expressions of an evaluation with their values.
type tracer struct {
	steps []Step
	most  int
	hide  bool
	seen  map[*node]bool // variables already shown
}

func (r *run) steps(top *node) []Step {
	t := &tracer{most: r.input.Steps, hide: r.secret(), seen: make(map[*node]bool)}
	t.walk(top, 0, "")
	return t.steps
}

func (t *tracer) walk(n *node, depth int, loop string) {
	if n == nil || n.x == nil || len(t.steps) >= t.most {
		return
	}
	switch n.x.op {
	case opConst, opRoot, opLocal:
		return
	}
	t.steps = append(t.steps, Step{
		Depth: depth, Loop: loop, Text: cut(n.x.source(), maxAtom), Value: t.value(n.val), Error: failed(n),
	})
	if n.x.op == opVariable {
		if n.via() != nil && !t.seen[n.via()] {
			t.seen[n.via()] = true
			t.walk(n.via(), depth+1, "")
		}
		return
	}
	for _, kid := range n.kids() {
		if isArgument(n.x, kid.x) {
			t.walk(kid, depth+1, loop)
		}
	}
	for i := range n.turns() {
		turn := &n.turns()[i]
		name := strings.Join(slices.DeleteFunc([]string{loop, t.label(n.x, turn)}, func(s string) bool { return s == "" }), ", ")
		for _, part := range []*node{turn.test, turn.body, turn.last} {
			if part != nil && isArgument(n.x, part.x) {
				t.walk(part, depth+1, name)
			}
		}
	}
}

// isArgument reports whether sub is part of x's own text. Loop variables lead to nodes
// of other places.
func isArgument(x, sub *code) bool {
	return sub != nil && slices.Contains(x.args, sub)
}

// label names the element of an iteration.
func (t *tracer) label(x *code, of *turn) string {
	vars := x.expr.AsComprehension()
	var parts []string
	for i, name := range []string{vars.IterVar(), vars.IterVar2()} {
		n := of.frame.vars[i]
		if n == nil || name == "" {
			continue
		}
		text := t.value(n.val)
		if at := placeOf(n.val); at != nil {
			text = element(at.steps())
			if text == "" {
				text = pointer(at.steps())
			}
		}
		parts = append(parts, name+" = "+text)
	}
	return strings.Join(parts, ", ")
}

func (t *tracer) value(v ref.Val) string {
	if !t.hide {
		return shown(v)
	}
	switch v.(type) {
	case types.Bool, types.Null:
		return shown(v)
	}
	return "(hidden)"
}

// container shows a list or map in brief.
func container(v ref.Val) string {
	if v == nil {
		return ""
	}
	switch c := v.(type) {
	case traits.Mapper:
		return mapText(c)
	case traits.Lister:
		return listText(c)
	case *types.Type:
		return c.TypeName()
	}
	if s, ok := v.(fmt.Stringer); ok {
		return cut(s.String(), maxLine)
	}
	return cut(fmt.Sprint(v.Value()), maxLine)
}

// maxKeys is the most keys of a map that are shown.
const maxKeys = 6

// mapText shows a map by its name, if it has one, or else by its keys.
func mapText(m traits.Mapper) string {
	size, _ := m.Size().(types.Int)
	if name, ok := m.Find(types.String("name")); ok && size > 1 {
		if s, ok := name.(types.String); ok {
			return fmt.Sprintf("{name: %q, … %d keys}", cut(string(s), 60), int(size))
		}
	}
	var keys []string
	for it := m.Iterator(); it.HasNext() == types.True && len(keys) < 1000; {
		keys = append(keys, fmt.Sprint(it.Next().Value()))
	}
	slices.Sort(keys)
	if len(keys) > maxKeys {
		keys = append(keys[:maxKeys], fmt.Sprintf("… %d keys", int(size)))
	}
	return cut("{"+strings.Join(keys, ", ")+"}", maxLine)
}

// listText shows the first elements of a list.
func listText(l traits.Lister) string {
	size, _ := l.Size().(types.Int)
	var b strings.Builder
	b.WriteByte('[')
	for i := range min(int(size), 8) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(shown(l.Get(types.Int(i))))
	}
	if size > 8 {
		fmt.Fprintf(&b, ", … %d in all", int(size))
	}
	b.WriteByte(']')
	return cut(b.String(), maxLine)
}
