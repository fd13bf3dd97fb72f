// Package explain says why a CEL expression did not have the expected result: it
// returns the fields of the root objects that decided, as JSON pointers, down to each
// element of a list.
//
// In goes a checked AST with the environment it was checked in ([New]), then,
// per failure, the roots it was evaluated over; out comes an [Explanation].
// The expression is evaluated once more by an interpreter of our own. It calls the
// environment's functions and keeps a node for each value, with the place where it was
// read, the nodes it was computed from, and each turn of a macro. Blame then
// walks these nodes down from the result. Where CEL stops at the first
// element that decides a quantifier, the interpreter goes on, so that all
// elements at fault are named. Nothing is known here of admission: it serves
// whatever holds CEL against JSON.
package explain

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
)

// An Explainer explains the failures of one expression. It is made once, is
// read-only, and safe for concurrent use.
type Explainer struct {
	code      *code
	variables []*code
	names     []string
	provider  types.Provider
	runs      sync.Pool
}

// A Variable is a composited variable that expressions read as variables.NAME.
type Variable struct {
	Name string
	AST  *cel.Ast
}

// Input is one evaluation that failed.
type Input struct {
	// Roots are the values the expression starts from, by the names it uses:
	// trees of map[string]any, []any, string, int64, float64, bool and nil, or
	// CEL values, such as an authorizer or objects typed by a schema (whose
	// escaped property names are in the pointers as they are written).
	// They are only read.
	Roots map[string]any

	// Want is the value that the expression should have had.
	Want bool

	// Steps is how many steps the explanation shall show at most.
	Steps int

	// Hide says that no value may be shown, as none is where a root is a Secret.
	Hide bool

	// Places leaves out the texts for people: of culprits there are the root, the
	// pointer, whether they are missing, and literals; there is no summary.
	Places bool

	// Nodes limits how many sub-expressions are evaluated; 0 means 200,000.
	Nodes int
}

// MaxCulprits is how many culprits an explanation names at most.
const MaxCulprits = 32

// A Culprit is a field that decided the result.
type Culprit struct {
	Root    string // the name of the root, such as object
	Pointer string // RFC 6901, within the root
	Missing bool   // nothing stands there: the pointer says where it would
	Value   any    // what stands there, as in the root; may be secret
	Text    string // the part of the expression that failed on it
	Element string // the list element it belongs to, such as `containers[1] "side"`

	failed *code // what failed on it; nil where it is unknown
}

// A Step is a sub-expression and the value it had.
type Step struct {
	Depth int    // how deep it nests
	Loop  string // the element it was evaluated for, such as `c = containers[1] "side"`
	Text  string
	Value string // cut to a line's length; hidden where a Secret is involved
	Error bool
}

// An Explanation says why an expression failed.
type Explanation struct {
	// Culprits are ordered by root (what the request brings before what it is
	// held against), then the most telling first, then as in the document.
	// They are nil when the failure can't be explained: no pointer is better
	// than a wrong one.
	Culprits []Culprit

	// More is how many culprits were left out beyond MaxCulprits. Incomplete
	// says that there may be others still: there were too many elements to
	// look at them all.
	More       int
	Incomplete bool

	Steps   []Step
	Summary string // one line
}

// ErrLimit says that an evaluation took more than it may to be explained.
var ErrLimit = errors.New("expression takes too much to be explained")

// New prepares the explanation of a checked expression. env has the functions
// and types of the environment that ast and the variables were checked in;
// program options, such as cost tracking, don't matter. Variables stand in the
// order in which they are declared. The texts of macros are the author's when
// the ASTs were compiled with cel.EnableMacroCallTracking.
func New(env *cel.Env, ast *cel.Ast, variables []Variable) (*Explainer, error) {
	e := &Explainer{provider: env.CELTypeProvider(), variables: make([]*code, len(variables))}
	c := &compiler{
		env: env, variables: make(map[string]int, len(variables)),
		overloads: make(map[string]*functions.Overload), known: make(map[string]bool),
	}
	for i, v := range variables {
		c.variables[v.Name] = i
		e.names = append(e.names, v.Name)
	}
	var err error
	if e.code, err = c.program(ast); err != nil {
		return nil, err
	}
	for len(c.needed) > 0 {
		i := c.needed[0]
		if c.needed = c.needed[1:]; e.variables[i] != nil {
			continue
		}
		if e.variables[i], err = c.program(variables[i].AST); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Explain says why the expression did not give in.Want. The error is that of
// ctx, or ErrLimit.
func (e *Explainer) Explain(ctx context.Context, in Input) (Explanation, error) {
	r, _ := e.runs.Get().(*run)
	if r == nil {
		r = &run{e: e, roots: make(map[string]*node), vars: make([]*node, len(e.variables))}
	}
	defer func() {
		r.reset()
		e.runs.Put(r)
	}()
	r.ctx, r.input, r.limit = ctx, in, in.Nodes
	if r.limit <= 0 {
		r.limit = defaultNodes
	}
	top := r.eval(e.code, nil)
	if r.stop != nil {
		if err := ctx.Err(); err != nil {
			return Explanation{}, err
		}
		return Explanation{}, ErrLimit
	}
	ex := r.explain(top)
	if r.stop != nil {
		ex.Incomplete = true
	}
	return ex, ctx.Err()
}

func (r *run) explain(top *node) Explanation {
	ex := Explanation{Incomplete: r.incomplete}
	if r.input.Steps > 0 {
		ex.Steps = r.steps(top)
	}
	if top.val == types.Bool(r.input.Want) {
		return ex // our evaluation disagrees with the caller's: nothing to say
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
