package policytest

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A kyverno-test.yaml states the expected status of rules for resources.
// Kyverno's test command is lenient: a rule that no policy has, or that does
// not match the resource, passes as "Excluded" whatever is expected; the kind
// of a result is ignored; and if none of its resources exists, it applies to
// all. Here everything that is named must exist, and a case without an
// evaluated rule is vacuous.

// A kyvernoTest is one document of a suite, with the files that it names.
type kyvernoTest struct {
	*suite
	setup    KyvernoSetup
	policies []*kyvernoPolicy
	values   kyvernoValues
	payloads []payload
	entries  []*kyvernoEntry
	verdicts map[string]*verdicts // by operation and resource
	subjects []subject            // objects that may be evaluated
	byName   map[string][]subject
	hints    map[string]string // the objects of a kind, in words
	sources  map[*kyvernoPolicy][]*render.Object
	partial  bool // only results about the policy that opts.about names are wanted
}

// A kyvernoPolicy is a compiled policy of the test.
type kyvernoPolicy struct {
	object *render.Object
	kind   string
	engine KyvernoPolicy // nil when it is broken
	faults []*render.Error
}

// A payload is JSON that is evaluated as it is.
type payload struct {
	file   string
	object *render.Object
}

// maxCases is the most cases of a suite.
const maxCases = 100_000

var kyvernoKeys = []string{
	"apiVersion", "kind", "metadata", "policies", "resources", "targetResources", "paramResources", "exceptions", "variables",
	"values", "userinfo", "context", "clusterResources", "jsonPayload", "jsonPayloads", "httpPayload", "httpPayloads",
	"envoyPayload", "envoyPayloads", "apiCallResponses", "globalContextEntries", "checks", "results",
}

// kyverno runs the documents of a kyverno-test.yaml.
func kyverno(s *suite) {
	docs, err := s.opts.files.documents(s.name, s.data, render.YAML11)
	s.warn(err)
	for i := range docs {
		runKyverno(s, node{s: s, doc: &docs[i], value: docs[i].Value})
	}
	if len(docs) == 0 && err == nil {
		s.fail(&render.Error{Span: render.Span{File: s.name}, Err: errors.New("contains no test")})
	}
}

func runKyverno(s *suite, root node) {
	f := root.folded(kyvernoKeys...)
	if v := f["kind"]; v.value == nil || v.text() != "Test" {
		v.fail("kind must be Test")
	}
	if v := f["apiVersion"]; v.value == nil {
		v.fail("apiVersion must be cli.kyverno.io/v1alpha1")
	}
	t := &kyvernoTest{suite: s, verdicts: map[string]*verdicts{}, hints: map[string]string{}, sources: map[*kyvernoPolicy][]*render.Object{}}
	t.load(f)
	t.readEntries(f["results"])
	for _, e := range t.entries {
		for _, p := range t.named(e.Policy) {
			t.sources[p] = append(t.sources[p], t.normalise(e.sources)...)
		}
	}
	results, checks := f["results"].items(), f["checks"].items()
	if len(results)+len(checks) == 0 {
		root.fail("has neither results nor checks")
	}
	for _, e := range t.entries {
		if !t.concerned(e.Policy) {
			continue
		}
		t.Cases = append(t.Cases, e.run()...)
		if s.done() {
			return
		}
		if len(t.Cases) > maxCases {
			e.at["policy"].fail("more than %d cases: the others were not run", maxCases)
			return
		}
	}
	for _, c := range checks {
		t.Cases = append(t.Cases, t.check(c)...)
	}
	t.unused()
}

// load reads the files that the test names.
func (k *kyvernoTest) load(f map[string]node) {
	k.readClusterResources(f["clusterResources"])
	resources := k.readObjects(f["resources"])
	k.setup.Targets = k.readObjects(f["targetResources"])
	k.setup.Params = k.readObjects(f["paramResources"])
	k.setup.Exceptions = k.readObjects(f["exceptions"])
	policies := k.readObjects(f["policies"])
	k.readContext(f["context"])
	k.readUser(f["userinfo"])
	k.readValues(f["variables"], f["values"])
	k.readCalls(f["apiCallResponses"])
	k.readGlobal(f["globalContextEntries"])

	kinds, err := k.opts.Engines.Kinds(slices.Concat(k.setup.Cluster, resources, policies))
	if err != nil {
		k.warn(err)
	}
	k.setup.Kinds = asWritten{kinds}
	for _, list := range []*[]*render.Object{&resources, &k.setup.Targets, &k.setup.Params, &k.setup.Cluster} {
		*list = k.normalise(*list)
	}
	k.setup.Resources = k.unique(resources)
	k.readPayloads(f["jsonPayload"])
	k.readPayloads(f["jsonPayloads"])
	for _, key := range []string{"httpPayload", "httpPayloads", "envoyPayload", "envoyPayloads"} {
		if f[key].value != nil {
			f[key].fail("%s: requests of a proxy are not evaluated, only objects and jsonPayloads", key)
		}
	}
	if len(k.setup.Resources)+len(k.payloads) == 0 && len(k.errs) == 0 {
		f["resources"].fail("the test has no resources")
	}
	k.partial = k.opts.about != (policyPlace{}) && len(f["checks"].items()) == 0 && !slices.ContainsFunc(policies, func(o *render.Object) bool {
		return placeOf(o) == k.opts.about && changesObjects(o)
	})
	k.compile(f["policies"], policies)
}

