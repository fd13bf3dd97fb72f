// Package cel is the host of the engines that speak CEL: admission policies,
// Gatekeeper's templates in CEL, Kyverno's policies in CEL and its validate.cel,
// and the rules of CustomResourceDefinitions. An engine brings its bindings, its
// libraries, its budgets and its matching.
//
// It takes expressions, declarations and objects, and returns checked ASTs
// ([Compile]), [Program]s that are safe for concurrent use, and the fields that
// made one fail ([Failure]). As in the API server, an expression of a new policy
// is compiled in the CEL environment of the minor version before, and runs in
// that of the newest (k8s.io/apiserver/pkg/cel/environment).
//
//   - compile.go: environments and checking
//   - types.go: the types of kinds; complete.go: what may follow in an expression
//   - program.go, guard.go: running, under limits
//   - values.go, objects.go: objects as immutable values
//   - variables.go, question.go: values that are evaluated when they are read, or
//     that are unknown offline
//   - blame.go: fields and messages of a failure, without
//     values of Secrets
package cel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/preadmit/preadmit/policy/internal/patch"
)

// Declarations are the variables of an environment and their object types. One
// goroutine may add fields to a type while it uses the environment, as upstream does
// for composited variables.
type Declarations struct {
	Variables map[string]*cel.Type
	Types     []*apiservercel.DeclType
	Patches   bool // the types Object and JSONPatch, which mutations return
}

// PolicyDeclarations returns the declarations of policies' expressions, besides their
// own variables: object and oldObject are of any type
// (k8s.io/apiserver/pkg/admission/plugin/cel).
func PolicyDeclarations(params, authorizer bool) Declarations {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	d := Declarations{
		Variables: map[string]*cel.Type{
			"object": cel.DynType, "oldObject": cel.DynType, "request": request.CelType(), "namespaceObject": namespace.CelType(),
		},
		Types: []*apiservercel.DeclType{namespace, request},
	}
	if params {
		d.Variables["params"] = cel.DynType
	}
	if authorizer {
		d.Variables["authorizer"], d.Variables["authorizer.requestResource"] = library.AuthorizerType, library.ResourceCheckType
	}
	return d
}

// WithVariables adds to an environment of version v the composited variables of a
// policy, whose types are added to variables.
func (v Version) WithVariables(env *cel.Env, variables *apiservercel.DeclType) (*cel.Env, error) {
	return v.Extend(env, Declarations{
		Variables: map[string]*cel.Type{"variables": variables.CelType()}, Types: []*apiservercel.DeclType{variables},
	})
}

// fieldNamesMayBeKeywords is the environment version from which reserved words
// may be used as field names.
const fieldNamesMayBeKeywords Version = 32

// Env returns the environment in which an API server of version v checks new
// expressions, with the given declarations.
func (v Version) Env(d Declarations) (*cel.Env, error) {
	return v.Extend(v.base().NewExpressionsEnv(), d)
}

// Extend adds declarations to an environment of version v.
func (v Version) Extend(env *cel.Env, d Declarations) (*cel.Env, error) {
	opts := []cel.EnvOption{cel.EnableMacroCallTracking()} // for the texts of explanations
	for name, t := range d.Variables {
		opts = append(opts, cel.Variable(name, t))
	}
	if len(d.Types) > 0 {
		provider := apiservercel.NewDeclTypeProvider(d.Types...)
		provider.SetRecognizeKeywordAsFieldName(v >= fieldNamesMayBeKeywords)
		more, err := provider.EnvOptions(env.CELTypeProvider())
		if err != nil {
			return nil, err
		}
		opts = append(opts, more...)
	}
	if d.Patches {
		opts = append(opts, common.ResolverEnvOption(&patch.Resolver{}), library.JSONPatch())
	}
	return env.Extend(opts...)
}

// Compile checks an expression whose type must be one of the given ones, or any if
// none is given. The error has the API server's words.
func Compile(env *cel.Env, expression string, want ...*cel.Type) (_ *cel.Ast, err error) {
	defer caught(&err)
	ast, issues := env.Compile(expression)
	if issues != nil {
		return nil, newCompileError(env, issues)
	}
	if !oneOf(ast.OutputType(), want) {
		return nil, wrongType(ast.OutputType(), want)
	}
	return ast, nil
}

