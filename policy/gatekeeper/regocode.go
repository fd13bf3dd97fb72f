package gatekeeper

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// A regoCode is the compiled Rego of a template: a program of its own in which
// the violation rule is data.template.violation, whatever the package is
// called. It is safe for concurrent use
// (frameworks/constraint/pkg/client/drivers/rego).
type regoCode struct {
	text  string
	query *rego.Query

	inventory *inventoryUse // kinds of data.inventory that it reads; nil if none
	opens     bool          // it may read unknown fields of input.review
}

// A regoSource is the Rego of a target as written, with pointers.
type regoSource struct {
	pointer, libs string
	text          string
	libTexts      []string
	version       ast.RegoVersion
}

// regoOf returns the Rego of a target. The rego field takes precedence over an
// entry of code, and is Rego v0.
func regoOf(target *templateTarget) (*regoSource, *fault) {
	base := render.Pointer("spec", "targets", 0)
	if target.Rego != "" {
		return &regoSource{base + "/rego", base + "/libs", target.Rego, target.Libs, ast.RegoV0}, nil
	}
	i := target.codeOf(engineRego)
	base += render.Pointer("code", i, "source")
	source := target.Code[i].Source
	s := &regoSource{pointer: base + "/rego", libs: base + "/libs", version: ast.RegoV0}
	var ok bool
	if s.text, ok = source["rego"].(string); !ok {
		return nil, &fault{s.pointer, errors.New("the source has no rego")}
	}
	if v, is := source["version"].(string); v == "v1" {
		s.version = ast.RegoV1
	} else if source["version"] != nil && !is {
		return nil, &fault{base + "/version", errors.New("version must be a string")}
	}
	libs, is := source["libs"].([]any)
	if source["libs"] != nil && !is {
		return nil, &fault{s.libs, errors.New("libs must be a list")}
	}
	for i, lib := range libs {
		text, is := lib.(string)
		if !is {
			return nil, &fault{s.libs + render.Pointer(i), errors.New("a library must be a string")}
		}
		s.libTexts = append(s.libTexts, text)
	}
	return s, nil
}

// The documents that Gatekeeper's driver puts a template's code under.
var (
	dataTerm     = ast.DefaultRootDocument
	templateRef  = ast.Ref{dataTerm, ast.StringTerm("template")}
	violationRef = ast.Ref{dataTerm, ast.StringTerm("template"), ast.StringTerm("violation")}
	libRef       = ast.Ref{dataTerm, ast.StringTerm("lib")}
	inventoryRef = ast.Ref{dataTerm, ast.StringTerm("inventory")}
)

// newRegoCode parses, checks and compiles the Rego of a target. The errors are
// at their places in the template.
func newRegoCode(o *render.Object, target *templateTarget, coverage *policy.Coverage) (*regoCode, []error) {
	s, f := regoOf(target)
	if f != nil {
		return nil, []error{policy.ErrorAt(o, f.pointer, "rego", f.err)}
	}
	c := &regoCompiler{object: o, coverage: coverage, entry: s.pointer, texts: map[string]string{}, modules: map[string]*ast.Module{}}
	modules := c.read(s)
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	code := &regoCode{text: s.text, query: c.compile()}
	for _, m := range modules {
		code.note(m)
	}
	return code, c.errs
}

// read parses and checks the module with the violation rule and its libraries.
func (r *regoCompiler) read(s *regoSource) []*ast.Module {
	entry := r.parse(s.pointer, s.text, s.version)
	var libs []*ast.Module
	for i, text := range s.libTexts {
		libs = append(libs, r.parse(s.libs+render.Pointer(i), text, s.version))
	}
	if len(r.errs) > 0 {
		return nil
	}
	r.checkEntry(s.pointer, entry)
	for _, lib := range libs {
		r.checkLib(lib)
	}
	all := append(libs, entry)
	for _, m := range all {
		r.checkModule(m)
	}
	return all
}

// compile makes the query for violations.
func (r *regoCompiler) compile() *rego.Query {
	r.modules[r.entry].Package.Path = templateRef
	var err error
	if r.modules[hookName], err = hook(); err != nil {
		r.failed(err)
		return nil
	}
	program, err := rego.Compile(r.modules, rego.Options{ExternalData: true, Cover: r.cover()})
	if err != nil {
		r.failed(err)
		return nil
	}
	query, err := program.Prepare(violationRef)
	if err != nil {
		r.failed(err)
	}
	return query
}

