package crd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/render"
)

// A node holds the compiled rules of a schema node, and the nodes below it that
// have rules. A nil node has none. It corresponds to the Validator of
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel, which does not say
// which rule failed or held.
type node struct {
	schema     *schema.Structural
	typed      *schema.Structural // schema, with the fields that every resource has
	model      common.Schema
	fault      string // why none of its rules can run
	rules      []*rule
	transition bool // one of its rules reads oldSelf
	items      *node
	values     *node // of a map
	properties map[string]*node
	allOf      []*node
}

// A rule is one of x-kubernetes-validations. It is safe for concurrent use.
type rule struct {
	v1.ValidationRule
	index      int    // among all rules of the version
	pointer    string // in the definition as it is written
	name       string
	origin     render.Span
	fault      string // why it does not compile
	transition bool   // reads oldSelf
	optional   bool   // oldSelf is an optional
	fieldPath  string // as the API server writes it, relative to self
	fieldKeys  []any
	program    *cel.Program
	message    *cel.Program // nil if there is none or it does not compile
	messageBad string       // why it does not compile
	explainer  func() *explain.Explainer
}

// hasRules reports whether the API server looks for rules at all. Like upstream
// it ignores allOf.
func hasRules(s *schema.Structural) bool {
	if s == nil {
		return false
	}
	if len(s.XValidations) > 0 || hasRules(s.Items) || s.AdditionalProperties != nil && hasRules(s.AdditionalProperties.Structural) {
		return true
	}
	for name := range s.Properties {
		child := s.Properties[name]
		if hasRules(&child) {
			return true
		}
	}
	return false
}

// A compiler compiles the rules of one version of a definition.
type compiler struct {
	env   func(cel.Declarations) (*celgo.Env, error)
	check bool // compile only, without programs to run
	rules []*rule
}

// storedEnv returns the environment for stored rules. It has all functions of
// the libraries, whatever the API server's version.
func storedEnv(d cel.Declarations) (*celgo.Env, error) {
	stored := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	return cel.Newest().Extend(stored, d)
}

func (c *compiler) root(s *schema.Structural, pointer string) *node {
	return c.node(s, s, true, model.SchemaDeclType(s, true), pointer)
}

// node compiles a node. validation gives the rules and children; structure
// gives the types. They differ within allOf.
func (c *compiler) node(validation, structure *schema.Structural, root bool, decl *apiservercel.DeclType, pointer string) *node {
	n := &node{schema: structure, typed: structure, model: &model.Structural{Structural: structure}}
	if root {
		n.typed = model.WithTypeAndObjectMeta(structure)
	}
	c.compileRules(n, validation, decl, pointer)
	var elem *apiservercel.DeclType
	if decl != nil {
		elem = decl.ElemType
	}
	if validation.Items != nil && structure.Items != nil {
		n.items = c.node(validation.Items, structure.Items, structure.Items.XEmbeddedResource, elem, pointer+"/items")
	}
	c.properties(n, validation, structure, decl, pointer)
	if v, s := valuesOf(validation), valuesOf(structure); v != nil && s != nil {
		n.values = c.node(v, s, s.XEmbeddedResource, elem, pointer+"/additionalProperties")
	}
	if validation.ValueValidation != nil {
		for i := range validation.ValueValidation.AllOf {
			branch := nested(&validation.ValueValidation.AllOf[i])
			if child := c.node(branch, structure, root, decl, pointer+render.Pointer("allOf", i)); child != nil {
				n.allOf = append(n.allOf, child)
			}
		}
	}
	if n.empty() {
		return nil
	}
	return n
}

func (n *node) empty() bool {
	return len(n.rules) == 0 && n.fault == "" && n.items == nil && n.values == nil && len(n.properties) == 0 && len(n.allOf) == 0
}

func valuesOf(s *schema.Structural) *schema.Structural {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Structural
}

func (c *compiler) properties(n *node, validation, structure *schema.Structural, decl *apiservercel.DeclType, pointer string) {
	for _, name := range slices.Sorted(maps.Keys(validation.Properties)) {
		inner := validation.Properties[name]
		outer, ok := structure.Properties[name]
		if !ok {
			continue
		}
		t := fieldType(decl, name, &outer)
		if t == nil {
			continue
		}
		if child := c.node(&inner, &outer, outer.XEmbeddedResource, t, pointer+render.Pointer("properties", name)); child != nil {
			if n.properties == nil {
				n.properties = map[string]*node{}
			}
			n.properties[name] = child
		}
	}
}

// fieldType returns the type of a property, or nil if CEL can't read it. A
// property whose name can't be escaped is missing from its object's type, but
// may have rules of its own.
func fieldType(decl *apiservercel.DeclType, name string, s *schema.Structural) *apiservercel.DeclType {
	escaped, ok := apiservercel.Escape(name)
	if !ok {
		return model.SchemaDeclType(s, s.XEmbeddedResource)
	}
	if decl == nil || decl.Fields[escaped] == nil {
		return nil
	}
	return decl.Fields[escaped].Type
}