// caught turns a panic into an error. cel-go's checker panics for some expressions:
// [?dyn(x)].
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("compilation failed: internal error: %v", r)
	}
}

func oneOf(t *cel.Type, want []*cel.Type) bool {
	for _, w := range want {
		if t.IsExactType(w) {
			return true
		}
	}
	return len(want) == 0
}

func wrongType(got *cel.Type, want []*cel.Type) error {
	if len(want) == 1 {
		return fmt.Errorf("must evaluate to %v but got %v", want[0], got)
	}
	return fmt.Errorf("must evaluate to one of %v but got %v", want, got)
}

// NeededVersion returns the first version after v for which compiles is true. ok is
// false if there is none.
func (v Version) NeededVersion(compiles func(Version) bool) (needed Version, ok bool) {
	for w := v + 1; w <= Newest()+1; w++ {
		if compiles(w) {
			return w, true
		}
	}
	return 0, false
}

// VariablesType is an object type without fields, to which composited
// variables are added by AddVariable as they are compiled.
func VariablesType() *apiservercel.DeclType {
	return apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{})
}

// AddVariable declares a variable with the type of its expression; nil if that does
// not compile, which may be any type.
func AddVariable(variables *apiservercel.DeclType, name string, t *cel.Type) {
	variables.Fields[name] = apiservercel.NewDeclField(name, declType(t), true, nil, nil)
}

// declType returns t if a declaration can express it. The API server forgets other
// types, such as optional values.
func declType(t *cel.Type) *apiservercel.DeclType {
	if t == nil {
		return apiservercel.DynType
	}
	if simple, ok := simpleTypes()[t]; ok {
		return simple
	}
	switch p := t.Parameters(); {
	case t.Kind() == types.ListKind && len(p) == 1:
		return apiservercel.NewListType(declType(p[0]), -1)
	case t.Kind() == types.MapKind && len(p) == 2:
		return apiservercel.NewMapType(declType(p[0]), declType(p[1]), -1)
	default:
		return apiservercel.DynType
	}
}

func simpleTypes() map[*cel.Type]*apiservercel.DeclType {
	return map[*cel.Type]*apiservercel.DeclType{
		cel.AnyType: apiservercel.AnyType, cel.BoolType: apiservercel.BoolType, cel.BytesType: apiservercel.BytesType,
		cel.DoubleType: apiservercel.DoubleType, cel.DurationType: apiservercel.DurationType, cel.IntType: apiservercel.IntType,
		cel.NullType: apiservercel.NullType, cel.StringType: apiservercel.StringType,
		cel.TimestampType: apiservercel.TimestampType, cel.UintType: apiservercel.UintType,
	}
}

// A Version is a minor version of Kubernetes: 31 is 1.31.
type Version uint

// oldest is the first version that had CEL in the API server.
const oldest Version = 23

// Newest is the newest version that the libraries know.
func Newest() Version {
	return Version(environment.DefaultCompatibilityVersion().Minor()) + 1
}

