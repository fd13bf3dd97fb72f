package kyvernocel

import (
	"fmt"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
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

// A run evaluates one request by one policy, or one copy of it.
type run struct {
	*review
	c       *compiled
	as      policy.Version
	objects *cel.Versioned
	meter   cel.Meter

	variables *cel.Variables

	request    ref.Val
	object     ref.Val // as it is by now
	exceptions ref.Val
	images     ref.Val // of an ImageValidatingPolicy
	reference  ref.Val // that is matched
}

func (r *review) run(c *compiled, as policy.Version) *run {
	x := &run{review: r, c: c.ready(), as: as, objects: r.objects.In(as.Kind), exceptions: noExceptions}
	r.policy, r.assumed, r.secret = c.policy, nil, as.Kind.Kind == "Secret"
	x.variables = cel.NewVariables(&c.names, nil, x.variable)
	x.object = x.objects.Object
	var request cel.Sizes
	x.request, request = r.requests.As(as, r.requestTree)
	_, namespace := r.namespaceVar()
	if len(c.broken) == 0 {
		s := x.objects.Sizes.Max(request).Max(namespace)
		x.meter = c.plans.Meter(cel.Inputs{Objects: s, Others: s})
	}
	return x
}

var noExceptions = frozen(map[string]any{"allowedImages": []any{}, "allowedValues": []any{}})

// ResolveName implements cel.Activation.
func (x *run) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return x.object, true
	case "oldObject":
		return x.objects.Old, true
	case variablesName:
		return x.variables, true
	case "request":
		return x.request, true
	case "namespaceObject":
		v, _ := x.namespaceVar()
		return v, true
	case exceptionsName:
		return x.exceptions, true
	case nowName:
		return types.Timestamp{Time: x.engine.now()}, true
	case "images":
		return x.images, x.images != nil
	case "attestors":
		return byName(x.c.spec.Attestors), true
	case "attestations":
		return byName(x.c.spec.Attestations), true
	case "ref":
		return x.reference, x.reference != nil
	}
	if t := handles[name]; t != nil {
		return &handle{t, x.review}, true
	}
	return nil, false
}

var handles = map[string]*types.Type{
	"resource": resourceType, "http": httpType, "globalContext": globalType, "image": imageDataType, "generator": generatorType,
	"json": jsonType, "mcp": mcpType,
}

// Parent implements cel.Activation.
func (x *run) Parent() celgo.Activation { return nil }

// byName returns entries of an ImageValidatingPolicy as a map by their names.
func byName(list []map[string]any) ref.Val {
	m := map[string]any{}
	for _, entry := range list {
		if name, ok := entry["name"].(string); ok {
			m[name] = entry
		}
	}
	return frozen(m)
}

// eval evaluates an expression. Its error has Kyverno's words.
func (x *run) eval(e *expression) (ref.Val, error) {
	v, err := x.meter.Eval(x.ctx, e.program, x)
	if err != nil {
		if _, open := asked(err); !open {
			err = policy.ShortError(cel.ShownError(e.source, err, x.secret))
		}
		return nil, err
	}
	return v, nil
}

// variable evaluates a variable.
func (x *run) variable(i int) ref.Val {
	v, err := x.eval(x.c.variables[i])
	if err != nil {
		return types.WrapErr(err)
	}
	return v
}

// holds evaluates a condition.
func (x *run) holds(e *expression) (bool, error) {
	v, err := x.eval(e)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("%s gives no bool", e.rule)
	}
	return bool(b), nil
}

// all says whether all conditions hold. One that does not decides, whatever
// went wrong before; culprit is the condition that decided.
func (x *run) all(conditions []*expression) (holds bool, culprit *expression, err error) {
	for _, e := range conditions {
		ok, broken := x.holds(e)
		switch {
		case broken != nil && err == nil:
			err, culprit = broken, e
		case broken == nil && !ok:
			return false, e, nil
		}
	}
	return err == nil, culprit, err
}

// broken returns the verdict for an error, or for a question that only a cluster answers.
func (x *run) broken(e *expression, prefix string, err error) verdict {
	v := verdict{outcome: policy.Error, message: prefix + err.Error(), assumed: x.assumptions()}
	if e != nil {
		v.rule, v.origin = e.rule, e.origin
	}
	if q, open := asked(err); open {
		v.outcome, v.message = policy.Unknown, q.text
	}
	return v
}

func (x *run) assumptions() []string {
	assumed := slices.Clone(x.c.assumed)
	for _, line := range x.assumed {
		if !slices.Contains(assumed, line) {
			assumed = append(assumed, line)
		}
	}
	return assumed
}
