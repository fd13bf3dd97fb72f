package gatekeeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A nativeCode is the compiled CEL of a template. Apart from values made on
// first use it is read-only. It is safe for concurrent use
// (gatekeeper/v3/pkg/drivers/k8scel).
type nativeCode struct {
	text        string
	ignores     bool // its failurePolicy is Ignore
	generates   bool // Gatekeeper generates a ValidatingAdmissionPolicy from it
	variables   []*cel.Expression
	names       cel.Names // of the variables
	conditions  []*cel.Expression
	validations []*cel.Expression
	messages    []*cel.Expression // by validation; nil without messageExpression
	fixed       []string          // messages as written, by validation
}

// A nativeSource is the source of the K8sNativeValidation engine as written.
type nativeSource struct {
	Validations []struct {
		Expression        string `json:"expression"`
		Message           string `json:"message"`
		MessageExpression string `json:"messageExpression"`
	} `json:"validations"`
	FailurePolicy   *string           `json:"failurePolicy"`
	MatchConditions []namedExpression `json:"matchCondition"`
	Variables       []namedExpression `json:"variables"`
	GenerateVAP     *bool             `json:"generateVAP"`
}

type namedExpression struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// The variables that Gatekeeper puts before a template's own. In paramsSource,
// params is the constraint.
const (
	paramsName     = "params"
	anyObjectName  = "anyObject"
	reservedPrefix = "gatekeeper_internal_"

	paramsSource    = "has(params.spec) && has(params.spec.parameters) ? params.spec.parameters : null"
	anyObjectSource = `object == null && request.operation == "DELETE" ? oldObject : object`
)

// newNative reads and compiles the CEL at a pointer of a template.
func (c *compiler) newNative(o *render.Object, pointer string, source map[string]any) (*nativeCode, []error) {
	if source == nil {
		return nil, []error{policy.ErrorAt(o, pointer, "cel", errors.New("the code has no source"))}
	}
	var s nativeSource
	errs := document.Decode(o, pointer, source, &s, "cel")
	if document.Broken(errs) {
		return nil, errs
	}
	if f := s.fault(); f != nil {
		return nil, append(errs, policy.ErrorAt(o, pointer+f.pointer, "cel", f.err))
	}
	envs, err := c.cel()
	if err != nil {
		return nil, append(errs, err)
	}
	exprs := s.expressions()
	more := exprs.compile(o, pointer, envs)
	if errs = append(errs, more...); len(more) > 0 {
		return nil, errs
	}
	for _, e := range exprs.validations {
		e.Explainer = exprs.names.ExplainerOf(e.AST, exprs.variables)
	}
	return exprs, errs
}

// fault returns the reason why Gatekeeper would refuse the source, or nil.
func (n *nativeSource) fault() *fault {
	for i, c := range n.MatchConditions {
		if strings.HasPrefix(c.Name, reservedPrefix) {
			return &fault{render.Pointer("matchCondition", i, "name"), fmt.Errorf("match condition %s: names that begin with %s are Gatekeeper's own", c.Name, reservedPrefix)}
		}
	}
	for i, v := range n.Variables {
		if v.Name == paramsName || v.Name == anyObjectName || strings.HasPrefix(v.Name, reservedPrefix) {
			return &fault{render.Pointer("variables", i, "name"), fmt.Errorf("variable %s: Gatekeeper has one of that name itself", v.Name)}
		}
	}
	if p := n.FailurePolicy; p != nil && *p != "Fail" && *p != "Ignore" {
		return &fault{"/failurePolicy", fmt.Errorf("failurePolicy %q is neither Fail nor Ignore", *p)}
	}
	return nil
}

// expressions lists the expressions, in the order in which they are compiled.
func (n *nativeSource) expressions() *nativeCode {
	c := &nativeCode{generates: n.GenerateVAP != nil && *n.GenerateVAP}
	c.ignores = n.FailurePolicy != nil && *n.FailurePolicy == "Ignore"
	variable := func(name, pointer, source string) {
		c.names.Add(name)
		c.variables = append(c.variables, &cel.Expression{Name: name, Rule: "variables." + name, Pointer: pointer, Source: source})
	}
	variable(anyObjectName, "", anyObjectSource)
	variable(paramsName, "", paramsSource)
	for i, v := range n.Variables {
		variable(v.Name, render.Pointer("variables", i, "expression"), v.Expression)
	}
	boolean, text := []*celgo.Type{celgo.BoolType}, []*celgo.Type{celgo.StringType}
	for i, m := range n.MatchConditions {
		c.conditions = append(c.conditions, &cel.Expression{Name: m.Name, Pointer: render.Pointer("matchCondition", i, "expression"), Source: m.Expression, Want: boolean})
	}
	var all []string
	for i, v := range n.Validations {
		c.validations = append(c.validations, &cel.Expression{Pointer: render.Pointer("validations", i, "expression"), Source: v.Expression, Want: boolean})
		c.fixed, c.messages = append(c.fixed, strings.TrimSpace(v.Message)), append(c.messages, nil)
		if v.MessageExpression != "" {
			c.messages[i] = &cel.Expression{Pointer: render.Pointer("validations", i, "messageExpression"), Source: v.MessageExpression, Want: text}
		}
		all = append(all, strings.TrimSpace(v.Expression))
	}
	c.text = strings.Join(all, "\n")
	return c
}

