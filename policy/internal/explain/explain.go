// Package explain finds out why a CEL expression did not have the expected
// result. It returns the fields of the root objects that decided, as JSON
// pointers, down to single elements of lists.
//
// [New] takes a checked AST and its environment. [Explainer.Explain] takes, for
// each failure, the values of the variables, and returns an [Explanation]. It
// evaluates the expression once more with an interpreter of its own, which
// calls the environment's functions and keeps a node for each value: the place
// where it was read, the nodes from which it was computed, and each iteration
// of a macro. blame then walks these nodes down from the result. CEL stops at
// the first element that decides a quantifier; this interpreter continues, so
// that all elements at fault are named. The package does not depend on admission:
// it works for CEL over any JSON.
//
// compile.go makes code of an AST; eval.go, call.go, loops.go and macros.go run it on the
// values of value.go, with the places of place.go. blame.go, operators.go and search.go
// find the culprits, summary.go the likeliest ones, steps.go lists the parts.
package explain

import (
	"context"
	"errors"
	"slices"

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

// Explain explains why the expression did not have the value in.Want. It fails
// with ctx's error or ErrLimit.
func (e *Explainer) Explain(ctx context.Context, in Input) (Explanation, error) {
	r := &run{e: e, ctx: ctx, input: in, roots: make(map[string]*node), vars: make([]*node, len(e.variables))}
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