// nested converts an allOf branch, which has only validations, to a schema.
func nested(n *schema.NestedValueValidation) *schema.Structural {
	if n == nil {
		return nil
	}
	s := &schema.Structural{
		ValueValidation: &n.ValueValidation, ValidationExtensions: n.ValidationExtensions,
		Generic: n.ForbiddenGenerics, Extensions: n.ForbiddenExtensions, Items: nested(n.Items),
	}
	for name := range n.Properties {
		if s.Properties == nil {
			s.Properties = map[string]schema.Structural{}
		}
		child := n.Properties[name]
		s.Properties[name] = *nested(&child)
	}
	if n.AdditionalProperties != nil {
		s.AdditionalProperties = &schema.StructuralOrBool{Structural: nested(n.AdditionalProperties)}
	}
	return s
}

// compileRules compiles the rules of one node
// (Compile of k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel).
func (c *compiler) compileRules(n *node, validation *schema.Structural, decl *apiservercel.DeclType, pointer string) {
	if len(validation.XValidations) == 0 {
		return
	}
	if decl == nil {
		n.fault = "failed to convert to declType for CEL validation rules"
		return
	}
	envs := c.environments(decl.MaybeAssignTypeName("selfType"))
	shape := *n.schema
	for i := range validation.XValidations {
		r := &rule{
			ValidationRule: validation.XValidations[i],
			index:          len(c.rules), pointer: pointer + render.Pointer(validationsKey, i),
		}
		r.optional = r.OptionalOldSelf != nil && *r.OptionalOldSelf
		c.rules = append(c.rules, r)
		n.rules = append(n.rules, r)
		env, err := envs(r.optional)
		if err != nil {
			n.fault, r.fault = err.Error(), err.Error()
			continue
		}
		c.compileRule(env, r, &shape)
		n.transition = n.transition || r.transition
	}
}

// environments returns the CEL environments of a node's rules: with oldSelf of
// the node's type, and with an optional oldSelf.
func (c *compiler) environments(self *apiservercel.DeclType) func(optional bool) (*celgo.Env, error) {
	declare := func(old *celgo.Type) func() (*celgo.Env, error) {
		return sync.OnceValues(func() (*celgo.Env, error) {
			return c.env(cel.Declarations{
				Variables: map[string]*celgo.Type{schemacel.ScopedVarName: self.CelType(), schemacel.OldScopedVarName: old},
				Types:     []*apiservercel.DeclType{self},
			})
		})
	}
	plain, optional := declare(self.CelType()), declare(types.NewOptionalType(self.CelType()))
	return func(isOptional bool) (*celgo.Env, error) {
		if isOptional {
			return optional()
		}
		return plain()
	}
}

func (c *compiler) compileRule(env *celgo.Env, r *rule, shape *schema.Structural) {
	if strings.TrimSpace(r.Rule) == "" {
		return
	}
	ast, fault := checked(env, r.Rule, celgo.BoolType, "compilation failed: ", "cel expression must evaluate to a bool")
	if fault != "" {
		r.fault = fault
		return
	}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		r.transition = r.transition || ref.Name == schemacel.OldScopedVarName
	}
	c.compileMessage(env, r)
	if r.FieldPath != "" {
		if path, _, err := schemacel.ValidFieldPath(r.FieldPath, shape); err == nil {
			r.fieldPath, r.fieldKeys = path.String(), fieldKeys(r.FieldPath)
		}
	}
	if c.check {
		return
	}
	var err error
	if r.program, err = cel.Plan(ast); err != nil {
		r.fault = err.Error()
	}
	r.explainer = sync.OnceValue(func() *explain.Explainer { return newExplainer(ast) })
}

func (c *compiler) compileMessage(env *celgo.Env, r *rule) {
	if r.MessageExpression == "" {
		return
	}
	ast, fault := checked(env, r.MessageExpression, celgo.StringType,
		"messageExpression compilation failed: ", "messageExpression must evaluate to a string")
	if r.messageBad = fault; fault != "" || c.check {
		return
	}
	message, err := cel.Plan(ast)
	if err != nil {
		r.messageBad = fmt.Sprintf("messageExpression %v", err)
		return
	}
	r.message = message
}

// checked compiles an expression. The second result is the error with the API
// server's wording, or "".
func checked(env *celgo.Env, expression string, want *celgo.Type, prefix, wrongType string) (*celgo.Ast, string) {
	ast, issues := env.Compile(expression)
	if issues != nil {
		return nil, prefix + issues.String()
	}
	if ast.OutputType() != want {
		return nil, wrongType
	}
	return ast, ""
}

func newExplainer(ast *celgo.Ast) *explain.Explainer {
	env, err := cel.RunEnv()
	if err != nil {
		return nil
	}
	x, err := explain.New(env, ast, nil)
	if err != nil {
		return nil
	}
	return x
}

// fieldKeys splits a valid fieldPath into its .name and ['quoted name'] steps.
func fieldKeys(path string) []any {
	var keys []any
	for path != "" {
		if quoted, ok := strings.CutPrefix(path, "['"); ok {
			key, rest := quotedKey(quoted)
			keys, path = append(keys, key), rest
			continue
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		keys, path = append(keys, path[:end]), path[end:]
	}
	return keys
}

var unescapes = map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// quotedKey reads up to the quote that ends a key, and the bracket after it.
func quotedKey(s string) (key, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\'':
			return b.String(), strings.TrimPrefix(s[i+1:], "]")
		case c == '\\' && i+1 < len(s):
			i++
			if u, ok := unescapes[s[i]]; ok {
				b.WriteByte(u)
			} else {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