// each calls f for every expression, in order.
func (n *nativeCode) each(f func(*cel.Expression)) {
	for _, list := range [][]*cel.Expression{n.variables, n.conditions, n.validations, n.messages} {
		for _, e := range list {
			if e != nil {
				f(e)
			}
		}
	}
}

// nativeEnvs holds the CEL environments of templates, without and with params.
// Gatekeeper compiles CEL itself, so they have all functions of the libraries,
// whatever the API server's version.
type nativeEnvs struct{ plain, params *celgo.Env }

func newNativeEnvs() (*nativeEnvs, error) {
	stored := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	plain, err := cel.Newest().Extend(stored, cel.PolicyDeclarations(false, false))
	if err != nil {
		return nil, err
	}
	params, err := cel.Newest().Extend(plain, cel.Declarations{Variables: map[string]*celgo.Type{paramsName: celgo.DynType}})
	return &nativeEnvs{plain, params}, err
}

// compile compiles the expressions, each variable with those before it, and
// plans them. Errors have their places in the template.
func (n *nativeCode) compile(o *render.Object, base string, envs *nativeEnvs) []error {
	types := cel.VariablesType()
	plain, err := cel.Newest().WithVariables(envs.plain, types)
	if err != nil {
		return []error{policy.ErrorAt(o, base, "cel", err)}
	}
	params, err := cel.Newest().WithVariables(envs.params, types)
	if err != nil {
		return []error{policy.ErrorAt(o, base, "cel", err)}
	}
	var errs []error
	ofVariables := len(n.variables)
	n.each(func(e *cel.Expression) {
		env := plain
		if ofVariables > 0 {
			env = params
		}
		e.Pointer = base + e.Pointer
		e.Origin = o.Span(e.Pointer)
		err := e.Compile(env)
		if err == nil {
			e.Program, err = cel.Plan(e.AST)
		}
		if err != nil {
			errs = append(errs, e.Broken(o, "cel", err))
		}
		if ofVariables > 0 {
			ofVariables--
			var t *celgo.Type
			if e.AST != nil {
				t = e.AST.OutputType()
			}
			cel.AddVariable(types, e.Name, t)
		}
	})
	return errs
}

// terms converts JSON values to Rego terms.
type terms struct {
	// floats converts integers as Go's JSON decoder does, so that they are
	// printed with six digits at most before the exponent. Gatekeeper passes
	// objects to Rego through JSON, so its policies print 1e+06. Parameters
	// keep integers.
	floats bool
	// texts are terms of the texts so far, which many objects share, or nil.
	texts map[string]*ast.Term
}

var (
	exact    = terms{}
	overJSON = terms{floats: true}
)

// term converts a JSON value to a term. It shares nothing with the value.
func (t terms) term(x any) *ast.Term {
	switch x := x.(type) {
	case nil:
		return ast.NullTerm()
	case string:
		return t.text(x)
	case bool:
		return ast.BooleanTerm(x)
	case int64:
		return ast.NewTerm(t.integer(x))
	case float64:
		return ast.FloatNumberTerm(x)
	case []any:
		elems := make([]*ast.Term, len(x))
		for i, e := range x {
			elems[i] = t.term(e)
		}
		return ast.ArrayTerm(elems...)
	case map[string]any:
		pairs := make([][2]*ast.Term, 0, len(x))
		for k, v := range x {
			pairs = append(pairs, [2]*ast.Term{t.text(k), t.term(v)})
		}
		return ast.NewTerm(ast.NewObject(pairs...))
	case int:
		return ast.NewTerm(t.integer(int64(x)))
	case json.Number:
		return ast.NumberTerm(x)
	}
	return ast.NullTerm()
}

func (t terms) text(s string) *ast.Term {
	known := t.texts[s]
	if known == nil {
		known = ast.StringTerm(s)
		if t.texts != nil {
			t.texts[s] = known
		}
	}
	return known
}

func (t terms) integer(n int64) ast.Number {
	if t.floats && (n >= 1e6 || n <= -1e6) {
		return ast.Number(strconv.FormatFloat(float64(n), 'g', -1, 64))
	}
	return ast.Number(strconv.FormatInt(n, 10))
}