// hookName is the name of the module through which Gatekeeper evaluates a
// template.
const hookName = "hook"

// hook returns the module through which Gatekeeper's driver evaluates a template.
// With it the compiler refuses a violation rule that can never give an object
// with a msg (frameworks/constraint/pkg/client/drivers/rego/rego.go).
var hook = sync.OnceValues(func() (*ast.Module, error) {
	return rego.Parse(rego.Source{Name: hookName, Version: ast.RegoV0, Text: `package hooks
response[x] {
	data.template.violation[r]
	x := {"msg": r.msg, "details": object.get(r, "details", {})}
}`})
})

// A regoCompiler collects the modules of one template and their errors. Modules
// are named by the pointers of their texts.
type regoCompiler struct {
	object  *render.Object
	texts   map[string]string
	modules map[string]*ast.Module
	entry   string // the module with the violation rule
	errs    []error
	refused bool // the error of the hook was added

	coverage *policy.Coverage // nil counts nothing
}

func (r *regoCompiler) parse(pointer, text string, v ast.RegoVersion) *ast.Module {
	r.texts[pointer] = text
	m, err := rego.Parse(rego.Source{Name: pointer, Text: text, Version: v, NoMetadata: true})
	if err != nil {
		r.failed(r.otherVersion(pointer, text, v, err))
		return nil
	}
	r.modules[pointer] = m
	return m
}

// otherVersion extends the parse error of a v0 module that would parse as v1.
func (r *regoCompiler) otherVersion(pointer, text string, v ast.RegoVersion, err error) error {
	var first *rego.Error
	if v != ast.RegoV0 || !errors.As(err, &first) {
		return err
	}
	if _, wrong := rego.Parse(rego.Source{Name: pointer, Text: text, Version: ast.RegoV1, NoMetadata: true}); wrong != nil {
		return err
	}
	e := *first
	e.Text += "; this reads as Rego v1, and templates are v0: put it into code, where source.version can be v1"
	return &e
}

// failed adds the errors joined in err, with their places.
func (r *regoCompiler) failed(err error) {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		var e *rego.Error
		if errors.As(err, &e) && e.Name == hookName {
			r.hooked()
			continue
		}
		if !errors.As(err, &e) || r.texts[e.Name] == "" {
			r.errs = append(r.errs, policy.ErrorAt(r.object, "/spec/targets/0", "rego", err))
			continue
		}
		r.add(e.Name, e.Line, e.Column, errors.New(e.Text))
	}
}

// hooked adds, once, the error that the hook can't use the values of the
// violation rule.
func (r *regoCompiler) hooked() {
	if r.refused {
		return
	}
	r.refused = true
	at := ast.NewLocation(nil, r.entry, 1, 1)
	if i := slices.IndexFunc(r.modules[r.entry].Rules, isViolation); i >= 0 {
		at = r.modules[r.entry].Rules[i].Loc()
	}
	r.addAt(at, errors.New("violation never gives an object with a msg, and Gatekeeper expects violation[{\"msg\": msg}]"))
}

func isViolation(r *ast.Rule) bool { return string(r.Head.Name) == "violation" }

// add adds an error at a place of a module.
func (r *regoCompiler) add(pointer string, line, column int, err error) {
	e := policy.ErrorAt(r.object, pointer, "rego", err)
	if s := inside(r.object, pointer, r.texts[pointer], line, column); s.File != "" {
		e.Span = s
	}
	r.errs = append(r.errs, e)
}

func (r *regoCompiler) addAt(l *ast.Location, err error) {
	r.add(l.File, l.Row, l.Col, err)
}

// inside returns the span of a line and column in a text of the object.
func inside(o *render.Object, pointer, text string, line, column int) render.Span {
	offset, n := 0, line
	for l := range strings.Lines(text) {
		if n--; n <= 0 {
			break
		}
		offset += utf8.RuneCountInString(l)
	}
	if s, ok := o.Inside(pointer, text, offset+max(column, 1)-1); ok && line > 0 {
		return s
	}
	if origins := o.Line(pointer, line-1); len(origins) > 0 && line > 0 {
		return origins[0].Span
	}
	return o.Span(pointer)
}

