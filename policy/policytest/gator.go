package policytest

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A suite for gator verify (github.com/open-policy-agent/gatekeeper, pkg/gator)
// states how many violations of a constraint objects have. Files are read as
// gator reads them: as YAML 1.2, the first document of templates and
// constraints, all documents of inventories and expansions. An object that
// names no namespace is in none. Content that gator ignores, such as unknown
// keys and further documents in a suite's file, is an error here.

// A gatorSuite is a suite while it runs, with the files that it names.
type gatorSuite struct {
	*suite
	kinds policy.Kinds
	files map[string]gatorFile
}

// A gatorFile is a parsed file that a suite names.
type gatorFile struct {
	objects []*render.Object
	err     error // why it can't be used
	placed  bool  // err names the file
}

// A gatorTest is an entry of tests: a template, one of its constraints, and
// cases.
type gatorTest struct {
	*gatorSuite
	name     string
	setup    GatorSetup
	engine   *gatorEngine // made on first use
	policy   string
	rule     string
	failures []error // why no case can be run
}

// A gatorEngine is a test's constraint, compiled.
type gatorEngine struct {
	GatorPolicy
	faults []*render.Error

	key    string      // the inventory of the last case that had one
	beside GatorPolicy // the policy with that inventory
}

// gator runs a suite of gator verify.
func gator(s *suite) {
	docs, err := s.opts.files.documents(s.name, s.data, render.YAML12)
	for _, e := range render.Failures(err) { // how other parsers would read it does not matter here
		s.fail(e)
	}
	if len(docs) == 0 {
		if err == nil {
			s.fail(&render.Error{Span: render.Span{File: s.name}, Err: errors.New("contains no test")})
		}
		return
	}
	for i := 1; i < len(docs); i++ {
		s.fail(&render.Error{Span: docs[i].Span, Rule: "suite", Err: errors.New("a suite is one document: this one is ignored")})
	}
	root := node{s: s, doc: &docs[0], value: docs[0].Value}
	f := root.folded("apiVersion", "kind", "metadata", "name", "namespace", "labels", "annotations", "tests", "skip")
	if v := f["kind"]; v.value == nil || v.text() != "Suite" {
		v.fail("kind must be Suite")
	}
	g := &gatorSuite{suite: s, files: map[string]gatorFile{}}
	if f["skip"].flag() {
		s.note("%s: the suite is skipped", s.shown(f["skip"].span()))
		return
	}
	if g.kinds, err = s.opts.Engines.Kinds(nil); err != nil {
		s.fail(err)
		return
	}
	g.kinds = asWritten{g.kinds}
	tests := f["tests"].items()
	if len(tests) == 0 {
		root.fail("has no tests")
	}
	for _, t := range tests {
		g.run(t)
		if s.done() {
			return
		}
		if len(g.Cases) > maxCases {
			t.fail("more than %d cases: the others were not run", maxCases)
			return
		}
	}
}

// run runs one test.
func (g *gatorSuite) run(item node) {
	f := item.folded("name", "template", "constraint", "expansion", "cases", "invalid", "skip")
	t := &gatorTest{gatorSuite: g, name: f["name"].text()}
	t.setup.Kinds = g.kinds
	if f["skip"].flag() {
		g.note("%s: test %s is skipped", g.shown(item.span()), t.name)
		return
	}
	if !g.concerned(f["template"], f["constraint"]) {
		return
	}
	t.load(item, f)
	cases := f["cases"].items()
	switch {
	case f["invalid"].flag():
		if len(cases) > 0 {
			f["cases"].fail("a constraint that is to be invalid has no cases")
		}
		t.invalid(item)
	case len(cases) == 0:
		t.accepted(item)
	}
	if f["invalid"].flag() {
		return
	}
	for _, c := range cases {
		t.runCase(c)
		if g.ctx.Err() != nil || len(g.Cases) > maxCases {
			return
		}
	}
}

// concerned reports whether tests of a file of policies are wanted.
func (g *gatorSuite) concerned(files ...node) bool {
	return g.opts.about == (policyPlace{}) || slices.ContainsFunc(files, func(n node) bool { return path.Join(path.Dir(g.name), n.text()) == g.opts.about.file })
}

