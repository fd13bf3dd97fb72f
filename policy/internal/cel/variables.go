package cel

import (
	"errors"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/render"
)

// Names are the names of a policy's variables, in order. They are read-only once the
// policy is compiled.
type Names struct {
	list  []string
	index map[string]int
}

// Add adds a name. If a name is added twice, the later one counts.
func (n *Names) Add(name string) {
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[name] = len(n.list)
	n.list = append(n.list, name)
}

// At returns the name of the i-th variable.
func (n *Names) At(i int) string { return n.list[i] }

// Index returns the index of a variable. Expressions escape names that are
// reserved words.
func (n *Names) Index(name string) (i int, ok bool) {
	if i, ok = n.index[name]; ok {
		return i, true
	}
	if unescaped, valid := apiservercel.Unescape(name); valid {
		i, ok = n.index[unescaped]
	}
	return i, ok
}

// Variables is the value of `variables`: a map whose values are evaluated when
// they are first read, and then kept, with their error if they have one
// (k8s.io/apiserver/pkg/cel/lazy). It serves one evaluation of a policy, and is
// not for concurrent use.
type Variables struct {
	names     *Names
	evaluate  func(i int) ref.Val
	questions *Questions // nil: errors carry their questions
	slots     []slot
}

// A slot is the value of one variable.
type slot struct {
	value ref.Val // nil until it is read
	busy  bool
	asked []string // the questions that its evaluation asked
}

// NewVariables returns variables without values. evaluate is called when a variable
// is first read. The questions that it asks are added to questions, which may be nil,
// and added again each time that the variable is read.
func NewVariables(names *Names, questions *Questions, evaluate func(i int) ref.Val) *Variables {
	v := &Variables{questions: questions, evaluate: evaluate}
	v.Reset(names)
	return v
}

// Reset drops all values, and sets the names to those of another policy.
func (v *Variables) Reset(names *Names) {
	v.names = names
	if n := len(names.list); cap(v.slots) < n {
		v.slots = make([]slot, n)
	} else {
		v.slots = v.slots[:n]
		clear(v.slots)
	}
}

// Known returns the value of the i-th variable if it was read, otherwise nil,
// and the questions that it asked.
func (v *Variables) Known(i int) (value ref.Val, asked []string) {
	return v.slots[i].value, v.slots[i].asked
}

// Find implements traits.Mapper.
func (v *Variables) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	i, ok := v.names.Index(string(name))
	if !ok {
		return nil, false
	}
	return v.value(i), true
}

func (v *Variables) value(i int) ref.Val {
	s := &v.slots[i]
	switch {
	case s.busy:
		return types.NewErr("variable %q reads itself", v.names.list[i])
	case s.value == nil:
		s.busy = true
		before := v.questions.len()
		s.value = v.evaluate(i)
		s.asked = v.questions.since(before)
		s.busy = false
	default:
		v.questions.Add(s.asked...)
	}
	return s.value
}

// Variable returns the value of the i-th variable, whose evaluation gave v or err, as
// other expressions read it.
func (n *Names) Variable(i int, v ref.Val, err error) ref.Val {
	if err == nil {
		return v
	}
	return types.NewErr("composited variable %q fails to evaluate: %v", n.list[i], err)
}

// Get implements traits.Indexer.
func (v *Variables) Get(key ref.Val) ref.Val {
	if val, ok := v.Find(key); ok {
		return val
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (v *Variables) Contains(key ref.Val) ref.Val {
	val, ok := v.Find(key)
	if val != nil && types.IsUnknownOrError(val) {
		return val
	}
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (v *Variables) Size() ref.Val { return types.Int(len(v.slots)) }

// Iterator implements traits.Iterable.
func (v *Variables) Iterator() traits.Iterator {
	names := make([]ref.Val, len(v.names.list))
	for i, name := range v.names.list {
		names[i] = types.String(name)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, names).Iterator()
}

var variablesValueType = cel.ObjectType("kubernetes.variables", traits.IndexerType|traits.FieldTesterType|traits.IterableType)

// ConvertToNative implements ref.Val.
func (v *Variables) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("variables can't be converted")
}

// ConvertToType implements ref.Val.
func (v *Variables) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case variablesValueType:
		return v
	case types.TypeType:
		return variablesValueType
	}
	return types.NewErr("disallowed conversion from %q to %q", variablesValueType.TypeName(), t.TypeName())
}

// Equal implements ref.Val.
func (v *Variables) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(v)) }

// Type implements ref.Val.
func (v *Variables) Type() ref.Type { return variablesValueType }

// Value implements ref.Val.
func (v *Variables) Value() any { return v }

// An Expression is one CEL expression of a policy.
type Expression struct {
	Name, Rule      string // the name of a variable or condition; the rule that results name
	Pointer, Source string // in the policy
	Index           int    // in its list in the policy
	Number          int    // among all expressions of the policy
	Want            []*cel.Type
	Origin          render.Span
	AST             *cel.Ast                  // nil if it does not compile
	Program         *Program                  // nil if it is not planned
	Err             error                     // why it does not compile, in a policy that is evaluated all the same
	Explainer       func() *explain.Explainer // returns nil if the expression can't be explained
}

// Compile checks the expression, and sets its AST.
func (e *Expression) Compile(env *cel.Env) (err error) {
	if strings.TrimSpace(e.Source) == "" {
		return errors.New("expression is not specified")
	}
	e.AST, err = Compile(env, e.Source, e.Want...)
	return err
}

// Broken returns an error of the expression, at its place in o, with the rule's name.
func (e *Expression) Broken(o *render.Object, rule string, err error) *render.Error {
	f := policy.ErrorAt(o, e.Pointer, rule, PlainError(err))
	f.Span = PlaceOf(err, o, e.Pointer, e.Source)
	return f
}

// Evaluation returns an evaluation that describes the expression, without a value.
func (e *Expression) Evaluation() policy.Evaluation {
	return policy.Evaluation{Name: e.Rule, Expression: e.Source, Origin: e.Origin}
}

// FirstFalse evaluates match conditions and returns the first false one, in which
// case errors of others do not count. It calls failed for each error, and ends with
// ErrBudget.
func FirstFalse(conditions []*Expression, eval func(*Expression) (ref.Val, error), failed func(*Expression, error)) (*Expression, error) {
	for _, e := range conditions {
		v, err := eval(e)
		switch {
		case errors.Is(err, ErrBudget):
			return nil, err
		case err != nil:
			failed(e, err)
		case v == types.False:
			return e, nil
		}
	}
	return nil, nil
}

// Evaluations describes variables with their values; say describes a value. asked are
// the questions of the variable's evaluation.
func (v *Variables) Evaluations(list []*Expression, say func(ev *policy.Evaluation, e *Expression, value ref.Val, asked []string)) []policy.Evaluation {
	var all []policy.Evaluation
	for i, e := range list {
		ev := e.Evaluation()
		if value := v.slots[i].value; value == nil {
			ev.NotRun = "nothing read it"
		} else {
			say(&ev, e, value, v.slots[i].asked)
		}
		all = append(all, ev)
	}
	return all
}
