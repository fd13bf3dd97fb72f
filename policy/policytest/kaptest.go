package policytest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// kaptest (github.com/pfnet/kaptest) evaluates only the expressions of a policy
// and ignores its match constraints, bindings and failure policy. Objects are
// evaluated as written, without the API server's defaults, and an object that
// names no namespace is in none. Manifests have two forms: that of v0.1, and
// v1alpha1 of v0.2, which adds tests of MutatingAdmissionPolicies. Problems
// that kaptest only logs, such as a missing file, are errors here.

// kaptestKeys matches keys that only these manifests have.
var kaptestKeys = regexp.MustCompile(`(?m)^["']?(?:testSuites|vapTestSuites|mapTestSuites|validatingAdmissionPolicies)["']?:`)

func isKaptest(base string, data []byte) bool {
	if base == "kaptest.yaml" || base == "kaptest.yml" {
		return true
	}
	return !bytes.Contains(data, []byte("\nkind:")) && !bytes.HasPrefix(data, []byte("kind:")) && kaptestKeys.Match(data)
}

// The outcomes of a test.
const (
	admit = "admit"
	deny  = "deny"
	skip  = "skip"
	broke = "error"
)

var kaptestExpectations = []string{admit, deny, skip, broke}

// A kaptestSuite is a manifest with the files that it names.
type kaptestSuite struct {
	*suite
	policies  map[string]*kaptestPolicy // ValidatingAdmissionPolicies
	mutating  map[string]*kaptestPolicy // MutatingAdmissionPolicies
	resources []*render.Object
	kinds     policy.Kinds
	cluster   *policy.Cluster
}

// A kaptestPolicy is a compiled policy of the suite.
type kaptestPolicy struct {
	object    *render.Object
	evaluator Evaluator       // of a ValidatingAdmissionPolicy
	mutator   Mutator         // of a MutatingAdmissionPolicy
	faults    []*render.Error // errors of compiling it
}

func kaptest(s *suite) {
	docs, err := s.opts.files.documents(s.name, s.data, render.YAML11)
	if err != nil {
		s.fail(err)
	}
	if len(docs) != 1 {
		if err == nil {
			s.fail(&render.Error{Span: render.Span{File: s.name}, Err: fmt.Errorf("a kaptest manifest is one document, this file has %d", len(docs))})
		}
		return
	}
	root := node{s: s, doc: &docs[0], value: docs[0].Value}
	keys := []string{"validatingAdmissionPolicies", "resources", "testSuites"}
	m, _ := root.value.(map[string]any)
	if m["version"] != nil || m["policies"] != nil || m["vapTestSuites"] != nil || m["mapTestSuites"] != nil {
		keys = []string{"version", "policies", "resources", "schemaLocations", "crds", "skipSchemaValidation", "vapTestSuites", "mapTestSuites"}
	}
	f := root.fields(keys...)
	k := &kaptestSuite{suite: s, policies: map[string]*kaptestPolicy{}, mutating: map[string]*kaptestPolicy{}}
	k.load(f)
	suites := f["testSuites"]
	if suites.s == nil || suites.value == nil {
		suites = f["vapTestSuites"]
	}
	if suites.value == nil && f["mapTestSuites"].value == nil {
		root.fail("has no tests")
	}
	for _, item := range suites.items() {
		k.policySuite(item, k.policies, runKaptestCase)
	}
	for _, item := range f["mapTestSuites"].items() {
		k.policySuite(item, k.mutating, runMutationCase)
	}
}

// load reads the files that the manifest names.
func (k *kaptestSuite) load(f map[string]node) {
	if v := f["version"]; v.value != nil && v.text() != "v1alpha1" {
		v.fail("version %q of the manifest is not known; there is v1alpha1", v.text())
	}
	if len(f["schemaLocations"].texts()) > 0 {
		k.note("schemaLocations are not used: resources are not validated by their schemas")
	}
	f["skipSchemaValidation"].flag()
	policies := cmp.Or(f["policies"].pointer, f["validatingAdmissionPolicies"].pointer)
	list := f[strings.TrimPrefix(policies, "/")]
	if len(list.items()) == 0 {
		list.fail("names no policies")
	}
	k.resources = k.objects(f["resources"])
	k.engine(k.objects(f["crds"]))
	for _, o := range k.objects(list) {
		if k.opts.about == (policyPlace{}) || o.Span("").File == k.opts.about.file {
			k.compile(o)
		}
	}
}