// load reads the files of a test.
func (g *gatorTest) load(item node, f map[string]node) {
	g.setup.Template = g.first(item, f["template"], "templates.gatekeeper.sh", "ConstraintTemplate")
	g.setup.Constraint = g.first(item, f["constraint"], "constraints.gatekeeper.sh", "")
	if f["expansion"].value != nil {
		g.setup.Expansions = g.all(f["expansion"])
		for _, o := range g.setup.Expansions {
			if err := isKind(o, "expansion.gatekeeper.sh", "ExpansionTemplate"); err != nil {
				g.refuse(f["expansion"].errorf("%s: %w", f["expansion"].text(), err))
			}
		}
	}
	if c := g.setup.Constraint; c != nil {
		g.policy, g.rule = c.GetName(), c.GetKind()
	}
}

// refuse records why no case can be run.
func (g *gatorTest) refuse(err *render.Error) {
	g.failures = append(g.failures, err)
	g.fail(err)
}

// first returns the first object of a file, which must be of a kind.
func (g *gatorTest) first(item, at node, group, kind string) *render.Object {
	if at.text() == "" {
		g.refuse(item.errorf("%s is missing", at.name()))
		return nil
	}
	objects := g.all(at)
	if len(objects) == 0 {
		return nil
	}
	if err := isKind(objects[0], group, kind); err != nil {
		g.refuse(at.errorf("%s: %w", at.text(), err))
		return nil
	}
	for _, o := range objects[1:] {
		g.note("%s: is ignored: gator reads only the first document of a %s", g.shown(o.Span("")), at.name())
	}
	return objects[0]
}

// isKind returns an error unless an object has the given group and kind. ""
// allows any kind.
func isKind(o *render.Object, group, kind string) error {
	gvk := o.GroupVersionKind()
	if gvk.Group == group && (kind == "" || gvk.Kind == kind) {
		return nil
	}
	want := cmp.Or(kind, "constraint")
	return fmt.Errorf("want %s of %s, got %.63s of %.253q", want, group, gvk.Kind, gvk.GroupVersion())
}

// all returns the objects of a file of the test, and refuses one that has none.
func (g *gatorTest) all(at node) []*render.Object {
	objects, err := g.read(at)
	if err != nil {
		g.refuse(err)
	}
	return objects
}

// read returns the objects of a file that the suite names. The error is at the
// place that names it.
func (g *gatorSuite) read(at node) ([]*render.Object, *render.Error) {
	ref := at.text()
	if ref == "" || path.IsAbs(ref) || strings.Contains(ref, "://") {
		return nil, at.errorf("%q is not a path relative to the suite", ref)
	}
	name := path.Join(path.Dir(g.name), ref)
	f, ok := g.files[name]
	if !ok {
		f = g.readFile(name)
		g.files[name] = f
	}
	switch {
	case f.placed:
		return nil, at.errorf("%w", f.err)
	case f.err != nil:
		return nil, at.errorf("%s: %w", ref, f.err)
	}
	return f.objects, nil
}

func (g *gatorSuite) readFile(name string) gatorFile {
	data, err := render.ReadFile(g.opts.FS, name)
	if err != nil {
		return gatorFile{err: bare(err)}
	}
	docs, err := g.opts.files.documents(name, data, render.YAML12)
	var f gatorFile
	if broken := g.split(err); len(broken) > 0 {
		return gatorFile{err: errors.New(g.text(errorsOf(broken)...)), placed: true}
	}
	for i := range docs {
		if docs[i].Value == nil {
			continue
		}
		o, err := objectOf(docs[i].Value, docs[i].Positions)
		if err != nil {
			return gatorFile{err: fmt.Errorf("line %d: %w", docs[i].Span.Line, err)}
		}
		f.objects = append(f.objects, o)
	}
	if len(f.objects) == 0 {
		f.err = errors.New("contains no object")
	}
	return f
}

