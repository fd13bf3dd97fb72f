package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Types describes the resources that the API server serves, and their fields.
// It must be safe for concurrent use.
type Types interface {
	cel.Types
	// BuiltinGroup reports whether nothing is served in a group but Resources.
	BuiltinGroup(group string) bool
	// OtherRelease reports whether a resource is not served, but by another
	// release of Kubernetes.
	OtherRelease(schema.GroupVersionResource) bool
}

// A typeChecker computes the warnings that the API server would write to a
// policy's status.typeChecking: type errors of validations and their messages
// for the kinds that the policy names. Like the API server it checks no other
// expressions, no rules with wildcards, and at most ten kinds of a rule
// (k8s.io/apiserver/pkg/admission/plugin/policy/validating).
//
// Two of the API server's warnings are left out because they are wrong:
// "undefined field" for fields that are quantities, such as limits (see Schema
// of policy/schema), and "unexpected failed resolution" for
// authorizer.requestResource, which it does not declare. It is safe for
// concurrent use.
type typeChecker struct {
	*cel.KindTypes
	types   Types
	version cel.Version

	mu    sync.Mutex
	envs  map[typing]func() (*typedEnv, error)
	found map[*render.Object][]error // warnings by policy
}

// CheckedTypes are Types that several engines share, so that each policy is
// checked once.
type CheckedTypes struct {
	Types

	mu       sync.Mutex
	checkers map[cel.Version]*typeChecker
}

func (c *CheckedTypes) checker(v cel.Version) *typeChecker {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checkers[v] == nil {
		if c.checkers == nil {
			c.checkers = map[cel.Version]*typeChecker{}
		}
		c.checkers[v] = newTypeChecker(v, c.Types)
	}
	return c.checkers[v]
}

// A typedEnv is an environment with the types of its variables, which are built
// on first use because they are large.
type typedEnv struct {
	*celgo.Env
	types func() *apiservercel.DeclTypeProvider
}

// typing holds the kinds that give the types of an environment's variables.
type typing struct {
	object, params schema.GroupVersionKind
	hasParams      bool
	message        bool // without an authorizer
	patches        bool // with the types of patches
}

// newTypeChecker returns nil, which checks nothing, if types is nil.
func newTypeChecker(v cel.Version, types Types) *typeChecker {
	if types == nil {
		return nil
	}
	if c, ok := types.(*CheckedTypes); ok {
		return c.checker(v)
	}
	return &typeChecker{
		KindTypes: cel.NewKindTypes(types), types: types, version: v,
		found: map[*render.Object][]error{}, envs: map[typing]func() (*typedEnv, error){},
	}
}

func (t *typeChecker) env(of typing) (*typedEnv, error) {
	t.mu.Lock()
	f := t.envs[of]
	if f == nil {
		f = sync.OnceValues(func() (*typedEnv, error) { return t.newEnv(of) })
		t.envs[of] = f
	}
	t.mu.Unlock()
	return f()
}

func (t *typeChecker) newEnv(of typing) (*typedEnv, error) {
	d := cel.PolicyDeclarations(of.hasParams, !of.message)
	d.Patches = of.patches
	declare := func(decl *apiservercel.DeclType, names ...string) {
		if decl == nil {
			return
		}
		d.Types = append(d.Types, decl)
		for _, name := range names {
			d.Variables[name] = decl.CelType()
		}
	}
	declare(t.Decl(of.object, ""), "object", "oldObject")
	if of.hasParams {
		declare(t.Decl(of.params, "params:"), "params")
	}
	env, err := t.version.Env(d)
	return &typedEnv{env, sync.OnceValue(func() *apiservercel.DeclTypeProvider { return apiservercel.NewDeclTypeProvider(d.Types...) })}, err
}

// check returns the warnings about a policy, each a *render.Error.
func (t *typeChecker) check(c *compiled) []error {
	if t == nil || c.policy.Spec.MatchConstraints == nil {
		return nil
	}
	t.mu.Lock()
	errs, known := t.found[c.object]
	t.mu.Unlock()
	if !known {
		errs = t.warningsOf(c)
		t.mu.Lock()
		t.found[c.object] = errs
		t.mu.Unlock()
	}
	return errs
}