// concerned reports whether results of a policy are needed: those of all, or
// only those of the policy in opts.about.
func (k *kyvernoTest) concerned(name string) bool {
	policies := k.named(name)
	return !k.partial || len(policies) == 0 || slices.ContainsFunc(policies, func(p *kyvernoPolicy) bool { return placeOf(p.object) == k.opts.about })
}

// changesObjects reports whether a policy may change objects that other policies
// evaluate afterwards.
func changesObjects(o *render.Object) bool {
	if strings.Contains(o.GetKind(), "Mutating") {
		return true
	}
	spec, _ := o.Object["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	return slices.ContainsFunc(rules, func(rule any) bool {
		r, _ := rule.(map[string]any)
		return r["mutate"] != nil || r["verifyImages"] != nil
	})
}

// compile compiles the policies, and sets bindings and exceptions aside.
func (k *kyvernoTest) compile(at node, objects []*render.Object) {
	var policies []*render.Object
	for _, o := range objects {
		switch kind := o.GetKind(); {
		case strings.HasSuffix(kind, "AdmissionPolicyBinding"):
			k.setup.Bindings = append(k.setup.Bindings, o)
		case kind == "PolicyException":
			k.setup.Exceptions = append(k.setup.Exceptions, o)
		case isPolicyKind(kind):
			policies = append(policies, o)
		default:
			k.note("%s: %.63s %.253s is not a policy, and is ignored", k.shown(o.Span("")), kind, o.GetName())
		}
	}
	if len(policies) == 0 && len(k.errs) == 0 {
		at.fail("names no policies")
	}
	for _, o := range policies {
		p := &kyvernoPolicy{object: o, kind: o.GetKind()}
		if k.partial && placeOf(o) != k.opts.about && !changesObjects(o) {
			k.policies = append(k.policies, p)
			continue // no result about it is wanted
		}
		if k.opts.Engines.Kyverno == nil {
			p.faults = append(p.faults, &render.Error{Span: o.Span(""), Err: errors.New("Kyverno policies are not evaluated")})
		} else {
			var err error
			p.engine, err = k.opts.Engines.Kyverno(o, &k.setup)
			p.faults = k.split(err)
		}
		k.policies = append(k.policies, p)
	}
}

func isPolicyKind(kind string) bool {
	kinds := []string{
		"ClusterPolicy", "Policy", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy", "ClusterCleanupPolicy", "CleanupPolicy",
		"ValidatingPolicy", "MutatingPolicy", "GeneratingPolicy", "DeletingPolicy", "ImageValidatingPolicy",
	}
	return slices.Contains(kinds, strings.TrimPrefix(kind, "Namespaced"))
}

// broken returns the errors because of which the policy can't be evaluated, or
// nil.
func (k *kyvernoPolicy) broken() []error {
	if k.engine == nil && len(k.faults) == 0 {
		return []error{errors.New("the policy is not evaluated")}
	}
	return errorsOf(k.faults)
}

// named returns the policies that a result names, with or without a namespace.
func (k *kyvernoTest) named(name string) []*kyvernoPolicy {
	namespace, short := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		namespace, short = name[:i], name[i+1:]
	}
	var found []*kyvernoPolicy
	for _, p := range k.policies {
		if p.object.GetName() == short && (namespace == "" || cmp.Or(p.object.GetNamespace(), "default") == namespace) {
			found = append(found, p)
		}
	}
	return found
}

// warn adds errors to the suite, and warnings to its notes.
func (s *suite) warn(err error) {
	for _, e := range s.split(err) {
		s.fail(e)
	}
}

// split returns the errors in err, and adds warnings to the notes.
func (s *suite) split(err error) []*render.Error {
	var errs []*render.Error
	for _, e := range render.Errors(err) {
		if !e.Warning {
			errs = append(errs, e)
			continue
		}
		for _, line := range s.lines(e) {
			s.note("%s", line)
		}
	}
	return errs
}

func (s *suite) shown(at render.Span) string {
	at.File = s.opts.Name(at.File)
	return at.String()
}

// requestOf returns the request that creates, updates or deletes an object.
func (k *kyvernoTest) requestOf(o *render.Object, op policy.Operation) *policy.Request {
	req := &policy.Request{Operation: op}
	if op != policy.Delete {
		req.Object, req.Admitted = o, o.Object
	}
	if op == policy.Delete || op == policy.Update {
		req.OldObject, req.OldAdmitted = o, o.Object
	}
	if k.setup.User != nil {
		req.UserInfo = *k.setup.User
	}
	req.Kind = o.GroupVersionKind()
	req.Resource = k.setup.Kinds.Resource(req.Kind)
	req.Namespace, req.Name = o.GetNamespace(), o.GetName()
	return req
}