// objectOf returns a document as an object. Lists are not expanded.
func objectOf(v any, at *render.Positions) (*render.Object, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("is not a mapping, so not a Kubernetes object")
	}
	o := &render.Object{Unstructured: &unstructured.Unstructured{Object: m}}
	if at != nil {
		o.Provenance = at
	}
	if kind, ok := m["kind"].(string); !ok || kind == "" {
		return nil, errors.New("is not a Kubernetes object: kind is missing")
	}
	if v, ok := m["apiVersion"].(string); m["apiVersion"] != nil && (!ok || strings.Count(v, "/") > 1) {
		return nil, errors.New("is not a Kubernetes object: apiVersion is invalid")
	}
	return o, nil
}

// compile compiles the constraint on first use.
func (g *gatorTest) compile() *gatorEngine {
	if g.engine != nil {
		return g.engine
	}
	e := &gatorEngine{}
	g.engine = e
	at := g.setup.Constraint.Span("")
	if g.opts.Engines.Gator == nil {
		e.faults = append(e.faults, &render.Error{Span: at, Err: errors.New("constraints of Gatekeeper are not evaluated")})
		return e
	}
	var err error
	e.GatorPolicy, err = g.opts.Engines.Gator(&g.setup)
	e.faults = g.split(err)
	if e.GatorPolicy == nil && len(e.faults) == 0 {
		e.faults = append(e.faults, &render.Error{Span: at, Err: errors.New("the constraint is not evaluated")})
	}
	return e
}

// among returns the constraint with an inventory. It is cached, because cases
// often have the same one.
func (g *gatorEngine) among(files []string, inventory []*render.Object) GatorPolicy {
	if len(files) == 0 {
		return g.GatorPolicy
	}
	key := strings.Join(files, "\x00")
	if key != g.key || g.beside == nil {
		g.key, g.beside = key, g.Among(lastOfEach(inventory))
	}
	return g.beside
}

// lastOfEach keeps the last of the objects of one identity, as gator does.
func lastOfEach(objects []*render.Object) []*render.Object {
	type key struct{ apiVersion, kind, namespace, name string }
	last := make(map[key]int)
	var all []*render.Object
	for _, o := range objects {
		k := key{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}
		if i, ok := last[k]; ok {
			all[i] = o
			continue
		}
		last[k] = len(all)
		all = append(all, o)
	}
	return all
}

// start returns an empty case of the test, with its place.
func (g *gatorTest) start(item node, name string) Case {
	return Case{
		Name: strings.Trim(g.name+"/"+name, "/"), Policy: g.policy, Rule: g.rule, Line: item.span().Line, Notes: []string{},
	}
}

// invalid adds the case that expects a constraint to break its template's
// schema.
func (g *gatorTest) invalid(item node) {
	c := g.start(item, "")
	c.Kind, c.Resource, c.Want = g.rule, g.policy, "invalid"
	defer func() { g.Cases = append(g.Cases, c) }()
	if len(g.failures) > 0 {
		c.Reason = g.text(g.failures...)
		return
	}
	var schema, others []error
	for _, e := range g.compile().faults {
		if e.Rule == RuleConstraintSchema {
			schema = append(schema, e)
		} else {
			others = append(others, e)
		}
	}
	switch {
	case len(others) > 0:
		c.Reason = g.text(others...)
	case len(schema) > 0:
		c.Got, c.OK, c.Reason = "invalid", true, g.text(schema...)
	default:
		c.Got, c.Reason = "valid", "the constraint is valid by its template's schema"
	}
}

// accepted adds the case of a test without cases: template and constraint must
// be valid.
func (g *gatorTest) accepted(item node) {
	c := g.start(item, "")
	c.Kind, c.Resource, c.Want = g.rule, g.policy, "valid"
	if errs := g.broken(); len(errs) > 0 {
		c.Reason = g.text(errs...)
	} else {
		c.Got, c.OK = "valid", true
		c.Notes = append(c.Notes, "the test has no cases: it checks only that the template and the constraint are valid")
	}
	g.Cases = append(g.Cases, c)
}

// broken returns the errors because of which no case of the test can be run.
func (g *gatorTest) broken() []error {
	if len(g.failures) > 0 {
		return g.failures
	}
	return errorsOf(g.compile().faults)
}