func (t *typeChecker) warningsOf(c *compiled) []error {
	errs := t.unserved(c.object, "/spec/matchConstraints", "matchConstraints", c.policy.Spec.MatchConstraints)
	if c.mutates != nil {
		return errs // the API server does not check the types of these
	}
	found, err := t.find(c)
	if err != nil {
		return append(errs, at(c.object, "", "typeChecking", err))
	}
	return append(errs, found.errors(c)...)
}

func (t *typeChecker) find(c *compiled) (found warnings, err error) {
	x := &checked{typeChecker: t, compiled: c, parsed: map[int]*celgo.Ast{}}
	of := c.typing()
	for _, of.object = range t.Of(c.policy.Spec.MatchConstraints.ResourceRules) {
		if t.Decl(of.object, "") == nil {
			continue
		}
		if err := x.check(of); err != nil {
			return nil, err
		}
	}
	return x.found, nil
}

// typing returns the kind of the policy's parameters.
func (c *compiled) typing() (of typing) {
	if k := c.policy.Spec.ParamKind; k != nil {
		of.params, of.hasParams = policy.ParseGroupVersion(k.APIVersion).WithKind(k.Kind), true
	}
	return of
}

// checked is a policy whose types are being checked.
type checked struct {
	*typeChecker
	*compiled
	parsed map[int]*celgo.Ast // by expression
	found  warnings
}

// check checks the policy with one kind of object.
func (c *checked) check(of typing) error {
	typed, err := c.env(of)
	if err != nil {
		return err
	}
	variables := cel.VariablesType()
	env, err := c.version.WithVariables(typed.Env, variables)
	if err != nil {
		return err
	}
	for i, v := range c.variables {
		typ, _ := c.typeOf(env, v) // after an error the variable may have any type
		cel.AddVariable(variables, c.policy.Spec.Variables[i].Name, typ)
	}
	for i, e := range c.validations {
		for _, e := range []*cel.Expression{e, c.messages[i]} {
			if e != nil {
				_, err := c.typeOf(env, e)
				if wrong, ok := errors.AsType[*cel.CompileError](err); ok {
					wrong.SuggestFields(env, e.Source, typed.types)
				}
				c.found.add(e, of.object, err)
			}
		}
	}
	return nil
}

func (c *checked) typeOf(env *celgo.Env, e *cel.Expression) (*celgo.Type, error) {
	ast := c.parsed[e.Number]
	if ast == nil {
		var err error
		if ast, err = cel.Parse(env, e.Source); err != nil {
			return nil, err
		}
		c.parsed[e.Number] = ast
	}
	return cel.Check(env, ast)
}

// warnings holds type errors of expressions, each with the kinds of objects
// that cause it.
type warnings []warning

type warning struct {
	*cel.Expression
	issues []cel.Issue
	kinds  []string
}

func (w *warnings) add(e *cel.Expression, gvk schema.GroupVersionKind, err error) {
	var wrong *cel.CompileError
	if !errors.As(err, &wrong) {
		return
	}
	for i := range *w {
		if have := &(*w)[i]; have.Expression == e && slices.Equal(have.issues, wrong.Issues) {
			have.kinds = append(have.kinds, gvk.String())
			return
		}
	}
	*w = append(*w, warning{e, wrong.Issues, []string{gvk.String()}})
}

// shownKinds formats the kinds as in reports: apps/v1 Deployment.
func (w *warning) shownKinds() []string {
	var kinds []string
	for _, k := range w.kinds {
		kinds = append(kinds, strings.TrimPrefix(strings.Replace(k, ", Kind=", " ", 1), "/"))
	}
	return kinds
}

// errors puts the warnings in the order of the policy.
func (w warnings) errors(c *compiled) []error {
	slices.SortStableFunc(w, func(a, b warning) int { return a.Number - b.Number })
	var errs []error
	for _, warned := range w {
		var issues []string
		for _, i := range warned.issues {
			issues = append(issues, i.Plain)
		}
		text := fmt.Sprintf("%s: %s", strings.Join(warned.shownKinds(), ", "), strings.Join(issues, "; "))
		e := at(c.object, warned.Pointer, warned.Rule, errors.New(text))
		e.Span, e.Warning = cel.Place(warned.issues, c.object, warned.Pointer, warned.Source), true
		errs = append(errs, e)
	}
	return errs
}