// objects reads the files that a list names, relative to the manifest.
func (k *kaptestSuite) objects(list node) []*render.Object {
	var all []*render.Object
	if list.s == nil {
		return nil
	}
	for _, item := range list.items() {
		ref := item.text()
		switch {
		case strings.Contains(ref, "://"):
			item.fail("%s is not read: nothing is fetched; keep a copy beside the suite, and name that", ref)
			continue
		case ref == "" || path.IsAbs(ref):
			item.fail("%q is not a path relative to the suite", ref)
			continue
		}
		name := path.Join(path.Dir(k.name), ref)
		data, err := render.ReadFile(k.opts.FS, name)
		if err != nil {
			item.fail("%s: %w", ref, bare(err))
			continue
		}
		objects, err := k.opts.files.parse(name, data)
		if err != nil {
			k.fail(err)
		} else if len(objects) == 0 {
			item.fail("%s contains no Kubernetes object", ref)
		}
		all = append(all, objects...)
	}
	return all
}

// bare returns an error without its place, which the message names already.
func bare(err error) error {
	var e *render.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// engine sets the kinds, which hold objects as written, and the Namespaces with
// which policies are evaluated.
func (k *kaptestSuite) engine(crds []*render.Object) {
	kinds, err := k.opts.Engines.Kinds(append(crds, k.resources...))
	if err != nil {
		k.fail(err)
	}
	k.kinds = asWritten{kinds}
	var namespaces []*render.Object
	for _, o := range k.resources {
		if o.GetAPIVersion() == "v1" && o.GetKind() == "Namespace" {
			namespaces = append(namespaces, o)
		}
	}
	k.cluster = policy.NewCluster(append(namespaces, k.bareNamespaces(namespaces)...)...)
}

// bareNamespaces returns, for each namespace that a resource names and that is
// not given, a Namespace without labels and annotations, as kaptest does.
func (k *kaptestSuite) bareNamespaces(given []*render.Object) []*render.Object {
	seen := make(map[string]bool)
	for _, o := range given {
		seen[o.GetName()] = true
	}
	var made []*render.Object
	for _, o := range k.resources {
		if ns := o.GetNamespace(); ns != "" && !seen[ns] {
			seen[ns] = true
			made = append(made, newNamespace(ns))
		}
	}
	return made
}

// compile adds a policy of the suite.
func (k *kaptestSuite) compile(o *render.Object) {
	at := o.Span("")
	all := k.policies
	switch kind := o.GetKind(); {
	case strings.HasSuffix(kind, "AdmissionPolicyBinding"):
		return
	case kind == mutatingKind:
		all = k.mutating
	case kind != validatingKind:
		k.fail(&render.Error{Span: at, Err: fmt.Errorf("%.63s is not an admission policy", kind)})
		return
	}
	if was := all[o.GetName()]; was != nil {
		k.fail(&render.Error{Span: at, Err: fmt.Errorf("policy %s is defined already at %s", o.GetName(), k.shown(was.object.Span("")))})
		return
	}
	p := &kaptestPolicy{object: o}
	var err error
	if o.GetKind() == mutatingKind {
		p.mutator, err = k.opts.Engines.Mutation(o, k.kinds, k.cluster)
	} else {
		p.evaluator, err = k.opts.Engines.Admission(o, k.kinds, k.cluster)
	}
	p.faults = append(p.faults, render.Failures(err)...)
	all[o.GetName()] = p
}

const (
	validatingKind = "ValidatingAdmissionPolicy"
	mutatingKind   = "MutatingAdmissionPolicy"
)

// policySuite runs the tests of one policy.
func (k *kaptestSuite) policySuite(item node, policies map[string]*kaptestPolicy, run func(c *kaptestCase, test node)) {
	f := item.fields("policy", "tests")
	name := f["policy"].text()
	if k.opts.about != (policyPlace{}) && policies[name] == nil {
		return
	}
	tests := f["tests"].items()
	if len(tests) == 0 {
		f["tests"].fail("policy %s has no tests", name)
	}
	for _, t := range tests {
		c := &kaptestCase{k: k, at: f["policy"], Case: Case{Line: t.span().Line, Policy: name, Notes: []string{}}}
		run(c, t)
		k.Cases = append(k.Cases, c.Case)
	}
}

func runKaptestCase(c *kaptestCase, test node) {
	c.deniedMessage = c.read(test, "deniedMessage")["deniedMessage"].text()
	c.run()
}

// missing returns the error that a policy does not exist, with the existing
// ones.
func missing(kind, name string, policies map[string]*kaptestPolicy) error {
	var names []string
	for n := range policies {
		names = append(names, n)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return fmt.Errorf("there is no %s %q in the files that policies names", kind, name)
	}
	return fmt.Errorf("there is no %s %q; there are %s", kind, name, policy.Few(names))
}

// mutate is the outcome of an applied mutation. The others are skip and broke.
const mutate = "mutate"

var kaptestMutations = []string{mutate, skip, broke}

// A mutationCase is one test of a MutatingAdmissionPolicy.
type mutationCase struct {
	kaptestCase
	expected resourceRef // expectObject
	keepName bool        // disableNameOverwrite: the name is compared
}

func runMutationCase(c *kaptestCase, test node) {
	m := &mutationCase{kaptestCase: *c}
	f := m.read(test, "expectObject", "disableNameOverwrite")
	m.expected, m.keepName = readRef(f["expectObject"], true), f["disableNameOverwrite"].flag()
	m.run()
	*c = m.kaptestCase
}

func (m *mutationCase) run() {
	m.expects(kaptestMutations)
	if m.Want == mutate && !m.expected.given() {
		m.refuse(m.expect.errorf("expectObject is missing: the object as it should be mutated"))
	}
	p := m.k.mutating[m.Policy]
	if p == nil {
		m.refuse(m.at.errorf("%w", missing(mutatingKind, m.Policy, m.k.mutating)))
	}
	req := m.request()
	want := m.find(m.expected, "expectObject")
	if p == nil || len(m.errs) > 0 {
		m.Reason = m.k.text(m.errs...)
		return
	}
	params := m.params(p)
	if len(m.errs) > 0 {
		m.Reason = m.k.text(m.errs...)
		return
	}
	if len(p.faults) > 0 {
		m.Got, m.Reason = broke, "does not compile: "+m.k.text(errorsOf(p.faults)...)
		m.OK = m.Got == m.Want
		return
	}
	if req.Object == nil {
		m.Got, m.Reason, m.OK = broke, "there is no object to mutate on DELETE", m.Want == broke
		return
	}
	steps, err := p.mutator.Mutate(m.k.ctx, req, params)
	if err != nil {
		m.Reason = m.k.text(err)
		return
	}
	m.evaluate(steps, tree(want), req.Admitted)
}

// evaluate compares the object after the steps. The expected one may have any
// name.
func (m *mutationCase) evaluate(steps []policy.Step, want, got map[string]any) {
	m.Got = mutate
	for _, s := range steps {
		if s.Admitted != nil {
			got = s.Admitted
		}
		m.assume(s.Result.Assumed)
		if result := s.Result; m.Got == mutate && result.Outcome != policy.Pass {
			m.Got, m.Reason = broke, result.Rule+": "+result.Message
			switch result.Outcome {
			case policy.Skip:
				m.Got, m.Reason = skip, result.Message
			case policy.Unknown: // meets no expectation, not even error
				m.Got, m.Reason = string(policy.Unknown), strings.ReplaceAll(m.Reason, "with --with", "in a file that crds names")
			}
		}
	}
	m.Vacuous = len(steps) == 0
	m.OK = m.Got == m.Want
	if !m.OK || m.Got != mutate {
		return
	}
	if err := m.compared(want, got); err != nil {
		m.OK, m.Reason = false, err.Error()
	}
}

func (m *mutationCase) compared(want, got map[string]any) error {
	want, got = tidied(want), tidied(got)
	if meta, ok := want["metadata"].(map[string]any); ok && !m.keepName {
		if is, ok := got["metadata"].(map[string]any); ok {
			meta["name"] = is["name"]
		}
	}
	if d := difference(want, got); d != "" {
		return errors.New("is mutated, but not as expectObject: " + d)
	}
	return nil
}
