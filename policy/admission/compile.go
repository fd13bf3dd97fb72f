package admission

import (
	"fmt"
	"slices"
	"sync"

	celgo "github.com/google/cel-go/cel"
	v1 "k8s.io/api/admissionregistration/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// environments holds the CEL environments of one version, by their
// declarations. It is safe for concurrent use.
type environments struct {
	version cel.Version
	byDecl  map[declares]func() (*celgo.Env, error)
}

// declares lists the variables and types that not all expressions have.
type declares struct{ params, authorizer, patches bool }

func newEnvironments(v cel.Version) *environments {
	e := &environments{version: v, byDecl: map[declares]func() (*celgo.Env, error){}}
	for _, d := range []declares{
		{},
		{params: true},
		{authorizer: true},
		{params: true, authorizer: true},
		{authorizer: true, patches: true},
		{params: true, authorizer: true, patches: true},
	} {
		e.byDecl[d] = sync.OnceValues(func() (*celgo.Env, error) {
			all := cel.PolicyDeclarations(d.params, d.authorizer)
			all.Patches = d.patches
			return v.Env(all)
		})
	}
	return e
}

// compiled is a policy that the API server would accept. It is read-only.
type compiled struct {
	object      *render.Object
	policy      *v1.ValidatingAdmissionPolicy
	criteria    *match.Criteria
	variables   []*cel.Expression
	names       cel.Names // of the variables
	conditions  []*cel.Expression
	validations []*cel.Expression
	messages    []*cel.Expression // by validation; nil without messageExpression
	annotations []*cel.Expression
	expressions int
	severity    policy.Severity
	mutates     *mutates // set for a MutatingAdmissionPolicy
}

// sources lists the policy's expressions in the order in which they are
// compiled, variables first since the others read them.
func sources(p *v1.ValidatingAdmissionPolicy) *compiled {
	c := &compiled{policy: p}
	add := func(e cel.Expression) *cel.Expression {
		e.Number = c.expressions
		c.expressions++
		return &e
	}
	for i, v := range p.Spec.Variables {
		c.names.Add(v.Name)
		c.variables = append(c.variables, add(cel.Expression{
			Rule: "variables[" + v.Name + "]", Pointer: render.Pointer("spec", "variables", i, "expression"), Source: v.Expression,
		}))
	}
	for i, m := range p.Spec.MatchConditions {
		c.conditions = append(c.conditions, add(cel.Expression{
			Name: m.Name, Rule: "matchConditions[" + m.Name + "]", Pointer: render.Pointer("spec", "matchConditions", i, "expression"), Source: m.Expression,
			Want: []*celgo.Type{celgo.BoolType},
		}))
	}
	for i, v := range p.Spec.Validations {
		rule := fmt.Sprintf("validations[%d]", i)
		c.validations = append(c.validations, add(cel.Expression{
			Rule: rule, Index: i, Pointer: render.Pointer("spec", "validations", i, "expression"), Source: v.Expression,
			Want: []*celgo.Type{celgo.BoolType},
		}))
		c.messages = append(c.messages, nil)
		if v.MessageExpression != "" {
			c.messages[i] = add(cel.Expression{
				Rule: rule, Pointer: render.Pointer("spec", "validations", i, "messageExpression"), Source: v.MessageExpression,
				Want: []*celgo.Type{celgo.StringType},
			})
		}
	}
	for i, a := range p.Spec.AuditAnnotations {
		c.annotations = append(c.annotations, add(cel.Expression{
			Rule: "auditAnnotations[" + a.Key + "]", Pointer: render.Pointer("spec", "auditAnnotations", i, "valueExpression"), Source: a.ValueExpression,
			Want: []*celgo.Type{celgo.StringType, celgo.NullType},
		}))
	}
	return c
}

// each calls f for every expression of the policy, in order.
func (c *compiled) each(f func(*cel.Expression)) {
	for _, list := range [][]*cel.Expression{c.variables, c.conditions, c.validations, c.messages, c.annotations} {
		for _, e := range list {
			if e != nil {
				f(e)
			}
		}
	}
}

// scope compiles the expressions of one policy. Each compiled variable adds a
// field to the type of `variables`. It is not safe for concurrent use.
type scope struct {
	plain, authorizer *celgo.Env // without and with an authorizer declared
	patches           *celgo.Env // and with the types of patches; nil for a ValidatingAdmissionPolicy
	variables         *apiservercel.DeclType
}

func newScope(envs *environments, params, patches bool) (*scope, error) {
	s := &scope{variables: cel.VariablesType()}
	var err error
	if s.plain, err = s.extend(envs, declares{params: params}); err != nil {
		return nil, err
	}
	if s.authorizer, err = s.extend(envs, declares{params: params, authorizer: true}); err != nil || !patches {
		return s, err
	}
	s.patches, err = s.extend(envs, declares{params: params, authorizer: true, patches: true})
	return s, err
}

func (s *scope) extend(envs *environments, d declares) (*celgo.Env, error) {
	base, err := envs.byDecl[d]()
	if err != nil {
		return nil, err
	}
	return envs.version.WithVariables(base, s.variables)
}

// all compiles every expression of a policy and returns the errors by
// expression. Variables are compiled in order, so that each can read those
// before it.
func (s *scope) all(c *compiled) map[int]error {
	errs := map[int]error{}
	c.each(func(e *cel.Expression) {
		env := s.authorizer
		switch {
		case slices.Contains(c.messages, e):
			env = s.plain
		case c.mutates != nil && slices.Contains(c.validations, e):
			env = s.patches
		}
		err := e.Compile(env)
		if err != nil {
			errs[e.Number] = err
		}
		if e.Number < len(c.variables) {
			var t *celgo.Type
			if err == nil {
				t = e.AST.OutputType()
			}
			cel.AddVariable(s.variables, c.names.At(e.Number), t)
		}
	})
	return errs
}

// compiler compiles policies as one version of the API server does. It is safe
// for concurrent use.
type compiler struct {
	version cel.Version
	mu      sync.Mutex
	envs    map[cel.Version]*environments
	types   *typeChecker // nil checks nothing
	valid   bool         // see Options.Valid
}

func (c *compiler) environments(v cel.Version) *environments {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.envs[v] == nil {
		c.envs[v] = newEnvironments(v)
	}
	return c.envs[v]
}

// compile compiles a policy. It returns a *render.Error for each expression that
// does not compile. Broken validations, messages and annotations are left out of
// the policy. If a variable or a match condition is broken, the policy is nil.
func (c *compiler) compile(o *render.Object, p *v1.ValidatingAdmissionPolicy, m *mutates) (*compiled, []error) {
	programs, errs, err := c.check(c.version, p, m)
	if err != nil {
		return nil, []error{at(o, "", "policy", err)}
	}
	var faults []error
	programs.each(func(e *cel.Expression) {
		err, broken := errs[e.Number]
		if broken {
			err = c.explain(p, m, e, err)
		} else {
			e.Program, err = cel.Plan(e.AST)
		}
		if err != nil {
			faults = append(faults, e.Broken(o, e.Rule, err))
		}
	})
	if !programs.complete(programs.variables) || !programs.complete(programs.conditions) {
		return nil, faults
	}
	programs.ready(o)
	return programs, faults
}

// complete reports whether all expressions of a list compiled.
func (c *compiled) complete(list []*cel.Expression) bool {
	return !slices.ContainsFunc(list, func(e *cel.Expression) bool { return e.Program == nil })
}

// ready removes the expressions that do not compile and prepares the others for
// evaluation.
func (c *compiled) ready(o *render.Object) {
	var messages []*cel.Expression
	for i, m := range c.messages {
		switch {
		case c.validations[i].Program == nil:
			continue
		case m != nil && m.Program == nil:
			m = nil
		}
		messages = append(messages, m)
	}
	c.messages = messages
	broken := func(e *cel.Expression) bool { return e.Program == nil }
	c.validations = slices.DeleteFunc(c.validations, broken)
	c.annotations = slices.DeleteFunc(c.annotations, broken)
	if c.mutates == nil {
		for _, e := range c.validations {
			e.Explainer = c.explainer(e)
		}
	}
	c.each(func(e *cel.Expression) { e.Origin = o.Span(e.Pointer) })
	c.object, c.severity = o, policy.Notes{c.policy.Annotations}.Severity()
	c.criteria = match.New(c.policy.Spec.MatchConstraints)
}

func (c *compiler) check(v cel.Version, p *v1.ValidatingAdmissionPolicy, m *mutates) (*compiled, map[int]error, error) {
	s, err := newScope(c.environments(v), p.Spec.ParamKind != nil, m != nil)
	if err != nil {
		return nil, nil, err
	}
	names := sources(p)
	if m != nil {
		m.sources(names)
	}
	return names, s.all(names), nil
}

// explain adds to a compile error that a newer API server would accept the
// expression, if so.
func (c *compiler) explain(p *v1.ValidatingAdmissionPolicy, m *mutates, e *cel.Expression, err error) error {
	needed, ok := c.version.NeededVersion(func(v cel.Version) bool {
		_, errs, err := c.check(v, p, m)
		return err == nil && errs[e.Number] == nil
	})
	if !ok {
		return err
	}
	return fmt.Errorf("needs Kubernetes %v or newer: %w", needed, err)
}

// cover counts the branches of the policy's expressions.
func (c *compiled) cover(coverage *policy.Coverage) {
	if coverage == nil || c.object.Span("").File == "" { // a policy of a pack
		return
	}
	c.each(func(e *cel.Expression) {
		e.Cover(coverage, c.object, policy.Branch{Engine: c.engine(), Policy: c.policy.Name, Rule: e.Rule})
	})
}