// ParseVersion reads "1.31", "v1.31" or "v1.31.2"; "" is the newest. A version
// that is newer than the libraries counts as the newest.
func ParseVersion(s string) (Version, error) {
	if s == "" {
		return Newest(), nil
	}
	major, rest, ok := strings.Cut(strings.TrimPrefix(s, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(strings.TrimRight(minor, "+"), 10, 16)
	if !ok || major != "1" || err != nil {
		return 0, fmt.Errorf("%q is not a Kubernetes version such as 1.31", s)
	}
	return min(max(Version(n), oldest), Newest()), nil
}

// String is the version as people write it.
func (v Version) String() string { return "1." + strconv.FormatUint(uint64(v), 10) }

// base returns the environment in which an API server of this version checks new
// expressions: that of the version before, so that it can be rolled back.
func (v Version) base() *environment.EnvSet {
	return environment.MustBaseEnvSet(version.MajorMinor(1, uint(v)-1))
}

// A Dialect runs programs with functions that the API server does not have.
// It is safe for concurrent use.
type Dialect struct {
	run   *runner
	limit uint64 // of the cost of one evaluation
	costs Costs
}

// Costs returns the cost, in the API server's units, of calling a function that the
// API server does not have; nil if it is unknown.
type Costs func(overload string, args []ref.Val) *uint64

// NewDialect returns the dialect of an environment, which must have no program
// options. limit bounds the cost of one evaluation.
func NewDialect(env *cel.Env, limit uint64, costs Costs) (*Dialect, error) {
	r := &runner{env: env}
	var err error
	if r.guards, err = guardedOverloads(env); err != nil {
		return nil, err
	}
	for _, name := range []string{"regex.replace", "regex.extract", "regex.extractAll"} {
		f := env.Functions()[name]
		if f == nil {
			continue
		}
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			r.guards = append(r.guards, guardOverload(b, guardRegex))
		}
	}
	return &Dialect{run: r, limit: limit, costs: costs}, nil
}

// Env returns the environment of the dialect. Its functions are not guarded against
// values that stall them.
func (d *Dialect) Env() *cel.Env { return d.run.env }

// Plan returns a program of a checked expression, under the dialect's limit.
func (d *Dialect) Plan(ast *cel.Ast) (*Program, error) {
	return newProgram(ast, func(a *cel.Ast, more ...cel.ProgramOption) (cel.Program, error) {
		return d.run.limited(a, d.limit, callCosts{costs: d.costs}, more...)
	})
}

// callCosts returns the costs of calls, the dialect's first.
type callCosts struct {
	library.CostEstimator
	costs Costs
}

// CallCost implements interpreter.ActualCostEstimator.
func (c callCosts) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if cost := c.costs(overload, args); cost != nil {
		return cost
	}
	return c.CostEstimator.CallCost(function, overload, args, result)
}

// A CompileError is an error of an expression.
type CompileError struct {
	Issues []Issue
	text   string // all issues in the API server's words, with their lines
}

// An Issue is one error in an expression. Line and Column count from 1, columns in
// code points.
type Issue struct {
	Message      string
	Plain        string // in a user's words
	Line, Column int
}

// String returns the issue in the API server's words, in one line.
func (i Issue) String() string {
	return fmt.Sprintf("ERROR: <input>:%d:%d: %s", i.Line, i.Column, i.Message)
}

func newCompileError(env *cel.Env, issues *cel.Issues) *CompileError {
	e := &CompileError{text: "compilation failed: " + issues.String()}
	for _, x := range issues.Errors() {
		i := Issue{
			Message: strings.ReplaceAll(x.Message, "\n", " "),
			Line:    max(1, x.Location.Line()), Column: max(0, x.Location.Column()) + 1,
		}
		if i.Plain = i.Message; len(e.Issues) < mostPlain {
			i.Plain = plain(env, i)
		}
		e.Issues = append(e.Issues, i)
	}
	return e
}

// mostPlain is the number of issues of an expression that get a suggestion.
const mostPlain = 3

// Error has the API server's words.
func (c *CompileError) Error() string { return c.text }

// Offset returns where the issue begins in the expression, in code points.
func (i Issue) Offset(expression string) int {
	n := 0
	for line := range strings.Lines(expression) {
		if i.Line--; i.Line == 0 {
			break
		}
		n += len([]rune(line))
	}
	return n + i.Column - 1
}

// Parse parses an expression that is to be checked in environments of the same
// version. The error is a *CompileError.
func Parse(env *cel.Env, expression string) (*cel.Ast, error) {
	ast, issues := env.Parse(expression)
	if issues != nil && issues.Err() != nil {
		return nil, newCompileError(env, issues)
	}
	return ast, nil
}

// Check checks a parsed expression and returns its type. It writes to the expression,
// so concurrent calls must not share it. The error is a *CompileError.
func Check(env *cel.Env, parsed *cel.Ast) (_ *cel.Type, err error) {
	defer caught(&err)
	ast, issues := env.Check(parsed)
	if issues != nil && issues.Err() != nil {
		return nil, newCompileError(env, issues)
	}
	return ast.OutputType(), nil
}