// checkEntry checks that a module has the violation rule.
func (r *regoCompiler) checkEntry(pointer string, m *ast.Module) {
	found := false
	for _, rule := range m.Rules {
		if !isViolation(rule) {
			continue
		}
		found = true
		if len(rule.Head.Args) > 0 {
			r.addAt(rule.Loc(), errors.New("violation is a function, and Gatekeeper expects a set: violation[{\"msg\": msg}]"))
		}
	}
	if !found {
		r.add(pointer, 1, 1, errors.New("the module has no rule violation, which Gatekeeper evaluates"))
	}
}

// checkLib checks that the package of a library can be imported.
func (r *regoCompiler) checkLib(m *ast.Module) {
	if path := m.Package.Path; !path.HasPrefix(libRef) || len(path) == len(libRef) {
		r.addAt(m.Package.Loc(), fmt.Errorf("package %s: the package of a library begins with lib.", strings.TrimPrefix(path.String(), "data.")))
	}
}

// checkModule checks that a module imports and reads only what Gatekeeper
// provides.
func (r *regoCompiler) checkModule(m *ast.Module) {
	for _, i := range m.Imports {
		if ref, ok := i.Path.Value.(ast.Ref); ok && (ref.HasPrefix(libRef) || ref[0].Equal(ast.FutureRootDocument)) {
			continue
		}
		r.addAt(i.Loc(), fmt.Errorf("import %s: only libraries of the template, data.lib, and future.keywords can be imported", i.Path))
	}
	for _, rule := range m.Rules {
		ast.WalkRefs(rule, func(ref ast.Ref) bool {
			if ref[0].Equal(dataTerm) && !ref.HasPrefix(libRef) && !ref.HasPrefix(inventoryRef) {
				r.addAt(ref[0].Loc(), fmt.Errorf("%s: of data, templates may read data.inventory and data.lib only", ref))
			}
			return true // like upstream, which does not check references in brackets
		})
	}
}

// note records which parts of data.inventory and of the review the code reads.
func (r *regoCode) note(m *ast.Module) {
	ast.WalkRefs(m, func(ref ast.Ref) bool {
		if ref.HasPrefix(inventoryRef) {
			if r.inventory == nil {
				r.inventory = &inventoryUse{}
			}
			r.inventory.add(ref)
		}
		return false
	})
	ast.WalkTerms(m, r.noteInput)
}

// noteInput records a term that passes on the whole review or names an unknown
// field of it, since the code may read that field.
func (r *regoCode) noteInput(t *ast.Term) (done bool) {
	ref, ok := t.Value.(ast.Ref)
	switch {
	case t.Equal(ast.InputRootDocument):
		r.opens = true
	case ok && len(ref) > 0 && ref[0].Equal(ast.InputRootDocument):
		r.opens = r.opens || !settledRef(ref)
		for _, step := range ref[1:] {
			ast.WalkTerms(step, r.noteInput)
		}
		return true
	}
	return r.opens
}

// settledRef reports whether a reference to input reads known fields only.
func settledRef(ref ast.Ref) bool {
	if len(ref) > 1 && ref[1].Equal(ast.StringTerm("parameters")) {
		return true
	}
	if len(ref) < 3 || !ref[1].Equal(ast.StringTerm("review")) {
		return false
	}
	field, ok := ref[2].Value.(ast.String)
	return ok && field != userField && field != optionsField && field != namespaceField
}

// cover declares expressions as branches of the template's rules. nil counts nothing.
func (r *regoCompiler) cover() rego.Cover {
	return rego.NewCover(r.coverage, func(e rego.CoveredExpr) (b policy.Branch, ok bool) {
		text, ok := r.texts[e.Module]
		if !ok {
			return b, false // the hook module
		}
		at := inside(r.object, e.Module, text, e.Location.Row, e.Location.Col)
		if at.File == "" {
			at = r.object.Span(e.Module)
		}
		return policy.Branch{Engine: policy.EngineGatekeeper, Policy: r.object.GetName(), Origin: at}, true
	})
}

// cover counts the branches of a template's CEL expressions.
func (t *template) cover(coverage *policy.Coverage) {
	if coverage == nil || t.native == nil {
		return
	}
	t.native.each(func(e *cel.Expression) {
		e.Cover(coverage, t.object, policy.Branch{Engine: policy.EngineGatekeeper, Policy: t.object.GetName(), Rule: e.Name})
	})
}
