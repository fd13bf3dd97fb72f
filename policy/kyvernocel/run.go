package kyvernocel

import (
	"cmp"
	"fmt"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/kyvernocel/internal/kyvernolib"
	"github.com/preadmit/preadmit/render"
)

// A verdict is the outcome of a part of a policy.
type verdict struct {
	rule     string
	origin   render.Span
	outcome  policy.Outcome
	message  string
	fields   []string
	literals []string
	assumed  []string
}

// A run evaluates one policy, or one copy of it, for one request.
type run struct {
	*review
	c       *compiled
	as      policy.Version
	objects *cel.Versioned

	variables *cel.Variables

	request    ref.Val
	object     ref.Val // after the mutations so far
	exceptions ref.Val
	images     ref.Val // of an ImageValidatingPolicy
	reference  ref.Val // of the image under evaluation
}

func (r *review) run(c *compiled, as policy.Version) *run {
	x := &run{review: r, c: c.ready(), as: as, objects: r.objects.In(as.Kind), exceptions: noExceptions}
	r.policy, r.assumed, r.secret = c.policy, nil, as.Kind.Kind == "Secret"
	x.variables = cel.NewVariables(&c.names, nil, x.variable)
	x.object = x.objects.Object
	x.request = r.requests.As(as, false, r.requestTree)
	return x
}

var noExceptions = kyvernolib.Frozen(map[string]any{"allowedImages": []any{}, "allowedValues": []any{}})

// ResolveName implements cel.Activation.
func (r *run) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return r.object, true
	case "oldObject":
		return r.objects.Old, true
	case variablesName:
		return r.variables, true
	case "request":
		return r.request, true
	case "namespaceObject":
		return r.namespaceVar(), true
	case exceptionsName:
		return r.exceptions, true
	case nowName:
		return types.Timestamp{Time: r.engine.now()}, true
	case "images":
		return r.images, r.images != nil
	case "attestors":
		return byName(r.c.spec.Attestors), true
	case "attestations":
		return byName(r.c.spec.Attestations), true
	case "ref":
		return r.reference, r.reference != nil
	}
	if t := handles[name]; t != nil {
		return &handle{t, r.review}, true
	}
	return nil, false
}

var handles = map[string]*types.Type{
	"resource": resourceType, "http": httpType, "globalContext": globalType, "image": imageDataType, "generator": generatorType,
}

// Parent implements cel.Activation.
func (r *run) Parent() celgo.Activation { return nil }

// byName returns entries of an ImageValidatingPolicy as a map by their names.
func byName(list []map[string]any) ref.Val {
	m := map[string]any{}
	for _, entry := range list {
		if name, ok := entry["name"].(string); ok {
			m[name] = entry
		}
	}
	return kyvernolib.Frozen(m)
}

// eval evaluates an expression. Its error is a question, or worded like
// Kyverno's.
func (r *run) eval(e *cel.Expression) (ref.Val, error) {
	v, _, err := e.Program.Eval(r.ctx, r)
	if err != nil {
		if _, open := asked(err); !open {
			err = policy.ShortError(cel.ShownError(e.Source, err, r.secret))
		}
		return nil, err
	}
	return v, nil
}

// variable evaluates a variable.
func (r *run) variable(i int) ref.Val {
	v, err := r.eval(r.c.variables[i])
	if err != nil {
		return types.WrapErr(err)
	}
	return v
}

// holds evaluates an expression that must return a bool.
func (r *run) holds(e *cel.Expression) (bool, error) {
	v, err := r.eval(e)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("%s gives no bool", e.Rule)
	}
	return bool(b), nil
}

// all reports whether all conditions are true. A false one decides even after
// errors in others. culprit is the condition that decided.
func (r *run) all(conditions []*cel.Expression) (holds bool, culprit *cel.Expression, err error) {
	decides, out := cel.FirstFalse(conditions, r.condition, func(e *cel.Expression, broken error) {
		if err == nil {
			err, culprit = broken, e
		}
	})
	if decides != nil {
		return false, decides, nil
	}
	err = cmp.Or(err, out)
	return err == nil, culprit, err
}

// condition is holds with the result as a CEL value.
func (r *run) condition(e *cel.Expression) (ref.Val, error) {
	held, err := r.holds(e)
	return types.Bool(held), err
}

// broken returns the verdict for an error: Unknown if it is a question.
func (r *run) broken(e *cel.Expression, prefix string, err error) verdict {
	v := verdict{outcome: policy.Error, message: prefix + err.Error(), assumed: r.assumptions()}
	if e != nil {
		v.rule, v.origin = e.Rule, e.Origin
	}
	if q, open := asked(err); open {
		v.outcome, v.message = policy.Unknown, q.text
	}
	return v
}

func (r *run) assumptions() []string {
	assumed := slices.Clone(r.c.assumed)
	for _, line := range r.assumed {
		if !slices.Contains(assumed, line) {
			assumed = append(assumed, line)
		}
	}
	return assumed
}
